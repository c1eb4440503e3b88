//! Schedules that begin as copies of a process which has come to the program's second thread, and programs that cannot be
//! copied there.

use super::place::Place;
use std::fs;

/// Has schedules run until the fourth, which is kept, and reads the program's output.
#[track_caller]
fn fourth(place: &Place, words: &[&str]) -> String {
    let check = "cat > last; echo >> runs; test $(wc -l < runs) = 5";
    let (status, text) = place.search(&[&["-n", "4", "-j", "1", "--fail-if", check], words].concat());
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("first in schedule 4 "), "{text}");
    place.verify();
    fs::read_to_string(place.folder.join("last")).unwrap()
}

/// What was written before the copy was made is part of the copy's output, once.
#[test]
fn output_before_the_second_thread_is_in_every_schedule() {
    let place = Place::new("stem-output", "early");
    assert_eq!(fourth(&place, &[]), "before\nnumbers agree\nafter\n");
    let replayed = place.whodunit(&["replay", "latest"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&replayed.stdout), "before\nnumbers agree\nafter\n");
}

/// The recording says how the schedule came about, not how the process began that it is a copy of.
#[test]
fn a_copy_has_its_own_seed_and_policy() {
    let place = Place::new("stem-facts", "early");
    fourth(&place, &["--policy", "pos", "--seed", "70"]);
    let shown = place.whodunit(&["show", "latest"]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("73") && shown.contains("pos"), "{shown}");
}

/// A program that has read some of its input, or knows its own number, gets a process of its own for every schedule.
#[test]
fn a_program_that_cannot_be_copied_starts_anew_each_time() {
    let place = Place::new("stem-bound", "bound");
    fs::write(place.folder.join("input"), "one\ntwo\n").unwrap();
    assert_eq!(fourth(&place, &["--stdin", "input"]), "one two\n");
}
