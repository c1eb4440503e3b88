//! An instruction is left out with all that depends on it, and the program goes on as if it had never had the value.

use super::place::{Place, written};
use serde_json::{Value, json};

/// What depends on the value, and what the program writes when all of that is left out. All but the last three crash if
/// it is not.
const WAYS: [(&str, &str); 16] = [
    ("pointer", "after\n"),
    ("index", "after\n"),
    ("call", "after\n"),
    ("branch", "after\n"),
    ("loop", "after\n"),
    ("length", "after\n"),
    ("fill", "after\n"),
    ("stack", "after\n"),
    ("frame", "after\n"),
    ("saved-frame", "after\n"),
    ("room", "after\n"),
    ("result", "after\n"),
    ("division", "after\n"),
    ("good-call", "after\n"),
    ("output", "after\n"),
    ("cleared", "clean again\nafter\n"),
];
const HARMLESS: usize = 3;

fn without_value() -> Value {
    json!([{ "suppress": { "at": "make", "dependents": true } }])
}

#[test]
fn nothing_crashes_because_something_was_left_out() {
    let place = Place::new("suppressing", "corrupt");
    for (number, (way, expected)) in WAYS.into_iter().enumerate() {
        let recorded = place.record(&["./guest", way]);
        assert_eq!(recorded.status.code().is_some(), number >= WAYS.len() - HARMLESS, "{way}: {}", recorded.status);
        let (text, outcome) = place.outcome(&without_value(), &[]);
        assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{way}: {text}");
        assert_eq!(written(&outcome, 1), expected, "{way}");
        assert_eq!(outcome["remarks"], json!([]), "{way}");
        assert!(outcome["origins"]["suppressed"].as_u64() > Some(0), "{way}");
    }
}

#[test]
fn what_was_left_out_stays_out_when_more_is() {
    let place = Place::new("suppressing-two", "corrupt");
    place.record(&["./guest", "two"]);
    let made = |time: u32| json!({ "suppress": { "at": "make", "time": time, "dependents": true } });
    for (steps, address) in [(json!([made(1)]), "0x2345678"), (json!([made(2)]), "0x1234567")] {
        let (text, outcome) = place.outcome(&steps, &[]);
        assert_eq!(outcome["ending"]["killed"]["address"], address, "the other one crashes: {text}");
    }
    let (text, outcome) = place.outcome(&json!([made(1), made(2)]), &[]);
    assert_eq!(outcome["ending"], json!({ "exited": { "status": 0 } }), "{text}");
    assert_eq!(written(&outcome, 1), "after\n");
}

#[test]
fn a_clock_and_a_number_say_which_instance_is_meant() {
    let place = Place::new("suppressing-instance", "corrupt");
    place.record(&["./guest", "pointer"]);
    let (text, outcome) = place.outcome(&json!([{ "origins": { "thread": 1, "clock": 0 } }]), &[]);
    assert_eq!(outcome["ending"]["killed"]["name"], "SIGSEGV", "as recorded: {text}");
    assert_eq!(outcome["left"], Value::Null);
    let definitions = outcome["origins"]["definitions"].as_array().unwrap();
    let made = definitions.iter().find(|made| made["copies"] == false && made["value"] == "0x1234567").unwrap();
    let instance = |time: &Value| {
        json!([{ "suppress": {
            "thread": made["thread"], "clock": made["clock"], "at": made["pc"], "time": time, "dependents": true } }])
    };
    let (text, outcome) = place.outcome(&instance(&made["time"]), &[]);
    assert_eq!(written(&outcome, 1), "after\n", "{text}");
    assert_eq!(place.outcome(&instance(&made["time"]), &[]).0, text, "the same every time");
    let (text, outcome) = place.outcome(&instance(&json!(1000)), &[]);
    assert_eq!(outcome["ending"]["killed"]["name"], "SIGSEGV", "there is no such instance: {text}");
}
