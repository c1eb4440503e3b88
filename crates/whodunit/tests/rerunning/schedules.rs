//! Runs that leave their recording and are scheduled in another way from there.

use super::place::{Place, written};
use serde_json::json;
use std::collections::BTreeSet;

#[test]
fn the_same_seed_gives_the_same_run_and_others_give_others() {
    let place = Place::new("seeds", "turns");
    let expected = format!("{}{}\n", "a".repeat(30), "b".repeat(30));
    assert_eq!(String::from_utf8(place.record(&["./guest"]).stdout).unwrap(), expected);
    let join = place.at("turns", "join");
    let mut outputs = BTreeSet::new();
    let mut schedules = BTreeSet::new();
    for seed in 0..6 {
        let policy = json!({ "policy": "random", "seed": seed, "quantum": 40 });
        let steps = json!([{ "follow": { "thread": 1, "at": join } }, { "schedule": policy }]);
        let (text, outcome) = place.outcome(&steps, &[]);
        assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{text}");
        assert_eq!(place.outcome(&steps, &[]).0, text, "seed {seed}");
        outputs.insert(written(&outcome, 1));
        schedules.insert(outcome["schedule"].to_string());
    }
    assert!(outputs.len() > 1 && schedules.len() > 1, "{outputs:?}");
}

#[test]
fn leaving_anywhere_without_a_change_ends_as_recorded() {
    let place = Place::new("anywhere", "order");
    assert_eq!(place.record(&["./guest"]).stdout, b"size 42\ndone\n");
    let last = place.events() - 1;
    // The first events build the process; a step that is no divisor of anything meets all kinds.
    for event in (20..last).step_by(11).chain([last]) {
        let (text, outcome) = place.outcome(&json!([{ "follow": { "event": event } }]), &[]);
        assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "event {event}: {text}");
        assert_eq!(written(&outcome, 1), "size 42\ndone\n", "event {event}");
        // A file that is named belongs to what follows.
        let left = outcome["left"]["event"].as_u64().unwrap_or_else(|| panic!("event {event}: {text}"));
        assert!((event..event + 3).contains(&left), "event {event}: left at {left}");
    }
}

#[test]
fn a_clock_is_a_place_too() {
    let place = Place::new("clock", "order");
    place.record(&["./guest"]);
    let steps = json!([{ "follow": { "thread": 2, "clock": 20 } }, { "run": { "thread": 3 } }]);
    let (text, outcome) = place.outcome(&steps, &[]);
    assert_eq!(outcome["left"]["clock"], 20, "{text}");
    assert_eq!(outcome["ending"]["killed"]["name"], "SIGSEGV", "{text}");
}
