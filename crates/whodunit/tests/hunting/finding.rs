//! Bugs of each kind are found and told apart, and nothing is found where nothing is wrong.

use super::place::{Place, told};
use std::fs;

/// The bug must be found within `schedules`, and its recording replay exactly.
#[track_caller]
fn finds(guest: &str, schedules: &str, expected: &[&str]) {
    let place = Place::new(guest, guest);
    let (status, text) = place.search(&["-n", schedules]);
    assert_eq!(status, Some(1), "{text}");
    let first = text.lines().next().unwrap();
    assert!(expected.iter().all(|words| first.contains(words)), "{text}");
    assert!(text.contains("recorded as guest-1") && text.contains("whodunit replay --gdb guest-1"), "{text}");
    place.verify();
}

#[test]
fn a_null_pointer_between_check_and_use() {
    finds("null", "200", &["SIGSEGV in reader (null.c:11)"]);
}

#[test]
fn a_check_and_an_act_under_different_locks() {
    finds("account", "200", &["failed assertion in take (account.c:18)"]);
}

#[test]
fn a_wake_up_that_is_lost() {
    finds("wakeup", "400", &["deadlock", "waiter (wakeup.c:12)"]);
}

#[test]
fn locks_taken_in_opposite_orders() {
    finds("crossed", "200", &["deadlock", "forwards (crossed.c:8)", "backwards (crossed.c:16)"]);
}

#[test]
fn a_thread_that_spins_for_ever() {
    finds("spinner", "200", &["hang in spin (spinner.c:"]);
}

#[test]
fn output_that_differs() {
    let place = Place::new("output", "torn");
    fs::write(place.folder.join("good"), "2\n").unwrap();
    let (status, text) = place.search(&["-n", "200", "--expect-output", "good"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.starts_with("other output than expected"), "{text}");
    place.verify();
    let replayed = place.whodunit(&["replay", "latest"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&replayed.stdout), "1\n");
}

/// The control group: an order of threads that changes at branches alone can never come between the load and the store.
#[test]
fn without_points_the_sum_is_never_torn() {
    let place = Place::new("control", "torn");
    for seed in 0..40 {
        let seed = seed.to_string();
        let words = ["run", "--policy", "random", "--quantum", "2", "--seed", &seed, "--", "./guest"];
        let (status, text) = told(&place.whodunit(&words).output().unwrap());
        assert_eq!((status, text.as_str()), (Some(0), "2\n"), "seed {seed}");
    }
}

#[test]
fn every_policy_finds_the_torn_sum() {
    let place = Place::new("policies", "torn");
    for policy in ["random", "pct", "pos", "rff", "delay"] {
        let (status, text) = place.search(&["-n", "150", "--policy", policy, "--fail-if", "grep -qv 2"]);
        assert_eq!(status, Some(1), "{policy}: {text}");
        assert!(text.starts_with("--fail-if grep -qv 2"), "{policy}: {text}");
        assert!(text.contains(&format!("(policy {policy}, seed ")), "{policy}: {text}");
    }
}

#[test]
fn different_failures_are_told_apart() {
    let place = Place::new("several", "several");
    let (status, text) = place.search(&["-n", "250", "--keep-going", "-o", "found"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("SIGABRT in come (several.c:14)") && text.contains("exit status 3"), "{text}");
    assert!(text.contains("2 different failures found: 250 schedules"), "{text}");
    let mut names: Vec<String> = fs::read_dir(place.folder.join("found"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "latest")
        .collect();
    names.sort();
    assert_eq!(names, ["guest-1", "guest-2"]);
}

#[test]
fn a_sound_program_is_left_alone() {
    let place = Place::new("sound", "sound");
    fs::write(place.folder.join("good"), "9\n").unwrap();
    let (status, text) = place.search(&["-n", "60", "--expect-output", "good"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.starts_with("No failure: 60 schedules in "), "{text}");
    assert!(!place.folder.join("recordings").exists(), "something was recorded");
}
