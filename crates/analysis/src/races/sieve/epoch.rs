//! Times in 32 bits: which thread, and which of the stretches between its releases.

use super::super::cell::Slot;
use super::super::clock::Seen;

const TICK_BITS: u32 = 20;
/// The last tick that an epoch can have. A thread that comes to it goes on in another slot.
pub const LAST_TICK: u64 = (1 << TICK_BITS) - 1;
/// The last slot that an epoch can have. Numbers with higher ones stand for other things.
pub const LAST_SLOT: Slot = 0xfff - 1;

/// An epoch of a thread; 0 for none; or the number of a list of epochs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Epoch(pub u32);

impl Epoch {
    pub const NONE: Epoch = Epoch(0);
    /// Equal to none that there are.
    const NOBODY: Epoch = Epoch(u32::MAX);

    pub fn new(slot: Slot, tick: u64) -> Epoch {
        Epoch(u32::from(slot) << TICK_BITS | tick as u32)
    }

    pub fn of_list(list: u32) -> Epoch {
        Epoch(u32::from(LAST_SLOT + 1) << TICK_BITS | list)
    }

    #[inline]
    fn slot(self) -> Slot {
        (self.0 >> TICK_BITS) as Slot
    }

    #[inline]
    fn tick(self) -> u64 {
        u64::from(self.0) & LAST_TICK
    }

    /// Whether it is one of this slot's, or none.
    #[inline]
    pub fn is_of(self, slot: Slot) -> bool {
        self == Epoch::NONE || self.slot() == slot
    }

    /// The list that the number stands for.
    #[inline]
    pub fn list(self) -> Option<u32> {
        (self.slot() > LAST_SLOT).then_some(self.tick() as u32)
    }
}

const REMEMBERED: usize = 16;

/// The epoch that a thread is in, and lists that it is in by that.
#[derive(Clone, Copy)]
pub struct Now {
    pub slot: Slot,
    pub epoch: Epoch,
    lists: [Epoch; REMEMBERED],
}

impl Now {
    pub fn new(slot: Slot, epoch: Epoch) -> Now {
        Now { slot, epoch, lists: [Epoch::NOBODY; REMEMBERED] }
    }

    #[inline]
    pub fn is_in(&self, readers: Epoch) -> bool {
        self.lists[readers.0 as usize % REMEMBERED] == readers
    }

    /// The thread is among these now.
    pub fn join(&mut self, readers: Epoch) {
        self.lists[readers.0 as usize % REMEMBERED] = readers;
    }
}

/// A thread in one of its epochs, and what it has seen of the others.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    pub now: Epoch,
    pub seen: &'a Seen,
}

impl Sight<'_> {
    /// Whether what was done in an epoch comes before what is done now. It must be no list.
    #[inline]
    pub fn covers(&self, epoch: Epoch) -> bool {
        epoch.slot() == self.now.slot() || epoch.tick() <= self.seen.tick_of(epoch.slot())
    }
}
