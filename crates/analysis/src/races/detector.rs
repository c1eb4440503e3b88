//! The race detector: a listener that keeps clocks and histories, and collects what races.

use super::blocks::Blocks;
use super::cell::{Action, Entry, Slot, What};
use super::found::{Collected, Found, Instance, Side};
use super::locks::GivenUp;
use super::objects::Objects;
use super::shadow::{Adding, END, GRANULE_SIZE, Shadow, granules};
use super::sites::{Classify, SiteClass, Sites};
use super::survey::Surveyed;
use super::threads::Threads;
use trace::stream::{Access, AccessKind, Event, Listener, LockMode, Site, Thread};

/// Finds the data races of a stream.
pub struct Detector {
    sites: Sites,
    surveyed: Surveyed,
    threads: Threads,
    shadow: Shadow,
    objects: Objects,
    blocks: Blocks,
    collected: Collected,
    /// What the access at hand races with. Empty between two accesses.
    races: Vec<Entry>,
}

impl Detector {
    /// With what a [`Survey`](super::Survey) of the same stream has found.
    pub fn new(surveyed: Surveyed, classify: Classify) -> Detector {
        let mut detector = Detector {
            sites: Sites::new(classify),
            surveyed,
            threads: Threads::default(),
            shadow: Shadow::new(),
            objects: Objects::default(),
            blocks: Blocks::default(),
            collected: Collected::default(),
            races: Vec::new(),
        };
        detector.mark_block(0);
        detector
    }

    pub fn into_found(self) -> Found {
        Found { unwatched_threads: self.threads.unwatched(), ..self.collected.found }
    }

    /// The memory that histories take, in bytes.
    pub fn shadow_size(&self) -> usize {
        self.shadow.size()
    }

    /// How many of the thread's next accesses have no effect, since earlier ones stand for them: nearly all of most
    /// threads' accesses, so they are passed over in a loop of their own.
    #[inline]
    fn count_known(&self, slot: Slot, accesses: &[Access]) -> usize {
        let view = self.threads.view(slot);
        let is_known = |access: &Access| {
            let Some((granule, mask)) = self.simple_part(access) else { return false };
            self.shadow.known_cell(granule).is_some_and(|cell| cell.knows(&view, mask, access.kind.writes()))
        };
        accesses.iter().take_while(|access| is_known(access)).count()
    }

    /// The granule and the bytes of an access that has nothing special.
    #[inline]
    fn simple_part(&self, access: &Access) -> Option<(u64, u8)> {
        let (granule, offset) = (access.address / GRANULE_SIZE, access.address % GRANULE_SIZE);
        let is_simple = offset + u64::from(access.size) <= GRANULE_SIZE
            && access.kind != AccessKind::Atomic
            && access.address < END
            && self.sites.class(access.site) == SiteClass::Plain;
        is_simple.then(|| (granule, (((1_u16 << access.size) - 1) << offset) as u8))
    }

    #[inline]
    fn access(&mut self, slot: Slot, access: &Access) {
        self.threads.at(slot).advance(1);
        let Some((granule, mask)) = self.simple_part(access) else { return self.other_access(slot, access) };
        if self.touch(slot, granule, mask, access) {
            self.pass_on(slot, access);
        }
    }

    /// An access that is synchronisation, of several granules, or of no concern.
    fn other_access(&mut self, slot: Slot, access: &Access) {
        let class = self.sites.class(access.site);
        if class == SiteClass::Ignored {
            return;
        }
        let is_sync = class == SiteClass::Atomic || access.kind == AccessKind::Atomic;
        let mut releases = false;
        for (granule, mask) in granules(access.address, u64::from(access.size)) {
            if is_sync {
                self.shadow.make_sync(granule, mask);
            }
            releases |= self.touch(slot, granule, mask, access);
        }
        if releases {
            self.pass_on(slot, access);
        }
    }

    /// After a write to synchronisation memory: who reads it has seen what this thread did up to now.
    fn pass_on(&mut self, slot: Slot, access: &Access) {
        let moment = self.threads.at(slot).release();
        for (granule, mask) in granules(access.address, u64::from(access.size)) {
            self.shadow.pass_on(granule, mask, &moment);
        }
    }

    /// One granule's part of an access. Tells whether it writes synchronisation memory, which releases.
    #[inline]
    fn touch(&mut self, slot: Slot, granule: u64, mask: u8, access: &Access) -> bool {
        let what = what_of(access, mask, Action::from(access.kind));
        !self.add(slot, granule, what, Shadow::add_unlisted) && self.touch_list(slot, granule, mask, access)
    }

    /// The same for a granule that may be synchronisation in part. Reading such memory acquires what its last writers
    /// had done.
    fn touch_list(&mut self, slot: Slot, granule: u64, mask: u8, access: &Access) -> bool {
        let sync_mask = self.shadow.sync_mask(granule) & mask;
        if mask != sync_mask {
            self.add(slot, granule, what_of(access, mask & !sync_mask, Action::from(access.kind)), Shadow::add);
        }
        if sync_mask == 0 {
            return false;
        }
        self.add(slot, granule, what_of(access, sync_mask, Action::Atomic), Shadow::add);
        if access.kind.reads() {
            let running = self.threads.at(slot);
            self.shadow.passed(granule, sync_mask).for_each(|passed| running.acquire(passed));
        }
        access.kind.writes()
    }

