//! What `--faults` makes go wrong: programs that do not expect it are found out, those that do are left alone, and every
//! run can be had again.

use super::place::{Place, told};
use crate::workplace::compile;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A place with an exhibit of the museum.
fn exhibit(test: &str, name: &str, flags: &[&str]) -> Place {
    let museum = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../museum");
    let place = Place::empty(&format!("faults-{test}"));
    let include = museum.to_string_lossy();
    compile(&place.folder, &[&["-O1", "-I", &include], flags].concat(), &museum.join(name).join("program.c"));
    place
}

/// The exhibit fails within some schedules, and the report says what was injected and where.
#[track_caller]
fn finds(name: &str, kinds: &str, failure: &str, injected: &[&str]) -> (Place, String) {
    let place = exhibit(name, name, &[]);
    let (status, text) = place.search(&["-n", "400", &format!("--faults={kinds}")]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.starts_with(failure), "{text}");
    let (_, told) = text.split_once("Injected before: ").unwrap_or_else(|| panic!("{text}"));
    let is_told = |line: &str| injected.iter().all(|words| line.contains(words));
    assert!(told.lines().any(is_told), "{injected:?} in {told}");
    place.verify();
    (place, text)
}

/// The repaired exhibit never fails, whatever a correct program must withstand.
#[track_caller]
fn leaves_alone(name: &str, kinds: &str) {
    let place = exhibit(&format!("{name}-fixed"), name, &["-DFIXED"]);
    let (status, text) = place.search(&["-n", "20", &format!("--faults={kinds}")]);
    assert_eq!(status, Some(0), "{text}");
}

#[test]
fn a_write_that_is_cut_short() {
    finds("short_write", "short", "exit status 1", &["write moves", "of 6000 bytes, in send_block (program.c:"]);
    leaves_alone("short_write", "short,eintr,wakeups,order");
}

#[test]
fn a_wait_that_a_signal_ends() {
    finds("eintr_ignored", "eintr", "exit status 1", &["thread 2: futex is interrupted, in wait_for (program.c:"]);
    leaves_alone("eintr_ignored", "short,eintr,wakeups,order");
}

#[test]
fn a_wait_that_ends_for_no_reason() {
    let expected = "a wait for a condition ends for no reason, in read_table (program.c:";
    let (place, text) = finds("spurious_wakeup", "wakeups", "exit status 1", &[expected]);
    assert!(!text.contains("no memory"), "{text}");
    let (_, events) = told(&place.whodunit(&["show", "latest", "--events"]).output().unwrap());
    assert!(events.contains("note: injected: a wait for a condition ends for no reason ["), "{events}");
    leaves_alone("spurious_wakeup", "short,eintr,wakeups,order");
}

#[test]
fn memory_that_runs_out() {
    let expected = "thread 1: an allocation fails, in allocate (program.c:";
    let (place, text) = finds("malloc_unchecked", "memory", "SIGSEGV in length_of_copy", &[expected]);
    assert!(text.contains("A program may choose to end when it gets no memory"), "{text}");
    let (_, shown) = told(&place.whodunit(&["replay", "latest"]).output().unwrap());
    assert!(shown.contains("SIGSEGV") && shown.contains("length_of_copy"), "{shown}");
    leaves_alone("malloc_unchecked", "memory");
}

#[test]
fn the_same_seed_makes_the_same_things_go_wrong() {
    let place = exhibit("seed", "short_write", &[]);
    let injected = |seed: u32| {
        let words = ["run", "--faults=short", "--seed", &seed.to_string(), "--", "./guest"];
        let (_, text) = told(&place.whodunit(&words).output().unwrap());
        let lines = text.lines().filter(|line| line.starts_with("whodunit: injected: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let runs: Vec<Vec<String>> = (0..12).map(injected).collect();
    assert_eq!(runs, (0..12).map(injected).collect::<Vec<_>>());
    assert!(runs.iter().any(|run| !run.is_empty()), "nothing was injected");
    assert!(runs.iter().any(|run| *run != runs[0]), "all seeds are the same");
    assert!(runs.iter().all(|run| run.len() <= 8), "{runs:?}");
}

/// Programs that everybody uses know that calls may do less than they are asked to.
#[test]
fn real_programs_lose_nothing() {
    let place = Place::empty("faults-real");
    let numbers: String = (1..12_000).map(|number| format!("{number}\n")).collect();
    fs::write(place.folder.join("numbers"), numbers).unwrap();
    let pipeline = "cat numbers | sort -r | gzip -c | gzip -dc | sort -n -S 100K | tee copy | cksum; cksum <copy; \
                    tar cf - numbers | tar xOf - | cksum";
    let native = Command::new("sh").args(["-c", pipeline]).current_dir(&place.folder).output().unwrap();
    let mut injected = 0;
    for seed in ["1", "2", "3"] {
        let words = ["record", "-o", seed, "--faults=short,eintr", "--seed", seed, "--", "sh", "-c", pipeline];
        let output = place.whodunit(&words).output().unwrap();
        let (status, text) = told(&output);
        assert_eq!((status, output.stdout == native.stdout), (Some(0), true), "seed {seed}: {text}");
        injected += text.matches("whodunit: injected: ").count();
        let (status, text) = told(&place.whodunit(&["verify", &format!("./{seed}")]).output().unwrap());
        assert_eq!(status, Some(0), "seed {seed}: {text}");
    }
    assert!(injected > 3, "{injected} faults in three runs prove nothing");
}

#[test]
fn without_the_option_nothing_goes_wrong() {
    let place = exhibit("none", "eintr_ignored", &[]);
    let (status, text) = place.search(&["-n", "20"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(!text.to_lowercase().contains("injected"), "{text}");
}
