//! From a plan in words to one that the engine can carry out, checked against the recording.

use super::DEFAULT_LIMIT;
use super::layout;
use super::places::{Meaning, Places};
use super::structures::StructuresOf;
use crate::show::{Recorded, recorded};
use engine::{Passage, Spot};
use program::movable::Movables;
use program::variables::Variables;
use sched::{Policy, Preferring, Random, RoundRobin, ThreadId};
use session::rerun::{Memory, Plan, Point, PolicyName, Step};
use std::collections::BTreeSet;
use trace::Recording;

/// The plan for the process image in `log`; the run is told, if somebody wants to hear.
pub fn prepare(
    plan: &Plan,
    recording: &Recording,
    log: u32,
    teller: Option<engine::Teller>,
) -> Result<engine::Plan, String> {
    let recorded = recorded(recording, log).ok_or_else(|| format!("the recording has no process {log}"))?;
    Preparing::new(recorded).plan(plan, teller)
}

/// What plans for a recording are prepared with.
pub struct Preparing {
    places: Places,
    recorded: Recorded,
}

impl Preparing {
    pub fn new(recorded: Recorded) -> Preparing {
        Preparing { places: Places::new(&recorded.space, recorded.gaps.clone()), recorded }
    }

    pub fn plan(&self, plan: &Plan, teller: Option<engine::Teller>) -> Result<engine::Plan, String> {
        let steps = plan.steps.iter().map(|step| self.step(step)).collect::<Result<Vec<_>, String>>()?;
        let retold = teller.map(|teller| engine::Retold { points: self.stops(&steps), teller });
        let layout = plan.steps.iter().find_map(|step| match step {
            Step::Layout(layout) => Some(layout::prepare(layout, &self.recorded)),
            _ => None,
        });
        let policy = self.policy(PolicyName::RoundRobin, 0, None);
        let limit = plan.limit.unwrap_or(DEFAULT_LIMIT);
        let structures = Box::new(StructuresOf::new(&self.recorded.space));
        Ok(engine::Plan { steps, layout, policy, limit, structures, retold })
    }

    fn step(&self, step: &Step) -> Result<engine::Step, String> {
        Ok(match step {
            Step::Follow(point) => engine::Step::Follow(self.point(point)?),
            Step::Run { thread, until } => {
                let until = until.as_ref().map(|point| self.point(&Point { thread: Some(*thread), ..point.clone() }));
                engine::Step::Run { thread: self.thread(*thread)?, until: until.transpose()? }
            }
            Step::Hold { thread, before, clock, time, until } => engine::Step::Hold {
                thread: self.thread(*thread)?,
                before: self.spot(before, *time, clock.unwrap_or(0), Meaning::Start)?,
                until: self.passage(until)?,
            },
            Step::Await { thread, before, time, changed } => engine::Step::Await {
                thread: self.thread(*thread)?,
                before: self.spot(before, *time, 0, Meaning::Start)?,
                changed: changed.range().ok_or("the plan waits for memory that is none")?,
            },
            Step::Flip { thread, at, time } => {
                engine::Step::Flip { thread: self.any_thread(*thread)?, at: self.spot(at, *time, 0, Meaning::Branch)? }
            }
            Step::Suppress { thread, at, clock, time, times, dependents } => engine::Step::Suppress {
                thread: self.any_thread(*thread)?,
                at: self.spot(at, *time, clock.unwrap_or(0), Meaning::Start)?,
                times: *times,
                dependents: *dependents,
            },
            Step::Origins { thread, clock, until } => {
                engine::Step::Origins { thread: self.thread(*thread)?, clock: *clock, until: *until }
            }
            Step::Writers { memory } => engine::Step::Writers(memory.iter().filter_map(Memory::range).collect()),
            Step::Schedule { policy, seed, quantum, first } => {
                let first = first.iter().map(|thread| self.thread(*thread).map(ThreadId)).collect::<Result<_, _>>()?;
                let others = self.policy(*policy, *seed, *quantum);
                engine::Step::Schedule(Box::new(Preferring::new(first, others)))
            }
            Step::Output(byte) => engine::Step::Output(*byte),
            Step::Layout(_) => {
                let spot = Spot { addresses: vec![self.entry()?], time: 1, since: 0 };
                engine::Step::Follow(engine::Point::Spot { thread: None, spot })
            }
            Step::Stop(point) if point.at.is_none() && point.clock.is_none() => engine::Step::Stop(None),
            Step::Stop(point) => engine::Step::Stop(Some(self.point(point)?)),
        })
    }

    /// Where threads may have to change places: where they are held, and where they are when they have passed.
    fn stops(&self, steps: &[engine::Step]) -> BTreeSet<u64> {
        let stops = steps.iter().flat_map(|step| match step {
            engine::Step::Hold { before, until, .. } => {
                let passed = until.spot.addresses.iter().filter_map(|address| self.places.behind(*address));
                before.addresses.iter().chain(&until.returns).copied().chain(passed).collect()
            }
            _ => Vec::new(),
        });
        stops.collect()
    }

    /// Where the program itself begins, when its libraries are ready.
    fn entry(&self) -> Result<u64, String> {
        let entry = Movables::entry(&Variables::new(&self.recorded.space));
        entry.map(|entry| entry.0).ok_or_else(|| "it is not known where the program begins".to_owned())
    }

    fn point(&self, point: &Point) -> Result<engine::Point, String> {
        let thread = self.any_thread(point.thread)?;
        match (point.event, point.clock, &point.at) {
            (Some(event), ..) if event >= self.recorded.events => {
                let last = self.recorded.events.saturating_sub(1);
                Err(format!("the plan follows up to event {event}, and the recording's last is {last}"))
            }
            (Some(event), ..) => Ok(engine::Point::Event(event)),
            (_, Some(clock), None) => Ok(engine::Point::Clock { thread: thread.unwrap_or(1), clock }),
            (_, clock, Some(at)) => {
                let spot = self.spot(at, point.time, clock.unwrap_or(0), Meaning::Start)?;
                Ok(engine::Point::Spot { thread, spot })
            }
            _ => Err("the plan has a point that is nowhere".to_owned()),
        }
    }

    fn passage(&self, passage: &session::rerun::Passage) -> Result<Passage, String> {
        let (addresses, returns) = self.places.passage(&passage.passes)?;
        let spot = Spot { addresses, time: passage.time, since: passage.clock.unwrap_or(0) };
        Ok(Passage { thread: self.thread(passage.thread)?, spot, returns })
    }

    fn spot(&self, place: &str, time: u64, since: u64, meaning: Meaning) -> Result<Spot, String> {
        Ok(Spot { addresses: self.places.find(place, meaning)?, time, since })
    }

    fn any_thread(&self, thread: Option<u32>) -> Result<Option<u32>, String> {
        thread.map(|thread| self.thread(thread)).transpose()
    }

    fn thread(&self, thread: u32) -> Result<u32, String> {
        if self.recorded.threads.contains(&thread) {
            return Ok(thread);
        }
        let known: Vec<String> = self.recorded.threads.iter().take(20).map(u32::to_string).collect();
        Err(format!("the plan names thread {thread}, and the recording has {}", known.join(", ")))
    }

    fn policy(&self, policy: PolicyName, seed: u64, quantum: Option<u64>) -> Box<dyn Policy> {
        let quantum = quantum.unwrap_or(self.recorded.quantum).max(1);
        match policy {
            PolicyName::RoundRobin => Box::new(RoundRobin::new(quantum)),
            PolicyName::Random => Box::new(Random::new(seed, quantum)),
        }
    }
}
