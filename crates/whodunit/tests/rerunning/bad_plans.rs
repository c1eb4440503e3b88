//! What is wrong with a plan is said in one line, with the status that says whose fault it is.

use super::place::Place;
use serde_json::json;
use std::fs;

fn refusal(place: &Place, status: i32) -> String {
    let output = place.whodunit(&["rerun", "latest", "--plan", "plan.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(status), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("whodunit: ") && said.lines().count() == 1, "{said}");
    said
}

#[test]
fn texts_that_are_no_plans() {
    let place = Place::new("no-plans", "ways");
    place.record(&["./guest"]);
    for (text, expected) in [
        ("{", "plan.json is no plan: EOF"),
        (r#"{"schema": "whodunit/plan/7", "steps": []}"#, "its schema is \"whodunit/plan/7\""),
        (r#"{"schema": "whodunit/plan/1", "steps": []}"#, "it has no steps"),
        (r#"{"schema": "whodunit/plan/1", "steps": [{"fly": {}}]}"#, "unknown variant `fly`"),
        (r#"{"schema": "whodunit/plan/1", "steps": [{"flip": {"at": "main", "tim": 2}}]}"#, "unknown field `tim`"),
    ] {
        fs::write(place.folder.join("plan.json"), text).unwrap();
        let said = refusal(&place, 2);
        assert!(said.contains(expected), "{said}");
    }
    fs::remove_file(place.folder.join("plan.json")).unwrap();
    assert!(refusal(&place, 2).contains("cannot read the plan"));
}

#[test]
fn plans_that_do_not_fit_the_recording() {
    let place = Place::new("unfit", "ways");
    place.record(&["./guest"]);
    let last = place.events() - 1;
    for (steps, expected) in [
        (json!([{ "flip": { "at": "handle" } }]), "there is no function `handle`"),
        (json!([{ "flip": { "at": "nowhere.c:3" } }]), "nowhere.c"),
        (json!([{ "flip": { "at": "ways.c:1" } }]), "ways.c:1 has no code"),
        (json!([{ "flip": { "at": place.at("ways", "mode") } }]), "has no conditional branch"),
        (json!([{ "flip": { "at": "main+x" } }]), "has no number behind the `+`"),
        (json!([{ "flip": { "thread": 9, "at": "main" } }]), "names thread 9, and the recording has 1"),
        (json!([{ "follow": { "event": last + 1 } }]), "the recording's last is"),
    ] {
        place.plan(&steps);
        let said = refusal(&place, 3);
        assert!(said.contains(expected), "{steps}: {said}");
    }
}

#[test]
fn a_program_that_becomes_another_before_the_plan_acts() {
    let place = Place::empty("becomes-another");
    place.record(&["/bin/sh", "-c", "exec /bin/true"]);
    place.plan(&json!([{ "follow": { "at": "0x1000" } }]));
    let said = refusal(&place, 3);
    assert!(said.contains("became another program") && said.contains("--process 2 is that program"), "{said}");
}
