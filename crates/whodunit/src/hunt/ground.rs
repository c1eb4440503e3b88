//! Where a hunt takes place: a folder in memory, and one process for each schedule.

use super::failure::{self, Failure};
use super::order::{Answer, Order, Tactic};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a process that waits for another looks whether the user wants to stop.
const GLANCE: Duration = Duration::from_millis(100);

/// The program, and what is asked of every run of it.
pub struct Quarry {
    pub path: OsString,
    /// Its own name first.
    pub arguments: Vec<OsString>,
    pub input: Option<PathBuf>,
    /// What it must write to standard output.
    pub expected: Option<Vec<u8>>,
    /// A shell command that succeeds if the run has failed.
    pub fail_if: Option<OsString>,
}

/// A schedule to try.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    pub number: u64,
    pub seed: u64,
    pub tactic: Tactic,
    pub observe: bool,
    pub patience: u64,
    /// How long it may take, which only tells that it waits for something that never comes.
    pub limit: Duration,
}

/// What came of it.
pub struct Run {
    pub trial: Trial,
    pub answer: Answer,
    pub failure: Option<Failure>,
    pub took: Duration,
}

pub struct Ground {
    folder: PathBuf,
    own: PathBuf,
    quarry: Quarry,
    stop: &'static AtomicBool,
}

/// Why there is no outcome.
pub enum NoRun {
    /// The user wants to stop.
    Stopped,
    /// A sentence for the user.
    Refused(String),
}

impl From<io::Error> for NoRun {
    fn from(error: io::Error) -> NoRun {
        NoRun::Refused(format!("a schedule cannot be run: {error}"))
    }
}

impl Ground {
    pub fn new(quarry: Quarry, stop: &'static AtomicBool) -> io::Result<Ground> {
        let memory = PathBuf::from("/dev/shm");
        let root = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let name = format!("whodunit-hunt-{}", std::process::id());
        let made = fs::create_dir(root.join(&name)).map(|()| root.join(&name));
        let folder = made.or_else(|_| {
            let folder = std::env::temp_dir().join(&name);
            fs::create_dir(&folder).map(|()| folder)
        })?;
        let ground = Ground { folder, own: std::env::current_exe()?, quarry, stop };
        ground.set_points(&BTreeSet::new())?;
        Ok(ground)
    }

    fn points_file(&self) -> PathBuf {
        self.folder.join("points")
    }

    /// From now on, these are the points. No run may be under way.
    pub fn set_points(&self, points: &BTreeSet<u64>) -> io::Result<()> {
        let lines: String = points.iter().map(|address| format!("{address:x}\n")).collect();
        fs::write(self.points_file(), lines)
    }

    fn place_of(&self, number: u64) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// The recording of a run that failed.
    pub fn recording_of(&self, number: u64) -> PathBuf {
        self.place_of(number).join("recording")
    }

    /// Forgets a run.
    pub fn clear(&self, number: u64) {
        let _ = fs::remove_dir_all(self.place_of(number));
    }

    /// Runs one schedule. What it leaves stays only if it failed.
    pub fn run(&self, trial: Trial) -> Result<Run, NoRun> {
        let place = self.place_of(trial.number);
        fs::create_dir(&place)?;
        let run = self.run_in(trial, &place);
        if !run.as_ref().is_ok_and(|run| run.failure.is_some()) {
            self.clear(trial.number);
        }
        run
    }

    fn run_in(&self, trial: Trial, place: &Path) -> Result<Run, NoRun> {
        let answer_file = place.join("answer");
        File::create(&answer_file)?;
        let order = Order {
            seed: trial.seed,
            tactic: trial.tactic,
            points: self.points_file(),
            observe: trial.observe,
            patience: trial.patience,
            recording: place.join("recording"),
            answer: answer_file.clone(),
        };
        let began = Instant::now();
        let child = self.start(&order, place)?;
        let status = self.wait(child, began + trial.limit)?;
        let answer: Option<Answer> = fs::read(&answer_file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if let (None, Some(said)) = (&answer, own_words(place)) {
            return Err(NoRun::Refused(said));
        }
        let answer = answer.unwrap_or_default();
        let failure = match status {
            None => Some(failure::stuck(trial.limit)),
            Some(status) => failure::judge(status, &answer).or_else(|| self.check(place)),
        };
        Ok(Run { trial, answer, failure, took: began.elapsed() })
    }

    fn start(&self, order: &Order, place: &Path) -> io::Result<Child> {
        let text = serde_json::to_string(order).map_err(io::Error::other)?;
        let input = match &self.quarry.input {
            Some(path) => Stdio::from(File::open(path)?),
            None => Stdio::null(),
        };
        let mut command = Command::new(&self.own);
        command.arg(super::HUNTED_VERB).arg(text).arg(&self.quarry.path).args(&self.quarry.arguments);
        command.stdin(input).stdout(File::create(output_file(place))?).stderr(File::create(errors_file(place))?);
        // The terminal's signals are for the hunt.
        command.process_group(0).spawn()
    }

    /// The status, or none if it took too long.
    fn wait(&self, mut child: Child, deadline: Instant) -> Result<Option<ExitStatus>, NoRun> {
        let pid = Pid::from_child(&child);
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from)?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left.min(GLANCE)).unwrap_or(PollTimeout::ZERO);
            let ended = poll(&mut [PollFd::new(handle.as_fd(), PollFlags::POLLIN)], timeout).unwrap_or(0) > 0;
            if ended {
                return Ok(Some(child.wait()?));
            }
            let stopped = self.stop.load(Ordering::SeqCst);
            if stopped || Instant::now() >= deadline {
                let _ = child.kill();
                child.wait()?;
                return if stopped { Err(NoRun::Stopped) } else { Ok(None) };
            }
        }
    }

    /// What the user wants to be checked of a run that ended well.
    fn check(&self, place: &Path) -> Option<Failure> {
        let output = output_file(place);
        if let Some(expected) = &self.quarry.expected
            && fs::read(&output).ok().as_ref() != Some(expected)
        {
            return Some(failure::other_output());
        }
        let command = self.quarry.fail_if.as_ref()?;
        let input = File::open(&output).ok()?;
        let checked = Command::new("sh").arg("-c").arg(command).stdin(input).stdout(Stdio::null()).status();
        checked.is_ok_and(|status| status.success()).then(|| failure::checked(command))
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn output_file(place: &Path) -> PathBuf {
    place.join("output")
}

fn errors_file(place: &Path) -> PathBuf {
    place.join("errors")
}

/// What whodunit itself said in a run that did not come to the program's start.
fn own_words(place: &Path) -> Option<String> {
    let said = fs::read(errors_file(place)).ok()?;
    let said = String::from_utf8_lossy(&said);
    said.trim_end().strip_prefix("whodunit: ").map(str::to_owned)
}
