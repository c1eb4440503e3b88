//! Runs that go on beyond what was recorded: input ends, files are read on, and nothing of it reaches the outside.

use super::place::{Place, written};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::process::Stdio;

fn recorded(test: &str) -> Place {
    let place = Place::new(test, "beyond");
    fs::write(place.folder.join("notes"), "one two three").unwrap();
    fs::create_dir(place.folder.join("empty")).unwrap();
    let mut command = place.whodunit(&["record", "--no-report", "--", "./guest"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"stop\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"first one tw\nstopped\n");
    place
}

#[track_caller]
fn gone_on(place: &Place) -> (String, Value) {
    let flip = json!([{ "flip": { "at": place.at("beyond", "stops") } }]);
    place.outcome(&flip, &[])
}

const SAID: &str = "\
first one tw
then o three
input 0, closed 0
again -1
entries 2
poll 1, select 1
limits 0, names 0, folder 1, terminal 0
notes 13, other 0
renamed 0, gone -1, removed 0, again -1
";

#[test]
fn a_run_reads_on_and_changes_nothing() {
    let place = recorded("beyond");
    let (text, outcome) = gone_on(&place);
    assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{text}");
    assert_eq!(written(&outcome, 1), SAID, "{text}");
    let remarks = outcome["remarks"].to_string();
    assert!(remarks.contains("standard input ends where the recording does"), "{remarks}");
    assert!(remarks.contains("/notes`, which has not changed, is read on where the recording ends"), "{remarks}");
    assert_eq!(fs::read(place.folder.join("notes")).unwrap(), b"one two three");
    assert!(!place.folder.join("other").exists());
    assert_eq!(gone_on(&place).0, text, "the same every time");
}

#[test]
fn a_file_that_has_changed_since_is_not_read_on() {
    let place = recorded("changed");
    fs::write(place.folder.join("notes"), "four five six").unwrap();
    let (text, outcome) = gone_on(&place);
    let needs = outcome["ending"]["left_the_recording"]["needs"].as_str().unwrap_or_else(|| panic!("{text}"));
    assert!(needs.starts_with("read(0x3"), "{needs}");
}