    /// Adds one granule's part of an access in a way of the shadow's, and gives what that gives.
    #[inline]
    fn add<T>(
        &mut self,
        slot: Slot,
        granule: u64,
        what: What,
        way: impl FnOnce(&mut Shadow, u64, &Adding<'_>, &mut Vec<Entry>) -> T,
    ) -> T {
        let view = self.threads.view(slot);
        let new = Entry { stamp: view.now, what };
        let adding = Adding { view, new, epoch_of: &|stamp| self.threads.epoch_of(stamp) };
        let result = way(&mut self.shadow, granule, &adding, &mut self.races);
        if !self.races.is_empty() {
            self.collect(granule, new);
        }
        result
    }

    /// Keeps the races of an entry that was just added.
    #[cold]
    fn collect(&mut self, granule: u64, second: Entry) {
        for first in self.races.drain(..) {
            let byte = (first.mask() & second.mask()).trailing_zeros();
            let address = granule * GRANULE_SIZE + u64::from(byte);
            let threads = (self.threads.ordinal(first.stamp).0, self.threads.ordinal(second.stamp).0);
            self.collected.add((first.site(), second.site()), threads, address, || Instance {
                address,
                first: side(&self.threads, &self.sites, &first),
                second: side(&self.threads, &self.sites, &second),
            });
        }
    }

    fn acquired(&mut self, slot: Slot, object: u64) {
        let running = self.threads.at(slot);
        self.objects.passed(object, LockMode::Shared).for_each(|passed| running.acquire(passed));
    }

    fn locked(&mut self, slot: Slot, object: u64, mode: LockMode) {
        let running = self.threads.at(slot);
        self.objects.passed(object, mode).for_each(|passed| running.acquire(passed));
        running.locks.take(running.tick(), object, mode);
    }

    fn unlocked(&mut self, slot: Slot, object: u64) {
        let running = self.threads.at(slot);
        match running.locks.give_up(running.tick(), object) {
            GivenUp::Held(mode) => self.objects.unlock(object, mode, running.release()),
            GivenUp::NotHeld => self.objects.release(object, running.release()),
            GivenUp::StillHeld => {}
        }
    }

    fn allocated(&mut self, address: u64, size: u64) {
        let number = self.blocks.allocate(address, size);
        self.shadow.clear(address, size);
        self.mark_block(number);
    }

    /// To give back a block is to write to all of it.
    fn freed(&mut self, slot: Slot, address: u64, pc: u64) {
        self.threads.at(slot).advance(1);
        let Some(block) = self.blocks.free(address) else { return };
        self.objects.forget_in(address..address.saturating_add(block.size));
        if self.threads.is_alone() {
            self.shadow.clear(address, block.size);
            return;
        }
        let site = self.sites.freeing(pc);
        let size = u16::try_from(block.size).unwrap_or(u16::MAX);
        let parts = self.shadow.known_parts(address, block.size);
        for (granule, mask) in parts.into_iter().flat_map(|part| granules(part.start, part.end - part.start)) {
            self.add(slot, granule, What::new(site, mask, Action::Freed, size), Shadow::add_freed);
        }
    }

    fn mapped(&mut self, address: u64, size: u64) {
        let range = address..address.saturating_add(size);
        self.shadow.clear(address, size);
        self.objects.forget_in(range.clone());
        self.blocks.forget_in(range.clone());
        for (granule, mask) in self.surveyed.sync_memory.outside_blocks(range) {
            self.shadow.make_sync(granule, mask);
        }
    }

    fn mark_block(&mut self, number: u64) {
        for (granule, mask) in self.surveyed.sync_memory.of_block(number) {
            self.shadow.make_sync(granule, mask);
        }
    }
}

impl Listener for Detector {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        let Some(slot) = self.threads.slot(thread) else { return };
        if self.threads.is_alone() {
            self.threads.at(slot).advance(accesses.len() as u64);
            return;
        }
        let mut left = accesses;
        loop {
            let n_known = self.count_known(slot, left);
            self.threads.at(slot).advance(n_known as u64);
            let Some((next, rest)) = left[n_known..].split_first() else { return };
            self.access(slot, next);
            left = rest;
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        let Some(slot) = self.threads.slot(thread) else { return };
        match *event {
            Event::Created { child } => self.threads.create(slot, child),
            Event::Ended => self.threads.end(slot, thread),
            Event::Joined { other } => self.threads.join(slot, other),
            Event::Locked { object, mode, .. } => self.locked(slot, object, mode),
            Event::Unlocked { object, .. } => self.unlocked(slot, object),
            Event::Released { object, .. } => self.objects.release(object, self.threads.at(slot).release()),
            Event::Acquired { object, .. } => self.acquired(slot, object),
            Event::Forgotten { object } => self.objects.forget(object),
            Event::Allocated { address, size, .. } => self.allocated(address, size),
            Event::Freed { address, site } => self.freed(slot, address, site),
            Event::Mapped { address, size } => self.mapped(address, size),
            Event::FutexWord { address } => {
                granules(address, 4).for_each(|(granule, mask)| self.shadow.make_sync(granule, mask));
            }
            Event::Called { .. } | Event::Returned { .. } | Event::LoopHeader { .. } | Event::SystemCall { .. } => {}
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sites.name(site, pc);
    }
}

#[inline]
fn what_of(access: &Access, mask: u8, action: Action) -> What {
    What::new(access.site.0, mask, action, u16::try_from(access.size).unwrap_or(u16::MAX))
}

fn side(threads: &Threads, sites: &Sites, entry: &Entry) -> Side {
    let (thread, ordinal) = threads.ordinal(entry.stamp);
    let (pc, site) = sites.place(entry.site());
    let locks = threads.locks_at(entry.stamp);
    Side { thread, pc, site, action: entry.action(), size: u32::from(entry.size()), ordinal, locks }
}
