//! The race detector: a listener that keeps clocks and histories, and collects what races.

use super::blocks::Blocks;
use super::cell::{Action, Entry, Slot, What};
use super::found::{Collected, Found, Instance, Side};
use super::locks::GivenUp;
use super::objects::Objects;
use super::shadow::{Adding, GRANULE_SIZE, Shadow, granules};
use super::shapes::{Concern, Shapes};
use super::sites::{Classify, SiteClass, Sites};
use super::survey::Surveyed;
use super::surveying::Picky;
use super::suspects::{Filter, Suspects};
use super::threads::Threads;
use trace::stream::records::{Record, Records};
use trace::stream::{Access, AccessKind, Event, Listener, LockMode, Site, Thread};

/// Finds the data races of a stream.
pub struct Detector {
    sites: Sites,
    surveyed: Surveyed,
    /// What has to be looked at; nothing for everything.
    filter: Option<Filter>,
    shapes: Shapes,
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
        Detector::among(None, surveyed, classify)
    }

    /// The same, for what a [`Sieve`](super::Sieve) has left of the stream. It finds what one without a sieve does.
    pub fn among(suspects: Option<Suspects>, surveyed: Surveyed, classify: Classify) -> Detector {
        let mut detector = Detector {
            sites: Sites::new(classify),
            surveyed,
            filter: suspects.map(Filter::new),
            shapes: Shapes::default(),
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

    /// An access that may have an effect.
    fn access(&mut self, slot: Slot, access: &Access) {
        let class = self.sites.class(access.site);
        if class == SiteClass::Ignored {
            return;
        }
        if class == SiteClass::Atomic || access.kind == AccessKind::Atomic {
            self.make_sync(access.address, u64::from(access.size));
        }
        let mut has_released = false;
        for (granule, mask) in granules(access.address, u64::from(access.size)) {
            has_released |= self.touch(slot, granule, mask, access);
        }
        if has_released {
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

    /// One granule's part of an access. Whether it has written to synchronisation memory, which releases.
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
            return self.shadow.clear(address, block.size);
        }
        let site = self.sites.freeing(pc);
        let size = u16::try_from(block.size).unwrap_or(u16::MAX);
        for (granule, mask) in self.history_of(address, block.size) {
            self.add(slot, granule, What::new(site, mask, Action::Freed, size), Shadow::add_freed);
        }
    }

    /// The granules of a block that have a history, or may get one.
    fn history_of(&self, address: u64, size: u64) -> Vec<(u64, u8)> {
        match &self.filter {
            Some(filter) => filter.suspects.within(address, size).collect(),
            None => {
                let parts = self.shadow.known_parts(address, size);
                parts.into_iter().flat_map(|part| granules(part.start, part.end - part.start)).collect()
            }
        }
    }

    fn mapped(&mut self, address: u64, size: u64) {
        let range = address..address.saturating_add(size);
        self.shadow.clear(address, size);
        self.objects.forget_in(range.clone());
        self.blocks.forget_in(range.clone());
        for (granule, mask) in self.surveyed.sync_memory.outside_blocks(range) {
            mark(&mut self.shadow, &mut self.filter, granule, mask);
        }
    }

    fn mark_block(&mut self, number: u64) {
        for (granule, mask) in self.surveyed.sync_memory.of_block(number) {
            mark(&mut self.shadow, &mut self.filter, granule, mask);
        }
    }

    /// From now on these bytes are synchronisation.
    fn make_sync(&mut self, address: u64, size: u64) {
        for (granule, mask) in granules(address, size) {
            mark(&mut self.shadow, &mut self.filter, granule, mask);
        }
    }
}

/// From now on these bytes of a granule are synchronisation.
fn mark(shadow: &mut Shadow, filter: &mut Option<Filter>, granule: u64, mask: u8) {
    shadow.make_sync(granule, mask);
    if let Some(filter) = filter {
        filter.add(granule);
    }
}

impl Picky for Detector {
    #[inline]
    fn wants(&self, access: &Access) -> bool {
        self.filter.as_ref().is_none_or(|filter| {
            filter.wants(access.address, u64::from(access.size))
                || access.kind == AccessKind::Atomic
                || self.sites.class(access.site) == SiteClass::Atomic
        })
    }

    #[inline]
    fn wants_record(&mut self, record: &Record<'_>, records: &Records<'_>) -> bool {
        if self.threads.is_alone() {
            return false;
        }
        let Some(filter) = &self.filter else { return true };
        let sites = &self.sites;
        let shape = self.shapes.of(record.number, records.patterns, |template| {
            let is_atomic = template.kind == AccessKind::Atomic || sites.class(template.site) == SiteClass::Atomic;
            if is_atomic { Concern::Special } else { Concern::Plain }
        });
        shape.is_special || self.shapes.any_wanted(shape, record, records, filter)
    }

    fn pass_over(&mut self, thread: Thread, accesses: u64) {
        if let Some(slot) = self.threads.slot(thread) {
            self.threads.at(slot).advance(accesses);
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
        let mut n_new = 0;
        for access in accesses {
            n_new += 1;
            if self.wants(access) {
                self.threads.at(slot).advance(n_new);
                self.access(slot, access);
                n_new = 0;
            }
        }
        self.threads.at(slot).advance(n_new);
    }

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        let (mut length, mut n_accesses) = (0, 0);
        for record in records.plain() {
            if self.wants_record(&record, records) {
                break;
            }
            length += record.words.len();
            n_accesses += u64::from(record.accesses);
        }
        self.pass_over(thread, n_accesses);
        length
    }

    fn reads_records(&self) -> bool {
        self.filter.is_some()
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
            Event::FutexWord { address } => self.make_sync(address, 4),
            Event::Called { .. }
            | Event::Returned { .. }
            | Event::LoopHeader { .. }
            | Event::SystemCall { .. }
            | Event::Used { .. }
            | Event::Closed { .. } => {}
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
