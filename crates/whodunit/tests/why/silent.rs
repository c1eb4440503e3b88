//! `why --silent`: stores beyond variables and blocks that nothing crashes on, and programs without any.

use super::{Place, whodunit};
use serde_json::{Value, json};
use std::process::Command;

/// One byte too long for any of the guest's arrays, with its end.
const TOO_LONG: &str = "twenty-five letters long!";
/// The same for its block.
const LONGER: &str = "twenty-six letters long!!!";

fn silent(place: &Place, status: i32) -> Value {
    let output = place.why(&["--silent", "--format", "json"]);
    assert_eq!(output.status.code(), Some(status), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs the command that a finding names.
fn rerun(place: &Place, finding: &Value) -> (Option<i32>, String) {
    let command = finding["rerun"].as_str().unwrap();
    let (words, plan) = command.split_once(" --plan ").unwrap();
    let words = words.strip_prefix("whodunit ").unwrap().split(' ');
    let output = whodunit(&place.folder).args(words).args(["--plan", plan.trim_matches('\'')]).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[track_caller]
fn names(place: &Place, words: &[&str], class: &str, mark: &str, variable: Value) {
    assert!(place.record(words).status.success(), "{words:?} ends well");
    let findings = silent(place, 1);
    let finding = &findings["findings"][0];
    assert_eq!((&finding["class"], &finding["status"]), (&json!(class), &json!("proved")), "{finding:#}");
    assert_eq!(finding["causes"][0]["line"], place.line(mark), "{finding:#}");
    assert_eq!(finding["variable"]["name"], variable, "{finding:#}");
    assert!(findings["summary"]["text"].as_str().unwrap().starts_with("2 layouts"), "{findings:#}");
    let (status, said) = rerun(place, finding);
    assert!(status == Some(1) && said.starts_with("a guard was written to: "), "{said}");
}

#[test]
fn whoever_writes_beyond_something_is_named_though_nothing_crashes() {
    let place = Place::new("quiet", "-O0");
    names(&place, &["./guest", "global", TOO_LONG], "global-overflow", "copy", json!("street"));
    names(&place, &["./guest", "stack", TOO_LONG], "stack-overflow", "copy", json!("second"));
    let place = Place::new("quiet", "-O2");
    names(&place, &["./guest", "heap", LONGER], "heap-overflow", "copy", Value::Null);
    names(&place, &["./guest", "stack", TOO_LONG], "stack-overflow", "copy", json!("second"));
    names(&place, &["./guest", "freed"], "use-after-free", "stale", Value::Null);
    is_not_blamed(&place, &["./guest", "stack", "fits"]);
}

/// A program without such a store; its loops end where variables do.
#[track_caller]
fn is_not_blamed(place: &Place, words: &[&str]) {
    assert!(place.record(words).status.success());
    let findings = silent(place, 0);
    assert_eq!(findings["findings"], json!([]));
    let text = findings["summary"]["text"].as_str().unwrap();
    assert!(text.contains("of memory tried") && !text.contains(" 0 "), "{text}");
}

#[test]
fn without_symbols_the_heap_is_all_that_is_moved() {
    let place = Place::new("quiet", "-O1");
    assert!(Command::new("strip").arg("guest").current_dir(&place.folder).status().unwrap().success());
    assert!(place.record(&["./guest", "heap", LONGER]).status.success());
    let findings = silent(&place, 1);
    assert_eq!(findings["findings"][0]["class"], "heap-overflow");
    let notes = findings["notes"].to_string();
    assert!(notes.contains("has no symbols") && notes.contains("has no debug information"), "{notes}");
}

#[test]
fn wrong_output_is_explained_by_what_was_overwritten() {
    let place = Place::new("quiet", "-Og");
    assert!(place.record(&["./guest", "global", TOO_LONG]).status.success());
    std::fs::write(place.folder.join("good"), "global: 32, \n").unwrap();
    let same = place.why(&["--expect-output", "good"]);
    let said = String::from_utf8_lossy(&same.stderr);
    assert!(same.status.code() == Some(3) && said.contains("wrote just what was expected"), "{said}");
    std::fs::write(place.folder.join("good"), "global: 32, town\n").unwrap();
    let output = place.why(&["--expect-output", "good", "--format", "json"]);
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = &findings["findings"][0];
    assert_eq!(finding["causes"][0]["line"], place.line("copy"), "{finding:#}");
    let failure = "wrong output from byte 12 on: line 1 is `global: 32, `, and not `global: 32, town`";
    assert_eq!(finding["failure"]["text"], failure);
}

#[test]
fn wrong_output_is_explained_by_the_order_of_threads() {
    let place = Place::new("early", "-O1");
    assert_eq!(place.record(&["./guest"]).stdout, b"answer 0\n");
    std::fs::write(place.folder.join("good"), "answer 42\n").unwrap();
    let output = place.why(&["--expect-output", "good", "--format", "json"]);
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = &findings["findings"][0];
    assert_eq!((&finding["class"], &finding["status"]), (&json!("data-race"), &json!("proved")), "{finding:#}");
    let mut lines: Vec<u64> =
        finding["causes"].as_array().unwrap().iter().filter_map(|cause| cause["line"].as_u64()).collect();
    lines.sort_unstable();
    assert_eq!(lines, [place.line("store"), place.line("read")], "{finding:#}");
}
