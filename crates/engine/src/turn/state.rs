//! Who can run, who waits for what, and who runs next: the data that the turn's lock guards.

use super::{Choice, Outcome, SHARED_INTERVAL, State, Status, Thread, Turn, Wait};
use crate::context::Context;
use crate::engine::Engine;
use crate::journal::{Writing, register_digest};
use crate::kernel;
use crate::stock::Reach;
use sched::{Passed, Reason, SwitchPoint, ThreadId};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use trace::Digest;
use trace::event::{Event, Glimpse, Switch, SwitchReason, ThreadEnd};

/// What a choice counts for where somebody has patience: it takes about as long as these events.
const EVENTS_A_CHOICE: u64 = 100;

impl State {
    pub(super) fn thread(&mut self, context: &Context) -> &mut Thread {
        self.threads.get_mut(&ThreadId(context.thread)).expect("a running thread is registered")
    }

    /// Takes a thread away; those that it had stopped go on.
    pub(super) fn remove(&mut self, id: ThreadId) {
        self.threads.remove(&id);
        for thread in self.threads.values_mut() {
            thread.stopped = thread.stopped.filter(|stop| !stop.is_by(id));
        }
    }

    pub(super) fn satisfy(&mut self, id: ThreadId, outcome: Outcome) {
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.status = Status::Runnable;
            thread.outcome = outcome;
            self.has_news = true;
        }
    }

    /// Ends a thread's wait because of a signal; tells whether it was waiting.
    pub(super) fn interrupt(&mut self, id: ThreadId) -> bool {
        let Some(Thread { status: Status::Waiting { wait, .. }, .. }) = self.threads.get(&id) else { return false };
        if let Wait::Futex { address, .. } | Wait::SharedFutex { address, .. } = *wait {
            self.remove_waiter(address, id);
        }
        self.satisfy(id, Outcome::Interrupted);
        true
    }

    pub(super) fn remove_waiter(&mut self, address: u64, id: ThreadId) {
        if let Some(waiters) = self.futexes.get_mut(&address) {
            waiters.retain(|&(waiter, _)| waiter != id);
            if waiters.is_empty() {
                self.futexes.remove(&address);
            }
        }
    }

    /// Picks who runs next and wakes it; if nobody can run, sees to it that somebody waits for that to change.
    pub(super) fn choose(&mut self, turn: &Turn, reason: Reason, clock: u64) {
        if let Choice::Nobody = self.pick(turn, reason, clock) {
            self.ensure_idle(turn);
        }
    }

    /// Picks who runs next and wakes it.
    pub(super) fn pick(&mut self, turn: &Turn, reason: Reason, clock: u64) -> Choice {
        self.end_waits();
        let runnable: Vec<ThreadId> =
            self.threads.iter().filter(|(_, thread)| thread.can_run()).map(|(&id, _)| id).collect();
        if runnable.is_empty() {
            self.last = self.current.take().unwrap_or(self.last);
            return Choice::Nobody;
        }
        let last = self.current.unwrap_or(self.last);
        let (access, passed) = (self.access.take(), self.passed());
        self.fruitless += passed.events + EVENTS_A_CHOICE;
        self.stats.events += passed.events;
        self.stats.steps += passed.points + u64::from(reason == Reason::Called);
        let reached = self.threads.get(&last).map_or(0, |thread| thread.context.with(Context::clock));
        let point = SwitchPoint { reason, last, clock: reached, runnable: &runnable, access, passed };
        let picked = self.policy.pick(point);
        (self.quantum, self.points) = (self.policy.quantum(), self.policy.points());
        if self.fruitless > self.patience {
            // A thread that makes calls again and again gets a new quantum each time, and would never come to the end of one.
            self.quantum = 1;
        }
        self.picked_at = self.threads.get(&picked).map_or(0, |thread| thread.context.with(Context::clock));
        self.has_news = false;
        if picked != last {
            self.stats.switches += 1;
            self.write_down(reason, last, picked);
            for word in [u64::from(last.0), clock, u64::from(picked.0)] {
                self.stats.schedule_hash = (self.stats.schedule_hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        self.last = picked;
        // Who has the turn already is awake: it is the one that asks.
        let is_awake = self.current.replace(picked) == Some(picked);
        if self.idle == Some(picked) {
            self.kick_idle(turn);
        } else if let Some(thread) = self.threads.get(&picked).filter(|_| !is_awake) {
            self.called.push(thread.context.call());
        }
        Choice::Picked
    }

    /// What the thread that has the turn has passed since it got it.
    fn passed(&self) -> Passed {
        let Some(thread) = self.current.and_then(|current| self.threads.get(&current)) else {
            return Passed::default();
        };
        let (clock, points) = thread.context.with(|context| (context.clock(), context.points));
        Passed { events: clock.saturating_sub(self.picked_at), points: self.points.saturating_sub(points) }
    }

    /// A run that is written down tells every switch.
    pub(super) fn write_down(&self, reason: Reason, from: ThreadId, to: ThreadId) {
        let Some(engine) = Engine::if_started() else { return };
        let Some(writing) = engine.writing() else { return };
        let thread = self.threads.get(&from);
        let (clock, registers) = thread.map_or((0, Digest(0)), |thread| {
            thread.context.with(|context| (context.clock(), register_digest(context)))
        });
        let reason = match (reason, thread) {
            (_, None) => SwitchReason::Ended,
            (Reason::QuantumOver, _) => SwitchReason::QuantumOver,
            (Reason::Yielded | Reason::Called, _) => SwitchReason::Yielded,
            _ => SwitchReason::Waiting,
        };
        let memory = self.glimpse(engine, writing, from);
        writing.note(&Event::Switch(Switch { from: from.0, to: to.0, clock, reason, registers, memory }));
        if let Some(thread) = self.threads.get(&to) {
            thread.context.with(|context| writing.stock.count(context));
        }
    }

    fn glimpse(&self, engine: &Engine, writing: &Writing, from: ThreadId) -> Option<Glimpse> {
        let mut reach = self.reach_of_others(from);
        // If nobody could run when the thread left, it has been in its call for a while.
        if let Some(thread) = self.threads.get(&from).filter(|_| self.current != Some(from)) {
            reach = reach.and(&thread.reach);
        }
        let world = engine.world();
        let glimpse = |context: Option<&Context>| writing.stock.glimpse(&world.space, &reach, context);
        match self.threads.get(&from) {
            Some(thread) => thread.context.with(|context| glimpse(Some(context))),
            None => glimpse(None),
        }
    }

    /// What calls of threads other than this one may write to at any time.
    pub(super) fn reach_of_others(&self, me: ThreadId) -> Reach {
        let others = self.threads.iter().filter(|(id, _)| **id != me);
        others.fold(Reach::default(), |reach, (_, thread)| reach.and(&thread.reach))
    }

    /// Sees to it that some thread waits in the kernel for all that is waited for just now.
    pub(super) fn ensure_idle(&mut self, turn: &Turn) {
        if self.idle.is_some() {
            return self.kick_idle(turn); // it must wait for the new wait too
        }
        let waits = |thread: &&Thread| matches!(thread.status, Status::Waiting { .. });
        if let Some(thread) = self.threads.values().find(waits) {
            self.called.push(thread.context.call());
        }
    }

    /// Makes the idle thread look at the world again, whichever way it waits.
    pub(super) fn kick_idle(&mut self, turn: &Turn) {
        if let Some(thread) = self.idle.and_then(|idle| self.threads.get(&idle)) {
            let one = 1u64;
            let descriptor = u64::from(turn.kick.load(Ordering::SeqCst));
            kernel::call(libc::SYS_write as u64, [descriptor, (&raw const one) as u64, 8, 0, 0, 0]);
            self.called.push(thread.context.call());
        }
    }

    /// Makes threads runnable whose descriptors are ready or whose time has come.
    pub(super) fn end_waits(&mut self) {
        let mut now = None;
        let mut ended = Vec::new();
        for (&id, thread) in &mut self.threads {
            let Status::Waiting { wait, deadline } = &mut thread.status else { continue };
            let satisfied = match wait {
                Wait::Descriptors(polls) => any_ready(polls),
                Wait::SharedFutex { address, word, .. } => kernel::read::<u32>(*address) != Ok(*word),
                Wait::Futex { .. } | Wait::Time => false,
            };
            if satisfied {
                ended.push((id, Outcome::Satisfied));
            } else if let Some(deadline) = *deadline
                && *now.get_or_insert_with(Instant::now) >= deadline
            {
                ended.push((id, Outcome::TimedOut));
            }
        }
        for (id, outcome) in ended {
            if let Some(Thread {
                status: Status::Waiting { wait: Wait::Futex { address, .. } | Wait::SharedFutex { address, .. }, .. },
                ..
            }) = self.threads.get(&id)
            {
                let address = *address;
                self.remove_waiter(address, id);
            }
            self.satisfy(id, outcome);
        }
    }

    /// All descriptors that anybody waits for, behind the one that kicks, and the time to the first deadline.
    pub(super) fn everything_awaited(&self, kick: i32) -> (Vec<libc::pollfd>, Option<Duration>) {
        let mut polls = vec![libc::pollfd { fd: kick, events: libc::POLLIN, revents: 0 }];
        let mut first: Option<Instant> = None;
        for thread in self.threads.values() {
            let Status::Waiting { wait, deadline } = &thread.status else { continue };
            let mut look_again = None;
            match wait {
                Wait::Descriptors(wanted) => polls.extend_from_slice(wanted),
                Wait::SharedFutex { .. } => look_again = Some(Instant::now() + SHARED_INTERVAL),
                Wait::Futex { .. } | Wait::Time => {}
            }
            first = [first, *deadline, look_again].into_iter().flatten().min();
        }
        (polls, first.map(|deadline| deadline.saturating_duration_since(Instant::now())))
    }

    pub(super) fn is_deadlocked(&self) -> bool {
        !self.threads.is_empty()
            && self
                .threads
                .values()
                .all(|thread| matches!(thread.status, Status::Waiting { wait: Wait::Futex { .. }, deadline: None }))
    }
}

/// Whether the run is recorded.
pub(super) fn is_written_down() -> bool {
    Engine::if_started().and_then(Engine::writing).is_some()
}

/// Who has the turn waits until no other process runs that shares memory.
pub(super) fn enter_commons() {
    if let Some(writing) = Engine::if_started().and_then(Engine::writing) {
        writing.enter_commons();
    }
}

/// Who gives the turn up lets other processes run too.
pub(super) fn leave_commons() {
    if let Some((engine, writing)) = Engine::if_started().and_then(|engine| Some((engine, engine.writing()?))) {
        writing.leave_commons(engine);
    }
}

/// Writes down that a thread is gone.
pub(super) fn write_end(context: &Context) {
    let Some(writing) = Engine::if_started().and_then(Engine::writing) else { return };
    let (thread, clock) = (context.thread, context.clock());
    writing.note(&Event::ThreadEnd(ThreadEnd { thread, clock, status: 0 }));
}

fn any_ready(polls: &mut [libc::pollfd]) -> bool {
    let arguments = [polls.as_mut_ptr() as u64, polls.len() as u64, 0, 0, 0, 0];
    kernel::call(libc::SYS_poll as u64, arguments) > 0
}
