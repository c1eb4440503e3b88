//! The race detector: a listener that keeps clocks and histories, and collects what races.

use super::blocks::Blocks;
use super::cell::{Action, Entry, Slot, What};
use super::found::{Collected, Found, Instance, Side};
use super::learning::Learning;
use super::locks::GivenUp;
use super::objects::Objects;
use super::recent::{Part, Recent};
use super::shadow::{Adding, GRANULE_SIZE, Shadow, granules};
use super::sites::{Classify, SiteClass, Sites};
use super::survey::Surveyed;
use super::threads::Threads;
use std::ops::Range;
use trace::stream::{Access, AccessKind, Event, Listener, LockMode, Site, Thread};

/// Finds the data races of a stream.
pub struct Detector {
    sites: Sites,
    surveyed: Surveyed,
    /// Where nothing was known beforehand.
    learning: Option<Learning>,
    threads: Threads,
    shadow: Shadow,
    recent: Recent,
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
            learning: None,
            threads: Threads::default(),
            shadow: Shadow::new(),
            recent: Recent::new(),
            objects: Objects::default(),
            blocks: Blocks::default(),
            collected: Collected::default(),
            races: Vec::new(),
        };
        detector.mark_block(0);
        detector
    }

    /// Without a survey: what is synchronisation is learnt on the way.
    pub fn learning(classify: Classify) -> Detector {
        Detector { learning: Some(Learning::default()), ..Detector::new(Surveyed::default(), classify) }
    }

    /// Whether something was learnt that should have been known earlier.
    pub fn is_late(&self) -> bool {
        self.learning.as_ref().is_some_and(Learning::is_late)
    }

    /// What was found, if nothing was learnt too late and no thread was left out.
    pub fn into_learnt(self) -> Option<Found> {
        let is_sound = !self.is_late() && self.threads.unwatched() == 0;
        is_sound.then(|| self.into_found())
    }

    pub fn into_found(self) -> Found {
        Found { unwatched_threads: self.threads.unwatched(), ..self.collected.found }
    }

    /// The memory that histories take, in bytes.
    pub fn shadow_size(&self) -> usize {
        self.shadow.size()
    }

    /// The bytes of an access that is within one line and has nothing special.
    #[inline]
    fn simple_part(&self, access: &Access) -> Option<Part> {
        let is_simple = access.kind != AccessKind::Atomic && self.sites.class(access.site) == SiteClass::Plain;
        Part::of(access).filter(|_| is_simple)
    }

    /// An access that may have an effect; with its bytes if they are simple.
    #[inline]
    fn access(&mut self, slot: Slot, access: &Access, part: Option<Part>) {
        let Some(part) = part else { return self.other_access(slot, access) };
        let mut touched = Touched::Plain;
        for (granule, mask) in part.granules() {
            touched = touched.max(self.touch(slot, granule, mask, access));
        }
        match touched {
            Touched::Plain => {
                let since = self.threads.view(slot).since;
                self.recent.note(since, part, access.kind.writes());
            }
            Touched::Sync => self.recent.forget(range_of(access)),
            Touched::Released => {
                self.recent.forget(range_of(access));
                self.pass_on(slot, access);
            }
        }
    }

    /// An access that is synchronisation, of several lines, or of no concern.
    fn other_access(&mut self, slot: Slot, access: &Access) {
        let class = self.sites.class(access.site);
        if class == SiteClass::Ignored {
            return;
        }
        self.recent.forget(range_of(access));
        if class == SiteClass::Atomic || access.kind == AccessKind::Atomic {
            self.make_sync(access.address, u64::from(access.size));
        }
        let mut touched = Touched::Plain;
        for (granule, mask) in granules(access.address, u64::from(access.size)) {
            touched = touched.max(self.touch(slot, granule, mask, access));
        }
        if touched == Touched::Released {
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

    /// One granule's part of an access.
    #[inline]
    fn touch(&mut self, slot: Slot, granule: u64, mask: u8, access: &Access) -> Touched {
        let what = what_of(access, mask, Action::from(access.kind));
        if self.add(slot, granule, what, Shadow::add_unlisted) {
            return Touched::Plain;
        }
        self.touch_list(slot, granule, mask, access)
    }

    /// The same for a granule that may be synchronisation in part. Reading such memory acquires what its last writers
    /// had done.
    fn touch_list(&mut self, slot: Slot, granule: u64, mask: u8, access: &Access) -> Touched {
        let sync_mask = self.shadow.sync_mask(granule) & mask;
        if mask != sync_mask {
            self.add(slot, granule, what_of(access, mask & !sync_mask, Action::from(access.kind)), Shadow::add);
        }
        if sync_mask == 0 {
            return Touched::Plain;
        }
        self.add(slot, granule, what_of(access, sync_mask, Action::Atomic), Shadow::add);
        if access.kind.reads() {
            let running = self.threads.at(slot);
            self.shadow.passed(granule, sync_mask).for_each(|passed| running.acquire(passed));
        }
        if access.kind.writes() { Touched::Released } else { Touched::Sync }
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
        self.clear(address, size);
        self.mark_block(number);
    }

    /// To give back a block is to write to all of it.
    fn freed(&mut self, slot: Slot, address: u64, pc: u64) {
        self.threads.at(slot).advance(1);
        let Some(block) = self.blocks.free(address) else { return };
        self.objects.forget_in(address..address.saturating_add(block.size));
        if self.threads.is_alone() {
            return self.clear(address, block.size);
        }
        self.recent.forget(address..address.saturating_add(block.size));
        let site = self.sites.freeing(pc);
        let size = u16::try_from(block.size).unwrap_or(u16::MAX);
        let parts = self.shadow.known_parts(address, block.size);
        for (granule, mask) in parts.into_iter().flat_map(|part| granules(part.start, part.end - part.start)) {
            self.add(slot, granule, What::new(site, mask, Action::Freed, size), Shadow::add_freed);
        }
    }

    fn mapped(&mut self, address: u64, size: u64) {
        let range = address..address.saturating_add(size);
        self.clear(address, size);
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

    fn clear(&mut self, address: u64, size: u64) {
        let range = address..address.saturating_add(size);
        if let Some(learning) = &mut self.learning {
            learning.wipe(&self.shadow, range.clone());
        }
        self.recent.forget(range);
        self.shadow.clear(address, size);
    }

    /// From now on these bytes are synchronisation.
    fn make_sync(&mut self, address: u64, size: u64) {
        let mut is_news = false;
        for (granule, mask) in granules(address, size) {
            let new = mask & !self.shadow.sync_mask(granule);
            if new == 0 {
                continue;
            }
            is_news = true;
            if let Some(learning) = &mut self.learning {
                learning.learn(&self.shadow, granule, new, self.blocks.number_at(address).is_some());
            }
            self.shadow.make_sync(granule, new);
        }
        if is_news {
            self.recent.forget(address..address.saturating_add(size));
            if self.learning.is_some() {
                self.surveyed.sync_memory.add(&self.blocks, address, size);
            }
        }
    }

    /// What one thread alone does has no history, but may show what is synchronisation.
    fn learn_alone(&mut self, accesses: &[Access]) {
        for access in accesses {
            let class = self.sites.class(access.site);
            let is_atomic = class == SiteClass::Atomic || access.kind == AccessKind::Atomic;
            if is_atomic && class != SiteClass::Ignored {
                self.make_sync(access.address, u64::from(access.size));
            }
        }
    }
}

impl Listener for Detector {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        let Some(slot) = self.threads.slot(thread) else { return };
        if self.threads.is_alone() {
            self.threads.at(slot).advance(accesses.len() as u64);
            if self.learning.is_some() {
                self.learn_alone(accesses);
            }
            return;
        }
        // Nearly all of most threads' accesses have no effect, since earlier ones stand for them.
        let mut since = self.threads.view(slot).since;
        let mut n_new = 0;
        for access in accesses {
            n_new += 1;
            let part = self.simple_part(access);
            if part.is_some_and(|part| self.recent.knows(since, part, access.kind.writes())) {
                continue;
            }
            self.threads.at(slot).advance(n_new);
            self.access(slot, access, part);
            since = self.threads.view(slot).since;
            n_new = 0;
        }
        self.threads.at(slot).advance(n_new);
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
            Event::Called { .. } | Event::Returned { .. } | Event::LoopHeader { .. } | Event::SystemCall { .. } => {}
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sites.name(site, pc);
    }
}

/// What an access has met.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Touched {
    Plain,
    /// Synchronisation memory.
    Sync,
    /// The same, and it has written there, which releases.
    Released,
}

fn range_of(access: &Access) -> Range<u64> {
    access.address..access.address.saturating_add(u64::from(access.size))
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
