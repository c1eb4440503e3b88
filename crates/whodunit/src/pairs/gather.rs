//! Getting runs to compare: a hunt until one fails, then schedules until enough have passed.
//!
//! Passing runs come in waves. Once there are a few, a wave that brings no new pair and changes nothing about what is to
//! blame is the last.

use super::hearing::{self, Source};
use super::{Arguments, Case, Gathered, passing_runs};
use crate::hunt::{self, Ground, NoRun, Plan, Quarry, STOP, Tactic, Trial};
use crate::recordings::Trouble;
use crate::{record, search as path, status};
use analysis::pairs::{Runs, Suspect, suspects};
use engine::Program;
use sched::Rng;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use trace::{Recording, Store};

/// The numbers of passing runs' schedules start here, behind those of any hunt.
const FIRST_NUMBER: u64 = 1 << 40;
/// How many passing runs come between two looks at the answer.
const WAVE: u64 = 10;
/// So many there are at least, unless fewer are wanted.
const FEWEST: usize = 30;
/// How many schedules may fail for each that passes.
const MOST_FAILURES: u64 = 20;
/// A schedule may take this long, and so many events without anything coming of it.
const LIMIT: Duration = Duration::from_secs(60);
const PATIENCE: u64 = 500_000_000;

pub fn gather(arguments: &Arguments) -> Result<Gathered, Trouble> {
    let quarry = match quarry(arguments) {
        Ok(quarry) => quarry,
        Err(nothing) => return Ok(nothing),
    };
    hunt::listen_for_the_end();
    let program = Program { path: quarry.path.clone(), arguments: quarry.arguments.clone(), environment: Vec::new() };
    let name = record::manifest(&program).program;
    let ground = Ground::new(quarry, &STOP)
        .map_err(|error| Trouble::Refused(format!("no place for recordings on the way: {error}; set TMPDIR")))?;
    let found = match hunt::search(&ground, &plan(arguments)) {
        Ok(found) => found,
        Err(NoRun::Refused(sentence)) => return Err(Trouble::Refused(sentence)),
        Err(NoRun::NotStarted(sentence, status)) => {
            return Ok(Gathered::Nothing(sentence, u8::try_from(status).unwrap_or(status::MACHINE)));
        }
        Err(NoRun::Stopped) => return Err(Trouble::Refused("stopped before the first schedule was over".to_owned())),
    };
    let Some((failure, group)) = found.groups.iter().next() else {
        let tried = found.schedules;
        let sentence = format!("none of {tried} schedules failed; try more of them (-n), or another --check");
        return Ok(Gathered::Nothing(sentence, 0));
    };
    let folder = Store::from_environment()?.adopt(&ground.recording_of(group.first), &name)?;
    let failing = Source::open(Recording::open(&folder)?)?;
    let mut runs = Runs::new(&failing.hear()?);
    let schedules = Schedules { ground: &ground, arguments, points: points(&ground)? };
    let n_failed = schedules.pass(&mut runs, &failing)?;
    if runs.n_passing() == 0 {
        let sentence = format!("all of {n_failed} further schedules failed too, so there is nothing to compare with");
        return Ok(Gathered::Nothing(sentence, status::MACHINE));
    }
    let story = format!(
        "{} schedules until one failed, then {}; {} different pairs.",
        found.schedules,
        passing_runs(runs.n_passing()),
        runs.n_pairs()
    );
    Ok(Gathered::Case(Box::new(Case { runs, failing, failure: Some(failure.0.clone()), story })))
}

fn plan(arguments: &Arguments) -> Plan {
    Plan {
        schedules: arguments.schedules,
        policy: hunt::PolicyName::Mix,
        depth: 3,
        seed: arguments.seed,
        jobs: arguments.jobs(),
        keep_going: false,
        timeout: None,
    }
}

fn points(ground: &Ground) -> Result<Vec<u64>, Trouble> {
    Ok(ground.points().map_err(Trouble::Refused)?.into_iter().collect())
}

/// The program and its input, as far as they can be found.
fn quarry(arguments: &Arguments) -> Result<Quarry, Gathered> {
    let name = &arguments.command[0];
    let Some(found) = path::find(name, std::env::var_os("PATH").as_deref()) else {
        let name = Path::new(name).display();
        let sentence = format!("{name}: command not found; check the name or give a path");
        return Err(Gathered::Nothing(sentence, status::NOT_FOUND));
    };
    let unreadable = |path: &PathBuf, error: std::io::Error| {
        Gathered::Nothing(format!("{}: cannot be read: {error}", path.display()), status::USAGE)
    };
    let expected = arguments.expect_output.as_ref();
    let expected = expected.map(|path| std::fs::read(path).map_err(|error| unreadable(path, error))).transpose()?;
    if let Some(path) = &arguments.stdin {
        std::fs::File::open(path).map_err(|error| unreadable(path, error))?;
    }
    Ok(Quarry {
        path: found,
        arguments: arguments.command.clone(),
        input: arguments.stdin.clone(),
        expected,
        fail_if: arguments.check.as_deref().map(unless),
    })
}

