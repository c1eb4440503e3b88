//! Which schedules are tried, in what order, and when the hunt is over.
//!
//! The first run is the program's ordinary one, observed: it tells which instructions access memory that threads share.
//! All others may change threads before those. Schedules come in generations; the first of each is observed too and runs
//! by itself, and what it finds counts for the rest, so that what a schedule does depends on its number alone and not on
//! how many run at the same time.

use super::PolicyName;
use super::attempts::{Attempt, attempt, by_promise};
use super::failure::Failure;
use super::ground::{Ground, NoRun, Run, Trial};
use super::order::Tactic;
use super::progress::Progress;
use crate::settings::DEFAULT_QUANTUM;
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
    /// The program has something to read.
    pub has_input: bool,
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
/// What the engine counts for each time that a policy is asked.
const EVENTS_A_CHOICE: u64 = 100;
/// A generation is so many times as long as the one before.
const GROWTH: u64 = 4;

/// The turns that policies take; none stands for delays anywhere. Delays need no luck once they have come to the right place,
/// of which there are many.
const MIX: [Option<PolicyName>; 8] = [
    Some(PolicyName::Delay),
    Some(PolicyName::Pos),
    Some(PolicyName::Rff),
    Some(PolicyName::Delay),
    Some(PolicyName::Pct),
    Some(PolicyName::Delay),
    None,
    Some(PolicyName::Delay),
];

pub fn search(ground: &Ground, plan: &Plan) -> Result<Found, NoRun> {
    let began = Instant::now();
    let mut hunt = Hunt {
        ground,
        plan,
        found: Found::default(),
        points: BTreeMap::new(),
        sites: Vec::new(),
        pairs: BTreeSet::new(),
        steps: 0,
        progress: Progress::new(plan),
    };
    let ordinary = hunt.ordinary()?;
    let patience = plan.timeout.unwrap_or_else(|| patience_after(&ordinary));
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

/// How many events a schedule may pass while nothing comes of them, judged by the ordinary run.
fn patience_after(ordinary: &Run) -> u64 {
    let answer = &ordinary.answer;
    let choices = answer.steps + answer.shared.as_ref().map_or(0, |shared| shared.accesses);
    let events = answer.events.saturating_add(choices.saturating_mul(EVENTS_A_CHOICE));
    events.saturating_mul(PATIENCE).saturating_add(LEAST_PATIENCE)
}

struct Hunt<'a> {
    ground: &'a Ground,
    plan: &'a Plan,
    found: Found,
    /// With how often their memory went from one thread to another.
    points: BTreeMap<u64, u64>,
    /// The same points, those first that delays are to try first.
    sites: Vec<u64>,
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
            tells_places: true,
            patience: self.plan.timeout.unwrap_or(FIRST_PATIENCE),
            limit: FIRST_LIMIT,
        };
        let run = self.ground.run(&mut self.ground.runner()?, trial)?;
        if run.is_slow {
            let sentence = "the program's ordinary run has not come to an end in two minutes; give it less to do, or if it \
                            hangs by itself, use `whodunit record`";
            return Err(NoRun::Refused(sentence.to_owned()));
        }
        if run.failure.is_none() && run.answer.threads == 0 {
            let sentence = "the program becomes another one on its way; hunt that program itself";
            return Err(NoRun::Refused(sentence.to_owned()));
        }
        if run.failure.is_none() && run.answer.threads == 1 && !self.ground.has_faults() {
            let sentence =
                "the program starts no threads, so there is only one order to try; use `whodunit record`, or --faults";
            return Err(NoRun::Refused(sentence.to_owned()));
        }
        Ok(run)
    }

    fn is_over(&self) -> bool {
        self.found.is_stopped || !self.plan.keep_going && !self.found.groups.is_empty()
    }

    fn trial(&self, number: u64, patience: u64, limit: Duration) -> Trial {
        let seed = self.plan.seed.wrapping_add(number - 1);
        let tactic = self.tactic(number - 1, seed);
        Trial { number, seed, tactic, observe: false, tells_places: true, patience, limit }
    }

    /// How threads are chosen in the schedule that `index` others come before.
    fn tactic(&self, index: u64, seed: u64) -> Tactic {
        let (policy, round) = match self.plan.policy {
            PolicyName::Mix => {
                let (rounds, place) = (index / MIX.len() as u64, (index % MIX.len() as u64) as usize);
                let share = |part: &[Option<PolicyName>]| part.iter().filter(|&&policy| policy == MIX[place]).count();
                (MIX[place], rounds * share(&MIX) as u64 + share(&MIX[..place]) as u64)
            }
            policy => (Some(policy), index),
        };
        match policy {
            None => Tactic::Delays { spacing: 2 << Rng::new(seed).below(5), ranked: round % 2 == 1 },
            Some(PolicyName::Mix | PolicyName::Random) => Tactic::Walk,
            Some(PolicyName::Pct) => Tactic::Pct { depth: self.plan.depth, steps: self.steps },
            Some(PolicyName::Pos) => Tactic::Pos,
            Some(PolicyName::Rff) => self.reads_from(round, seed),
            Some(PolicyName::Delay) => self.delay(round, seed),
            Some(PolicyName::RoundRobin) => Tactic::RoundRobin { quantum: 1 + Rng::new(seed).below(DEFAULT_QUANTUM) },
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

    /// At first one delay for each site; then several long ones; then more of them; then any of these, and not the first time
    /// that a thread comes there.
    fn delay(&self, round: u64, seed: u64) -> Tactic {
        let Some(Attempt { site, times, ranked }) = attempt(round, self.sites.len() as u64) else {
            return Tactic::Walk;
        };
        let mut rng = Rng::new(seed);
        let (skip, wanted, stores) = match times {
            0 => (0, 1, 1),
            1 => (0, 4, 3),
            2 => (0, 8, 1),
            times => (rng.below(4 * times), 1 + rng.below(8), 1 + rng.below(4)),
        };
        Tactic::Delay { site: self.sites[site as usize], skip, wanted, stores, ranked }
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
            for (site, turns) in shared.sites {
                let most = self.points.entry(site).or_default();
                *most = turns.max(*most);
            }
            self.sites = by_promise(&self.points);
            self.pairs.extend(shared.pairs);
            self.ground.set_points(self.points.keys().copied())?;
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
    let Some(&first) = trials.first() else { return };
    let mut runner = match ground.stem(first) {
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
