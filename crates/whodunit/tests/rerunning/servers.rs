//! Servers that go on beyond their recording: what clients sent comes again, threads wake each other, and nothing is sent to anybody.

use super::place::{Place, written};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// A connection that asks, and waits for each answer.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(port: u16) -> Client {
        Client(BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap()))
    }

    fn ask(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        answer
    }
}

/// How the server was told to stop.
enum Stop {
    Command,
    Signal,
}

/// Records the server while one client asks and another one reloads.
fn recorded(test: &str, words: &[&str], stop: &Stop) -> Place {
    let place = Place::new(test, "server");
    let mut command = place.whodunit(&["record", "--no-report", "--", "./guest"]);
    let mut child = command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let port = line.trim().parse().unwrap();
    let mut reader = Client::new(port);
    assert_eq!(reader.ask("get\n"), "size 1\n");
    let mut admin = Client::new(port);
    assert_eq!(admin.ask("20\n"), "done\n");
    assert_eq!(reader.ask("get\n"), "size 20\n");
    assert_eq!(admin.ask("300\n"), "done\n");
    assert_eq!(reader.ask("get\n"), "size 300\n");
    match stop {
        Stop::Command => assert_eq!(admin.ask("stop\n"), "done\n"),
        Stop::Signal => assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success()),
    }
    assert!(child.wait().unwrap().success());
    line.clear();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "stopped\n");
    place
}

/// The worker is kept from looking at the configuration until the main thread has passed a line.
fn held(place: &Place, line: &str) -> Value {
    let (before, until) = (place.at("server", "enter"), place.at("server", line));
    json!([{ "hold": { "thread": 2, "before": before, "until": { "thread": 1, "passes": until } } }])
}

#[test]
fn a_request_that_came_later_comes_while_a_thread_is_held() {
    let place = recorded("server-cleared", &[], &Stop::Command);
    let (text, outcome) = place.outcome(&held(&place, "clear"), &[]);
    assert_eq!(outcome["ending"]["killed"]["name"], "SIGSEGV", "{text}");
    assert_eq!(outcome["thread"], 2, "{text}");
    assert_eq!(outcome["remarks"], json!([]), "{text}");
    assert_eq!(place.outcome(&held(&place, "clear"), &[]).0, text, "the same every time");
}

#[test]
fn a_server_that_has_left_its_recording_goes_on_to_its_end() {
    for (test, stop) in [("server-stopped", Stop::Command), ("server-ended", Stop::Signal)] {
        let place = recorded(test, &["repaired"], &stop);
        let (text, outcome) = place.outcome(&held(&place, "renew"), &[]);
        assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{text}");
        assert!(written(&outcome, 1).ends_with("stopped\n"), "{text}");
        let answers: String = (3..20).map(|descriptor| written(&outcome, descriptor)).collect();
        assert!(answers.contains("size 20\n"), "{text}");
        assert!(answers.contains("size 300\n"), "{text}");
    }
}

#[test]
fn a_server_that_nobody_stops_waits_for_more() {
    let place = recorded("server-waiting", &[], &Stop::Command);
    let steps = json!([{ "suppress": { "thread": 1, "at": place.at("server", "stop") } }]);
    let (text, outcome) = place.outcome(&steps, &[]);
    assert_eq!(outcome["ending"], json!({ "out_of_input": {} }), "{text}");
    let states: Vec<&str> =
        outcome["threads"].as_array().unwrap().iter().filter_map(|it| it["state"].as_str()).collect();
    assert_eq!(states, ["waiting for input", "waiting for input"], "{text}");
    assert!(outcome["remarks"].to_string().contains("connections end where the recording does"), "{text}");
    let output = place.rerun(&steps, &[]);
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("waits for input when all that was recorded has come\n"), "{said}");
}

fn predicted(place: &Place) -> (Option<i32>, String) {
    let output = place.whodunit(&["predict", "latest"]).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn an_order_that_kills_a_server_is_proved() {
    let place = recorded("server-predicted", &[], &Stop::Command);
    let (status, said) = predicted(&place);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("Null dereference by order, proved by a re-run"), "{said}");
    assert!(said.contains("clears config, thread 2 in answer dereferences it"), "{said}");
    assert!(said.contains("Failure: SIGSEGV at 0x0, in thread 2, answer at"), "{said}");
    assert!(said.contains(&place.at("server", "use")), "{said}");
    assert!(!said.contains("without a verdict"), "{said}");
}

/// The worker uses what the main thread has made before it woke the worker: no trial may have it otherwise.
#[test]
fn a_server_whose_threads_wake_each_other_gives_no_alarm() {
    let place = recorded("server-repaired", &["repaired"], &Stop::Command);
    let (status, said) = predicted(&place);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.starts_with("No findings in guest"), "{said}");
    assert!(said.contains(" tried.\n"), "orders are tried, and none without a verdict: {said}");
}
