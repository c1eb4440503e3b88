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
//!
//! One [without locks](Sieve::without_locks) leaves what threads contend for instead: what two of them access, one writing or
//! giving it back, in an order that only locks or luck have made.

mod cells;
pub mod epoch;
pub mod flags;
pub mod hand_overs;
mod handing;
mod intake;
pub mod readers;

use super::atomics::SyncMemory;
use super::blocks::Blocks;
use super::cell::Slot;
use super::locks::GivenUp;
use super::objects::Objects;
use super::parts::Parts;
use super::sampling::{FEW_STRIPS, Sampling};
use super::shadow::{GRANULE_SIZE, granules};
use super::shapes::Shapes;
use super::sites::{Classify, SiteClass, Sites};
use super::suspects::{Placed, Suspected, Suspects};
use super::threads::Threads;
use crate::predict::Libraries;
use cells::{
    CELL_SIZE, CHUNK_SIZE, Cell, Cells, Span, Standing, State, Sync, cells_of, cells_of_granule, cells_of_granules,
    granule_of, mask_of,
};
use epoch::{Epoch, LAST_SLOT, LAST_TICK, Now, Sight};
use flags::Flags;
use hand_overs::{HandOvers, Hatches};
use handing::Pointers;
use readers::Readers;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use trace::stream::records::Records;
use trace::stream::strips;
use trace::stream::{Access, AccessKind, Event, Listener, LockMode, Site, Thread, Values};

/// How many lists of readers there may be for each chunk of cells before unused ones are looked for, which takes a look at
/// all cells.
const LISTS_EACH: usize = 2048;

/// How many words that locks are made of are remembered.
const LOCK_WORDS: usize = 1024;

/// What is left.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Sieved {
    /// Nothing if there were too many threads at once: then everything may race.
    pub suspects: Option<Suspects>,
    /// The same by blocks, of a sieve without locks.
    pub placed: Placed,
    /// What locked instructions, atomic sites and the kernel's waiting calls access.
    pub atomics: SyncMemory,
    /// How many accesses were to memory that was not watched, since there was too much of it.
    pub unwatched: u64,
    /// Instructions that may hand pointers over under locks, and those that may have to do with flags.
    pub hand_overs: HandOvers,
}

impl Sieved {
    /// The numbers of the strips that suspects and synchronisation are on. Nothing if that is everywhere.
    pub fn strips(&self) -> Option<BTreeSet<u16>> {
        let suspects = self.suspects.as_ref()?.addresses();
        let atomics = self.atomics.granules().map(|granule| granule * GRANULE_SIZE);
        Some(suspects.chain(atomics).map(strips::number_of).collect())
    }
}

pub struct Sieve {
    sites: Sites,
    /// Locks, and atomics of libraries, of which locks are made, order what they come between.
    locks_order: bool,
    libraries: Libraries,
    /// Of each site, whether its atomics order what they come between.
    orders: Vec<bool>,
    threads: Threads,
    /// Who accessed last, for as long as nothing else has happened.
    now: Now,
    cells: Cells,
    shapes: Shapes,
    readers: Readers,
    /// By the numbers in cells.
    sync: Vec<Parts>,
    free_sync: Vec<u32>,
    /// Address and size of atomics that order nothing, which are known to be synchronisation: another access shows nothing.
    lock_words: Vec<(u64, u32)>,
    hatches: Hatches,
    objects: Objects,
    blocks: Blocks,
    suspects: Suspected,
    atomics: SyncMemory,
    has_given_up: bool,
    /// Which part of memory is looked at, if not all.
    sampling: Option<Sampling>,
}

impl Sieve {
    pub fn new(classify: Classify) -> Sieve {
        Sieve {
            sites: Sites::new(classify),
            locks_order: true,
            libraries: Libraries::new(),
            orders: Vec::new(),
            threads: Threads::default(),
            now: Now::new(0, Epoch::NONE),
            cells: Cells::new(usize::MAX),
            shapes: Shapes::default(),
            readers: Readers::new(),
            sync: Vec::new(),
            free_sync: Vec::new(),
            lock_words: vec![(0, 0); LOCK_WORDS],
            hatches: Hatches::default(),
            objects: Objects::default(),
            blocks: Blocks::default(),
            suspects: Suspected::default(),
            atomics: SyncMemory::default(),
            has_given_up: false,
            sampling: None,
        }
    }

