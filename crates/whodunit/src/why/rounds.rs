//! The rounds of a diagnosis: run, see what crashes, suppress where its value came from, and again.

use super::chain::{End, Trail};
use super::check::{Checks, Made};
use super::endings::is_failure;
use super::reach::Reach;
use super::suspects;
use crate::recordings::Trouble;
use crate::rerun::carry_out;
use session::rerun::{Definition, Frame, Outcome, Plan, Point, Step};
use std::collections::BTreeMap;
use std::path::Path;

/// More rounds than any published diagnosis took.
const MOST_ROUNDS: usize = 16;
/// One crash is looked back from in so many runs at most.
const MOST_LOOKS: usize = 12;
/// The same, if an origin is known already.
const MOST_DEEP_LOOKS: usize = 8;
/// A run that was suppressed may go on for so many events: more than a second's.
const LIMIT: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    pub signal: i32,
    pub thread: u32,
    pub clock: u64,
}

/// One run that crashed, and what is suppressed in the next one.
pub struct Round {
    pub outcome: Outcome,
    pub trails: Vec<Trail>,
    /// The stack of each origin, innermost first.
    pub stacks: Vec<Vec<Frame>>,
}

impl Round {
    /// Whether the memory check has found something.
    pub fn is_checked(&self) -> bool {
        self.trails.iter().any(|trail| trail.check.class.is_some())
    }

    /// The block that the first store went beyond.
    pub fn beyond(&self) -> Option<Made> {
        self.trails.first()?.check.beyond
    }
}

pub struct Rounds {
    pub crash: Crash,
    pub rounds: Vec<Round>,
    /// The run that did not crash, if there is one.
    pub calm: Option<Outcome>,
    /// The plan of that run.
    pub plan: Plan,
    n_runs: usize,
    /// Instructions that were looked at.
    steps: u64,
}

struct Runner<'a> {
    folder: &'a Path,
    log: u32,
    n_runs: usize,
    steps: u64,
}

/// The run as it was recorded, with its data followed.
pub struct Begun<'a> {
    runner: Runner<'a>,
    crash: Crash,
    pub outcome: Outcome,
    trails: Vec<Trail>,
}

impl<'a> Begun<'a> {
    pub fn new(crash: Crash, checks: &Checks<'a>) -> Result<Begun<'a>, Trouble> {
        let mut runner = Runner { folder: checks.folder, log: checks.log, n_runs: 0, steps: 0 };
        let (outcome, trails) = runner.look_back(crash.thread, crash.clock, &[], checks)?;
        Ok(Begun { runner, crash, outcome, trails })
    }
}

impl Rounds {
    pub fn go(begun: Begun<'_>, checks: &Checks<'_>) -> Result<Rounds, Trouble> {
        let Begun { mut runner, crash, mut outcome, mut trails } = begun;
        let mut points: Vec<Step> = Vec::new();
        let mut rounds = Vec::new();
        let calm = loop {
            if trails.iter().all(|trail| trail.end == End::Older) || rounds.len() == MOST_ROUNDS {
                break None;
            }
            let stacks = runner.stacks(&points, &trails)?;
            let origins = trails.iter().filter(|trail| trail.end != End::Older).filter_map(Trail::origin);
            let new: Vec<Step> = points_of(origins).into_iter().filter(|point| !points.contains(point)).collect();
            // What has been left out already cannot be left out once more.
            if new.is_empty() {
                break None;
            }
            points.extend(new);
            rounds.push(Round { outcome, trails, stacks });
            (outcome, trails) = runner.crash(&points, checks)?;
            if !is_failure(&outcome) {
                break Some(outcome);
            }
        };
        if rounds.is_empty() {
            let sentence = "nothing in the recording has made the value that it crashed on";
            return Err(Trouble::Refused(sentence.to_owned()));
        }
        let plan = Plan { limit: Some(LIMIT), ..Plan::new(points) };
        Ok(Rounds { crash, rounds, calm, plan, n_runs: runner.n_runs, steps: runner.steps })
    }

    /// The round that tells the cause: the last one in which the memory check found something, or else the last one.
    pub fn guilty(&self) -> &Round {
        self.rounds.iter().rev().find(|round| round.is_checked()).unwrap_or(&self.rounds[self.rounds.len() - 1])
    }

