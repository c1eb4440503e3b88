//! Real programs with threads, shuffled from some point on: what they make must be what they always make.

use super::place::{Place, written};
use crate::debian;
use serde_json::{Value, json};
use std::fs;

fn shuffled(place: &Place, quantum: u64) -> (String, Value) {
    let event = place.event("starts T2");
    let policy = json!({ "policy": "random", "seed": 11, "quantum": quantum });
    place.outcome(&json!([{ "follow": { "event": event } }, { "schedule": policy }]), &[])
}

#[test]
fn xz_compresses_to_the_same_bytes() {
    debian::need(&["xz"]);
    let place = Place::empty("xz");
    let data: Vec<u8> = (0..400_000_u32).flat_map(|number| (number / 3 * 7).to_le_bytes()).collect();
    fs::write(place.folder.join("data"), data).unwrap();
    let recorded = place.record(&["/usr/bin/xz", "-T2", "--block-size=300000", "-1", "-k", "-c", "data"]);
    assert!(recorded.status.success());
    let (text, outcome) = shuffled(&place, 20_000);
    assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{}", start(&text));
    assert_eq!(written(&outcome, 1), String::from_utf8_lossy(&recorded.stdout));
    let turns = outcome["schedule"].as_array().unwrap().len();
    assert!(turns > 20, "only {turns} switches");
}

#[test]
fn python_threads_come_to_the_same_sum() {
    debian::need(&["python3"]);
    let place = Place::empty("python");
    let script = "import threading\n\
                  total = 0\n\
                  lock = threading.Lock()\n\
                  def work(number):\n    \
                      global total\n    \
                      for _ in range(300):\n        \
                          with lock:\n            \
                              total += number\n\
                  threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2, 3)]\n\
                  for thread in threads: thread.start()\n\
                  for thread in threads: thread.join()\n\
                  print('total', total)\n";
    fs::write(place.folder.join("sum.py"), script).unwrap();
    let recorded = place.record(&["/usr/bin/python3", "-S", "sum.py"]);
    assert_eq!(recorded.stdout, b"total 1800\n");
    let (text, outcome) = shuffled(&place, 500);
    assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{}", start(&text));
    assert_eq!(written(&outcome, 1), "total 1800\n");
}

/// Programs about threads, locks and waits that need nothing of the outside: what they say must not depend on the schedule.
const ABOUT_THREADS: &[&str] = &[
    "c11_threads",
    "exit_in_thread",
    "futexes",
    "mutexes",
    "named_semaphores",
    "preempted_state",
    "primitives",
    "raw_clone",
    "spinning",
];

#[test]
fn programs_about_threads_say_the_same_under_another_schedule() {
    for name in ABOUT_THREADS {
        let place = Place::with(&format!("threads-{name}"), &format!("conformance/threads/{name}.c"));
        let recorded = place.record(&["./guest"]);
        let (text, outcome) = shuffled(&place, 2000);
        let status = recorded.status.code();
        assert_eq!(outcome["ending"], json!({ "exited": { "status": status } }), "{name}: {}", start(&text));
        assert_eq!(written(&outcome, 1), String::from_utf8_lossy(&recorded.stdout), "{name}");
    }
}

/// As much of an outcome as tells what went wrong.
fn start(text: &str) -> String {
    text.chars().take(2000).collect()
}
