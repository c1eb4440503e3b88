//! The JSON, field by field: fields may be added, but what is here stays.

use crate::examples;
use crate::support::{compare, look, sources};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use trace::finding::{Class, Finding, Findings, Unreadable};

fn rendered(findings: &Findings) -> Value {
    serde_json::from_str(&report::findings::json(findings).unwrap()).unwrap()
}

fn fields(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn every_shape() {
    compare("findings.json", &report::findings::json(&examples::everything()).unwrap());
}

#[test]
fn fields_of_the_whole() {
    let value = rendered(&examples::everything());
    let known = ["schema", "tool", "verb", "program", "arguments", "recording", "summary", "findings", "notes"];
    assert_eq!(fields(&value), known.into());
    assert_eq!(value["schema"], "whodunit/findings/1");
    assert_eq!(value["tool"], json!({"name": "whodunit", "version": "1.2.3"}));
    assert_eq!((&value["verb"], &value["program"]), (&json!("races"), &json!("server")));
    assert_eq!(value["arguments"], json!(["--port", "8080"]));
    assert_eq!(value["recording"], "server-3");
    let text = "1,204,331 accesses of 3 threads were looked at.";
    let summary = json!({"proved": 3, "suspected": 1, "suppressed": 3, "left_out": 10, "text": text});
    assert_eq!(value["summary"], summary);
    assert_eq!(value["notes"], json!(["Accesses of the kernel are not looked at."]));
}

#[test]
fn fields_of_a_finding() {
    let value = rendered(&examples::findings(vec![examples::race()]));
    let finding = &value["findings"][0];
    let known = [
        "class",
        "title",
        "status",
        "causes",
        "failure",
        "variable",
        "threads",
        "steps",
        "schedule",
        "sides",
        "both_orders",
        "count",
        "notes",
        "evidence",
        "rerun",
        "next",
    ];
    assert_eq!(fields(finding), known.into());
    assert_eq!((&finding["class"], &finding["status"]), (&json!("data-race"), &json!("proved")));
    assert_eq!(finding["rerun"], "whodunit rerun server-3 --plan server-3/races/1.json");
    assert_eq!((&finding["both_orders"], &finding["count"]), (&json!(true), &json!(12)));
    assert_eq!((&finding["failure"], &finding["schedule"]), (&Value::Null, &json!([])));
    let plan = json!({"schema": "whodunit/plan/1", "steps": []});
    assert_eq!(finding["evidence"], json!({"recording": "server-3", "process": 1, "plan": plan, "seed": 7}));
    let next = json!([{"command": "whodunit last-write server-3 hits --all", "text": "every write to `hits`"}]);
    assert_eq!(finding["next"], next);
    let variable = json!({
        "name": "hits", "type": "int", "address": "0x550065558010", "size": 4, "text": "a global of server",
    });
    assert_eq!(finding["variable"], variable);
}

/// A place's fields stand beside those of the thing that is there.
#[test]
fn fields_of_parts() {
    let value = rendered(&examples::findings(vec![examples::race(), examples::schedule(), examples::deadlock()]));
    let place = json!({
        "function": "lookup", "file": "/home/you/list/src/cache.c", "line": 7, "column": null, "inlined": false,
        "module": "server", "module_offset": "0x1140", "pc": "0x550065555140",
    });
    let with = |more: Value| {
        let mut whole = place.clone();
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        whole
    };
    let race = &value["findings"][0];
    assert_eq!(race["causes"][0], with(json!({"thread": 3, "text": "writes `hits` without a lock"})));
    assert_eq!(race["steps"][0], with(json!({"thread": 2, "text": "reads hits = 4", "guilty": true})));
    assert_eq!(fields(&race["sides"][0]), ["thread", "text", "stack", "locks", "waits_for"].into());
    assert_eq!(race["sides"][0]["stack"][0], place);
    assert_eq!((&race["sides"][0]["locks"], &race["sides"][1]["locks"][0]["mode"]), (&json!([]), &json!("shared")));
    assert_eq!(fields(&race["sides"][1]["locks"][0]), ["name", "address", "mode", "taken"].into());
    assert_eq!(race["threads"][0], json!({"thread": 2, "name": "worker", "created": []}));
    let schedule = &value["findings"][1];
    assert_eq!(fields(&schedule["failure"]), ["text", "signal", "exit_status", "thread", "at"].into());
    assert_eq!(fields(&schedule["schedule"][0]), ["thread", "after", "until"].into());
    assert_eq!(schedule["schedule"][0]["until"]["thread"], 3);
    assert_eq!(schedule["schedule"][0]["until"]["passes"]["line"], 15);
    let wait = &value["findings"][2]["sides"][0]["waits_for"];
    assert_eq!((&wait["held_by"], &wait["lock"]["name"]), (&json!(3), &json!("b")));
}

#[test]
fn what_is_written_can_be_read() {
    for findings in [examples::everything(), examples::nothing()] {
        let text = report::findings::json(&findings).unwrap();
        assert_eq!(Findings::read(&text), Ok(findings));
    }
}

/// Bytes that are no UTF-8 are replaced, and so cannot come back; all else does.
#[test]
fn unwieldy() {
    let text = report::findings::json(&examples::unwieldy()).unwrap();
    let read = Findings::read(&text).unwrap();
    assert_eq!(report::findings::json(&read).unwrap(), text);
    let file = &rendered(&examples::unwieldy())["findings"][0]["causes"][0]["file"];
    assert_eq!(file, "/home/you/list/caf\u{fffd} \u{fffd}/odd.c");
}

/// A file of an older or newer whodunit, with fields missing or added.
#[test]
fn other_fields_do_no_harm() {
    let text = r#"{"schema": "whodunit/findings/1", "tool": {"name": "whodunit", "version": "9"}, "verb": "why",
        "program": "p", "mood": "good",
        "findings": [{"class": "deadlock", "title": "t", "status": "suspected", "colour": 1, "rerun": null}]}"#;
    let read = Findings::read(text).unwrap();
    assert_eq!(read.findings, [Finding::suspected(Class::Deadlock, "t")]);
}

