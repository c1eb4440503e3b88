//! Recordings that are missing, damaged or of another whodunit, and places where none can be made.
//!
//! Whatever the bytes are, whodunit says in a line what is wrong or shows what is there up to the damage; it never
//! fails itself ([`Place::finish`] sees to that).

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::place::{Place, Seeded, guest, text, told};
use crate::support::execute::{Ending, Outcome};
use crate::support::{build, spec};

/// Many chunks of log.
const STEPS: &str = "150";

/// One line of whodunit's, with status 3, and nothing on standard output.
#[track_caller]
fn check_refused(outcome: &Outcome, words: &str) {
    let said = text(&outcome.stderr);
    assert_eq!((outcome.ending, &*text(&outcome.stdout)), (Ending::Exited(3), ""), "{}", told(outcome));
    assert!(said.starts_with("whodunit: ") && said.lines().count() == 1, "{said}");
    assert!(said.contains(words), "`{words}` is not in: {said}");
}

#[track_caller]
fn check_both_refuse(place: &Place, recording: impl AsRef<OsStr>, words: &str) {
    for verb in ["replay", "verify"] {
        check_refused(&place.finish(place.whodunit([verb]).arg(recording.as_ref())), words);
    }
}

/// A recording of `steady`, and what it wrote.
fn steady_recording(place: &Place, steps: &str) -> (PathBuf, Vec<u8>) {
    let recording = place.path("recording");
    let mut command = place.whodunit(["record", "-o"]);
    command.arg(&recording).arg("--").arg(guest("steady").program).arg(steps);
    let recorded = place.finish(&mut command);
    assert_eq!(recorded.ending, Ending::Exited(7), "{}", told(&recorded));
    (recording, recorded.stdout)
}

#[test]
fn missing_recordings() {
    let place = Place::new("missing");
    check_both_refuse(&place, "never-recorded", "never-recorded");
    check_both_refuse(&place, "latest", "latest");
    check_both_refuse(&place, place.path("nowhere"), "does not exist");
    fs::create_dir(place.path("empty")).unwrap();
    check_both_refuse(&place, place.path("empty"), "is empty");
    fs::write(place.path("file"), "text").unwrap();
    check_both_refuse(&place, place.path("file"), "name the folder");
    fs::create_dir(place.path("other")).unwrap();
    fs::write(place.path("other").join("1.log"), "not a log, but long enough to have a header of sixty-four bytes")
        .unwrap();
    check_both_refuse(&place, place.path("other"), "is not a recording");
}

#[test]
fn a_process_that_is_not_there() {
    let place = Place::new("process");
    let (recording, _) = steady_recording(&place, "1");
    let outcome = place.finish(place.whodunit(["replay", "--process", "99"]).arg(recording));
    check_refused(&outcome, "99");
}

/// The log of a child that was killed before its first event.
#[test]
fn an_empty_log_of_a_child() {
    let place = Place::new("child");
    let (recording, _) = steady_recording(&place, "1");
    fs::write(recording.join("2.log"), "").unwrap();
    let verified = place.finish(place.whodunit(["verify"]).arg(recording));
    assert_eq!(verified.ending, Ending::Exited(0), "{}", told(&verified));
    assert!(text(&verified.stdout).contains("process 2: nothing was recorded"), "{}", told(&verified));
}

/// Damaged or cut, a recording is replayed up to there, or refused.
#[track_caller]
fn check_holds(place: &Place, recording: &Path, complete: &[u8], what: &str) {
    let replayed = place.replay(recording);
    let is_known = [0, 3, 7].map(Ending::Exited).contains(&replayed.ending);
    assert!(is_known, "{what}: {}", told(&replayed));
    assert!(complete.starts_with(&replayed.stdout), "{what}: {}", told(&replayed));
    let is_complete = replayed.ending == Ending::Exited(7);
    assert_eq!(is_complete, complete == replayed.stdout && replayed.stderr.is_empty(), "{what}: {}", told(&replayed));
    let verified = place.finish(place.whodunit(["verify"]).arg(recording));
    assert!([0, 1, 3].map(Ending::Exited).contains(&verified.ending), "{what}: {}", told(&verified));
}

#[test]
fn truncated_logs() {
    let place = Place::new("truncated");
    let (recording, complete) = steady_recording(&place, STEPS);
    let log = recording.join("1.log");
    let whole = fs::read(&log).unwrap();
    let mut seeded = Seeded::new(1);
    let random = (0..10).map(|_| seeded.below(whole.len() as u64) as usize);
    for length in [0, 1, 63, 64, 65, 112, whole.len() - 1].into_iter().chain(random) {
        fs::write(&log, &whole[..length]).unwrap();
        check_holds(&place, &recording, &complete, &format!("{length} of {} bytes", whole.len()));
    }
    fs::write(&log, whole).unwrap();
    assert_eq!(place.not_verified(&recording), None);
}

#[test]
fn flipped_bits_of_logs() {
    let place = Place::new("flipped");
    let (recording, complete) = steady_recording(&place, STEPS);
    let log = recording.join("1.log");
    let whole = fs::read(&log).unwrap();
    let mut seeded = Seeded::new(2);
    let headers = (0..6).map(|at| at * 19);
    let random: Vec<u64> = (0..14).map(|_| seeded.below(whole.len() as u64)).collect();
    for at in headers.chain(random) {
        let mut bytes = whole.clone();
        bytes[at as usize] ^= 1 << seeded.below(8);
        fs::write(&log, bytes).unwrap();
        check_holds(&place, &recording, &complete, &format!("a bit of byte {at} of {}", whole.len()));
    }
}