    pub fn summary(&self) -> String {
        let rounds = self.rounds.len();
        let plural = if rounds == 1 { "" } else { "es" };
        format!("{rounds} crash{plural} followed back in {} runs; {} instructions looked at.", self.n_runs, self.steps)
    }
}

impl Runner<'_> {
    /// The run without some points; the ways back if it crashes.
    fn crash(&mut self, points: &[Step], checks: &Checks<'_>) -> Result<(Outcome, Vec<Trail>), Trouble> {
        let outcome = self.run(points, Vec::new())?;
        match is_failure(&outcome) {
            true => self.look_back(outcome.thread, outcome.clock, points, checks),
            false => Ok((outcome, Vec::new())),
        }
    }

    /// The same with its data followed from far enough back, where it is known how far it comes.
    fn look_back(
        &mut self,
        thread: u32,
        clock: u64,
        points: &[Step],
        checks: &Checks<'_>,
    ) -> Result<(Outcome, Vec<Trail>), Trouble> {
        let mut reach = Reach::new(thread, clock);
        let mut looks = 1;
        loop {
            let outcome = self.run(points, reach.steps())?;
            let Some(origins) = outcome.origins.as_ref().filter(|_| is_failure(&outcome)) else {
                return Ok((outcome, Vec::new()));
            };
            looks += 1;
            let goes_on = looks < MOST_LOOKS && !reach.is_whole();
            // Nothing can be said of stores as long as nobody knows what they come from.
            if goes_on && reach.look_around(origins) {
                continue;
            }
            let trails = suspects::trails(&outcome, reach.is_whole(), checks);
            let is_enough = !trails.is_empty() && trails.iter().all(|trail| reach.suffices(trail));
            // Where no store is astray, one may be further back.
            let is_checked = trails.iter().any(|trail| trail.check.class.is_some());
            if is_enough && !is_checked && looks < MOST_DEEP_LOOKS && reach.deepen(origins) {
                continue;
            }
            if is_enough || reach.is_whole() {
                return Ok((outcome, trails));
            }
            if !goes_on || !reach.extend(origins, &trails) {
                let is_known = goes_on && reach.was_enough_for(&outcome);
                let trails = if is_known { suspects::trails(&outcome, true, checks) } else { trails };
                return Ok((outcome, trails));
            }
        }
    }

    fn run(&mut self, points: &[Step], more: Vec<Step>) -> Result<Outcome, Trouble> {
        let steps = points.iter().cloned().chain(more);
        let plan = Plan { limit: Some(LIMIT), ..Plan::new(steps.collect()) };
        let outcome = carry_out(self.folder, self.log, &plan)?;
        self.n_runs += 1;
        self.steps += outcome.origins.as_ref().map_or(0, |origins| origins.steps);
        Ok(outcome)
    }

    /// The stacks of the origins, each from a run that stops there.
    fn stacks(&mut self, points: &[Step], trails: &[Trail]) -> Result<Vec<Vec<Frame>>, Trouble> {
        let mut stacks: Vec<Vec<Frame>> = Vec::new();
        // What one instruction does again and again, it mostly does for the same caller.
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        for trail in trails {
            let Some(origin) = trail.origin() else { continue };
            if let Some(&position) = known.get(origin.pc.as_str()) {
                stacks.push(stacks[position].clone());
                continue;
            }
            known.insert(&origin.pc, stacks.len());
            let stop = Step::Stop(Point {
                event: None,
                thread: Some(origin.thread),
                clock: Some(origin.clock),
                at: Some(origin.pc.clone()),
                time: origin.time,
            });
            let outcome = self.run(points, vec![stop])?;
            let thread = outcome.threads.into_iter().find(|thread| thread.thread == origin.thread);
            stacks.push(thread.map_or(Vec::new(), |thread| thread.stack));
        }
        Ok(stacks)
    }
}

/// Suppresses definitions and all that depends on them. What an instruction does so many times in a row is one step.
fn points_of<'a>(definitions: impl Iterator<Item = &'a Definition>) -> Vec<Step> {
    let mut instances: Vec<&Definition> = definitions.collect();
    instances.sort_by_key(|instance| (instance.thread, &instance.pc, instance.clock, instance.time));
    let mut points: Vec<Step> = Vec::new();
    for instance in instances {
        let Definition { thread: theirs, pc, clock: since, time: nth, .. } = instance;
        match points.last_mut() {
            Some(Step::Suppress { thread, at, clock, time, times, .. })
                if (*thread, &*at, *clock) == (Some(*theirs), pc, Some(*since)) && *time + *times >= *nth =>
            {
                *times = (*times).max(nth + 1 - *time);
            }
            _ => points.push(Step::Suppress {
                thread: Some(*theirs),
                at: pc.clone(),
                clock: Some(*since),
                time: *nth,
                times: 1,
                dependents: true,
            }),
        }
    }
    points
}