/// A shell command that succeeds if another fails.
fn unless(check: &OsStr) -> OsString {
    let mut command = OsString::from("! {\n");
    command.push(check);
    command.push("\n}");
    command
}

/// The schedules whose runs are to pass.
struct Schedules<'a> {
    ground: &'a Ground,
    arguments: &'a Arguments,
    /// Instructions before which threads may change.
    points: Vec<u64>,
}

impl Schedules<'_> {
    /// Adds passing runs until there are enough; tells how many failed instead.
    fn pass(&self, runs: &mut Runs, failing: &Source) -> Result<u64, Trouble> {
        let wanted = self.arguments.runs;
        let (mut tried, mut failed) = (0, 0);
        let mut before: Option<(usize, Vec<Suspect>)> = None;
        while (runs.n_passing() as u64) < wanted && failed <= MOST_FAILURES * (1 + runs.n_passing() as u64) {
            let wave = WAVE.min(wanted - runs.n_passing() as u64);
            let passed = self.wave(tried..tried + wave)?;
            (tried, failed) = (tried + wave, failed + wave - passed.len() as u64);
            if STOP.load(Ordering::SeqCst) {
                break;
            }
            for run in hearing::hear_all(&self.open(&passed)?, failing, self.arguments.jobs())? {
                runs.add_passing(&run);
            }
            passed.iter().for_each(|number| self.ground.clear(*number));
            let now = (runs.n_pairs(), suspects(runs, self.arguments.procedure()));
            let is_settled = before.as_ref() == Some(&now);
            if is_settled && runs.n_passing() >= FEWEST {
                break;
            }
            before = Some(now);
        }
        Ok(failed)
    }

    fn open(&self, numbers: &[u64]) -> Result<Vec<Source>, Trouble> {
        let open = |number: &u64| Source::open(Recording::open(&self.ground.recording_of(*number))?);
        numbers.iter().map(open).collect()
    }

    /// Runs schedules, several at the same time; tells which passed, in order.
    fn wave(&self, numbers: std::ops::Range<u64>) -> Result<Vec<u64>, Trouble> {
        let next = AtomicU64::new(numbers.start);
        let passed = Mutex::new(Ok(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..self.arguments.jobs() {
                scope.spawn(|| {
                    let outcome = self.work(&next, numbers.end);
                    let mut passed = passed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    match (&mut *passed, outcome) {
                        (Ok(all), Ok(some)) => all.extend(some),
                        (slot @ Ok(_), Err(trouble)) => *slot = Err(trouble),
                        (Err(_), _) => {}
                    }
                });
            }
        });
        let mut passed = passed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())?;
        passed.sort_unstable();
        Ok(passed)
    }

    /// One schedule after the other.
    fn work(&self, next: &AtomicU64, end: u64) -> Result<Vec<u64>, Trouble> {
        let refuse = |error: std::io::Error| Trouble::Refused(format!("a schedule cannot be run: {error}"));
        let mut runner = self.ground.runner().map_err(refuse)?;
        let mut passed = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::SeqCst);
            if index >= end {
                return Ok(passed);
            }
            let trial = self.trial(index);
            match self.ground.run_and_keep(&mut runner, trial) {
                Ok(run) if run.failure.is_none() && !run.is_slow => passed.push(trial.number),
                Ok(_) => self.ground.clear(trial.number),
                Err(NoRun::Stopped) => return Ok(passed),
                Err(NoRun::Refused(sentence) | NoRun::NotStarted(sentence, _)) => {
                    return Err(Trouble::Refused(sentence));
                }
            }
        }
    }

    fn trial(&self, index: u64) -> Trial {
        let seed = self.arguments.seed.wrapping_add(index);
        Trial {
            number: FIRST_NUMBER + index,
            seed,
            tactic: self.tactic(index, seed),
            observe: false,
            patience: PATIENCE,
            limit: LIMIT,
        }
    }

    /// As the paper has it, runs as they come and runs with delays at shared accesses; and random ones.
    fn tactic(&self, index: u64, seed: u64) -> Tactic {
        let mut random = Rng::new(seed);
        let n_points = self.points.len() as u64;
        match index % 4 {
            0 if index == 0 => Tactic::Ordinary,
            0 | 2 if n_points > 0 => {
                let site = self.points[random.below(n_points) as usize];
                Tactic::Delay { site, skip: random.below(8) }
            }
            1 => Tactic::Pos,
            _ => Tactic::Walk,
        }
    }
}
