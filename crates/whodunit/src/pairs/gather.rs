//! Getting runs to compare: a hunt until one fails, then schedules until enough have passed.
//!
//! Passing runs come in waves. Once there are some, two waves that bring no new pair and change nothing about what is to blame
//! are the last.

use super::ears::Ears;
use super::hearing::Source;
use super::{Arguments, Case, Gathered, passing_runs};
use crate::hunt::{self, Ground, NoRun, Plan, Quarry, Runner, STOP, Tactic, Trial};
use crate::recordings::Trouble;
use crate::{record, search as path, status};
use analysis::pairs::{ENOUGH_PASSING, Learning, Runs, Suspect, suspects};
use engine::Program;
use sched::{FaultKinds, Rng};
use std::ffi::{OsStr, OsString};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use trace::{Recording, Store};

/// The numbers of passing runs' schedules start here, behind those of any hunt.
const FIRST_NUMBER: u64 = 1 << 40;
/// How many passing runs come between two looks at the answer.
const WAVE: u64 = 10;
/// So many there are at least, unless fewer are wanted.
const FEWEST: usize = 50;
/// So many waves in a row that change nothing are enough.
const CALM_WAVES: usize = 2;
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
    let store = Store::from_environment()?;
    let folder = store.adopt(&ground.recording_of(group.first), &name)?;
    let failing = Source::open(Recording::open(&folder)?)?;
    let (first, mut learning) = failing.hear_first(arguments.whole)?;
    let mut runs = Runs::new(&first);
    let length = length(&ground, arguments)?;
    let mut schedules = Schedules::new(&ground, arguments, length)?;
    let ears = Ears::new(arguments.jobs());
    let passing = schedules.pass(&mut runs, &mut learning, &failing, &ears)?;
    let n_failed = schedules.failed();
    if runs.n_passing() == 0 && STOP.load(Ordering::SeqCst) {
        return Err(trouble(NoRun::Stopped));
    }
    if runs.n_passing() == 0 {
        let sentence = format!("all of {n_failed} further schedules failed too, so there is nothing to compare with");
        return Ok(Gathered::Nothing(sentence, status::MACHINE));
    }
    let (passing, kept) = if arguments.keep { keep(passing, &store, &failing)? } else { (passing, String::new()) };
    let story = format!(
        "{} schedules until one failed, then {}{kept}; {} different pairs.",
        found.schedules,
        passing_runs(runs.n_passing()),
        runs.n_pairs()
    );
    // Whoever hunts does not know that the command was turned round.
    let has_ended_well = arguments.check.is_some() && failure.0.starts_with("--fail-if");
    let failure = Some(if has_ended_well { "--check failed".to_owned() } else { failure.0.clone() });
    Ok(Gathered::Case(Box::new(Case { runs, learning, failing, passing, failure, story, ears, ground: Some(ground) })))
}

/// Makes the recordings of passing runs the user's; tells how they are called. The failing one is still the latest.
fn keep(passing: Vec<Source>, store: &Store, failing: &Source) -> Result<(Vec<Source>, String), Trouble> {
    let mut kept = Vec::new();
    for source in passing {
        let folder = store.adopt(source.recording.folder(), &failing.recorded.program())?;
        kept.push(Source::open_beside(Recording::open(&folder)?, failing)?);
    }
    let _ = store.point_latest_to(failing.recording.folder());
    let names = match &kept[..] {
        [] => String::new(),
        [only] => format!(" ({})", only.name()),
        [first, .., last] => format!(" ({} to {})", first.name(), last.name()),
    };
    Ok((kept, names))
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
        has_input: arguments.stdin.is_some(),
    }
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
        faults: FaultKinds::default(),
    })
}

/// A shell command that succeeds if another fails.
fn unless(check: &OsStr) -> OsString {
    let mut command = OsString::from("! {\n");
    command.push(check);
    command.push("\n}");
    command
}

/// How long a run is.
struct Length {
    events: u64,
    steps: u64,
}

