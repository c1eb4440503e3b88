//! Who runs next, and what goes wrong meanwhile. Policies see only what a recording also holds, so every choice can be replayed.
//!
//! This crate must not know the engine, clocks of the outside world, or unseeded randomness.
#![forbid(unsafe_code)]

mod delay;
mod faults;
mod follow;
mod pct;
mod pending;
mod pos;
mod preferring;
mod random;
mod ranks;
mod reads_from;
mod round_robin;
#[cfg(test)]
mod toy;
mod walk;

pub use delay::{Delay, Delays};
pub use faults::{FaultKind, FaultKinds, Faults};
pub use follow::{Course, Deed, Detour, Follow, Handover, Mark, Step, Steps};
pub use pct::Pct;
pub use pos::Pos;
pub use preferring::Preferring;
pub use random::{Random, Rng};
pub use reads_from::{Pair, ReadsFrom};
pub use round_robin::RoundRobin;
pub use walk::Walk;

use serde::{Deserialize, Serialize};

/// How many events a thread may pass before others that could run get their turn, whatever a policy prefers.
const FAIR: u64 = 20_000;

/// A guest thread's number: 1 for the first, in order of creation, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
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
    /// The running thread is about to make a system call.
    Called,
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
    /// Its clock; 0 if it is gone, and in what-if runs.
    pub clock: u64,
    /// Threads that can run, in ascending order; never empty. Contains `last` unless it stopped.
    pub runnable: &'a [ThreadId],
    /// What `last` is about to do, if it stands at a point.
    pub access: Option<Access>,
    pub passed: Passed,
}

/// An access to memory that a thread is about to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Access {
    /// The instruction.
    pub site: u64,
    pub address: u64,
    pub writes: bool,
}

impl Access {
    /// Whether the order of the two matters.
    pub fn conflicts(self, other: Access) -> bool {
        self.address == other.address && (self.writes || other.writes)
    }
}

/// What a thread has passed since it was picked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    pub events: u64,
    /// Those of them that were points.
    pub points: u64,
}

/// A scheduling policy: a small oracle.
pub trait Policy: Send {
    /// One of `point.runnable`.
    fn pick(&mut self, point: SwitchPoint<'_>) -> ThreadId;

    /// How many clock events the thread just picked may pass before the next choice.
    fn quantum(&mut self) -> u64;

    /// How many points it may pass; with none it comes to the next one, and the policy is asked.
    fn points(&mut self) -> u64 {
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quantum of `last` is over.
    pub fn over(last: ThreadId, runnable: &[ThreadId]) -> SwitchPoint<'_> {
        SwitchPoint { reason: Reason::QuantumOver, last, clock: 0, runnable, access: None, passed: Passed::default() }
    }
}
