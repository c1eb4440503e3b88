//! Owns a temporary folder of a test, with a store of recordings in it, and runs `whodunit` there.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::build::{self, Built};
use crate::support::execute::{self, Ending, Outcome, Scratch};
use crate::support::spec::Spec;
use crate::support::{compare, whodunit_binary};

/// Only a hang takes as long as this.
const PATIENCE: Duration = Duration::from_secs(100);

/// The status of a whodunit that found a fault in itself.
const BUG: i32 = 70;

pub struct Place {
    scratch: Scratch,
}

impl Place {
    pub fn new(name: &str) -> Place {
        let place = Place { scratch: Scratch::named(name).unwrap_or_else(|problem| panic!("{problem}")) };
        for folder in ["store", "elsewhere"] {
            fs::create_dir(place.path(folder)).unwrap();
        }
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path(name)
    }

    /// A command in an environment that does not depend on who runs the tests, without any input.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LC_ALL", "C")
            .env("WHODUNIT_DIR", self.path("store"))
            .current_dir(self.path("elsewhere"))
            .stdin(Stdio::null());
        command
    }

    pub fn whodunit<Word: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = Word>) -> Command {
        let mut command = self.command(whodunit_binary());
        command.args(words);
        command
    }

    /// Runs a command to its end, which is never one that a fault of whodunit's own makes.
    #[track_caller]
    pub fn finish(&self, command: &mut Command) -> Outcome {
        let outcome = execute::command(&self.scratch, command, PATIENCE).unwrap_or_else(|problem| panic!("{problem}"));
        let is_broken = outcome.ending == Ending::Exited(BUG) || matches!(outcome.ending, Ending::TimedOut(_));
        assert!(!is_broken, "{command:?}: {}", told(&outcome));
        outcome
    }

    /// Replays from a folder that has nothing to do with the recording.
    #[track_caller]
    pub fn replay(&self, recording: &Path) -> Outcome {
        self.finish(self.whodunit(["replay", "--no-report"]).arg(recording))
    }

    /// Nothing, or what `verify` says of processes that are not as recorded.
    #[track_caller]
    pub fn not_verified(&self, recording: &Path) -> Option<String> {
        let outcome = self.finish(self.whodunit(["verify"]).arg(recording));
        let is_right = is_verified(recording, &outcome);
        (!is_right).then(|| format!("  verify, {} logs: {}", logs(recording), told(&outcome)))
    }
}

/// Whether `verify` says of every process that it is as recorded, or was ended before its first event.
pub fn is_verified(recording: &Path, verify: &Outcome) -> bool {
    let said = text(&verify.stdout);
    let count = |words: &str| said.lines().filter(|line| line.contains(words)).count();
    let n_right = count(": as recorded: ");
    n_right > 0 && n_right + count(": nothing was recorded: ") == logs(recording) && verify.ending == Ending::Exited(0)
}

/// How many process images a recording has.
pub fn logs(recording: &Path) -> usize {
    let entries = fs::read_dir(recording).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    entries.iter().filter(|entry| entry.path().extension() == Some(OsStr::new("log"))).count()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All of an outcome, for a person.
pub fn told(outcome: &Outcome) -> String {
    let (stdout, stderr) = (text(&outcome.stdout), text(&outcome.stderr));
    format!("{}\n--- stdout\n{stdout}\n--- stderr\n{stderr}", compare::describe(outcome.ending))
}

/// One of the programs in `replaying/guests`, which are only for here.
pub fn guest(name: &str) -> Built {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replaying/guests").join(format!("{name}.c"));
    Spec::read(&source).and_then(|spec| build::build(&spec)).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Numbers that look random and are the same in every run of a test.
pub struct Seeded(u64);

impl Seeded {
    pub fn new(seed: u64) -> Seeded {
        Seeded(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1))
    }

    /// Below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
