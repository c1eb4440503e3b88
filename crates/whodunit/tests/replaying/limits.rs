//! A recording that may not go on stops; the program does not.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::place::{Place, guest, text, told};
use crate::support::execute::{Ending, Outcome};

const STEPS: &str = "300";

/// A run of `steady` under `record`, with options and perhaps words before.
fn record_steady(place: &Place, before: &str, options: &[&str]) -> Outcome {
    let mut command = place.command("/bin/sh");
    command
        .arg("-c")
        .arg(format!("{before} exec \"$@\""))
        .arg("sh")
        .arg(crate::support::whodunit_binary())
        .args(["record", "-o"])
        .arg(place.path("recording"))
        .args(options)
        .arg("--")
        .arg(guest("steady").program)
        .arg(STEPS);
    place.finish(&mut command)
}

fn native_steady(place: &Place) -> Outcome {
    place.finish(place.command(guest("steady").program).arg(STEPS))
}

/// The program ran to its end as ever, and one line says why the recording did not.
#[track_caller]
fn check_went_on(recorded: &Outcome, native: &Outcome, why: &str) {
    assert_eq!(native.ending, Ending::Exited(7), "{}", told(native));
    assert_eq!(recorded.ending, native.ending, "{}", told(recorded));
    assert_eq!(text(&recorded.stdout), text(&native.stdout));
    let said = text(&recorded.stderr);
    assert!(said.starts_with("whodunit: ") && said.contains(why) && said.lines().count() == 1, "{said}");
}

/// What was recorded until then is replayed, and shows the beginning of the program's output.
#[track_caller]
fn check_beginning(place: &Place, output: &[u8]) {
    let recording = place.path("recording");
    assert_eq!(place.not_verified(&recording), None);
    let replayed = place.replay(&recording);
    assert_eq!(replayed.ending, Ending::Exited(0), "{}", told(&replayed));
    assert!(output.starts_with(&replayed.stdout), "{}", told(&replayed));
    assert!(replayed.stdout.len() < output.len(), "all of the program was recorded");
}

fn size_of(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn max_size_stops_the_recording() {
    let place = Place::new("max-size");
    let native = native_steady(&place);
    let recorded = record_steady(&place, "", &["--max-size", "100K"]);
    check_went_on(&recorded, &native, "--max-size");
    check_beginning(&place, &native.stdout);
    // The limit is looked at now and then, and what is not in the log yet fits into a tail.
    let size = size_of(&place.path("recording"));
    assert!(size < (100 << 10) + 2 * trace::format::TAIL_SIZE as u64, "{size}");
}

/// The program may also be stopped together with its recording.
#[track_caller]
fn check_stopped(before: &str, options: &[&str]) {
    let place = Place::new("stopped");
    let native = native_steady(&place);
    let recorded = record_steady(&place, before, &[options, &["--on-full", "stop"]].concat());
    assert_eq!(recorded.ending, Ending::Exited(3), "{}", told(&recorded));
    assert!(native.stdout.starts_with(&recorded.stdout) && recorded.stdout.len() < native.stdout.len());
    let said = text(&recorded.stderr);
    assert!(said.contains("the program is stopped (--on-full)") && said.lines().count() == 1, "{said}");
    check_beginning(&place, &native.stdout);
}

#[test]
fn max_size_stops_the_program_if_that_is_wanted() {
    check_stopped("", &["--max-size", "100K"]);
}

#[test]
fn a_full_disk_stops_the_program_if_that_is_wanted() {
    check_stopped("ulimit -S -f 3000;", &[]);
}

#[test]
fn max_time_stops_the_recording() {
    let place = Place::new("max-time");
    let recording = place.path("recording");
    let mut command = place.whodunit([OsStr::new("record"), OsStr::new("-o"), recording.as_os_str()]);
    command.args(["--max-time", "1", "--"]).arg(guest("patient").program).arg("2500");
    let recorded = place.finish(&mut command);
    assert_eq!((recorded.ending, &*text(&recorded.stdout)), (Ending::Exited(4), "begun\ndone\n"));
    let said = text(&recorded.stderr);
    assert!(said.contains("--max-time") && said.lines().count() == 1, "{said}");
    check_beginning(&place, &recorded.stdout);
}

/// A limit on the size of files stands for a full disk: the log cannot grow beyond it, and the tail, whose space is
/// taken at the start, still can be written. (Shells count in units of 512 bytes.)
fn check_full_disk(before: &str) {
    let place = Place::new("full");
    let native = native_steady(&place);
    let recorded = record_steady(&place, &format!("{before} ulimit -S -f 3000;"), &[]);
    check_went_on(&recorded, &native, "the recording cannot be written");
    check_beginning(&place, &native.stdout);
}

#[test]
fn a_full_disk_stops_the_recording() {
    check_full_disk("trap '' XFSZ;");
}

#[test]
fn the_program_does_not_die_of_the_recorders_limit() {
    check_full_disk("");
}

/// Not even the tail's space is there: nothing is started, since nothing could be recorded.
fn check_no_room(before: &str) {
    let place = Place::new("no-room");
    let refused = record_steady(&place, &format!("{before} ulimit -S -f 100;"), &[]);
    assert_eq!((refused.ending, &*text(&refused.stdout)), (Ending::Exited(3), ""), "{}", told(&refused));
    let said = text(&refused.stderr);
    assert!(said.starts_with("whodunit: ") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_disk_without_any_room_is_refused() {
    check_no_room("trap '' XFSZ;");
}

#[test]
fn no_room_is_said_and_not_died_of() {
    check_no_room("");
}
