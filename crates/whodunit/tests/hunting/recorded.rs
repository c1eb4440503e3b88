//! Runs in which threads change places before accesses to shared memory replay exactly as they were recorded.

use super::place::Place;

/// Programs about threads whose runs are short.
const PROGRAMS: &[&str] = &[
    "cancellation",
    "channels",
    "create_join",
    "futexes",
    "named_semaphores",
    "preempted_state",
    "raw_clone",
    "standstill",
    "timed_waits",
];

#[test]
fn hunted_runs_of_programs_about_threads_replay() {
    for name in PROGRAMS {
        let place = Place::with(&format!("recorded-{name}"), &format!("conformance/threads/{name}.c"));
        for policy in ["pos", "pct"] {
            // The fourth run is kept, after the ordinary one.
            let check = format!("echo >> {policy}; test $(wc -l < {policy}) = 5");
            let (status, text) = place.search(&["-n", "4", "-j", "1", "--policy", policy, "--fail-if", &check]);
            assert_eq!(status, Some(1), "{name}: {text}");
            assert!(text.contains(&format!("schedule 4 (policy {policy}, seed 3)")), "{name}: {text}");
            place.verify();
        }
    }
}
