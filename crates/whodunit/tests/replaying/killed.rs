//! A recorder that is killed at any moment leaves a recording that replays to its last whole event.
//!
//! The moments are chosen by seeds: after so many lines of output, or when the log or what the tail holds has grown to
//! so many bytes. The condition is polled for, and the recorder killed by its process id.

use std::fs::{self, File};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use super::place::{Place, Seeded, guest, text, told};
use crate::support::build::Built;
use crate::support::execute::Ending;

/// More than any killed run gets to.
const STEPS: &str = "100000000";
const MOMENTS_PER_TEST: u64 = 10;
/// Only a hang takes as long as this.
const PATIENCE: Duration = Duration::from_secs(60);

/// When to kill.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Lines(usize),
    /// The log on disk has this many bytes: around this, chunks move from the tail to the log.
    LogBytes(u64),
    /// The tail holds frames up to this byte, early in the program's life.
    TailBytes(usize),
}

impl Moment {
    fn of(seed: u64) -> Moment {
        let mut seeded = Seeded::new(seed);
        let kind = seed % 3;
        match kind {
            0 => Moment::Lines(seeded.below(150) as usize),
            1 => Moment::LogBytes(64 + seeded.below(3 << 20)),
            _ => Moment::TailBytes(192 + seeded.below(900 << 10) as usize),
        }
    }

    fn has_come(self, output: &Path, recording: &Path) -> bool {
        match self {
            Moment::Lines(least) => n_lines(output) >= least,
            Moment::LogBytes(least) => fs::metadata(recording.join("1.log")).is_ok_and(|log| log.len() >= least),
            // A tail begins empty, and what was there once is not cleared: these bytes are not zero any more.
            Moment::TailBytes(at) => fs::read(recording.join("1.tail"))
                .is_ok_and(|tail| tail.get(at - 64..at).is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0))),
        }
    }
}

fn n_lines(output: &Path) -> usize {
    fs::read(output).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
}

/// Kills the recorder when the moment comes, and tells what the program had written by then.
fn kill_at(moment: Moment, place: &Place, steady: &Built, recording: &Path) -> String {
    let output = place.path("seen");
    let mut command = place.whodunit(["record", "-o"]);
    command.arg(recording).arg("--").arg(&steady.program).arg(STEPS).stdout(File::create(&output).unwrap());
    let mut recorder = command.spawn().unwrap();
    wait_for(moment, &mut recorder, &output, recording);
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    text(&fs::read(&output).unwrap())
}

fn wait_for(moment: Moment, recorder: &mut Child, output: &Path, recording: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while !moment.has_come(output, recording) {
        let ended = recorder.try_wait().unwrap();
        assert!(ended.is_none(), "the program ended before {moment:?}: {ended:?}");
        if Instant::now() > deadline {
            let _ = recorder.kill();
            panic!("{moment:?} does not come");
        }
        std::thread::yield_now();
    }
}

/// The events that are there must be replayed, every one of them.
fn check_moment(seed: u64, steady: &Built) {
    let place = Place::new("killed");
    let recording = place.path("recording");
    let moment = Moment::of(seed);
    let seen = kill_at(moment, &place, steady, &recording);
    let Some(n_events) = whole_events(&recording) else {
        // Killed before the first event: that is said, and nothing else happens.
        let outcome = place.replay(&recording);
        assert_eq!(outcome.ending, Ending::Exited(3), "{moment:?}: {}", told(&outcome));
        return;
    };
    let problem = place.not_verified(&recording);
    assert_eq!(problem, None, "seed {seed}, {moment:?}");
    let replayed = place.replay(&recording);
    let what = || format!("seed {seed}, {moment:?}, {n_events} events: {}", told(&replayed));
    assert_eq!(replayed.ending, Ending::Exited(0), "{}", what());
    let said = text(&replayed.stderr);
    assert!(said.contains("the recording ends here, after event "), "{}", what());
    assert_eq!(number_in(&said), Some(n_events), "{}", what());
    let shown = text(&replayed.stdout);
    // The last write may have been made and not yet written down, or the other way round.
    let (n_seen, n_shown) = (seen.lines().count(), shown.lines().count());
    assert!(n_seen.abs_diff(n_shown) <= 1, "{n_seen} lines were seen: {}", what());
    let complete = place.finish(place.command(&steady.program).arg(n_shown.to_string()));
    assert_eq!(complete.ending, Ending::Exited(7));
    assert_eq!(shown, text(&complete.stdout), "seed {seed}, {moment:?}");
}

/// How many events are there, unless there is not even a first.
fn whole_events(recording: &Path) -> Option<u64> {
    let log = trace::Recording::open(recording).and_then(|recording| recording.log(1)).ok()?;
    let (n_events, ending) = log.check();
    assert_eq!(ending, trace::Ending::Cut);
    (n_events > 0).then_some(n_events)
}

fn number_in(said: &str) -> Option<u64> {
    let digits = said.split_once("after event ")?.1;
    digits[..digits.find(|character: char| !character.is_ascii_digit())?].parse().ok()
}

/// Where the frames of a tail begin; see `docs/format.md`.
const FRAMES: usize = 128;

/// The places of the frames of a tail.
fn frames(tail: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut at = FRAMES;
    while let Some(word) = tail.get(at..at + 4) {
        let length = u32::from_le_bytes(word.try_into().unwrap()) as usize;
        if length == 0 {
            break;
        }
        places.push(at);
        at += 8 + length.next_multiple_of(8);
    }
    places
}

/// A recording that ends after any of its events, one after the other.
#[test]
fn cut_behind_every_event() {
    let place = Place::new("cut");
    let (recording, tail) = (place.path("recording"), place.path("recording").join("1.tail"));
    let mut command = place.whodunit(["record", "-o"]);
    command.arg(&recording).args([
        "--",
        "/bin/dash",
        "-c",
        // A child sends the last signal: one that the program sends itself is written down as its end.
        "echo one; trap : USR1; kill -USR1 $$; echo two; (kill -9 $$); echo three",
    ]);
    assert_eq!(place.finish(&mut command).ending, Ending::Killed(9));
    let whole = fs::read(&tail).unwrap();
    let places = frames(&whole);
    assert!(places.len() > 50, "{} events", places.len());
    for (n_events, at) in places.iter().copied().enumerate().skip(1) {
        let mut bytes = whole.clone();
        bytes[at..at + 8].fill(0);
        fs::write(&tail, bytes).unwrap();
        let replayed = place.replay(&recording);
        let said = text(&replayed.stderr);
        let expected = (Ending::Exited(0), Some(n_events as u64));
        assert_eq!((replayed.ending, number_in(&said)), expected, "{n_events} events: {}", told(&replayed));
        assert!("one\ntwo\n".starts_with(&text(&replayed.stdout)));
    }
}

fn moments(first: u64) {
    let steady = guest("steady");
    for seed in first..first + MOMENTS_PER_TEST {
        check_moment(seed, &steady);
    }
}

#[test]
fn killed_at_any_moment_1() {
    moments(0);
}

#[test]
fn killed_at_any_moment_2() {
    moments(10);
}

#[test]
fn killed_at_any_moment_3() {
    moments(20);
}

#[test]
fn killed_at_any_moment_4() {
    moments(30);
}

#[test]
fn killed_at_any_moment_5() {
    moments(40);
}
