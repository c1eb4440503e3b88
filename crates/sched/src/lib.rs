//! Who runs next. Policies see only what a recording also holds, so every choice can be replayed.
//!
//! This crate must not know the engine, clocks of the outside world, or unseeded randomness.
#![forbid(unsafe_code)]

mod random;
mod round_robin;

pub use random::{Random, Rng};
pub use round_robin::RoundRobin;

/// A guest thread's number: 1 for the first, in order of creation, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ThreadId(pub u32);

impl std::fmt::Display for ThreadId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a choice is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The running thread has used its quantum up.
    QuantumOver,
    /// The running thread asked others to go first.
    Yielded,
    /// The running thread waits or has ended.
    Stopped,
}

/// A point where the turn may change hands.
#[derive(Clone, Copy, Debug)]
pub struct SwitchPoint<'a> {
    pub reason: Reason,
    /// The thread that had the turn last.
    pub last: ThreadId,
    /// Threads that can run, in ascending order; never empty. Contains `last` unless it stopped.
    pub runnable: &'a [ThreadId],
}

/// A scheduling policy: a small oracle.
pub trait Policy: Send {
    /// One of `point.runnable`.
    fn pick(&mut self, point: SwitchPoint<'_>) -> ThreadId;

    /// How many clock events the thread just picked may pass before the next choice.
    fn quantum(&mut self) -> u64;
}
