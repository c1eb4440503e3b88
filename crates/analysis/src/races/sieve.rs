//! The first pass over a stream: a sieve that leaves the granules which may race, and learns which memory is atomic.
//!
//! It keeps as little of an access as tells whether a later one is ordered after it: no instruction, no single bytes, and of
//! one thread's accesses between two releases the first only. What it leaves is more than what races:
//!
//! - Different bytes of four are one to it.
//! - Memory is synchronisation from the first locked access on, not from the beginning. So it knows fewer orders than a
//!   [`Detector`](super::Detector) does that was told all of it, and what is unordered there is so here. At least the
//!   first of the unordered accesses to a cell is noticed, as in FastTrack; from then on the granule is a suspect.
//! - Who accesses a block that was given back is suspect whoever gave it back.
//!
//! If it leaves nothing, nothing races.

mod cells;
pub mod epoch;
pub mod readers;

use super::atomics::SyncMemory;
use super::blocks::Blocks;
use super::cell::Slot;
use super::locks::GivenUp;
use super::objects::Objects;
use super::parts::Parts;
use super::shadow::granules;
use super::sites::{Classify, SiteClass, Sites};
use super::suspects::Suspects;
use super::threads::Threads;
use cells::{Cell, Cells, State, Sync, cells_of, cells_of_granule, cells_of_granules, granule_of, mask_of};
use epoch::{Epoch, LAST_SLOT, LAST_TICK, Now, Sight};
use readers::Readers;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use trace::stream::{Access, AccessKind, Event, Listener, LockMode, Site, Thread};

/// How many lists of readers there may be for each chunk of cells before unused ones are looked for, which takes a look at
/// all cells.
const LISTS_EACH: usize = 2048;

/// What is left.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Sieved {
    /// Nothing if there were too many threads at once: then everything may race.
    pub suspects: Option<Suspects>,
    /// What locked instructions, atomic sites and the kernel's waiting calls access.
    pub atomics: SyncMemory,
}

pub struct Sieve {
    sites: Sites,
    threads: Threads,
    /// Who accessed last, for as long as nothing else has happened.
    now: Now,
    cells: Cells,
    readers: Readers,
    /// By the numbers in cells.
    sync: Vec<Parts>,
    free_sync: Vec<u32>,
    objects: Objects,
    blocks: Blocks,
    suspects: FxHashSet<u64>,
    atomics: SyncMemory,
    has_given_up: bool,
}

impl Sieve {
    pub fn new(classify: Classify) -> Sieve {
        Sieve {
            sites: Sites::new(classify),
            threads: Threads::default(),
            now: Now::new(0, Epoch::NONE),
            cells: Cells::new(),
            readers: Readers::new(),
            sync: Vec::new(),
            free_sync: Vec::new(),
            objects: Objects::default(),
            blocks: Blocks::default(),
            suspects: FxHashSet::default(),
            atomics: SyncMemory::default(),
            has_given_up: false,
        }
    }

    pub fn into_sieved(self) -> Sieved {
        let knows_all = !self.has_given_up && self.threads.unwatched() == 0;
        let suspects = knows_all.then(|| Suspects::new(self.suspects));
        Sieved { suspects, atomics: self.atomics }
    }

    /// The thread's slot. Nothing if there are too many.
    fn slot(&mut self, thread: Thread) -> Option<Slot> {
        let slot = self.threads.slot(thread).filter(|slot| *slot <= LAST_SLOT);
        self.has_given_up |= slot.is_none();
        slot
    }

    /// The epoch that a thread is in, which is going to have accesses. Its slot may be another from now on.
    fn enter(&mut self, slot: Slot) {
        let slot = if self.threads.at(slot).tick() >= LAST_TICK { self.threads.renew(slot) } else { slot };
        self.has_given_up |= slot > LAST_SLOT;
        let epoch = Epoch::new(slot.min(LAST_SLOT), self.threads.at(slot).enter_epoch());
        if self.now.epoch != epoch {
            self.now = Now::new(slot, epoch);
        }
    }

    /// An access that the cells do not know yet.
    #[inline(never)]
    fn look(&mut self, access: &Access) {
        let class = self.sites.class(access.site);
        if class == SiteClass::Ignored {
            return;
        }
        if class == SiteClass::Atomic || access.kind == AccessKind::Atomic {
            self.make_sync(access.address, u64::from(access.size));
        } else if self.cells.note_own(&self.now, access) {
            return;
        }
        if self.touch(access) {
            self.synchronise(access);
            self.enter(self.now.slot);
        }
    }

