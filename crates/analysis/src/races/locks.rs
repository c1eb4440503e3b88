//! The locks that a thread holds, and held a while ago.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use trace::stream::LockMode;

/// A lock that a side of a race held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct HeldLock {
    pub object: u64,
    pub mode: LockMode,
}

/// How many changes are remembered of each thread.
const REMEMBERED: usize = 4096;

/// What a lock was before a change.
#[derive(Debug)]
struct Change {
    /// The thread's tick when it came.
    tick: u64,
    object: u64,
    before: Option<LockMode>,
}

#[derive(Default, Debug)]
pub struct Locks {
    /// How many times, and how, each lock is held.
    held: BTreeMap<u64, (u32, LockMode)>,
    changes: VecDeque<Change>,
    /// The tick of the last change that is no longer remembered.
    forgotten: u64,
}

impl Locks {
    pub fn take(&mut self, tick: u64, object: u64, mode: LockMode) {
        if let Some((count, _)) = self.held.get_mut(&object) {
            *count += 1;
            return;
        }
        self.held.insert(object, (1, mode));
        self.remember(Change { tick, object, before: None });
    }

    /// What giving up the lock means: the mode in which it was held if this was the last time.
    pub fn give_up(&mut self, tick: u64, object: u64) -> GivenUp {
        let Some((count, mode)) = self.held.get_mut(&object) else { return GivenUp::NotHeld };
        *count -= 1;
        if *count > 0 {
            return GivenUp::StillHeld;
        }
        let mode = *mode;
        self.held.remove(&object);
        self.remember(Change { tick, object, before: Some(mode) });
        GivenUp::Held(mode)
    }

    /// The locks that were held at a tick; nothing if that was too long ago.
    pub fn at(&self, tick: u64) -> Option<Vec<HeldLock>> {
        if tick <= self.forgotten {
            return None;
        }
        let mut held: BTreeMap<u64, LockMode> = self.held.iter().map(|(object, (_, mode))| (*object, *mode)).collect();
        for change in self.changes.iter().rev().take_while(|change| change.tick >= tick) {
            match change.before {
                Some(mode) => held.insert(change.object, mode),
                None => held.remove(&change.object),
            };
        }
        Some(held.into_iter().map(|(object, mode)| HeldLock { object, mode }).collect())
    }

    fn remember(&mut self, change: Change) {
        if self.changes.len() == REMEMBERED
            && let Some(oldest) = self.changes.pop_front()
        {
            self.forgotten = oldest.tick;
        }
        self.changes.push_back(change);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GivenUp {
    Held(LockMode),
    /// It had been taken more than once.
    StillHeld,
    /// It was taken by another thread, or unseen.
    NotHeld,
}
