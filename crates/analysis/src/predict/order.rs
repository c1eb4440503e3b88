//! Which deeds must come before which: what synchronisation orders, whatever the schedule.
//!
//! Locks exclude, but order nothing. Where a thread reads a pointer in a critical section that another wrote in one of
//! the same lock, as with a queue, what it does next depends on that. So it does where it reads a flag that it would have waited for.

use super::deeds::{Circumstances, Happening, Held, follow};
use crate::races::blocks::Blocks;
use crate::races::cell::Slot;
use crate::races::clock::{Moment, Passed, Seen};
use crate::races::objects::Objects;
use crate::races::shadow::{GRANULE_SIZE, granules};
use crate::races::suspects::Filter;
use crate::races::threads::Threads;
use crate::races::{Surveyed, Suspects};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use trace::stream::{Access, Event, LockMode, Thread};

pub struct Order {
    threads: Threads,
    objects: Objects,
    surveyed: Surveyed,
    /// Where memory may be synchronisation: most is not, which is to be told quickly.
    sync_granules: Filter,
    /// What was passed on through memory that is synchronisation, by granule.
    passed: FxHashMap<u64, Passed>,
}

/// Who wrote last, by which instruction, in which critical sections, and what it had seen.
pub struct LastWrite {
    pub thread: Thread,
    pub pc: u64,
    pub circumstances: Arc<Circumstances>,
    pub moment: Moment,
}

impl LastWrite {
    /// Another write has come.
    pub fn follow(&mut self, write: &Happening, seen: &Seen) {
        (self.thread, self.pc) = (write.thread, write.pc);
        follow(&mut self.circumstances, &write.circumstances);
        (self.moment.owner, self.moment.tick) = (write.slot, write.tick);
        self.moment.seen.clone_from(seen);
    }
}

impl Order {
    pub fn new(surveyed: Surveyed) -> Order {
        Order {
            threads: Threads::default(),
            objects: Objects::default(),
            sync_granules: Filter::new(Suspects::new(surveyed.sync_memory.granules())),
            surveyed,
            passed: FxHashMap::default(),
        }
    }

    pub fn slot(&mut self, thread: Thread) -> Option<Slot> {
        self.threads.slot(thread)
    }

    /// One thread runs, and all that others did is before what it does.
    pub fn is_alone(&self) -> bool {
        self.threads.is_alone()
    }

    pub fn unwatched(&self) -> u64 {
        self.threads.unwatched()
    }

    /// The tick of the thread's next deed.
    pub fn advance(&mut self, slot: Slot) -> u64 {
        let running = self.threads.at(slot);
        running.advance(1);
        running.tick()
    }

    /// The thread has done so many things that nobody asks for.
    pub fn pass_over(&mut self, slot: Slot, deeds: u64) {
        self.threads.at(slot).advance(deeds);
    }

    /// The tick of all that the thread does between two releases.
    pub fn epoch(&mut self, slot: Slot) -> u64 {
        let view = self.threads.view(slot);
        if view.now.tick() < view.since.tick() {
            self.threads.at(slot).advance(1);
        }
        self.threads.at(slot).tick()
    }

    /// Notes who has written something last.
    pub fn written(&self, last: &mut Option<LastWrite>, write: &Happening) {
        let seen = self.seen(write.slot);
        match last {
            Some(last) => last.follow(write, seen),
            None => {
                let moment = Moment { owner: write.slot, tick: write.tick, seen: seen.clone() };
                let (thread, pc, circumstances) = (write.thread, write.pc, write.circumstances.clone());
                *last = Some(LastWrite { thread, pc, circumstances, moment });
            }
        }
    }

    pub fn seen(&self, slot: Slot) -> &Seen {
        self.threads.view(slot).seen
    }

    /// Whether what another did by then must be before what the thread does now.
    pub fn has_seen(&self, slot: Slot, other: Slot, tick: u64) -> bool {
        self.seen(slot).tick_of(other) >= tick
    }

    /// Whether a deed must be before what the thread does now.
    pub fn is_before(&self, deed: &Happening, slot: Slot) -> bool {
        deed.slot == slot || self.has_seen(slot, deed.slot, deed.tick)
    }

    /// Whether memory is there for synchronisation; then its accesses order others.
    pub fn is_synchronisation(&self, blocks: &Blocks, address: u64) -> bool {
        let is_in_block = || self.surveyed.sync_memory.contains(blocks.number_at(address).unwrap_or(0), address);
        self.sync_granules.wants(address, 1) && is_in_block()
    }

    pub fn synchronise(&mut self, slot: Slot, access: &Access) {
        for (granule, _) in granules(access.address, u64::from(access.size).min(GRANULE_SIZE)) {
            if access.kind.reads()
                && let Some(passed) = self.passed.get(&granule)
            {
                self.threads.at(slot).acquire(passed);
            }
        }
        if access.kind.writes() {
            let moment = self.threads.at(slot).release();
            for (granule, _) in granules(access.address, u64::from(access.size).min(GRANULE_SIZE)) {
                self.passed.entry(granule).or_default().add(moment.clone());
            }
        }
    }

    /// A read of a pointer or a flag that another thread wrote: a dependence, if both were in critical sections of one lock.
    pub fn depend(&mut self, slot: Slot, locks: &[Held], write: &LastWrite) {
        let shares_lock = |held: &Held| write.circumstances.locks.iter().any(|other| other.object == held.object);
        if locks.iter().any(shares_lock) {
            self.threads.at(slot).acquire(&Passed::One(write.moment.clone()));
        }
    }

    pub fn event(&mut self, slot: Slot, thread: Thread, event: &Event) {
        match *event {
            Event::Created { child } => self.threads.create(slot, child),
            Event::Ended => self.threads.end(slot, thread),
            Event::Joined { other } => self.threads.join(slot, other),
            Event::Released { object, .. } => {
                let moment = self.threads.at(slot).release();
                self.objects.release(object, moment);
            }
            Event::Acquired { object, .. } => {
                let running = self.threads.at(slot);
                self.objects.passed(object, LockMode::Shared).for_each(|passed| running.acquire(passed));
            }
            Event::Forgotten { object } => self.objects.forget(object),
            _ => {}
        }
    }
}
