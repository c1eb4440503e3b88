//! Runs that begin alike are followed together, and tell what each tells alone.

use super::place::Place;
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Output, Stdio};
use trace::{Beginning, Recording};

/// Replays with something to find out, and perhaps more words on standard input.
fn replay(place: &Place, recording: &str, options: &[&str], input: &str) -> Output {
    let words = [&["replay", "--quiet", "--no-report", "--inquire", "--process", "1"], options, &[recording]].concat();
    let mut command = place.command(&words);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn beginning(place: &Place, name: &str) -> Beginning {
    let recording = Recording::open(&place.recording(name)).expect("a recording");
    Beginning::of(&recording.log(1).expect("a log")).expect("a beginning")
}

#[test]
fn copies_that_go_on_with_other_recordings_answer_as_their_own_replays_do() {
    let place = Place::new("together", "s_counter");
    let found = place.pairs(&["--runs", "6", "--jobs", "1", "--prove", "0", "--keep"]);
    let story = found["summary"]["text"].as_str().expect("a story").to_owned();
    assert!(story.contains("then 6 passing runs (guest-2 to guest-7);"), "{story}");
    let names: Vec<String> = (2..=7).map(|number| format!("guest-{number}")).collect();
    let first = beginning(&place, &names[0]);
    assert!(names.iter().all(|name| beginning(&place, name) == first), "they were copied from one process");

    let scope = json!({"ignored_code": [], "synchronising_code": [], "ignored_memory": []});
    let wanted = json!({"scope": scope, "looping_sites": [], "two_by_two": false, "contexts": true, "among": null});
    let task = json!({"study": {"study": {"pairs": wanted}}}).to_string();
    let mut told: Vec<Value> = names
        .iter()
        .map(|name| serde_json::from_slice(&replay(&place, name, &[], &task).stdout).expect("an answer"))
        .collect();
    assert!(told.windows(2).any(|two| two[0] != two[1]), "schedules differ");

    let gone = json!({"folder": place.recording("guest-99"), "log": 1}).to_string();
    let orders = names.iter().map(|name| json!({"folder": place.recording(name), "log": 1}).to_string());
    let input: String = [task.clone(), gone].into_iter().chain(orders).collect();
    let output = replay(&place, &names[0], &["--siblings", &first.events.to_string()], &input);
    let answers = String::from_utf8(output.stdout).expect("text");
    let (refusal, answers) = answers.split_once('\n').expect("lines");
    assert!(refusal.starts_with("!\"whodunit: ") && refusal.contains("guest-99"), "{refusal}");
    for line in answers.lines() {
        let answer: Value = serde_json::from_str(line.strip_prefix('=').expect("an answer")).expect("JSON");
        assert_eq!(answer, told.remove(0));
    }
    assert_eq!(told, Vec::<Value>::new(), "each has answered");
}