    /// Notes an access in its cells. Whether some of them are synchronisation.
    #[inline]
    fn touch(&mut self, access: &Access) -> bool {
        let now = self.now.epoch;
        let sight = Sight { now, seen: self.threads.view(self.now.slot).seen };
        let cells = cells_of(access.address, u64::from(access.size));
        let mut is_sync = false;
        let mut cell = cells.start;
        while cell < cells.end {
            for word in self.cells.touch(cell..cells.end) {
                let new = match Cell(*word).state() {
                    State::Plain { written, readers } if access.kind.writes() => {
                        let is_ordered = sight.covers(written) && self.readers.are_seen(readers, &sight);
                        is_ordered.then_some(Cell::plain(now, Epoch::NONE))
                    }
                    State::Plain { written, readers } if sight.covers(written) => {
                        self.readers.add(readers, &sight).map(|readers| {
                            self.now.join(readers);
                            Cell::plain(written, readers)
                        })
                    }
                    State::Plain { .. } | State::Freed => None,
                    State::Suspect => Some(Cell::SUSPECT),
                    State::Sync(sync) => {
                        is_sync = true;
                        if bytes_of(cell, access) & !self.sync[sync.number as usize].mask() != 0 {
                            self.suspects.insert(granule_of(cell));
                        }
                        Some(Cell(*word))
                    }
                };
                let new = new.unwrap_or_else(|| {
                    self.suspects.insert(granule_of(cell));
                    Cell::SUSPECT
                });
                *word = new.0;
                cell += 1;
            }
        }
        is_sync
    }

    /// An access of which some bytes are synchronisation: reading acquires what the last writers had done, and writing
    /// releases.
    fn synchronise(&mut self, access: &Access) {
        let running = self.threads.at(self.now.slot);
        let touched: Vec<(u32, u8)> = granules(access.address, u64::from(access.size))
            .filter_map(|(granule, mask)| Some((sync_number(&mut self.cells, granule)?, mask)))
            .collect();
        if access.kind.reads() {
            for (number, mask) in &touched {
                self.sync[*number as usize].passed(*mask).for_each(|passed| running.acquire(passed));
            }
        }
        if access.kind.writes() {
            let moment = running.release();
            touched.iter().for_each(|(number, mask)| self.sync[*number as usize].pass_on(*mask, &moment));
        }
    }

    /// From now on these bytes are synchronisation. Others that share a cell with them are not told apart any more.
    fn make_sync(&mut self, address: u64, size: u64) {
        let mut is_news = false;
        for (granule, mask) in granules(address, size) {
            let number = sync_number(&mut self.cells, granule);
            let new = mask & !number.map_or(0, |number| self.sync[number as usize].mask());
            if new == 0 {
                continue;
            }
            is_news = true;
            let number = number.unwrap_or_else(|| self.new_sync());
            self.sync[number as usize].add(new);
            for cell in cells_of_granule(granule).filter(|cell| mask_of(*cell) & new != 0) {
                let old = self.cells.get(cell);
                let has_history = match old.state() {
                    State::Freed => {
                        self.suspects.insert(granule);
                        false
                    }
                    State::Sync(old) => old.has_history,
                    State::Suspect | State::Plain { .. } => old != Cell::default() && mask_of(cell) & !new != 0,
                };
                self.cells.set(cell, Cell::sync(Sync { number, has_history }));
            }
        }
        if is_news {
            self.atomics.add(&self.blocks, address, size);
        }
    }

    fn new_sync(&mut self) -> u32 {
        self.free_sync.pop().unwrap_or_else(|| {
            self.sync.push(Parts::default());
            self.sync.len() as u32 - 1
        })
    }

    /// What one thread alone does has no history, but may show what is synchronisation.
    fn learn(&mut self, accesses: &[Access]) {
        for access in accesses {
            let is_atomic = access.kind == AccessKind::Atomic || self.sites.class(access.site) == SiteClass::Atomic;
            if is_atomic && self.sites.class(access.site) != SiteClass::Ignored {
                self.make_sync(access.address, u64::from(access.size));
            }
        }
    }

    fn acquired(&mut self, slot: Slot, object: u64, mode: LockMode) {
        let running = self.threads.at(slot);
        self.objects.passed(object, mode).for_each(|passed| running.acquire(passed));
    }

    fn unlocked(&mut self, slot: Slot, object: u64) {
        let running = self.threads.at(slot);
        match running.locks.give_up(0, object) {
            GivenUp::Held(mode) => self.objects.unlock(object, mode, running.release()),
            GivenUp::NotHeld => self.objects.release(object, running.release()),
            GivenUp::StillHeld => {}
        }
    }

