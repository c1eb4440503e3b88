//! Threads that a process of the same memory has stopped, as a tracer stops threads: they keep what they are doing, and do
//! not get the turn.

use super::{Thread, Turn};
use crate::context::Context;
use sched::ThreadId;

/// A stop by a tracer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    tracer: ThreadId,
    /// The tracer has waited for it.
    reported: bool,
}

impl Stop {
    pub(super) fn is_by(self, tracer: ThreadId) -> bool {
        self.tracer == tracer
    }
}

impl Thread {
    fn has_tid(&self, tid: i32) -> bool {
        self.context.with(|context| context.tid == tid)
    }
}

impl Turn {
    /// Stops another thread on behalf of the caller.
    pub fn stop(&self, tracer: &Context, tid: i32) -> Option<()> {
        let mut state = self.lock();
        let tracer = ThreadId(tracer.thread);
        let (_, thread) = state.threads.iter_mut().find(|(id, thread)| **id != tracer && thread.has_tid(tid))?;
        if thread.stopped.is_none() {
            thread.stopped = Some(Stop { tracer, reported: false });
        }
        Some(())
    }

    /// Whether the thread was stopped by the caller and the caller has not been told yet; now it is.
    pub fn report_stop(&self, tracer: &Context, tid: i32) -> bool {
        self.with_stopped(tracer, tid, |thread| {
            thread.stopped.as_mut().is_some_and(|stop| !std::mem::replace(&mut stop.reported, true))
        })
        .unwrap_or(false)
    }

    /// Lets a thread go on that the caller has stopped.
    pub fn resume(&self, tracer: &Context, tid: i32) -> Option<()> {
        self.with_stopped(tracer, tid, |thread| thread.stopped = None)
    }

    /// Looks at a thread that the caller has stopped.
    pub fn look_at_stopped<R>(&self, tracer: &Context, tid: i32, look: impl FnOnce(&Context) -> R) -> Option<R> {
        self.with_stopped(tracer, tid, |thread| thread.context.with(look))
    }

    fn with_stopped<R>(&self, tracer: &Context, tid: i32, use_it: impl FnOnce(&mut Thread) -> R) -> Option<R> {
        let mut state = self.lock();
        let tracer = ThreadId(tracer.thread);
        let is_ours = |thread: &Thread| thread.stopped.is_some_and(|stop| stop.is_by(tracer));
        let thread = state.threads.values_mut().find(|thread| is_ours(thread) && thread.has_tid(tid));
        thread.map(use_it)
    }
}
