//! Branches that are made to go the other way, and where that leads: nothing of it may reach the outside.

use super::place::{Place, written};
use serde_json::{Value, json};

fn recorded(test: &str) -> Place {
    let place = Place::new(test, "ways");
    assert_eq!(place.record(&["./guest"]).stdout, b"mode 1\nend\n");
    place
}

#[track_caller]
fn flipped(place: &Place, mark: &str) -> (String, Value) {
    place.outcome(&json!([{ "flip": { "at": place.at("ways", mark) } }]), &[])
}

#[test]
fn what_the_recording_does_not_tell_ends_the_run() {
    let place = recorded("socket");
    let (text, outcome) = flipped(&place, "to a socket");
    let needs = outcome["ending"]["left_the_recording"]["needs"].as_str().unwrap_or_else(|| panic!("{text}"));
    assert!(needs.starts_with("socket(0x2, 0x1, 0x0"), "{needs}");
    let output = place.rerun(&json!([{ "flip": { "at": place.at("ways", "to a socket") } }]), &[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("left the recording: thread 1 needs socket("));
}

#[test]
fn files_are_written_in_memory_alone() {
    let place = recorded("file");
    let (text, outcome) = flipped(&place, "to a file");
    assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{text}");
    assert_eq!(written(&outcome, 1), "mode 1\nread: kept in memory\nend\n");
    assert!(!place.folder.join("made.txt").exists());
    // A file that is there stays as it is.
    std::fs::write(place.folder.join("made.txt"), "as it was").unwrap();
    assert_eq!(written(&flipped(&place, "to a file").1, 1), "mode 1\nread: kept in memory\nend\n");
    assert_eq!(std::fs::read(place.folder.join("made.txt")).unwrap(), b"as it was");
}

#[test]
fn a_program_that_aborts_is_killed() {
    let (text, outcome) = flipped(&recorded("abort"), "to abort");
    assert_eq!(outcome["ending"]["killed"]["name"], "SIGABRT", "{text}");
}

#[test]
fn handlers_run() {
    let (text, outcome) = flipped(&recorded("handler"), "to a handler");
    assert_eq!(outcome["ending"], json!({ "exited": { "status": 3 } }), "{text}");
    assert!(written(&outcome, 1).ends_with("handled\n"), "{text}");
}

#[test]
fn threads_send_each_other_signals() {
    let (text, outcome) = flipped(&recorded("signals"), "to signals");
    assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{text}");
    let expected = "mode 1\n0 noticed while blocked, 1 behind it\n2 noticed, cancelled\nend\n";
    assert_eq!(written(&outcome, 1), expected, "{text}");
}

#[test]
fn new_threads_and_sleep_are_the_runs_own() {
    let (text, outcome) = flipped(&recorded("thread"), "to a thread");
    assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{text}");
    assert_eq!(written(&outcome, 1), "mode 1\nslept\nend\n");
    assert!(outcome["schedule"].as_array().unwrap().iter().any(|turn| turn["to"] == 2), "{text}");
}

#[test]
fn an_instruction_can_be_left_out() {
    let place = recorded("suppress");
    let (text, outcome) = place.outcome(&json!([{ "suppress": { "at": place.at("ways", "mode") } }]), &[]);
    assert_eq!(written(&outcome, 1), "mode 0\nend\n", "{text}");
}

#[test]
fn a_plan_that_never_acts_ends_as_recorded() {
    let place = recorded("never");
    let (text, outcome) = place.outcome(&json!([{ "follow": { "at": "handler" } }]), &[]);
    assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{text}");
    assert_eq!(outcome["left"], Value::Null);
    assert_eq!(written(&outcome, 1), "mode 1\nend\n");
}
