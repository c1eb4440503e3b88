//! Runs in which threads change places before accesses to shared memory replay exactly as they were recorded. The programs
//! about threads are those whose runs are short.

use super::place::Place;

#[track_caller]
fn replays(name: &str) {
    let place = Place::with(&format!("recorded-{name}"), &format!("conformance/threads/{name}.c"));
    for policy in ["pos", "pct"] {
        // The fourth run is kept, after the ordinary one.
        let check = format!("echo >> {policy}; test $(wc -l < {policy}) = 5");
        let (status, text) = place.search(&["-n", "4", "-j", "1", "--policy", policy, "--fail-if", &check]);
        assert_eq!(status, Some(1), "{text}");
        assert!(text.contains(&format!("schedule 4 (policy {policy}, seed 3)")), "{text}");
        place.verify();
    }
}

/// One test each, so that they run at the same time: they mostly wait.
macro_rules! replay {
    ($($name:ident)*) => {
        $(#[test] fn $name() { replays(stringify!($name)); })*
    };
}

replay!(cancellation channels create_join futexes named_semaphores preempted_state raw_clone standstill timed_waits);
