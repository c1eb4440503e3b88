//! Which schedules are tried, in what order, and when the hunt is over.
//!
//! The first run is the program's ordinary one, observed: it tells which instructions access memory that threads share.
//! All others may change threads before those. Schedules come in generations; the first of each is observed too and runs
//! by itself, and what it finds counts for the rest, so that what a schedule does depends on its number alone and not on
//! how many run at the same time.

use super::PolicyName;
use super::failure::Failure;
use super::ground::{Ground, NoRun, Run, Trial};
use super::order::Tactic;
use super::progress::Progress;
use sched::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

pub struct Plan {
    pub schedules: u64,
    pub policy: PolicyName,
    pub depth: u32,
    pub seed: u64,
    pub jobs: usize,
    pub keep_going: bool,
    pub timeout: Option<u64>,
}

/// What a hunt has to show.
#[derive(Default)]
pub struct Found {
    pub groups: BTreeMap<Failure, Group>,
    pub schedules: u64,
    pub different: BTreeSet<u64>,
    pub took: Duration,
    /// How many instructions access shared memory.
    pub points: usize,
    pub threads: u64,
    /// Schedules that took too long.
    pub given_up: u64,
    /// The user stopped it.
    pub is_stopped: bool,
}

pub struct Group {
    pub times: u64,
    /// The number of the first schedule that failed so; 0 is the ordinary run.
    pub first: u64,
    pub seed: u64,
    pub policy: &'static str,
    /// That schedule.
    pub trial: Trial,
}

/// The ordinary run may take this long, and so many events.
const FIRST_LIMIT: Duration = Duration::from_secs(120);
const FIRST_PATIENCE: u64 = 4_000_000_000;
/// Any other has at least this.
const SHORTEST_LIMIT: Duration = Duration::from_secs(20);
/// Schedules with many switches take more events than the ordinary one, where threads wait by spinning.
const PATIENCE: u64 = 50;
const LEAST_PATIENCE: u64 = 5_000_000;
/// A generation is so many times as long as the one before.
const GROWTH: u64 = 4;

pub fn search(ground: &Ground, plan: &Plan) -> Result<Found, NoRun> {
    let began = Instant::now();
    let mut hunt = Hunt {
        ground,
        plan,
        found: Found::default(),
        points: BTreeSet::new(),
        pairs: BTreeSet::new(),
        steps: 0,
        progress: Progress::new(plan),
    };
    let ordinary = hunt.ordinary()?;
    let patience = plan.timeout.unwrap_or(ordinary.answer.events.saturating_mul(PATIENCE) + LEAST_PATIENCE);
    let limit = SHORTEST_LIMIT.max(ordinary.took * 50);
    hunt.take(ordinary)?;
    let (mut first, mut length) = (1, GROWTH);
    while first <= plan.schedules && !hunt.is_over() {
        let end = (first + length).min(plan.schedules + 1);
        match hunt.generation(first..end, patience, limit) {
            Err(NoRun::Stopped) => hunt.found.is_stopped = true,
            other => other?,
        }
        (first, length) = (end, length * GROWTH);
    }
    hunt.progress.end();
    hunt.found.took = began.elapsed();
    Ok(hunt.found)
}

struct Hunt<'a> {
    ground: &'a Ground,
    plan: &'a Plan,
    found: Found,
    points: BTreeSet<u64>,
    pairs: BTreeSet<(u64, u64)>,
    /// About how many steps a run has.
    steps: u64,
    progress: Progress,
}

