//! Traces for Perfetto are whole, nest, and have arrows with both ends.

use super::place::{BANK, WAYS, record};
use serde_json::Value;
use std::collections::BTreeMap;

fn events(text: &str) -> Vec<Value> {
    let trace: Value = serde_json::from_str(text).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

fn of_phase<'a>(events: &'a [Value], phase: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == phase).collect()
}

/// Slices begin before they end, and the innermost ends first.
fn check_nesting(events: &[Value]) {
    let mut open: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for event in events {
        let (track, time) = (event["tid"].as_u64().unwrap(), event["ts"].as_f64().unwrap());
        match event["ph"].as_str().unwrap() {
            "B" => open.entry(track).or_default().push(time),
            "E" => {
                let start = open.get_mut(&track).and_then(Vec::pop).expect("an end has a beginning");
                assert!(start <= time, "{event}");
            }
            _ => {}
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
}

#[test]
fn threads_have_tracks_and_arrows() {
    let recorded = record("perfetto", BANK, "-O0");
    let words = ["--only", "sync,threads,calls,accesses", "--from", "100", "--format", "perfetto"];
    let text = recorded.text(&words);
    let events = events(&text);
    check_nesting(&events);
    let names: Vec<&Value> =
        events.iter().filter(|event| event["name"] == "thread_name").map(|event| &event["args"]["name"]).collect();
    assert_eq!(names, ["thread 1", "thread 2"]);
    let (starts, ends) = (of_phase(&events, "s"), of_phase(&events, "f"));
    let arrows: Vec<(&str, u64, u64)> = starts
        .iter()
        .map(|start| {
            let matching: Vec<_> = ends.iter().filter(|end| end["id"] == start["id"]).collect();
            assert_eq!(matching.len(), 1, "{start}");
            assert!(start["ts"].as_f64() <= matching[0]["ts"].as_f64(), "{start}");
            let track = |event: &Value| event["tid"].as_u64().unwrap();
            (start["name"].as_str().unwrap(), track(start), track(matching[0]))
        })
        .collect();
    assert_eq!(starts.len(), ends.len());
    let expected =
        [("create to start", 1, 2), ("release to acquire", 1, 2), ("unlock to lock", 1, 2), ("end to join", 2, 1)];
    assert_eq!(arrows, expected);
    let held: Vec<&Value> = of_phase(&events, "b").into_iter().filter(|event| event["name"] == "lock held").collect();
    assert_eq!(held.iter().map(|event| &event["tid"]).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(of_phase(&events, "b").len(), of_phase(&events, "e").len());
    let calls = of_phase(&events, "B");
    assert!(calls.iter().any(|call| call["name"] == "deposit" && call["tid"] == 2));
    assert!(of_phase(&events, "i").iter().any(|access| access["name"] == "write counter"));
    assert!(recorded.text(&words) == text, "times do not depend on when it is asked");
}

/// An arrow starts and ends inside of a slice of its track, or nobody would see it.
#[test]
fn arrows_touch_slices() {
    let recorded = record("arrows", BANK, "-O0");
    let events = events(&recorded.text(&["--only", "sync,threads", "--format", "perfetto"]));
    let slices = of_phase(&events, "X");
    let ends = [of_phase(&events, "s"), of_phase(&events, "f")].concat();
    assert!(!ends.is_empty());
    for end in ends {
        let time = end["ts"].as_f64().unwrap();
        let is_inside = |slice: &&Value| {
            let start = slice["ts"].as_f64().unwrap();
            slice["tid"] == end["tid"] && start <= time && time <= start + slice["dur"].as_f64().unwrap()
        };
        assert!(slices.iter().any(is_inside), "{end}");
    }
}

#[test]
fn calls_nest_also_around_jumps_and_at_the_end() {
    let recorded = record("nested", WAYS, "-O0");
    let text = recorded.text(&["--only", "calls", "--format", "perfetto"]);
    let events = events(&text);
    check_nesting(&events);
    assert!(of_phase(&events, "B").iter().any(|call| call["name"] == "inner"));
    let cut = recorded.text(&["--only", "calls", "--format", "perfetto", "--limit", "10"]);
    check_nesting(&self::events(&cut));
}

#[test]
fn nothing_is_a_trace_too() {
    let recorded = record("nothing", WAYS, "-O0");
    let text = recorded.text(&["--thread", "1", "--only", "threads", "--to", "3", "--format", "perfetto"]);
    assert_eq!(events(&text), Vec::<Value>::new());
}