fn length(ground: &Ground, arguments: &Arguments) -> Result<Length, Trouble> {
    let trial = trial(FIRST_NUMBER - 1, arguments.seed, Tactic::Ordinary);
    let mut runner = ground.runner().map_err(not_run)?;
    match ground.run(&mut runner, trial) {
        Ok(run) => {
            ground.clear(trial.number);
            Ok(Length { events: run.answer.events, steps: run.answer.steps })
        }
        Err(no_run) => Err(trouble(no_run)),
    }
}

fn not_run(error: std::io::Error) -> Trouble {
    Trouble::Refused(format!("a schedule cannot be run: {error}"))
}

fn trouble(no_run: NoRun) -> Trouble {
    Trouble::Refused(match no_run {
        NoRun::Stopped => "stopped before there was anything to compare".to_owned(),
        NoRun::Refused(sentence) | NoRun::NotStarted(sentence, _) => sentence,
    })
}

fn trial(number: u64, seed: u64, tactic: Tactic) -> Trial {
    Trial { number, seed, tactic, observe: false, tells_places: false, patience: PATIENCE, limit: LIMIT }
}

/// Ways to choose threads, the mildest first: where a bug shows easily, only the first ones let a run pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Slices,
    Pct,
    Delay,
    Pos,
    Walk,
}

const WAYS: [Way; 5] = [Way::Slices, Way::Pct, Way::Delay, Way::Pos, Way::Walk];
/// A way that has failed so often, and never passed, is left alone; the mildest never is.
const GIVEN_UP: u64 = 3;

#[derive(Clone, Copy, Default)]
struct Tally {
    passed: u64,
    failed: u64,
}

/// The schedules whose runs are to pass.
struct Schedules<'a> {
    ground: &'a Ground,
    arguments: &'a Arguments,
    /// Instructions before which threads may change.
    points: Vec<u64>,
    length: Length,
    /// Each runs one schedule at a time.
    runners: Vec<Runner>,
    /// Of each way.
    tallies: [Tally; WAYS.len()],
    tried: u64,
    /// How many passed and could not be replayed.
    refused: u64,
}