impl Hunt<'_> {
    fn ordinary(&self) -> Result<Run, NoRun> {
        let trial = Trial {
            number: 0,
            seed: self.plan.seed,
            tactic: Tactic::Ordinary,
            observe: true,
            patience: self.plan.timeout.unwrap_or(FIRST_PATIENCE),
            limit: FIRST_LIMIT,
        };
        let run = self.ground.run(&mut self.ground.runner()?, trial)?;
        if run.is_slow {
            let sentence = "the program's ordinary run takes too long for a hunt; give it less to do";
            return Err(NoRun::Refused(sentence.to_owned()));
        }
        if run.failure.is_none() && run.answer.threads == 0 {
            let sentence = "the program becomes another one on its way; hunt that program itself";
            return Err(NoRun::Refused(sentence.to_owned()));
        }
        if run.failure.is_none() && run.answer.threads == 1 {
            let sentence = "the program starts no threads, so there is only one order to try; use `whodunit record`";
            return Err(NoRun::Refused(sentence.to_owned()));
        }
        Ok(run)
    }

    fn is_over(&self) -> bool {
        self.found.is_stopped || !self.plan.keep_going && !self.found.groups.is_empty()
    }

    fn trial(&self, number: u64, patience: u64, limit: Duration) -> Trial {
        let seed = self.plan.seed.wrapping_add(number - 1);
        Trial { number, seed, tactic: self.tactic(number - 1, seed), observe: false, patience, limit }
    }

    /// How threads are chosen in the schedule that `index` others come before.
    fn tactic(&self, index: u64, seed: u64) -> Tactic {
        const MIX: [PolicyName; 6] = [
            PolicyName::Delay,
            PolicyName::Pos,
            PolicyName::Rff,
            PolicyName::Pct,
            PolicyName::Delay,
            PolicyName::Random,
        ];
        let (policy, round) = match self.plan.policy {
            // Of every six, two are delays.
            PolicyName::Mix => {
                let (rounds, place) = (index / 6, index % 6);
                let policy = MIX[place as usize];
                (policy, if policy == PolicyName::Delay { rounds * 2 + u64::from(place > 0) } else { rounds })
            }
            policy => (policy, index),
        };
        match policy {
            PolicyName::Mix | PolicyName::Random => Tactic::Walk,
            PolicyName::Pct => Tactic::Pct { depth: self.plan.depth, steps: self.steps },
            PolicyName::Pos => Tactic::Pos,
            PolicyName::Rff => self.reads_from(round, seed),
            PolicyName::Delay => self.delay(round, seed),
        }
    }

    /// One pair after the other, those of the program itself before those of its libraries, which lie below; then two at a
    /// time.
    fn reads_from(&self, round: u64, seed: u64) -> Tactic {
        let pairs = self.pairs.len() as u64;
        if pairs == 0 {
            return Tactic::Pos;
        }
        let nth = |index: u64| self.pairs.iter().rev().nth((index % pairs) as usize).copied();
        let second = (round >= pairs).then(|| nth(Rng::new(seed).below(pairs))).flatten();
        Tactic::ReadsFrom { pairs: [nth(round), second] }
    }

    /// One site after the other, in the same order; later, not the first time that a thread comes there.
    fn delay(&self, round: u64, seed: u64) -> Tactic {
        let points = self.points.len() as u64;
        let Some(&site) = self.points.iter().rev().nth(round.checked_rem(points).unwrap_or(0) as usize) else {
            return Tactic::Walk;
        };
        let rounds = round / points;
        Tactic::Delay { site, skip: if rounds == 0 { 0 } else { Rng::new(seed).below(4 * rounds) } }
    }

    /// Runs the schedules of these numbers.
    fn generation(&mut self, numbers: Range<u64>, patience: u64, limit: Duration) -> Result<(), NoRun> {
        let first = Trial { observe: true, ..self.trial(numbers.start, patience, limit) };
        let run = self.ground.run(&mut self.ground.runner()?, first)?;
        self.take(run)?;
        if self.is_over() {
            return Ok(());
        }
        let trials: Vec<Trial> =
            (numbers.start + 1..numbers.end).map(|number| self.trial(number, patience, limit)).collect();
        self.all(&trials)
    }

    /// Runs these, several at the same time.
    fn all(&mut self, trials: &[Trial]) -> Result<(), NoRun> {
        let next = AtomicU64::new(0);
        let is_over = AtomicBool::new(false);
        let ground = self.ground;
        std::thread::scope(|scope| {
            let (send, receive) = channel();
            for _ in 0..self.plan.jobs.min(trials.len()) {
                let send = send.clone();
                scope.spawn(|| work(ground, trials, &next, &is_over, send));
            }
            drop(send);
            let mut outcome = Ok(());
            for run in receive {
                let taken = run.and_then(|run| self.take(run));
                if taken.is_err() || self.is_over() {
                    is_over.store(true, Ordering::SeqCst);
                }
                outcome = outcome.and(taken);
            }
            outcome
        })
    }

    /// Counts a run in.
    fn take(&mut self, run: Run) -> Result<(), NoRun> {
        let Run { trial, answer, failure, is_slow, .. } = run;
        self.found.given_up += u64::from(is_slow);
        if let Some(shared) = answer.shared {
            self.points.extend(shared.sites);
            self.pairs.extend(shared.pairs);
            self.ground.set_points(&self.points)?;
            self.steps = self.steps.max(answer.steps);
        }
        self.found.points = self.points.len();
        self.found.threads = self.found.threads.max(answer.threads);
        self.found.schedules += 1;
        self.found.different.insert(answer.schedule);
        if let Some(failure) = failure {
            self.add(trial, failure);
        }
        self.progress.show(&self.found);
        Ok(())
    }

    /// Of failures that are the same, the one of the lowest number stays: the others may come in any order.
    fn add(&mut self, trial: Trial, failure: Failure) {
        let Trial { number, seed, tactic, .. } = trial;
        let new = Group { times: 1, first: number, seed, policy: tactic.name(), trial };
        match self.found.groups.get_mut(&failure) {
            Some(group) => {
                let times = group.times + 1;
                let loser = if number < group.first { std::mem::replace(group, new).first } else { number };
                group.times = times;
                self.ground.clear(loser);
            }
            None => {
                self.found.groups.insert(failure, new);
            }
        }
    }
}

/// Runs one schedule after the other until none is left, or the hunt is over.
fn work(ground: &Ground, trials: &[Trial], next: &AtomicU64, is_over: &AtomicBool, send: Sender<Result<Run, NoRun>>) {
    let mut runner = match ground.runner() {
        Ok(runner) => runner,
        Err(error) => {
            let _ = send.send(Err(error.into()));
            return;
        }
    };
    while !is_over.load(Ordering::SeqCst) {
        let Some(trial) = trials.get(next.fetch_add(1, Ordering::SeqCst) as usize) else { return };
        let run = ground.run(&mut runner, *trial);
        let is_last = run.is_err();
        if send.send(run).is_err() || is_last {
            return;
        }
    }
}