    /// One to which locks order nothing, since what they order could have been the other way round. It watches so much memory
    /// at most.
    pub fn without_locks(classify: Classify, libraries: Libraries, most_memory: u64) -> Sieve {
        let cells = Cells::new(usize::try_from(most_memory / CHUNK_SIZE).unwrap_or(usize::MAX));
        let (hatches, suspects) = (Hatches::trusting(Flags::default()), Suspected::placed());
        Sieve { locks_order: false, libraries, cells, hatches, suspects, ..Sieve::new(classify) }
    }

    /// Looks at [a part](super::sampling) of the memory that instructions go over.
    pub fn sampling(self) -> Sieve {
        self.sampling_after(FEW_STRIPS)
    }

    /// The same, with instructions that have come to more than so many strips.
    pub fn sampling_after(self, few_strips: u32) -> Sieve {
        Sieve { sampling: Some(Sampling::after(few_strips)), ..self }
    }

    /// Looks at strips with these numbers, and at what means something.
    pub fn on_strips(self, numbers: impl IntoIterator<Item = u16>) -> Sieve {
        Sieve { sampling: Some(Sampling::on(numbers)), ..self }
    }

    /// What these instructions do to flags under locks orders what follows, as pointers do whose values are told.
    pub fn trusting(self, flags: Flags) -> Sieve {
        Sieve { hatches: Hatches::trusting(flags), ..self }
    }

    pub fn into_sieved(self) -> Sieved {
        let knows_all = !self.has_given_up && self.threads.unwatched() == 0;
        // What libraries have for themselves they keep in order by themselves, often by locks that nobody else can see.
        let is_own = |address: u64| self.libraries.iter().any(|library| library.contains(&address));
        let (suspects, placed) = self.suspects.into_suspects(|address| !is_own(address));
        let suspects = knows_all.then_some(suspects);
        let hand_overs = self.hatches.into_hand_overs(|site| self.sites.place(site).0);
        Sieved { suspects, placed, atomics: self.atomics, unwatched: self.cells.unwatched(), hand_overs }
    }

    /// The thread's slot. Nothing if there are too many.
    fn slot(&mut self, thread: Thread) -> Option<Slot> {
        let slot = self.threads.slot(thread).filter(|slot| *slot <= LAST_SLOT);
        self.has_given_up |= slot.is_none();
        slot
    }

    /// The thread's slot, if its accesses have a history.
    fn running(&mut self, thread: Thread) -> Option<Slot> {
        let slot = self.slot(thread).filter(|_| !self.has_given_up && !self.threads.is_alone())?;
        if self.readers.are_many() {
            self.forget_lists();
        }
        Some(slot)
    }

    /// Makes a thread the one whose accesses come next. False if they have no history.
    fn run(&mut self, thread: Thread) -> bool {
        let Some(slot) = self.running(thread) else { return false };
        self.enter(slot);
        self.hatches.enter(thread);
        true
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
        let span = span_of(access);
        if class == SiteClass::Atomic || access.kind == AccessKind::Atomic {
            self.make_sync(access.address, u64::from(access.size));
            if !self.orders[access.site.0 as usize] {
                self.lock_words[lock_word(access)] = (access.address, access.size);
            }
        } else if !self.is_handing(access) && self.cells.standing(&self.now, &span) == Standing::Own {
            return self.cells.note(&self.now, &span);
        }
        if self.touch(&span) && self.orders[access.site.0 as usize] {
            self.synchronise(access);
            self.enter(self.now.slot);
        } else if self.is_handing(access) {
            self.hand_over(access);
        }
    }