    fn freed(&mut self, slot: Slot, address: u64) {
        let Some(block) = self.blocks.free(address) else { return };
        self.objects.forget_in(address..address.saturating_add(block.size));
        if self.threads.is_alone() {
            return self.clear(address, block.size);
        }
        self.enter(slot);
        for part in self.cells.known_parts(cells_of_granules(address, block.size)) {
            let sight = Sight { now: self.now.epoch, seen: self.threads.view(self.now.slot).seen };
            let mut ended = Vec::new();
            for (cell, word) in part.clone().zip(self.cells.touch(part)) {
                match Cell(*word).state() {
                    State::Plain { written, readers } => {
                        if !(sight.covers(written) && self.readers.are_seen(readers, &sight)) {
                            self.suspects.insert(granule_of(cell));
                        }
                    }
                    State::Sync(sync) => {
                        if sync.has_history {
                            self.suspects.insert(granule_of(cell));
                        }
                        ended.push(sync.number);
                    }
                    State::Suspect | State::Freed => {}
                }
                *word = Cell::FREED.0;
            }
            ended.into_iter().for_each(|number| self.end_sync(number));
        }
    }

    fn clear(&mut self, address: u64, size: u64) {
        for part in self.cells.known_parts(cells_of_granules(address, size)) {
            for cell in self.cells.take(part) {
                if let State::Sync(sync) = cell.state() {
                    self.end_sync(sync.number);
                }
            }
        }
    }

    /// No cell is synchronisation any more that has this number. Both of a granule may say so.
    fn end_sync(&mut self, number: u32) {
        if !std::mem::take(&mut self.sync[number as usize]).is_empty() {
            self.free_sync.push(number);
        }
    }

    fn forget_lists(&mut self) {
        let used = self.cells.iter().filter_map(|cell| match cell.state() {
            State::Plain { readers, .. } => readers.list(),
            State::Suspect | State::Freed | State::Sync(_) => None,
        });
        self.readers.keep(used, self.cells.n_chunks() * LISTS_EACH);
        // Numbers of lists may come to stand for others.
        self.now = Now::new(self.now.slot, self.now.epoch);
    }
}

/// The number of what is known of a granule's synchronisation bytes, if it has any.
fn sync_number(cells: &mut Cells, granule: u64) -> Option<u32> {
    cells_of_granule(granule).find_map(|cell| match cells.get(cell).state() {
        State::Sync(sync) => Some(sync.number),
        State::Plain { .. } | State::Suspect | State::Freed => None,
    })
}

/// The bytes of its granule that an access touches in a cell.
fn bytes_of(cell: u64, access: &Access) -> u8 {
    let mut touched = granules(access.address, u64::from(access.size)).filter(|part| part.0 == granule_of(cell));
    touched.next().map_or(0, |(_, mask)| mask & mask_of(cell))
}

impl Listener for Sieve {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        let slot = self.slot(thread).filter(|_| !self.has_given_up && !self.threads.is_alone());
        let Some(slot) = slot else { return self.learn(accesses) };
        if self.readers.are_many() {
            self.forget_lists();
        }
        self.enter(slot);
        let any_atomic = self.sites.any_atomic();
        for access in accesses {
            // Whether a site is of no concern is asked where its accesses would have an effect.
            let may_be_plain = !any_atomic || self.sites.class(access.site) != SiteClass::Atomic;
            if !(may_be_plain && self.cells.know(&self.now, access)) {
                self.look(access);
            }
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        let Some(slot) = self.slot(thread) else { return };
        match *event {
            Event::Created { child } => self.threads.create(slot, child),
            Event::Ended => self.threads.end(slot, thread),
            Event::Joined { other } => self.threads.join(slot, other),
            Event::Locked { object, mode, .. } => {
                self.acquired(slot, object, mode);
                self.threads.at(slot).locks.take(0, object, mode);
            }
            Event::Unlocked { object, .. } => self.unlocked(slot, object),
            Event::Released { object, .. } => self.objects.release(object, self.threads.at(slot).release()),
            Event::Acquired { object, .. } => self.acquired(slot, object, LockMode::Shared),
            Event::Forgotten { object } => self.objects.forget(object),
            Event::Allocated { address, size, .. } => {
                self.blocks.allocate(address, size);
                self.clear(address, size);
            }
            Event::Freed { address, .. } => self.freed(slot, address),
            Event::Mapped { address, size } => {
                let range = address..address.saturating_add(size);
                self.clear(address, size);
                self.objects.forget_in(range.clone());
                self.blocks.forget_in(range);
            }
            Event::FutexWord { address } => self.make_sync(address, 4),
            Event::Called { .. } | Event::Returned { .. } | Event::LoopHeader { .. } | Event::SystemCall { .. } => {}
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sites.name(site, pc);
    }
}
