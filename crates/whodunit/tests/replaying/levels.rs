//! The processor that a recorded program sees: no more than a level of x86-64, whatever this machine has.
//!
//! `guests/level.c` tells what it finds. Where the machine has more than the level, it uses that all the same, and its areas
//! for register state are as small as the level's: on a machine without AVX-512 only `v2` puts that to the test.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use super::place::{Place, guest, text, told};
use crate::support::execute::{Ending, Outcome};

const V2: [&str; 7] = ["pni", "ssse3", "cx16", "sse4_1", "sse4_2", "popcnt", "lahf_lm"];
const V3: [&str; 9] = ["fma", "movbe", "xsave", "avx", "f16c", "bmi1", "avx2", "bmi2", "abm"];
const V4: [&str; 5] = ["avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl"];
/// Of no level, but not hidden either.
const OTHERS: [&str; 3] = ["fsgsbase", "erms", "rdtscp"];

/// The kernel's words for what this machine has.
fn machine_features() -> Vec<String> {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap();
    let flags = told.lines().find(|line| line.starts_with("flags")).unwrap();
    flags.split_whitespace().skip(2).map(str::to_owned).collect()
}

fn record(place: &Place, cpu: &[&str], program: &[&str]) -> Command {
    let mut command = place.whodunit(["record", "-o"]);
    command.arg(place.path("recording")).args(cpu).arg("--").args(program);
    command
}

/// What the guest says of features, state and sizes, by name.
fn answers(outcome: &Outcome) -> BTreeMap<String, String> {
    let said = text(&outcome.stdout);
    let pair = |line: &str| line.rsplit_once(' ').map(|(name, value)| (name.to_owned(), value.to_owned()));
    said.lines().filter(|line| !line.starts_with("right ")).filter_map(pair).collect()
}

/// Which registers are in use is not left to the processor, whose answer depends on when tasks were switched.
#[test]
fn registers_that_are_saved_count_as_used() {
    for cpu in ["v3", "native"] {
        let place = Place::new(&format!("in-use-{cpu}"));
        let program = guest("in_use").program;
        let recorded = place.finish(&mut record(&place, &["--cpu", cpu], &[program.to_str().unwrap()]));
        let expected = "xsave: 6, all stored\nagain: 6, all stored\n";
        assert_eq!((recorded.ending, &*text(&recorded.stdout)), (Ending::Exited(0), expected), "{}", told(&recorded));
        assert_eq!(place.not_verified(&place.path("recording")), None);
    }
}

/// Records the guest; everything that it checks is right, and the replay is the same run.
fn recorded(cpu: &[&str]) -> (Place, BTreeMap<String, String>) {
    let place = Place::new("level");
    let program = guest("level").program;
    let recorded = place.finish(&mut record(&place, cpu, &[program.to_str().unwrap()]));
    assert_eq!((recorded.ending, &*text(&recorded.stderr)), (Ending::Exited(0), ""), "{}", told(&recorded));
    assert!(
        text(&recorded.stdout).contains("right ") && !text(&recorded.stdout).contains("WRONG"),
        "{}",
        told(&recorded)
    );
    assert_eq!(place.not_verified(&place.path("recording")), None);
    assert_eq!(place.replay(&place.path("recording")), recorded);
    (place, answers(&recorded))
}

/// Features of the level are there if the machine has them, and no others.
#[track_caller]
fn check_features(answers: &BTreeMap<String, String>, level: &[&[&str]]) {
    let machine = machine_features();
    let shown: Vec<&str> = level.concat().into_iter().chain(OTHERS).collect();
    let asked =
        answers.iter().filter(|(name, _)| !name.contains(' ') && !["xcr0", "state", "minsigstksz"].contains(&&***name));
    let mut n_asked = 0;
    for (name, value) in asked {
        let expected = shown.contains(&name.as_str()) && machine.contains(name);
        assert_eq!(value, if expected { "1" } else { "0" }, "{name}");
        n_asked += 1;
    }
    assert!(n_asked > 35, "{answers:?}");
}

fn show(place: &Place, options: &[&str]) -> String {
    let shown = place.finish(place.whodunit(["show"]).args(options).arg(place.path("recording")));
    text(&shown.stdout)
}

#[test]
fn the_level_is_v3_unless_another_is_asked_for() {
    let (place, answers) = recorded(&[]);
    check_features(&answers, &[&V2, &V3]);
    assert_eq!((&*answers["xcr0"], &*answers["state"], &*answers["largest state"]), ("7", "832", "832"));
    let shown = show(&place, &[]);
    assert!(shown.contains("(shown as x86-64-v3, "), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&show(&place, &["--json"])).unwrap();
    let start = &json["processes"][0]["start"];
    assert_eq!((&start["cpu"], &start["level"]), (&"v3".into(), &"x86-64-v3".into()));
    let features: Vec<&str> = start["features"].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
    assert!(features.contains(&"avx2") && !features.contains(&"aes") && !features.contains(&"avx512f"), "{features:?}");
}

#[test]
fn a_program_at_v2_may_still_use_more_and_the_recording_says_so() {
    let (place, answers) = recorded(&["--cpu", "v2"]);
    check_features(&answers, &[&V2]);
    assert_eq!((&*answers["xcr0"], &*answers["state"]), ("3", "576"));
    // Lines of a note are wrapped.
    let shown = show(&place, &[]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("the program uses AVX, which it was not shown: beyond x86-64-v2"), "{shown}");
    assert_eq!(shown.matches("uses AVX,").count(), 1, "{shown}");
}

#[test]
fn v4_hides_what_no_level_has() {
    let (_, answers) = recorded(&["--cpu", "v4"]);
    check_features(&answers, &[&V2, &V3, &V4]);
}

#[test]
fn the_native_processor_is_the_machines_own() {
    let place = Place::new("native");
    let program = guest("level").program;
    let native = answers(&place.finish(&mut place.command(&program)));
    let run = answers(&place.finish(place.whodunit(["run", "--"]).arg(&program)));
    let recorded = place.finish(&mut record(&place, &["--cpu", "native"], &[program.to_str().unwrap()]));
    assert_eq!((&run, &answers(&recorded)), (&native, &native));
    assert_eq!(place.not_verified(&place.path("recording")), None);
    let shown = show(&place, &[]);
    assert!(shown.contains("(x86-64-v") && !shown.contains("shown as"), "{shown}");
}

#[test]
fn children_and_executed_programs_keep_the_level() {
    let place = Place::new("followed");
    let program = guest("level").program;
    let script = "/usr/bin/env \"$0\" && (\"$0\"; true)";
    let recorded = place.finish(&mut record(&place, &[], &["/bin/sh", "-c", script, program.to_str().unwrap()]));
    assert_eq!(recorded.ending, Ending::Exited(0), "{}", told(&recorded));
    let said = text(&recorded.stdout);
    assert_eq!((said.matches("\naes 0\n").count(), said.matches("\nxcr0 7\n").count()), (2, 2), "{said}");
    assert_eq!(place.not_verified(&place.path("recording")), None);
}
