//! Where a hunt takes place: a folder in memory, with a folder for each schedule under way.

use super::failure::{self, Failure};
use super::order::{Answer, Ended, Order, Tactic, read_points};
use super::runner::Runner;
use crate::{faults, status};
use sched::{Course, FaultKinds};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

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
    /// What is made to go wrong in it.
    pub faults: FaultKinds,
}

/// A schedule to try.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    pub number: u64,
    pub seed: u64,
    pub tactic: Tactic,
    pub observe: bool,
    /// Whether it matters where it crashes, if it does.
    pub tells_places: bool,
    pub patience: u64,
    /// How long it may take, which only tells that it waits for something that never comes.
    pub limit: Duration,
}

/// What came of it.
pub struct Run {
    pub trial: Trial,
    pub answer: Answer,
    pub failure: Option<Failure>,
    /// It was given up.
    pub is_slow: bool,
    pub took: Duration,
}

pub struct Ground {
    folder: PathBuf,
    own: PathBuf,
    quarry: Quarry,
    stop: &'static AtomicBool,
    /// How many stems there were, and whether they are of use for this program.
    stems: AtomicU64,
    has_stems: AtomicBool,
}

/// Why there is no outcome.
pub enum NoRun {
    /// The user wants to stop.
    Stopped,
    /// A sentence for the user.
    Refused(String),
    /// The program could not be started: the same, with the status that `whodunit run` has then.
    NotStarted(String, i32),
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
        let has_stems = quarry.faults.is_empty();
        let ground = Ground {
            folder,
            own: std::env::current_exe()?,
            quarry,
            stop,
            stems: AtomicU64::new(0),
            // Faults strike from the beginning, and others under each seed.
            has_stems: AtomicBool::new(has_stems),
        };
        ground.set_points(std::iter::empty())?;
        Ok(ground)
    }

    fn points_file(&self) -> PathBuf {
        self.folder.join("points")
    }

    /// From now on, these are the points. No run may be under way.
    pub fn set_points(&self, points: impl Iterator<Item = u64>) -> io::Result<()> {
        let lines: String = points.map(|address| format!("{address:x}\n")).collect();
        fs::write(self.points_file(), lines)
    }

    pub fn points(&self) -> Result<BTreeSet<u64>, String> {
        read_points(&self.points_file())
    }

    fn place_of(&self, number: u64) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// Whether runs may differ though there is but one thread.
    pub fn has_faults(&self) -> bool {
        !self.quarry.faults.is_empty()
    }

    /// The recording of a run that was kept.
    pub fn recording_of(&self, number: u64) -> PathBuf {
        self.place_of(number).join("recording")
    }

    /// What a run that failed had to say.
    pub fn answer_of(&self, number: u64) -> Answer {
        let text = fs::read(answer_file(&self.place_of(number))).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Forgets a run.
    pub fn clear(&self, number: u64) {
        let _ = fs::remove_dir_all(self.place_of(number));
    }

    /// A process that can run schedules.
    pub fn runner(&self) -> io::Result<Runner> {
        Runner::start(&self.own, &self.quarry.path, &self.quarry.arguments)
    }

    /// A process that has run the program up to its second thread already, if that can be done; such trials as this one are
    /// to come.
    pub fn stem(&self, trial: Trial) -> io::Result<Runner> {
        if self.has_stems.load(Ordering::Relaxed) {
            let place = self.folder.join(format!("stem-{}", self.stems.fetch_add(1, Ordering::Relaxed)));
            fs::create_dir(&place)?;
            let mut runner = self.runner()?;
            if runner.prepare(self.order(trial, &place), self.stop)? {
                return Ok(runner);
            }
            self.has_stems.store(false, Ordering::Relaxed);
        }
        self.runner()
    }

    /// Runs one schedule. What it leaves stays only if it failed.
    pub fn run(&self, runner: &mut Runner, trial: Trial) -> Result<Run, NoRun> {
        let run = self.run_and_keep(runner, trial);
        self.keep_failure(trial, run)
    }

    /// The same; what it leaves stays in any case.
    pub fn run_and_keep(&self, runner: &mut Runner, trial: Trial) -> Result<Run, NoRun> {
        let place = self.place_of(trial.number);
        fs::create_dir(&place)?;
        self.run_in(runner, trial, &self.order(trial, &place), &place)
    }

    /// Runs one schedule with the choices of a course instead of the tactic's.
    pub fn follow(&self, runner: &mut Runner, trial: Trial, course: &Course) -> Result<Run, NoRun> {
        let place = self.place_of(trial.number);
        fs::create_dir(&place)?;
        let path = place.join("course");
        fs::write(&path, serde_json::to_vec(course).map_err(io::Error::from)?)?;
        let order = Order { course: Some(path), ..self.order(trial, &place) };
        let run = self.run_in(runner, trial, &order, &place);
        self.keep_failure(trial, run)
    }

    fn keep_failure(&self, trial: Trial, run: Result<Run, NoRun>) -> Result<Run, NoRun> {
        if !run.as_ref().is_ok_and(|run| run.failure.is_some()) {
            self.clear(trial.number);
        }
        run
    }

    fn run_in(&self, runner: &mut Runner, trial: Trial, order: &Order, place: &Path) -> Result<Run, NoRun> {
        let began = Instant::now();
        let Some(ended) = runner.run(order, self.stop)? else { return Err(NoRun::Stopped) };
        let took = began.elapsed();
        let answer: Option<Answer> = fs::read(&order.answer).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if let (None, Some(said)) = (&answer, own_words(place)) {
            let status = if let Ended::Exited(status) = ended { status } else { i32::from(status::MACHINE) };
            return Err(NoRun::NotStarted(said, status));
        }
        let answer = answer.unwrap_or_default();
        let is_slow = ended == Ended::Slow;
        let failure = failure::judge(ended, &answer).or_else(|| if is_slow { None } else { self.check(place) });
        Ok(Run { trial, answer, failure, is_slow, took })
    }

    fn order(&self, trial: Trial, place: &Path) -> Order {
        // The ordinary run shows what the program does by itself.
        let faults = if trial.tactic == Tactic::Ordinary { FaultKinds::default() } else { self.quarry.faults };
        Order {
            seed: trial.seed,
            tactic: trial.tactic,
            course: None,
            points: self.points_file(),
            observe: trial.observe,
            tells_places: trial.tells_places,
            patience: trial.patience,
            recording: place.join("recording"),
            answer: answer_file(place),
            input: self.quarry.input.clone().unwrap_or_else(|| PathBuf::from("/dev/null")),
            output: output_file(place),
            errors: errors_file(place),
            limit: u64::try_from(trial.limit.as_millis()).unwrap_or(u64::MAX),
            faults: faults::encode(faults),
        }
    }

    /// Whether the user's checks say that a run has failed which ended well and wrote this.
    pub fn fails_with(&self, number: u64, output: &[u8]) -> io::Result<bool> {
        let place = self.place_of(number);
        fs::create_dir_all(&place)?;
        fs::write(output_file(&place), output)?;
        let failure = self.check(&place);
        self.clear(number);
        Ok(failure.is_some())
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

fn answer_file(place: &Path) -> PathBuf {
    place.join("answer")
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