    /// Notes an access in its cells. Whether some of them are synchronisation.
    fn touch(&mut self, span: &Span) -> bool {
        let cells = cells_of(span.address, u64::from(span.size));
        let mut is_sync = false;
        let mut start = cells.start;
        while start < cells.end {
            let sight = Sight { now: self.now.epoch, seen: self.threads.view(self.now.slot).seen };
            let words = self.cells.touch(start..cells.end);
            let n_cells = words.len() as u64;
            // Neighbours mostly have the same history, and then the same future.
            let mut last = (0, 0);
            for (cell, word) in (start..).zip(words) {
                let word = match Cell(*word).hatch_number() {
                    Some(number) => {
                        let hatch = self.hatches.at(number);
                        if span.writes {
                            hatch.given = None;
                        }
                        &mut hatch.cells[cell as usize % 2].0
                    }
                    None => word,
                };
                if *word == last.0 && last.1 != 0 {
                    *word = last.1;
                    continue;
                }
                let new = match Cell(*word).state() {
                    State::Plain { written, readers } if span.writes => {
                        let is_ordered = sight.covers(written) && self.readers.are_seen(readers, &sight);
                        is_ordered.then_some(Cell::plain(sight.now, Epoch::NONE))
                    }
                    State::Plain { written, readers } if sight.covers(written) => {
                        self.readers.add(readers, &sight).map(|readers| {
                            self.now.join(readers);
                            Cell::plain(written, readers)
                        })
                    }
                    State::Plain { .. } | State::Freed | State::Hatch(_) => None,
                    State::Suspect => Some(Cell::SUSPECT),
                    State::Sync(sync) => {
                        is_sync = true;
                        if bytes_of(cell, span) & !self.sync[sync.number as usize].mask() != 0 {
                            self.suspects.insert(granule_of(cell), &self.blocks);
                        }
                        continue;
                    }
                };
                match new {
                    Some(new) => {
                        last = (*word, new.0);
                        *word = new.0;
                    }
                    None => {
                        self.suspects.insert(granule_of(cell), &self.blocks);
                        *word = Cell::SUSPECT.0;
                    }
                }
            }
            start += n_cells;
        }
        is_sync
    }

    /// An access of which some bytes are synchronisation: reading acquires what the last writers had done, and writing
    /// releases.
    fn synchronise(&mut self, access: &Access) {
        let running = self.threads.at(self.now.slot);
        let parts = || granules(access.address, u64::from(access.size));
        if access.kind.reads() {
            for (granule, mask) in parts() {
                if let Some(number) = sync_number(&mut self.cells, granule) {
                    self.sync[number as usize].passed(mask).for_each(|passed| running.acquire(passed));
                }
            }
        }
        if access.kind.writes() {
            let moment = running.release();
            for (granule, mask) in parts() {
                if let Some(number) = sync_number(&mut self.cells, granule) {
                    self.sync[number as usize].pass_on(mask, &moment);
                }
            }
        }
    }

