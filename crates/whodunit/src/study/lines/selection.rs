//! Which part of a stream is told.

use super::What;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use trace::stream::{Moment, Thread};

/// Kinds of events, as people ask for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Accesses,
    Sync,
    Memory,
    Threads,
    Calls,
    Syscalls,
}

/// Everything that is asked for, in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Selection {
    pub kinds: BTreeSet<Kind>,
    /// Of these threads; empty for all.
    pub threads: BTreeSet<Thread>,
    /// Done by this code; empty for all.
    pub code: Vec<Range<u64>>,
    /// Of this memory; empty for all.
    pub memory: Vec<Range<u64>>,
    /// Numbers of events, both included.
    pub from: Option<u64>,
    pub to: Option<u64>,
    /// With the calls whose frames accesses may be in: following calls makes a replay much slower.
    pub frames: bool,
    /// With what was in memory.
    pub values: bool,
    /// Not more than so many.
    pub limit: Option<u64>,
}

impl Selection {
    pub fn has(&self, thread: Thread, kind: Kind, moment: Moment) -> bool {
        let is_in_time = match moment.inherited {
            // All of it was before the process's own first event.
            true => self.from.is_none(),
            false => self.from.is_none_or(|from| from <= moment.event) && self.to.is_none_or(|to| moment.event <= to),
        };
        is_in_time && self.kinds.contains(&kind) && (self.threads.is_empty() || self.threads.contains(&thread))
    }

    /// Whether code and memory are among those that are asked for. What has none is not.
    pub fn covers(&self, what: &What) -> bool {
        let is_by = |pc: u64| self.code.iter().any(|range| range.contains(&pc));
        let is_of =
            |memory: &Range<u64>| self.memory.iter().any(|range| memory.start < range.end && memory.end > range.start);
        (self.code.is_empty() || what.code().into_iter().flatten().any(is_by))
            && (self.memory.is_empty() || what.memory().as_ref().is_some_and(is_of))
    }
}
