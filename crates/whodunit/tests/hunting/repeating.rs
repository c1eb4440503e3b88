//! What a hunt does depends on its seed alone, not on how many schedules run at the same time.

use super::place::{Place, first_schedule};

#[track_caller]
fn finds_the_same(policy: &str) {
    let place = Place::new(&format!("repeating-{policy}"), "null");
    let hunt = |jobs: &str| {
        let (status, text) = place.search(&["-n", "200", "--policy", policy, "-j", jobs, "--seed", "7"]);
        assert_eq!(status, Some(1), "{text}");
        let schedule = place.whodunit(&["show", "latest", "--schedule"]).output().unwrap();
        (first_schedule(&text).to_owned(), String::from_utf8(schedule.stdout).unwrap())
    };
    let alone = hunt("1");
    assert_eq!(hunt("1"), alone);
    assert_eq!(hunt("3"), alone);
}

#[test]
fn of_all_policies_in_turn() {
    finds_the_same("mix");
}

#[test]
fn of_priorities_by_accesses() {
    finds_the_same("pos");
}

#[test]
fn of_priorities_by_threads() {
    finds_the_same("pct");
}

#[test]
fn of_delays() {
    finds_the_same("delay");
}