    /// From now on these bytes are synchronisation. Others that share a cell with them are not told apart any more.
    fn make_sync(&mut self, address: u64, size: u64) {
        self.know(address, size.min(u64::from(u32::MAX)) as u32);
        let mut is_news = false;
        for (granule, mask) in granules(address, size) {
            let number = sync_number(&mut self.cells, granule);
            let new = mask & !number.map_or(0, |number| self.sync[number as usize].mask());
            if new == 0 {
                continue;
            }
            is_news = true;
            self.close_hatch(granule);
            let number = number.unwrap_or_else(|| self.new_sync());
            self.sync[number as usize].add(new);
            for cell in cells_of_granule(granule).filter(|cell| mask_of(*cell) & new != 0) {
                let old = self.cells.get(cell);
                let has_history = match old.state() {
                    State::Freed => {
                        self.suspects.insert(granule, &self.blocks);
                        false
                    }
                    State::Sync(old) => old.has_history,
                    State::Suspect | State::Hatch(_) | State::Plain { .. } => {
                        old != Cell::default() && mask_of(cell) & !new != 0
                    }
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

    #[inline]
    fn is_known_lock(&self, access: &Access) -> bool {
        !self.orders[access.site.0 as usize] && self.lock_words[lock_word(access)] == (access.address, access.size)
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
        for part in self.looked_at_in(address, block.size) {
            let sight = Sight { now: self.now.epoch, seen: self.threads.view(self.now.slot).seen };
            let mut ended = Vec::new();
            let mut closed = Vec::new();
            for (cell, word) in part.clone().zip(self.cells.touch(part)) {
                let number = Cell(*word).hatch_number();
                closed.extend(number.filter(|number| closed.last() != Some(number)));
                let known = number.map_or(Cell(*word), |number| self.hatches.at(number).cells[cell as usize % 2]);
                match known.state() {
                    State::Plain { written, readers } => {
                        if !(sight.covers(written) && self.readers.are_seen(readers, &sight)) {
                            self.suspects.insert_in(|| block.number, granule_of(cell));
                        }
                    }
                    State::Sync(sync) => {
                        if sync.has_history {
                            self.suspects.insert_in(|| block.number, granule_of(cell));
                        }
                        ended.push(sync.number);
                    }
                    State::Suspect | State::Freed | State::Hatch(_) => {}
                }
                *word = Cell::FREED.0;
            }
            closed.into_iter().for_each(|number| self.hatches.close(number));
            ended.into_iter().for_each(|number| self.end_sync(number));
        }
    }

    /// The cells of a block that may have a history. Large blocks come and go often, and most of them is never looked at; who comes there only after the
    /// block was given back is not seen to.
    fn looked_at_in(&self, address: u64, size: u64) -> Vec<Range<u64>> {
        let known = self.cells.known_parts(cells_of_granules(address, size));
        let Some(sampling) = &self.sampling else { return known };
        let looked_at = |part: Range<u64>| {
            let addresses = part.start.saturating_mul(CELL_SIZE)..part.end.saturating_mul(CELL_SIZE);
            sampling.parts_of(addresses).into_iter().map(|part| part.start / CELL_SIZE..part.end / CELL_SIZE)
        };
        known.into_iter().flat_map(looked_at).collect()
    }

    fn clear(&mut self, address: u64, size: u64) {
        for part in self.looked_at_in(address, size) {
            let mut closed = None;
            for cell in self.cells.take(part) {
                match cell.state() {
                    State::Sync(sync) => self.end_sync(sync.number),
                    // Both cells of a granule say so.
                    State::Hatch(number) if closed != Some(number) => {
                        self.hatches.close(number);
                        closed = Some(number);
                    }
                    State::Hatch(_) | State::Plain { .. } | State::Suspect | State::Freed => {}
                }
            }
        }
    }

    /// No cell is synchronisation any more that has this number. Both of a granule may say so.
    fn end_sync(&mut self, number: u32) {
        if !std::mem::take(&mut self.sync[number as usize]).is_empty() {
            self.free_sync.push(number);
            self.lock_words.fill((0, 0));
        }
    }

    fn forget_lists(&mut self) {
        let used = self.cells.iter().chain(self.hatches.cells()).filter_map(|cell| match cell.state() {
            State::Plain { readers, .. } => readers.list(),
            State::Suspect | State::Freed | State::Sync(_) | State::Hatch(_) => None,
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
        State::Plain { .. } | State::Suspect | State::Freed | State::Hatch(_) => None,
    })
}

/// Where an access to a lock is remembered.
#[inline]
fn lock_word(access: &Access) -> usize {
    (access.address / 4) as usize % LOCK_WORDS
}

#[inline]
fn span_of(access: &Access) -> Span {
    Span { address: access.address, size: access.size, writes: access.kind.writes() }
}

/// The bytes of its granule that a span has in a cell.
fn bytes_of(cell: u64, span: &Span) -> u8 {
    let mut touched = granules(span.address, u64::from(span.size)).filter(|part| part.0 == granule_of(cell));
    touched.next().map_or(0, |(_, mask)| mask & mask_of(cell))
}

impl Listener for Sieve {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        if self.run(thread) {
            accesses.iter().for_each(|access| self.access(access));
        } else {
            self.learn(accesses);
        }
    }

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        if self.run(thread) {
            self.valued_access(access, Pointers::of(access, values));
        } else {
            self.learn(std::slice::from_ref(access));
        }
    }

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        if self.run(thread) { self.read(records) } else { self.pass_over(records) }
    }

    fn reads_records(&self) -> bool {
        true
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        let Some(slot) = self.slot(thread) else { return };
        match *event {
            Event::Created { child } => self.threads.create(slot, child),
            Event::Ended => {
                self.threads.end(slot, thread);
                self.hatches.ended(thread);
            }
            Event::Joined { other } => self.threads.join(slot, other),
            Event::Locked { object, site, .. } if !self.locks_order => self.hatches.locked(thread, object, site),
            Event::Unlocked { object, site } if !self.locks_order => self.hatches.unlocked(thread, object, site),
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
        let length = self.orders.len().max(site.0 as usize + 1);
        self.hatches.site(site.0 as usize, pc);
        self.orders.resize(length, false);
        self.orders[site.0 as usize] = !self.libraries.iter().any(|library| library.contains(&pc));
    }
}
