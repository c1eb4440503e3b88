//! Signals of a free run's threads to each other.

use super::free::{Reply, Run, Status};
use super::machine::Pending;
use super::outcome::Ending;
use crate::signals::{Action, DefaultAction, UNBLOCKABLE, bit, default_action, deliver, frame};
use crate::syscalls::error;
use trace::event::SignalPlace;

/// What sent a signal: `tgkill`.
const SI_TKILL: i32 = -6;

impl Run<'_> {
    /// The thread that has this number for the kernel.
    fn thread_called(&self, tid: u64) -> Option<u32> {
        let threads = self.machine.tids.iter().filter(|(thread, _)| self.free.statuses.contains_key(thread));
        threads.into_iter().find_map(|(&thread, &known)| (known as u64 == tid).then_some(thread))
    }

    /// Who gets a signal to the whole process: the thread that sends it, or else the first that lets it through.
    fn thread_for(&self, pid: u64, signal: i32) -> Option<u32> {
        let is_own = self.machine.tids.get(&1).is_some_and(|own| *own as u64 == pid);
        let current = self.machine.current;
        let mut all = std::iter::once(current).chain(self.free.statuses.keys().copied());
        let open = all.find(|thread| !self.blocks(*thread, signal));
        is_own.then(|| open.unwrap_or(current))
    }

    /// A signal to one of the program's threads; others are beyond a free run.
    pub fn send(&mut self, pending: Pending) -> Reply {
        let [first, second, third, ..] = pending.arguments;
        let (target, signal) = match pending.number as i64 {
            libc::SYS_tgkill => (self.thread_called(second), third as i32),
            libc::SYS_tkill => (self.thread_called(first), second as i32),
            _ => (self.thread_for(first, second as i32), second as i32),
        };
        let Some(target) = target.filter(|_| (0..=64).contains(&signal)) else { self.needs(pending) };
        self.raise(target, signal);
        Reply::Result(0)
    }

    /// A signal has come for a thread.
    pub fn raise(&mut self, target: u32, signal: i32) {
        let action = self.engine.world().actions(self.context).get(signal);
        let deadly = matches!(default_action(signal), DefaultAction::Terminate | DefaultAction::Crash);
        match () {
            () if signal == 0 || action.handler == Action::IGNORE => {}
            () if action.has_handler() || self.blocks(target, signal) => {
                self.free.signals.entry(target).or_default().push(signal);
                self.interrupt(target);
            }
            () if deadly => self.conclude(Ending::Killed { signal, address: None }),
            () => {}
        }
    }

    fn blocks(&self, thread: u32, signal: i32) -> bool {
        let mask = match thread == self.machine.current {
            true => self.context.signal_mask,
            false => self.kept.threads.get(&thread).map_or(0, |kept| kept.signal_mask),
        };
        mask & bit(signal.max(1)) != 0
    }

    /// The place of the first signal that has come for a thread and is let through.
    fn signal_for(&self, thread: u32) -> Option<usize> {
        self.free.signals.get(&thread)?.iter().position(|signal| !self.blocks(thread, *signal))
    }

    /// A thread that waits does so no more if a signal has come for it.
    pub fn interrupt(&mut self, thread: u32) {
        let status = self.free.statuses.get(&thread);
        let waits = matches!(status, Some(Status::Futex { .. } | Status::Sleeping { .. } | Status::Events { .. }));
        if waits && self.signal_for(thread).is_some() {
            self.free.futexes.forget(thread);
            self.free.deadlines.remove(&thread);
            self.forget_call(thread);
            self.free.statuses.insert(thread, Status::Runnable { result: Some(error(libc::EINTR)) });
        }
    }

    /// Has the current thread begin with the handlers of what has come for it.
    pub fn take_signals(&mut self) {
        let current = self.machine.current;
        while let Some(first) = self.signal_for(current) {
            let signal = self.free.signals.entry(current).or_default().remove(first);
            let sender = self.machine.tids.get(&1).map_or(0, |pid| u64::from(pid.cast_unsigned()));
            let mut info = [0; 16];
            info[0] = signal as u64;
            info[1] = u64::from(SI_TKILL.cast_unsigned());
            info[2] = sender;
            if self.engine.world().actions(self.context).get(signal).has_handler() {
                self.stop_telling();
                deliver::deliver(self.engine, self.context, signal, &info, [0; 3], SignalPlace::AfterCall);
            } else if matches!(default_action(signal), DefaultAction::Terminate | DefaultAction::Crash) {
                self.conclude(Ending::Killed { signal, address: None });
            }
        }
    }

    pub fn return_from_handler(&mut self) -> Reply {
        match frame::pop(self.context, self.engine.xstate()) {
            Ok(mask) => {
                self.stop_telling();
                self.context.signal_mask = mask & !UNBLOCKABLE;
            }
            Err(_) => self.conclude(Ending::Killed { signal: libc::SIGSEGV, address: None }),
        }
        Reply::Jumped
    }
}
