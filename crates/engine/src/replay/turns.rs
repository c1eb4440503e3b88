//! Who runs next in a free run, and for how long: the plan's wish first, then the policy.

use super::free::{Run, Status};
use super::kept::Belongings;
use super::outcome::{Ending, Turn};
use crate::context::RAX;
use crate::syscalls::error;
use sched::{Passed, Reason, SwitchPoint, ThreadId};

/// Nanoseconds that pass with each event of a clock.
const TICK: u64 = 10;
/// A held thread waits for such a part of what the run may take, so that no plan hangs.
const PATIENCE: u64 = 2;
/// Why it is let go then.
pub const TOO_LONG: &str = "the others went on for too long";
/// What it counts for, in events, that everybody sleeps: a thread that only looks in now and then (at a progress, say) would
/// else keep held ones waiting for a very long time.
const IDLENESS: u64 = 20_000;

impl Run<'_> {
    /// Gives the turn to whoever is to run next.
    pub fn choose(&mut self, mut reason: Reason) {
        loop {
            let next = self.pick(reason);
            self.turn_to(next);
            match self.make_pending_call() {
                Some(another) => reason = another,
                None => break,
            }
        }
        self.take_signals();
        self.grant();
    }

    fn pick(&mut self, reason: Reason) -> u32 {
        loop {
            self.end_waits();
            let is_runnable = |status: &Status| matches!(status, Status::Runnable { .. });
            let threads = self.free.statuses.iter().filter(|(_, status)| is_runnable(status));
            let runnable: Vec<ThreadId> = threads.map(|(&thread, _)| ThreadId(thread)).collect();
            if runnable.is_empty() {
                if !self.hasten_input() && !self.pass_time() && !self.last_input() {
                    self.conclude_standstill();
                }
                continue;
            }
            let can_run = |thread: &u32| runnable.contains(&ThreadId(*thread));
            if let Some(favoured) = self.free.favoured.take().filter(can_run) {
                return favoured;
            }
            if let Some(wanted) = self.course.wanted().filter(can_run) {
                if self.course.is_run_over_at_once() {
                    self.end_run();
                }
                return wanted;
            }
            let last = ThreadId(self.machine.current);
            let passed = Passed::default();
            let point = SwitchPoint { reason, last, clock: 0, runnable: &runnable, access: None, passed };
            return self.course.policy.pick(point).0;
        }
    }

    /// Makes threads runnable whose time has come, or whose hold is no longer worth waiting for.
    fn end_waits(&mut self) {
        let (time, spent) = (self.free.time, self.free.spent);
        let patience = self.course.limit / PATIENCE;
        let mut ended = Vec::new();
        for (&thread, status) in &self.free.statuses {
            match *status {
                Status::Futex { deadline: Some(deadline), .. } if deadline <= time => {
                    ended.push((thread, Some(error(libc::ETIMEDOUT))));
                }
                Status::Sleeping { until } if until <= time => ended.push((thread, Some(0))),
                Status::Events { deadline } if deadline.is_some_and(|deadline| deadline <= time) => {
                    ended.push((thread, None));
                }
                Status::Events { .. } if self.call_of(thread).is_none_or(|pending| self.would_end(pending)) => {
                    ended.push((thread, None));
                }
                Status::Held { since, .. } if spent - since > patience => ended.push((thread, None)),
                _ => {}
            }
        }
        let is_late = |thread: &u32| {
            let status = self.free.statuses.get(thread);
            matches!(status, Some(Status::Events { deadline: Some(deadline) }) if *deadline <= time)
        };
        if ended.iter().any(|(thread, _)| is_late(thread)) {
            self.input_is_late();
        }
        for (thread, result) in ended {
            // A signal that came late has ended its wait.
            if matches!(self.free.statuses.get(&thread), Some(Status::Runnable { .. })) {
                continue;
            }
            if let Some(Status::Held { hold, .. }) = self.free.statuses.get(&thread) {
                self.give_up(thread, *hold, TOO_LONG);
            }
            self.free.futexes.forget(thread);
            if result.is_some() {
                self.forget_call(thread);
            }
            self.free.statuses.insert(thread, Status::Runnable { result });
        }
    }

    /// Nobody can ever run again, unless somebody outside has a say.
    fn conclude_standstill(&mut self) -> ! {
        let ending = if self.waits_for_outside() { Ending::OutOfInput } else { Ending::Deadlock };
        self.conclude(ending)
    }

    /// A call that would be made again has its result.
    pub(super) fn forget_call(&mut self, thread: u32) {
        if thread == self.machine.current {
            self.machine.pending = None;
        } else if let Some(aside) = self.machine.threads.get_mut(&thread) {
            aside.forget_pending();
        }
    }

    /// Nobody can run: lets time pass to the first deadline, or lets a held thread go. False if there is neither.
    fn pass_time(&mut self) -> bool {
        let deadline = |(thread, status): (&u32, &Status)| match *status {
            Status::Futex { deadline, .. } => deadline,
            Status::Sleeping { until } => Some(until),
            Status::Events { deadline } => {
                let timer = self.call_of(*thread).and_then(|pending| self.next_timer(pending));
                [deadline, timer].into_iter().flatten().min()
            }
            Status::Runnable { .. } | Status::Held { .. } => None,
        };
        let first = self.free.statuses.iter().filter_map(deadline).min();
        if let Some(first) = first.filter(|_| !self.is_idle()) {
            self.free.time = self.free.time.max(first);
            self.free.spent += IDLENESS;
            self.free.n_idle += 1;
            return true;
        }
        let held = self.free.statuses.iter().find_map(|(&thread, status)| match *status {
            Status::Held { hold, .. } => Some((thread, hold)),
            _ => None,
        });
        if let Some((thread, hold)) = held {
            self.give_up(thread, hold, "nothing else could run");
            self.free.n_idle = 0;
            self.free.statuses.insert(thread, Status::Runnable { result: None });
        }
        held.is_some()
    }

    fn give_up(&mut self, thread: u32, hold: usize, why: &str) {
        self.course.holds[hold].over = true;
        self.remark(format!("thread {thread} was let go on before the other had passed: {why}"));
    }

    fn turn_to(&mut self, next: u32) {
        let from = self.machine.current;
        if next != from || self.machine.ended {
            self.tell_switch(next);
            let clock = self.context.clock();
            if !self.machine.ended {
                *self.kept.thread(from) = Belongings::of(self.context);
                let aside = self.machine.put_aside(self.engine, self.context);
                self.machine.threads.insert(from, aside);
            }
            self.machine.ended = false;
            if let Some(aside) = self.machine.threads.remove(&next) {
                self.machine.take_up(self.engine, self.context, next, aside);
            }
            self.kept.thread(next).give(self.context);
            self.free.turns.push(Turn { from, clock, to: next });
            self.free.mark = self.context.clock();
        }
        let resumed = self.free.statuses.insert(next, Status::Runnable { result: None });
        if let Some(Status::Runnable { result: Some(result) }) = resumed {
            self.tell_result(result);
            self.context.gpr[RAX] = result as u64;
        }
    }

    /// Gives the current thread its time.
    pub fn grant(&mut self) {
        let clock = self.context.clock();
        let stop = self.course.clock_for(self.machine.current).filter(|stop| *stop > clock);
        let quantum = self.course.policy.quantum();
        let quantum = stop.map_or(quantum, |stop| quantum.min(stop - clock));
        let left = self.course.limit.saturating_sub(self.free.spent) + 1;
        self.context.set_quantum(quantum.min(left).max(1) as i64);
        self.free.mark = clock;
    }

    /// Counts what the current thread has done since this was last called, and `more`.
    pub fn charge(&mut self, more: u64) {
        let clock = self.context.clock();
        let events = clock.saturating_sub(std::mem::replace(&mut self.free.mark, clock)) + more;
        self.free.spent += events;
        self.free.time = self.free.time.saturating_add(events * TICK);
        if self.free.spent > self.course.limit {
            self.conclude(Ending::Limit);
        }
    }
}
