//! Recordings that say they were made on another machine.

use trace::event::{Machine, Start};
use trace::{Event, List};

use super::builder::Home;

/// No processor has both: the one is of AMD's, the other of Intel's for supercomputers.
const FEATURES: [&str; 4] = ["avx512er", "fma4", "ibrs", "no_such_thing"];

#[test]
fn what_this_machine_lacks_is_said_before_a_replay() {
    let home = Home::new();
    let mut recorder = home.record(&["./elsewhere"], 60);
    recorder.log.add(Event::Start(Start {
        program: b"./elsewhere",
        machine: Machine { features: List::of(&FEATURES), ..Machine::default() },
        ..Start::default()
    }));
    recorder.log.close();
    for words in [&["replay", "latest"][..], &["verify", "latest"], &["last-write", "latest", "0x1000:8"]] {
        let said = home.run(words).stderr;
        let first = said.lines().next().unwrap_or_default();
        assert!(first.starts_with("whodunit: recorded on x86-64-v1, and this machine (x86-64-v"), "{words:?}: {said}");
        assert!(first.contains("fma4: the replay may meet") || first.contains("avx512er: the replay may"), "{said}");
        assert!(!first.contains("ibrs") && !first.contains("no_such_thing"), "{said}");
        assert_eq!(said.matches("this machine (").count(), 1, "{said}");
    }
    let shown = home.run(&["show", "latest"]);
    assert!(shown.stdout.contains("(x86-64-v1, 4 features)"), "{shown:?}");
    assert_eq!(shown.stderr, "");
    let json = home.run(&["show", "latest", "--json"]).json();
    let start = &json["processes"][0]["start"];
    assert_eq!((&start["level"], &start["features"][1]), (&"x86-64-v1".into(), &"fma4".into()));
}
