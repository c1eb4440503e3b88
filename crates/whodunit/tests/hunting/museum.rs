//! Bugs of the museum that need more than one lucky switch. `cargo bench --bench hunting` measures all of them; the bounds here are
//! far above what it shows, since where threads stand when they are switched depends on the processor's string functions.

use super::place::Place;

/// Must be found within so many schedules, and its recording replay exactly.
#[track_caller]
fn finds(exhibit: &str, schedules: &str, expected: &str) {
    let place = Place::exhibit("finds", exhibit);
    let (status, text) = place.search(&["-n", schedules]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.starts_with(expected), "{text}");
    place.verify();
}

/// Only the last of twenty blocks is the guilty one: a thread is kept from its access until nobody else can run, again and
/// again.
#[test]
fn a_condition_that_is_torn_down_before_the_last_signal() {
    finds("pbzip2_condition", "300", "SIGSEGV in consumer");
}

/// The threads that are left yield for ever, and none comes to the end of a quantum.
#[test]
fn a_loop_of_yields_that_never_ends() {
    finds("mozilla_shutdown", "300", "hang in ");
}

#[test]
fn two_sections_of_two_threads_in_opposite_orders() {
    finds("mysql_table_log", "400", "exit status 1");
}

/// The control group: turns of any length, without points, tear nothing.
#[test]
fn round_robin_does_not_find_it() {
    let place = Place::exhibit("control", "mysql_table_log");
    let (status, text) = place.search(&["-n", "30", "--policy", "round-robin"]);
    assert_eq!(status, Some(0), "{text}");
}

/// Both threads spin until the other one has come on: schedules in which one of them waits for ever would be no failures of the
/// program's.
#[test]
fn threads_that_wait_for_each_other_by_spinning_come_to_an_end() {
    let place = Place::exhibit("spinning", "calm_ring_buffer");
    for policy in ["pos", "rff", "delay", "pct", "random"] {
        let (status, text) = place.search(&["-n", "10", "--policy", policy]);
        assert_eq!(status, Some(0), "{policy}: {text}");
        assert!(!text.contains("Given up"), "{policy}: {text}");
    }
}
