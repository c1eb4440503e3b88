//! Programs that cannot be hunted, and hunts that are asked for wrongly or ended early.

use super::place::{Place, told};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn a_program_without_threads() {
    let place = Place::empty("single");
    let (status, text) = told(&place.whodunit(&["hunt", "--", "true"]).output().unwrap());
    assert_eq!(status, Some(3), "{text}");
    assert!(text.contains("starts no threads"), "{text}");
}

#[test]
fn a_program_that_is_not_there() {
    let place = Place::empty("absent");
    let (status, text) = told(&place.whodunit(&["hunt", "--", "./absent"]).output().unwrap());
    assert_eq!(status, Some(127), "{text}");
    let path = place.folder.join("text");
    fs::write(&path, "no program").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let (status, text) = told(&place.whodunit(&["hunt", "--", "./text"]).output().unwrap());
    assert_eq!(status, Some(126), "{text}");
}

#[test]
fn files_that_are_not_there() {
    let place = Place::new("files", "sound");
    for option in ["--expect-output", "--stdin"] {
        let (status, text) = place.hunt(&[option, "absent"]);
        assert_eq!(status, Some(2), "{text}");
        assert!(text.contains("absent"), "{text}");
    }
}

#[test]
fn a_program_that_always_fails() {
    let place = Place::new("always", "sound");
    let (status, text) = place.hunt(&["--fail-if", "true"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("in the program's ordinary order"), "{text}");
    assert!(text.contains("whodunit hunt --stdin FILE"), "{text}");
}

#[test]
fn a_limit_that_is_too_low_is_a_hang_in_the_ordinary_order() {
    let place = Place::with("low", "conformance/threads/spinning.c");
    let (status, text) = place.hunt(&["--timeout", "1000"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.starts_with("hang") && text.contains("ordinary order"), "{text}");
    place.verify();
}

/// An interrupt ends the hunt, and what it has so far is told.
#[test]
fn an_interrupt_ends_the_hunt() {
    let place = Place::new("interrupt", "sound");
    let mut command = place.whodunit(&["hunt", "-n", "1000000", "--fail-if", "echo >> runs; false", "--", "./guest"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let runs = || fs::read_to_string(place.folder.join("runs")).map_or(0, |text| text.lines().count());
    let deadline = Instant::now() + Duration::from_secs(120);
    while runs() < 3 {
        assert!(Instant::now() < deadline, "no schedule is ever over");
        std::thread::yield_now();
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let (status, text) = told(&child.wait_with_output().unwrap());
    assert_eq!(status, Some(0), "{text}");
    assert!(text.starts_with("Stopped; no failure so far: "), "{text}");
}
