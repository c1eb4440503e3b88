//! Follows a schedule: threads keep the turn as long as they can, and change places elsewhere only where a list says so.
//!
//! What the list does not say is the ordinary order: a thread runs until it waits, yields, ends or has used a quantum up,
//! and then the next one does. So a schedule is what differs from the ordinary order, and any part of the list is a
//! schedule, too. Places are named by what a thread does there and how often it has done so, which stays the same when other
//! threads are moved.

use crate::pending::Pending;
use crate::{Access, FAIR, Policy, Reason, RoundRobin, SwitchPoint, ThreadId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// What a thread is about to do when the policy is asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Deed {
    /// An access by the instruction at this address.
    Access(u64),
    Call,
    Yield,
    /// It waits or has ended.
    Stop,
    /// Nothing in particular: it has run for long.
    Run,
}

/// A place in the run of a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Mark {
    pub thread: ThreadId,
    pub deed: Deed,
    /// How often the thread has been about to do this since there are several, counted from one.
    pub time: u64,
}

/// A choice that is not the ordinary one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Detour {
    pub at: Mark,
    pub to: ThreadId,
}

/// A switch as a recording has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Handover {
    pub from: ThreadId,
    pub clock: u64,
    pub to: ThreadId,
    /// The thread could not go on.
    pub is_stop: bool,
    /// At an event of the clock, not around a call.
    pub is_at_event: bool,
}

/// What is followed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Course {
    /// All switches of a run, which is to be the same again.
    Switches(VecDeque<Handover>),
    Detours(Vec<Detour>),
}

/// One choice of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    pub at: Mark,
    pub access: Option<Access>,
    /// Who would have come in the ordinary order.
    pub ordinary: ThreadId,
    pub picked: ThreadId,
}

impl Step {
    pub fn detour(&self) -> Option<Detour> {
        (self.picked != self.ordinary).then_some(Detour { at: self.at, to: self.picked })
    }
}

/// The last choices of a run.
pub type Steps = Arc<Mutex<VecDeque<Step>>>;

/// Not more are kept.
const MOST_STEPS: usize = 100_000;

pub struct Follow {
    switches: VecDeque<Handover>,
    detours: BTreeMap<Mark, ThreadId>,
    /// Whether all switches are told, not only those that are not ordinary.
    is_complete: bool,
    quantum: u64,
    /// Events that the thread has passed since it got the turn.
    turn: u64,
    times: BTreeMap<(ThreadId, Deed), u64>,
    pending: Pending,
    /// There has been one thread only. What it did until then is not counted.
    is_alone: bool,
    steps: Steps,
}

impl Follow {
    /// Threads that use their quantum up are followed by the next.
    pub fn new(course: Course, quantum: u64) -> Follow {
        let is_complete = matches!(course, Course::Switches(_));
        let (switches, detours) = match course {
            Course::Switches(switches) => (switches, Vec::new()),
            Course::Detours(detours) => (VecDeque::new(), detours),
        };
        Follow {
            switches,
            detours: detours.into_iter().map(|detour| (detour.at, detour.to)).collect(),
            is_complete,
            quantum,
            turn: 0,
            times: BTreeMap::new(),
            pending: Pending::new(),
            is_alone: true,
            steps: Steps::default(),
        }
    }

    /// Where the choices can be read while they are made.
    pub fn steps(&self) -> Steps {
        Arc::clone(&self.steps)
    }

    fn mark(&mut self, point: &SwitchPoint<'_>) -> Mark {
        let deed = match (point.reason, point.access) {
            (Reason::QuantumOver, Some(access)) => Deed::Access(access.site),
            (Reason::QuantumOver, None) => Deed::Run,
            (Reason::Called, _) => Deed::Call,
            (Reason::Yielded, _) => Deed::Yield,
            (Reason::Stopped, _) => Deed::Stop,
        };
        let time = self.times.entry((point.last, deed)).or_default();
        *time += 1;
        Mark { thread: point.last, deed, time: *time }
    }

    fn ordinary(&self, point: SwitchPoint<'_>) -> ThreadId {
        let goes_on = matches!(point.reason, Reason::QuantumOver | Reason::Called) && self.turn < self.quantum;
        match goes_on && point.runnable.contains(&point.last) {
            true => point.last,
            false => RoundRobin::new(self.quantum).pick(point),
        }
    }

