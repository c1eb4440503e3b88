//! What `why` cannot follow back, and programs of which less is known: clear words, and the status that says so.

use super::Place;
use serde_json::{Value, json};
use std::process::{Command, Output};

/// Nothing is told, and this is said.
#[track_caller]
fn is_refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0), "{said}");
    words.iter().for_each(|words| assert!(said.contains(words), "{words} is not in: {said}"));
}

#[test]
fn a_bad_status_without_a_crash_is_no_memory_corruption() {
    let place = Place::new("leaks", "-O1");
    assert_eq!(place.record(&["./guest", "fails"]).status.code(), Some(1));
    is_refused(&place.why(&[]), &["the recording did not crash: it ended with exited 1", "`why --silent`"]);
}

#[test]
fn what_leaks_corrupts_nothing() {
    let place = Place::new("leaks", "-O0");
    assert_eq!(place.record(&["./guest", "leaks"]).status.code(), Some(0));
    is_refused(&place.why(&[]), &["the recording did not crash: it ended with exited 0", "`why --silent`"]);
    let silent = place.why(&["--silent", "--format", "json"]);
    let findings: Value = serde_json::from_slice(&silent.stdout).unwrap();
    assert_eq!((silent.status.code(), &findings["findings"]), (Some(0), &json!([])));
}

#[test]
fn a_program_that_has_changed_cannot_be_run_again() {
    let place = Place::new("table", "-O2");
    assert_eq!(place.record(&["./guest", "14"]).status.code(), None);
    std::fs::write(place.folder.join("guest"), "another program").unwrap();
    is_refused(&place.why(&[]), &["guest"]);
}

/// Without lines, the instruction and the function tell where; without symbols, the instruction alone.
#[test]
fn a_stripped_program_is_told_by_its_instructions() {
    let place = Place::new("table", "-O1");
    for (option, function) in [("--strip-debug", json!("fill")), ("--strip-all", Value::Null)] {
        assert!(Command::new("strip").args([option, "guest"]).current_dir(&place.folder).status().unwrap().success());
        let finding = place.finding(&["./guest", "14"]);
        let cause = &finding["causes"][0];
        assert_eq!((&finding["class"], &finding["status"]), (&json!("heap-overflow"), &json!("proved")), "{finding:#}");
        assert_eq!((&cause["module"], &cause["function"], &cause["line"]), (&json!("guest"), &function, &Value::Null));
        assert!(cause["module_offset"].as_str().is_some_and(|offset| offset.starts_with("0x")), "{finding:#}");
    }
}
