//! What a hunt finds is reduced to the switches that it needs, explained on source lines, and fails again as a recording.

use super::place::{Place, told};
use crate::exhibit::{self, Exhibit, Failure};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Hunts the guest; tells the one finding that there must be.
#[track_caller]
fn finding(place: &Place, words: &[&str]) -> Value {
    let (status, text) = place.hunt(&[&["--findings", "found.json"], words].concat());
    assert_eq!(status, Some(1), "{text}");
    let all: Value = serde_json::from_str(&fs::read_to_string(place.folder.join("found.json")).unwrap()).unwrap();
    let findings = all["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{text}");
    findings[0].clone()
}

/// `preempted 2 after reader:10 until 3 passed writer:17`, for each switch that was forced.
fn schedule(finding: &Value) -> Vec<String> {
    let place = |place: &Value| format!("{}:{}", place["function"].as_str().unwrap_or("-"), place["line"]);
    let sentence = |switch: &Value| {
        let until = &switch["until"];
        format!(
            "{} after {} until {} passed {}",
            switch["thread"],
            place(&switch["after"]),
            until["thread"],
            place(&until["passes"])
        )
    };
    finding["schedule"].as_array().unwrap().iter().map(sentence).collect()
}

/// Lines of this file that the finding calls guilty.
fn guilty_lines(finding: &Value, file: &Path) -> Vec<u64> {
    let is_here = |step: &&Value| step["file"].as_str().is_some_and(|path| Path::new(path).ends_with(file));
    let steps = finding["steps"].as_array().unwrap().iter();
    steps.filter(|step| step["guilty"] == true).filter(is_here).filter_map(|step| step["line"].as_u64()).collect()
}

#[test]
fn a_null_pointer_needs_one_switch_whoever_found_it() {
    let place = Place::new("shrink-null", "null");
    for policy in ["random", "delay", "pos"] {
        let finding = finding(&place, &["-n", "200", "--policy", policy]);
        assert_eq!(schedule(&finding), ["2 after reader:10 until 3 passed writer:17"], "{policy}");
        assert_eq!(guilty_lines(&finding, Path::new("null.c")), [10, 17, 11], "{policy}");
        assert_eq!(finding["title"], "SIGSEGV in reader (null.c:11)");
        assert_eq!(finding["variable"]["name"], "pointer");
        place.verify();
    }
}

#[test]
fn a_deadlock_needs_one_switch() {
    let place = Place::new("shrink-crossed", "crossed");
    let finding = finding(&place, &["-n", "200"]);
    assert_eq!(finding["class"], "deadlock");
    let schedule = schedule(&finding);
    let either = ["2 after forwards:7 until 3 passed backwards:15", "3 after backwards:15 until 2 passed forwards:7"];
    assert!(schedule.len() == 1 && either.contains(&schedule[0].as_str()), "{schedule:?}");
    place.verify();
}

#[test]
fn the_same_seed_shrinks_to_the_same_schedule() {
    let place = Place::new("shrink-same", "account");
    let shrunk = |jobs: &str| {
        let (status, text) = place.hunt(&["-n", "200", "-j", jobs]);
        assert_eq!(status, Some(1), "{text}");
        assert!(
            text.contains("1 forced switch of ") && text.contains("is preempted after look at account.c:"),
            "{text}"
        );
        let start = text.find("1 forced switch").unwrap();
        let lines: Vec<String> = text[start..].lines().take(2).map(str::to_owned).collect();
        let schedule = place.whodunit(&["show", "latest", "--schedule"]).output().unwrap();
        (lines, String::from_utf8(schedule.stdout).unwrap())
    };
    assert_eq!(shrunk("1"), shrunk("3"));
}

#[test]
fn threads_stand_in_columns() {
    let place = Place::new("shrink-columns", "null");
    let (status, text) = place.hunt(&["-n", "200", "--explain"]);
    assert_eq!(status, Some(1), "{text}");
    let columns = text.lines().any(|line| line.contains("thread 2 ") && line.ends_with("thread 3"));
    assert!(columns && text.contains("reads pointer = 0") && text.contains("writes pointer = 0 (was 0x"), "{text}");
}

#[test]
fn without_shrinking_the_schedule_stays_as_it_was_found() {
    let place = Place::new("shrink-not", "null");
    let (status, text) = place.hunt(&["-n", "200", "--shrink", "0"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(!text.contains("forced switch"), "{text}");
    let (_, shown) = told(&place.whodunit(&["show", "latest"]).output().unwrap());
    assert!(!shown.contains("shrunk"), "{shown}");
}

/// With hardly any runs allowed, what was reached counts, and is a recording of the same failure.
#[test]
fn a_budget_ends_shrinking_early() {
    let place = Place::new("shrink-budget", "account");
    let finding = finding(&place, &["-n", "200", "--shrink", "2"]);
    assert_eq!(finding["title"], "failed assertion in take (account.c:18)");
    place.verify();
}

/// Exhibits that fail soon, and how many forced switches may be left.
const EXHIBITS: [(&str, usize); 4] =
    [("l_proc_sweep", 2), ("mysql_two_sections", 2), ("mozilla_statistics", 2), ("transfer_deadlock", 2)];

#[test]
fn exhibits_are_explained_at_their_guilty_lines() {
    for (name, most) in EXHIBITS {
        let exhibit = Exhibit::read(name).unwrap();
        let place = Place::empty(&format!("shrink-{name}"));
        let include = exhibit::folder().to_string_lossy().into_owned();
        crate::workplace::compile(&place.folder, &["-O1", "-I", &include], &exhibit.source());
        fs::write(place.folder.join("good"), &exhibit.output).unwrap();
        let words: &[&str] = if exhibit.failure == Some(Failure::Output) { &["--expect-output", "good"] } else { &[] };
        let finding = finding(&place, &[words, &["-n", "1000"]].concat());
        let switches = schedule(&finding);
        assert!(switches.len() <= most, "{name}: {switches:?}");
        let source = exhibit.source();
        let lines = guilty_lines(&finding, Path::new(source.file_name().unwrap()));
        let marked: Vec<u32> = exhibit.marked_lines().unwrap().into_values().flatten().collect();
        let is_named = lines.iter().any(|line| marked.iter().any(|mark| u64::from(*mark) == *line));
        assert!(is_named, "{name}: {lines:?} are none of {marked:?}; {switches:?}");
        place.verify();
    }
}