    /// The next thread of a run that is to be the same again.
    fn same(&mut self, point: &SwitchPoint<'_>) -> Option<ThreadId> {
        let is_here = |next: &Handover| {
            let is_stop = point.reason == Reason::Stopped;
            let is_at_event = point.reason == Reason::QuantumOver;
            next.from == point.last
                && next.clock == point.clock
                && (next.is_stop, next.is_at_event) == (is_stop, is_at_event)
        };
        match self.switches.front().copied().filter(is_here) {
            Some(next) => {
                self.switches.pop_front();
                Some(next.to)
            }
            None => Some(point.last),
        }
    }

    fn note(&self, step: Step) {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        if steps.len() == MOST_STEPS {
            steps.pop_front();
        }
        steps.push_back(step);
    }
}

impl Policy for Follow {
    fn pick(&mut self, point: SwitchPoint<'_>) -> ThreadId {
        self.pending.advance(&point);
        self.is_alone &= point.runnable == [point.last];
        if self.is_alone {
            return self.pending.pick(point.last, point.runnable.len());
        }
        self.turn += point.passed.events;
        let at = self.mark(&point);
        let ordinary = self.ordinary(point);
        let told = if self.is_complete { self.same(&point) } else { self.detours.get(&at).copied() };
        let picked = told.filter(|thread| point.runnable.contains(thread)).unwrap_or(ordinary);
        if picked != point.last || self.turn >= self.quantum {
            self.turn = 0;
        }
        self.note(Step { at, access: point.access, ordinary, picked });
        // Asked at every point, whoever can run: or else marks would count differently from run to run.
        self.pending.pick(picked, usize::MAX)
    }

    fn quantum(&mut self) -> u64 {
        FAIR
    }

    fn points(&mut self) -> u64 {
        self.pending.points()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{Toy, torn};

    const LONG: u64 = 1_000;

    fn detour(thread: u32, time: u64, to: u32) -> Detour {
        let deed = Deed::Access(u64::from(thread));
        Detour { at: Mark { thread: ThreadId(thread), deed, time }, to: ThreadId(to) }
    }

    fn order(detours: &[Detour]) -> Vec<u32> {
        let mut policy = Follow::new(Course::Detours(detours.to_vec()), LONG);
        Toy::new(&[3, 3]).run(&mut policy).iter().map(|thread| thread.0).collect()
    }

    #[test]
    fn without_detours_threads_run_to_their_end() {
        assert_eq!(order(&[]), [1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn a_detour_lasts_until_the_other_is_over_or_the_next_one() {
        assert_eq!(order(&[detour(1, 2, 2)]), [1, 2, 2, 2, 1, 1]);
        assert_eq!(order(&[detour(1, 2, 2), detour(2, 3, 1)]), [1, 2, 2, 1, 1, 2]);
        // A place that nobody comes to, and a thread that is not there.
        assert_eq!(order(&[detour(1, 9, 2), detour(1, 2, 5)]), [1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn steps_tell_the_detours() {
        let detours = [detour(1, 2, 2), detour(2, 3, 1)];
        let mut policy = Follow::new(Course::Detours(detours.to_vec()), LONG);
        let steps = policy.steps();
        Toy::new(&[3, 3]).run(&mut policy);
        let told: Vec<Detour> = steps.lock().unwrap().iter().filter_map(Step::detour).collect();
        assert_eq!(told, detours);
    }

    #[test]
    fn one_detour_tears_an_increment() {
        let last = |detours: &[Detour]| torn(&mut Follow::new(Course::Detours(detours.to_vec()), LONG));
        assert_eq!((last(&[]), last(&[detour(1, 2, 2)])), (2, 1));
    }

    #[test]
    fn a_thread_that_has_run_for_long_is_followed_by_the_next() {
        let mut policy = Follow::new(Course::Detours(Vec::new()), 2);
        let order = Toy::new(&[4, 4]).run(&mut policy);
        assert_eq!(order.iter().map(|thread| thread.0).collect::<Vec<_>>(), [1, 1, 2, 2, 1, 1, 2, 2]);
    }
}