/// The tail of a recorder that did not come to seal its log.
#[test]
fn flipped_bits_of_tails() {
    let place = Place::new("tail");
    let (recording, tail) = (place.path("recording"), place.path("recording").join("1.tail"));
    let mut command = place.whodunit(["record", "-o"]);
    command.arg(&recording).arg("--").args([
        "/bin/sh",
        "-c",
        "for i in 1 2 3 4; do echo line $i; done; (kill -9 $$); :",
    ]);
    let recorded = place.finish(&mut command);
    assert_eq!((recorded.ending, &*text(&recorded.stdout)), (Ending::Killed(9), "line 1\nline 2\nline 3\nline 4\n"));
    let whole = fs::read(&tail).expect("a killed recorder leaves its tail");
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    let mut seeded = Seeded::new(3);
    for round in 0..20 {
        let at = if round < 6 { round * 25 } else { seeded.below(used) };
        let mut bytes = whole.clone();
        bytes[at as usize] ^= 1 << seeded.below(8);
        fs::write(&tail, bytes).unwrap();
        let replayed = place.replay(&recording);
        let is_known = replayed.ending == Ending::Killed(9) || [0, 3].map(Ending::Exited).contains(&replayed.ending);
        assert!(is_known && recorded.stdout.starts_with(&replayed.stdout), "byte {at}: {}", told(&replayed));
    }
}

#[test]
fn newer_versions() {
    let place = Place::new("newer");
    let (recording, _) = steady_recording(&place, "1");
    let log = recording.join("1.log");
    let mut bytes = fs::read(&log).unwrap();
    // The major version; no checksum of ours can be expected to be right for what comes later.
    bytes[8] += 1;
    fs::write(&log, bytes).unwrap();
    let format = format!("has format 2.{}", trace::format::VERSION.minor);
    check_both_refuse(&place, &recording, &format);
}

/// A copy of a program of `conformance/` and of its library, in a folder of the place.
fn copy_of(place: &Place, group: &str, name: &str) -> PathBuf {
    let built = spec::find(group, name).and_then(|spec| build::build(&spec)).unwrap();
    let folder = place.path("programs");
    let status = Command::new("cp").arg("-R").arg(built.program.parent().unwrap()).arg(&folder).status();
    assert!(status.unwrap().success());
    folder.join(name)
}

/// A recording of `program` is replayed until `file` is another one or gone, and again when it is back.
fn check_changed(place: &Place, program: &Path, file: &Path) {
    let recording = place.path("recording");
    let mut command = place.whodunit(["record", "-o"]);
    command.arg(&recording).arg("--").arg(program);
    let recorded = place.finish(&mut command);
    let as_ever = |place: &Place| assert_eq!(place.replay(&recording), recorded);
    as_ever(place);
    let (bytes, permissions) = (fs::read(file).unwrap(), fs::metadata(file).unwrap().permissions());
    let name = file.file_name().unwrap().to_string_lossy();
    fs::write(file, [&bytes[..], b"!"].concat()).unwrap();
    check_refused(&place.replay(&recording), &format!("{name} has changed since the recording was made"));
    check_not_verified(place, &recording, "has changed since");
    fs::remove_file(file).unwrap();
    check_refused(&place.replay(&recording), &format!("{name}, which the program had mapped, cannot be opened"));
    check_not_verified(place, &recording, "cannot be opened");
    fs::write(file, &bytes).unwrap();
    fs::set_permissions(file, permissions).unwrap();
    as_ever(place);
}

fn check_not_verified(place: &Place, recording: &Path, words: &str) {
    let outcome = place.finish(place.whodunit(["verify"]).arg(recording));
    assert!([1, 3].map(Ending::Exited).contains(&outcome.ending), "{}", told(&outcome));
    assert!(text(&outcome.stdout).contains(words), "{}", told(&outcome));
}

#[test]
fn changed_programs() {
    let place = Place::new("changed");
    let program = copy_of(&place, "elf", "pie");
    check_changed(&place, &program, &program);
}

#[test]
fn changed_libraries() {
    let place = Place::new("changed");
    let program = copy_of(&place, "unwind", "exceptions_library");
    check_changed(&place, &program, &program.with_file_name("exceptions_library-lib.so"));
}

#[test]
fn places_where_no_recording_can_be_made() {
    let place = Place::new("output");
    fs::write(place.path("file"), "text").unwrap();
    fs::create_dir(place.path("occupied")).unwrap();
    fs::write(place.path("occupied").join("something"), "text").unwrap();
    let (recording, _) = steady_recording(&place, "1");
    let under_proc = PathBuf::from("/proc/no-such-folder");
    for output in [place.path("file"), place.path("file/below"), under_proc, place.path("occupied"), recording] {
        let mut command = place.whodunit(["record", "-o"]);
        command.arg(&output).args(["--", "/bin/echo", "must not run"]);
        check_refused(&place.finish(&mut command), &output.to_string_lossy());
    }
    assert_eq!(fs::read_to_string(place.path("file")).unwrap(), "text");
    assert_eq!(fs::read_dir(place.path("occupied")).unwrap().count(), 1);
}

#[test]
fn an_empty_folder_may_be_used() {
    let place = Place::new("output");
    fs::create_dir(place.path("empty")).unwrap();
    let mut command = place.whodunit(["record", "-o"]);
    command.arg(place.path("empty")).args(["--", "/bin/echo", "recorded"]);
    assert_eq!(text(&place.finish(&mut command).stdout), "recorded\n");
    assert_eq!(text(&place.replay(&place.path("empty")).stdout), "recorded\n");
}

#[test]
fn without_a_home_there_is_no_store() {
    let place = Place::new("homeless");
    for words in [&["record", "--", "/bin/true"][..], &["replay", "latest"], &["verify", "latest"]] {
        check_refused(&place.finish(place.whodunit(words).env_remove("WHODUNIT_DIR")), "WHODUNIT_DIR");
    }
}
