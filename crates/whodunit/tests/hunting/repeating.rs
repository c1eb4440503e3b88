//! What a hunt does depends on its seed alone, not on how many schedules run at the same time.

use super::place::{Place, first_schedule};

#[test]
fn the_same_seed_finds_the_same_schedule() {
    for policy in ["mix", "pos", "pct", "delay"] {
        let place = Place::new(&format!("repeating-{policy}"), "null");
        let hunt = |jobs: &str| {
            let (status, text) = place.search(&["-n", "200", "--policy", policy, "-j", jobs, "--seed", "7"]);
            assert_eq!(status, Some(1), "{policy}: {text}");
            let schedule = place.whodunit(&["show", "latest", "--schedule"]).output().unwrap();
            (first_schedule(&text).to_owned(), String::from_utf8(schedule.stdout).unwrap())
        };
        let alone = hunt("1");
        assert_eq!(hunt("1"), alone, "{policy}");
        assert_eq!(hunt("3"), alone, "{policy}");
    }
}
