//! Threads that are made to go in another order.

use super::place::{Place, line_of, written};
use serde_json::{Value, json};

fn late_producer(place: &Place) -> Value {
    let (use_line, init) = (place.at("order", "use"), place.at("order", "init"));
    json!([{ "hold": { "thread": 2, "before": init, "until": { "thread": 3, "passes": use_line } } }])
}

#[test]
fn a_passing_run_crashes_in_the_other_order_every_time() {
    let place = Place::new("late-producer", "order");
    let recorded = place.record(&["./guest"]);
    assert_eq!((recorded.status.code(), recorded.stdout.as_slice()), (Some(0), b"size 42\ndone\n".as_slice()));
    let steps = late_producer(&place);
    let (first, outcome) = place.outcome(&steps, &[]);
    assert_eq!(outcome["ending"]["killed"]["name"], "SIGSEGV", "{first}");
    assert_eq!(outcome["ending"]["killed"]["address"], "0x0");
    assert_eq!(outcome["thread"], 3);
    let line = place.at("order", "use");
    assert_eq!(line_of(&outcome, "consumer").map(|number| format!("order.c:{number}")), Some(line));
    assert_eq!(outcome["left"]["thread"], 2);
    for _ in 1..20 {
        assert_eq!(place.outcome(&steps, &[]).0, first);
    }
    let text = place.rerun(&steps, &[]);
    assert_eq!(text.status.code(), Some(1));
    assert!(String::from_utf8(text.stdout).unwrap().starts_with("killed by SIGSEGV at 0x0, in thread 3\n"));
}

#[test]
fn a_crashing_run_passes_when_the_order_is_held() {
    let place = Place::new("late-consumer", "order");
    let recorded = place.record(&["./guest", "crash"]);
    assert_eq!(recorded.status.code(), None, "the consumer goes first: {}", recorded.status);
    let (use_line, init) = (place.at("order", "use"), place.at("order", "init"));
    let steps = json!([{ "hold": { "thread": 2, "before": use_line, "until": { "thread": 3, "passes": init } } }]);
    let (text, outcome) = place.outcome(&steps, &[]);
    assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{text}");
    assert_eq!(written(&outcome, 1), "size 42\ndone\n");
    assert_eq!(outcome["remarks"], json!([]));
    assert_eq!(place.outcome(&steps, &[]).0, text);
}

#[test]
fn a_thread_can_be_given_the_turn() {
    let place = Place::new("run", "order");
    place.record(&["./guest"]);
    let join = place.at("order", "join");
    let steps = json!([{ "follow": { "thread": 1, "at": join } }, { "run": { "thread": 3 } }]);
    let (text, outcome) = place.outcome(&steps, &[]);
    assert_eq!(outcome["ending"]["killed"]["name"], "SIGSEGV", "{text}");
    let until = place.at("order", "init");
    let first = json!({ "run": { "thread": 2, "until": { "at": until } } });
    let steps = json!([{ "follow": { "thread": 1, "at": join } }, first, { "stop": {} }]);
    let (text, outcome) = place.outcome(&steps, &[]);
    assert_eq!(outcome["ending"], json!({ "stopped": {} }), "{text}");
    assert_eq!(line_of(&outcome, "producer").map(|number| format!("order.c:{number}")), Some(until));
}

#[test]
fn two_locks_in_two_orders_deadlock() {
    let place = Place::new("deadlock", "locks");
    assert_eq!(place.record(&["./guest"]).stdout, b"total 2\n");
    let (inner, outer) = (place.at("locks", "forwards inner"), place.at("locks", "backwards outer"));
    let steps = json!([{ "hold": { "thread": 2, "before": inner, "until": { "thread": 3, "passes": outer } } }]);
    let (text, outcome) = place.outcome(&steps, &[]);
    assert_eq!(outcome["ending"], json!({ "deadlock": {} }), "{text}");
    let states: Vec<&str> =
        outcome["threads"].as_array().unwrap().iter().map(|t| t["state"].as_str().unwrap()).collect();
    assert_eq!(states.len(), 3);
    assert!(states[1].contains("`second`") && states[1].contains("held by thread 3"), "{states:?}");
    assert!(states[2].contains("`first`") && states[2].contains("held by thread 2"), "{states:?}");
    assert_eq!(place.outcome(&steps, &[]).0, text);
}

#[test]
fn a_hold_that_would_hang_is_given_up() {
    let place = Place::new("given-up", "locks");
    place.record(&["./guest"]);
    let (outer, end) = (place.at("locks", "forwards outer"), place.at("locks", "end"));
    let steps = json!([{ "hold": { "thread": 2, "before": outer, "until": { "thread": 1, "passes": end } } }]);
    let (text, outcome) = place.outcome(&steps, &[]);
    assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{text}");
    assert!(outcome["remarks"][0].as_str().unwrap().contains("nothing else could run"), "{text}");
    assert_eq!(written(&outcome, 1), "total 2\n");
}

#[test]
fn a_hold_against_a_thread_that_spins_is_given_up_within_the_limit() {
    let place = Place::new("spinning", "spin");
    assert_eq!(place.record(&["./guest"]).stdout, b"heard\n");
    let (say, heard) = (place.at("spin", "say"), place.at("spin", "heard"));
    let steps = json!([{ "hold": { "thread": 2, "before": say, "until": { "thread": 1, "passes": heard } } }]);
    for options in [&[] as &[&str], &["--limit", "1000000"]] {
        let (text, outcome) = place.outcome(&steps, options);
        assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{text}");
        assert!(outcome["remarks"][0].as_str().unwrap().contains("went on for too long"), "{text}");
    }
}

#[test]
fn a_run_that_spins_for_ever_runs_into_the_limit() {
    let place = Place::new("unsaid", "spin");
    place.record(&["./guest"]);
    let steps = json!([{ "suppress": { "thread": 2, "at": place.at("spin", "say"), "time": 1 } }]);
    let (text, outcome) = place.outcome(&steps, &["--limit", "1000000"]);
    assert_eq!(outcome["ending"], json!({ "limit": {} }), "{text}");
    assert_eq!(place.rerun(&steps, &["--limit", "1000000"]).status.code(), Some(1));
}