/// The example in the documentation: its JSON can be read, and is the text beside it.
#[test]
fn documentation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
    let document = std::fs::read_to_string(path).unwrap();
    let block = |start: &str| {
        let (_, rest) = document.split_once(start).unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    };
    let findings = Findings::read(&block("```json\n")).unwrap();
    let text = report::findings::text(&findings, &mut sources(), &look(false));
    assert_eq!(text, block("$ whodunit render hunt.json\n"));
    for class in Class::ALL {
        assert!(document.contains(&format!("| `{}` |", class.word())), "{class:?}");
    }
}

#[test]
fn refusals() {
    let refusal = |change: &dyn Fn(&mut Value)| {
        let mut value = rendered(&examples::everything());
        change(&mut value);
        Findings::read(&value.to_string()).unwrap_err()
    };
    assert_eq!(refusal(&|value| *value = json!([1])), Unreadable::NoSchema);
    assert_eq!(refusal(&|value| value["schema"] = json!("x/2")), Unreadable::OtherSchema("x/2".to_owned()));
    assert_eq!(refusal(&|value| value["findings"][1]["rerun"] = Value::Null), Unreadable::Unproved(1));
    let class = refusal(&|value| value["findings"][0]["class"] = json!("mischief")).to_string();
    assert!(class.contains("there is no class `mischief`"), "{class}");
    let address = refusal(&|value| value["findings"][0]["causes"][0]["pc"] = json!("77")).to_string();
    assert!(address.contains("an address starts with 0x"), "{address}");
    assert!(matches!(Findings::read("{").unwrap_err(), Unreadable::Malformed(_)));
}