impl Schedules<'_> {
    fn new<'a>(ground: &'a Ground, arguments: &'a Arguments, length: Length) -> Result<Schedules<'a>, Trouble> {
        let points = ground.points().map_err(Trouble::Refused)?.into_iter().collect();
        let tallies = [Tally::default(); WAYS.len()];
        Ok(Schedules { ground, arguments, points, length, runners: Vec::new(), tallies, tried: 0, refused: 0 })
    }

    /// Adds passing runs until there are enough; tells them.
    fn pass(
        &mut self,
        runs: &mut Runs,
        learning: &mut Learning,
        failing: &Source,
        ears: &Ears,
    ) -> Result<Vec<Source>, Trouble> {
        let mut sources = Vec::new();
        let wanted = self.arguments.runs;
        let (mut before, mut calm): (Option<(usize, Vec<Suspect>)>, usize) = (None, 0);
        while (runs.n_passing() as u64) < wanted && self.failed() <= MOST_FAILURES * (1 + runs.n_passing() as u64) {
            let passed = self.wave(WAVE.min(wanted - runs.n_passing() as u64))?;
            if STOP.load(Ordering::SeqCst) {
                break;
            }
            let wave = self.open(&passed, failing)?;
            let mut refusals = Vec::new();
            for part in wave.chunks(ENOUGH_PASSING) {
                let heard = ears.hear_passing(part, failing, learning);
                for run in &heard.runs {
                    learning.add_passing(run);
                    runs.add_passing(run);
                }
                refusals.extend(heard.refusals);
            }
            sources.extend(wave);
            // A run that does not replay is of no use; if none does, somebody should know why.
            self.refused += refusals.len() as u64;
            if let (0, Some(trouble)) = (runs.n_passing(), refusals.into_iter().next()) {
                return Err(trouble);
            }
            let now = (runs.n_pairs(), suspects(runs, self.arguments.procedure()));
            calm = if !passed.is_empty() && before.as_ref() == Some(&now) { calm + 1 } else { 0 };
            if calm >= CALM_WAVES && runs.n_passing() >= FEWEST {
                break;
            }
            before = Some(now);
        }
        Ok(sources)
    }

    /// How many runs were of no use.
    fn failed(&self) -> u64 {
        self.refused + self.tallies.iter().map(|tally| tally.failed).sum::<u64>()
    }

    fn open(&self, numbers: &[u64], failing: &Source) -> Result<Vec<Source>, Trouble> {
        let open = |number: &u64| Source::open_beside(Recording::open(&self.ground.recording_of(*number))?, failing);
        numbers.iter().map(open).collect()
    }

    /// Runs schedules, several at the same time; tells which passed, in order. What is run depends on how earlier waves
    /// ended, and not on what is over first.
    fn wave(&mut self, number: u64) -> Result<Vec<u64>, Trouble> {
        let ways: Vec<usize> = (0..WAYS.len()).filter(|way| !self.is_given_up(*way)).collect();
        let chosen = |index: u64| ways[(index % ways.len() as u64) as usize];
        let trials: Vec<(usize, Trial)> = (self.tried..self.tried + number)
            .map(|index| (chosen(index), self.trial(index, WAYS[chosen(index)])))
            .collect();
        self.tried += number;
        let outcomes = self.run_all(&trials)?;
        let mut passed = Vec::new();
        for ((way, trial), has_passed) in trials.iter().zip(outcomes) {
            let tally = &mut self.tallies[*way];
            *if has_passed { &mut tally.passed } else { &mut tally.failed } += 1;
            passed.extend(has_passed.then_some(trial.number));
        }
        Ok(passed)
    }

    fn is_given_up(&self, way: usize) -> bool {
        way > 0 && self.tallies[way].passed == 0 && self.tallies[way].failed >= GIVEN_UP
    }

    /// Whether each passed.
    fn run_all(&mut self, trials: &[(usize, Trial)]) -> Result<Vec<bool>, Trouble> {
        while self.runners.len() < self.arguments.jobs().min(trials.len()) {
            self.runners.push(self.ground.stem(trials[0].1).map_err(not_run)?);
        }
        let next = AtomicUsize::new(0);
        let outcomes = Mutex::new(vec![false; trials.len()]);
        let ground = self.ground;
        let work = |runner: &mut Runner| -> Result<(), Trouble> {
            while let Some((place, (_, trial))) = next_of(&next, trials) {
                let run = match ground.run_and_keep(runner, *trial) {
                    Err(NoRun::Stopped) => return Ok(()),
                    other => other.map_err(trouble)?,
                };
                let has_passed = run.failure.is_none() && !run.is_slow;
                if !has_passed {
                    ground.clear(trial.number);
                }
                outcomes.lock().unwrap_or_else(PoisonError::into_inner)[place] = has_passed;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let work = &work;
            let workers: Vec<_> = self.runners.iter_mut().map(|runner| scope.spawn(move || work(runner))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })?;
        Ok(outcomes.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn trial(&self, index: u64, way: Way) -> Trial {
        let seed = self.arguments.seed.wrapping_add(index);
        trial(FIRST_NUMBER + index, seed, self.tactic(way, seed))
    }

    /// As the paper has it, runs as they come and runs with delays at shared accesses; and others that hunts are made of.
    fn tactic(&self, way: Way, seed: u64) -> Tactic {
        let mut random = Rng::new(seed);
        match way {
            // Few long slices to many short ones.
            Way::Slices => Tactic::Slices { quantum: (self.length.events >> (1 + random.below(12))).max(2) },
            Way::Pct => Tactic::Pct { depth: 1 + random.below(4) as u32, steps: self.length.steps },
            Way::Delay if !self.points.is_empty() => {
                let site = self.points[random.below(self.points.len() as u64) as usize];
                Tactic::Delay { site, skip: random.below(8), wanted: 1, stores: 1, ranked: false }
            }
            Way::Pos => Tactic::Pos,
            Way::Delay | Way::Walk => Tactic::Walk,
        }
    }
}

/// The next of some things, for threads that share the work.
fn next_of<'a, T>(next: &AtomicUsize, things: &'a [T]) -> Option<(usize, &'a T)> {
    let place = next.fetch_add(1, Ordering::SeqCst);
    things.get(place).map(|thing| (place, thing))
}
