//! Which instructions have to do with memory that threads contend for: a first, cheap pass over a stream, so that a second
//! one need only look at these.
//!
//! Most accesses are to memory that one thread has for itself, or that is handed over from thread to thread. For each
//! granule of 8 bytes a cell keeps who wrote and read it last, and which instructions have accessed it since it was
//! allocated. If two threads' accesses, one of them a write or the release of the block, are not ordered, all of these
//! instructions are told. Locks order nothing here, since what they order could have been the other way round.
//!
//! Times and readers are kept as by the [`Sieve`](crate::races::Sieve).
//!
//! It may tell too many: neighbours in one granule, what threads do after a million releases, more instructions than are
//! kept apart ([`site_sets`]). May miss: what lies beyond the watched memory, which is counted.

mod cells;
mod places;
mod site_sets;

pub use places::Places;

use crate::predict::{Libraries, Order};
use crate::races::Surveyed;
use crate::races::cell::Slot;
use crate::races::shadow::granules;
use crate::races::sieve::epoch::{Epoch, LAST_SLOT, LAST_TICK, Sight};
use crate::races::sieve::readers::Readers;
use crate::races::sites::{Classify, SiteClass, Sites};
use cells::{Cell, Cells};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use site_sets::SiteSets;
use std::collections::BTreeSet;
use trace::stream::{Access, AccessKind, Event, Listener, Site, Thread};

/// Of longer accesses, only the beginning is looked at.
const LONGEST_ACCESS: u64 = 256;
/// Of a large block that is given back or made, only so much is looked at.
const LONGEST_BLOCK: u64 = 1 << 20;

/// Of granules, how many bits do not count where neighbourhoods are told apart: 64 bytes each.
const NEIGHBOURHOOD_BITS: u32 = 3;

/// What a pass has found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Contended {
    /// The addresses of instructions.
    pub instructions: BTreeSet<u64>,
    /// Where the memory is.
    pub places: Places,
    /// Accesses to memory that was not watched, since there was too much of it.
    pub unwatched: u64,
}

/// Finds the instructions that access contended memory.
pub struct SharedMemory {
    sites: Sites,
    libraries: Libraries,
    /// Of each site, whether it is in the program's own code.
    own: Vec<bool>,
    order: Order,
    cells: Cells,
    readers: Readers,
    sets: SiteSets,
    places: Places,
    /// Sizes by address.
    blocks: FxHashMap<u64, u64>,
}

/// Who accesses, and when.
#[derive(Clone, Copy)]
struct Accessor {
    slot: Slot,
    epoch: Epoch,
    /// Whether its epochs differ from all others.
    can_be_told: bool,
}

/// How many lists of readers there may be for each page of cells before unused ones are looked for.
const LISTS_EACH: usize = 16;

impl SharedMemory {
    /// Atomic instructions of the libraries order nothing, since their locks do not.
    pub fn new(classify: Classify, libraries: Libraries) -> SharedMemory {
        SharedMemory {
            sites: Sites::new(classify),
            libraries,
            own: Vec::new(),
            order: Order::new(Surveyed::default()),
            cells: Cells::default(),
            readers: Readers::new(),
            sets: SiteSets::default(),
            places: Places::default(),
            blocks: FxHashMap::default(),
        }
    }

    pub fn into_contended(mut self) -> Contended {
        self.give_up_all();
        let instructions = self.sets.wanted().map(|site| self.sites.place(site).0).collect();
        Contended { instructions, places: self.places, unwatched: self.cells.unwatched }
    }

    #[inline]
    fn access(&mut self, accessor: &mut Accessor, access: &Access) {
        let class = self.sites.class(access.site);
        if class == SiteClass::Ignored {
            return;
        }
        let is_atomic = class == SiteClass::Atomic || access.kind == AccessKind::Atomic;
        let size = u64::from(access.size).min(LONGEST_ACCESS);
        for (granule, _) in granules(access.address, size) {
            let Some(cell) = self.cells.at(granule) else { continue };
            let sites = self.sets.with(cell.sites, access.site.0, granule >> NEIGHBOURHOOD_BITS);
            if sites != cell.sites {
                cell.sites = sites;
            }
            // What atomic instructions access passes order on, so all that is done to it matters.
            cell.is_contended |= is_atomic || !accessor.can_be_told;
            if !cell.knows(accessor.epoch, access.kind.writes()) {
                let sight = Sight { now: accessor.epoch, seen: self.order.seen(accessor.slot) };
                cell.touch(access.kind.writes(), &sight, &mut self.readers);
            }
        }
        if is_atomic && self.own[access.site.0 as usize] {
            self.order.synchronise(accessor.slot, access);
            *accessor = self.accessor(accessor.slot);
        }
    }

    fn accessor(&mut self, slot: Slot) -> Accessor {
        let tick = self.order.epoch(slot);
        let can_be_told = slot <= LAST_SLOT && tick < LAST_TICK;
        Accessor { slot, epoch: Epoch::new(slot.min(LAST_SLOT), tick.min(LAST_TICK)), can_be_told }
    }

    fn forget_lists(&mut self) {
        self.readers.keep(self.cells.iter().filter_map(Cell::list), self.cells.n_pages() * LISTS_EACH);
    }

    /// What happened to this memory so far has nothing to do with what happens from now on.
    fn give_up(&mut self, address: u64, size: u64, freed_by: Option<Slot>) {
        let freed_by = freed_by.map(|slot| self.accessor(slot));
        for (granule, _) in granules(address, size.min(LONGEST_BLOCK)) {
            let Some(cell) = self.cells.take(granule) else { continue };
            let is_after = freed_by.is_none_or(|by| {
                let sight = Sight { now: by.epoch, seen: self.order.seen(by.slot) };
                by.can_be_told && cell.is_before(&sight, &self.readers)
            });
            if cell.is_contended || !is_after {
                self.sets.want(cell.sites);
                self.places.add(granule);
            }
        }
    }

    fn give_up_all(&mut self) {
        let contended = self.cells.drain().filter(|(_, cell)| cell.is_contended);
        for (granule, cell) in contended {
            self.sets.want(cell.sites);
            self.places.add(granule);
        }
    }

    fn note(&mut self, slot: Slot, event: &Event) {
        match *event {
            Event::Allocated { address, size, .. } => {
                self.give_up(address, size, None);
                self.blocks.insert(address, size);
            }
            Event::Freed { address, .. } => {
                let size = self.blocks.remove(&address).unwrap_or(0);
                self.give_up(address, size, Some(slot));
            }
            Event::Mapped { address, size } => self.give_up(address, size, None),
            _ => {}
        }
    }
}

impl Listener for SharedMemory {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        let Some(slot) = self.order.slot(thread) else { return };
        if self.order.is_alone() {
            if !self.cells.is_empty() {
                self.give_up_all();
            }
            return;
        }
        if self.readers.are_many() {
            self.forget_lists();
        }
        let mut accessor = self.accessor(slot);
        for access in accesses {
            self.access(&mut accessor, access);
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        let Some(slot) = self.order.slot(thread) else { return };
        self.order.event(slot, thread, event);
        self.note(slot, event);
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sites.name(site, pc);
        self.sets.name(site);
        let length = self.own.len().max(site.0 as usize + 1);
        self.own.resize(length, false);
        self.own[site.0 as usize] = !self.libraries.iter().any(|library| library.contains(&pc));
    }
}
