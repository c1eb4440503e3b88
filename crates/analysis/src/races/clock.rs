//! Vector clocks: what a thread has seen of the others, and what a synchronisation object passes on.

use super::cell::Slot;
use std::sync::Arc;

/// For each slot, the tick up to which its accesses are known to have happened. Copies share memory until one changes.
#[derive(Default, Debug)]
pub struct Seen {
    ticks: Arc<Vec<u64>>,
}

impl Clone for Seen {
    fn clone(&self) -> Seen {
        Seen { ticks: self.ticks.clone() }
    }

    /// Mostly nothing new has been seen, and then no counts of references change.
    fn clone_from(&mut self, source: &Seen) {
        if !Arc::ptr_eq(&self.ticks, &source.ticks) {
            self.ticks = source.ticks.clone();
        }
    }
}

impl Seen {
    #[inline]
    pub fn tick_of(&self, slot: Slot) -> u64 {
        self.ticks.get(usize::from(slot)).copied().unwrap_or(0)
    }

    /// Whether this was news.
    pub fn raise(&mut self, slot: Slot, tick: u64) -> bool {
        if self.tick_of(slot) >= tick {
            return false;
        }
        let ticks = Arc::make_mut(&mut self.ticks);
        let index = usize::from(slot);
        if ticks.len() <= index {
            ticks.resize(index + 1, 0);
        }
        ticks[index] = tick;
        true
    }

    /// Whether this was news.
    pub fn join(&mut self, other: &Seen) -> bool {
        let nothing_new = Arc::ptr_eq(&self.ticks, &other.ticks)
            || other.ticks.iter().enumerate().all(|(index, tick)| self.ticks.get(index).unwrap_or(&0) >= tick);
        if nothing_new {
            return false;
        }
        let ticks = Arc::make_mut(&mut self.ticks);
        if ticks.len() < other.ticks.len() {
            ticks.resize(other.ticks.len(), 0);
        }
        for (mine, theirs) in ticks.iter_mut().zip(other.ticks.iter()) {
            *mine = (*mine).max(*theirs);
        }
        true
    }
}

/// A thread's clock at one moment. Whoever has seen `tick` of `owner` has seen all of it.
#[derive(Clone, Debug)]
pub struct Moment {
    pub owner: Slot,
    pub tick: u64,
    pub seen: Seen,
}

/// What a synchronisation object passes on to who acquires it.
#[derive(Clone, Default, Debug)]
pub enum Passed {
    #[default]
    Nothing,
    /// The last release saw all the ones before, or replaced them.
    One(Moment),
    Many(Seen),
}

impl Passed {
    /// Adds to what is passed on already.
    pub fn add(&mut self, moment: Moment) {
        let covered = match self {
            Passed::Nothing => true,
            Passed::One(old) => old.owner == moment.owner || moment.seen.tick_of(old.owner) >= old.tick,
            Passed::Many(_) => false,
        };
        if covered {
            *self = Passed::One(moment);
            return;
        }
        let mut all = match std::mem::take(self) {
            Passed::Nothing => Seen::default(),
            Passed::One(old) => old.into_seen(),
            Passed::Many(seen) => seen,
        };
        all.join(&moment.seen);
        all.raise(moment.owner, moment.tick);
        *self = Passed::Many(all);
    }
}

impl Moment {
    fn into_seen(self) -> Seen {
        let mut seen = self.seen;
        seen.raise(self.owner, self.tick);
        seen
    }
}
