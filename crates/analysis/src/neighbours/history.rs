//! The listener that keeps the latest accesses to watched memory.

use crate::predict::deeds::{Deed, Happening};
use crate::predict::detector::made_as;
use crate::predict::order::{LastWrite, Order};
use crate::predict::runners::Runners;
use crate::predict::uses::is_pointer;
use crate::predict::{Block, Libraries};
use crate::races::blocks::Blocks;
use crate::races::sites::{Classify, SiteClass, Sites};
use crate::races::{Surveyed, cell::Slot};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use trace::stream::{Access, AccessKind, Event, Listener, Site, Thread, Values};

/// So many accesses are remembered of each piece of memory.
const REMEMBERED: usize = 512;
const LONGEST_VALUE: usize = 8;

/// A piece of memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Watched {
    pub address: u64,
    pub size: u64,
}

impl Watched {
    fn overlaps(&self, address: u64, size: u64) -> bool {
        address < self.address.saturating_add(self.size) && self.address < address.saturating_add(size)
    }
}

/// One access, or the release of the block that the memory is in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub deed: Deed,
    pub reads: bool,
    pub writes: bool,
    pub is_release: bool,
    /// Counts all that happened to watched memory.
    pub number: u64,
    /// Of other threads, the number of the last entry that had to come before this one, whatever the schedule.
    pub ordered: BTreeMap<Thread, u64>,
}

impl Entry {
    /// Whether this had to come before a later entry, whatever the schedule.
    pub fn is_before(&self, later: &Entry) -> bool {
        later.ordered.get(&self.deed.thread).is_some_and(|last| self.number <= *last)
    }

    /// Whether nothing keeps this and a later entry from coming at the same time.
    pub fn races_with(&self, later: &Entry) -> bool {
        !self.is_before(later) && self.deed.barred_by(&later.deed).is_none() && (self.writes || later.writes)
    }
}

/// The latest entries of a piece of memory, in order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct History {
    pub watched: Watched,
    /// The block of the heap that it was in at last.
    pub block: Option<Block>,
    pub entries: Vec<Entry>,
}

struct Track {
    watched: Watched,
    block: Option<Block>,
    last_write: Option<LastWrite>,
    entries: VecDeque<(Happening, Entry)>,
}

impl Track {
    /// Of the same access again and again, the first and the last are enough.
    fn push(&mut self, happening: Happening, entry: Entry) {
        let is_same = |(_, old): &(Happening, Entry)| {
            (old.deed.thread, old.deed.pc, old.reads, old.writes)
                == (entry.deed.thread, entry.deed.pc, entry.reads, entry.writes)
        };
        if self.entries.len() > 1 && self.entries.iter().rev().take(2).all(is_same) {
            self.entries.pop_back();
        }
        if self.entries.len() == REMEMBERED {
            self.entries.pop_front();
        }
        self.entries.push_back((happening, entry));
    }
}

/// What an entry is about, besides who did it.
#[derive(Clone, Copy)]
struct Manner {
    reads: bool,
    writes: bool,
    is_release: bool,
}

/// Keeps histories of some memory.
pub struct Historian {
    sites: Sites,
    libraries: Libraries,
    order: Order,
    runners: Runners,
    blocks: Blocks,
    /// All blocks that were ever made, in order.
    made: Vec<Block>,
    /// By where they begin.
    tracks: BTreeMap<Watched, Track>,
    longest: u64,
    count: u64,
}

impl Historian {
    pub fn new(watched: Vec<Watched>, surveyed: Surveyed, classify: Classify, libraries: Libraries) -> Historian {
        let longest = watched.iter().map(|watched| watched.size).max().unwrap_or(0);
        let track = |watched| (watched, Track { watched, block: None, last_write: None, entries: VecDeque::new() });
        Historian {
            sites: Sites::new(classify),
            libraries,
            order: Order::new(surveyed),
            runners: Runners::default(),
            blocks: Blocks::default(),
            made: Vec::new(),
            tracks: watched.into_iter().map(track).collect(),
            longest,
            count: 0,
        }
    }

    pub fn into_histories(self) -> Vec<History> {
        let history = |Track { watched, block, entries, .. }| {
            let entries = entries.into_iter().map(|(_, entry)| entry).collect();
            History { watched, block, entries }
        };
        self.tracks.into_values().map(history).collect()
    }

    fn is_in_library(&self, pc: u64) -> bool {
        self.libraries.iter().any(|library| library.contains(&pc))
    }

    fn access(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        let Some(slot) = self.order.slot(thread) else { return };
        let tick = self.order.advance(slot);
        let (pc, _) = self.sites.place(access.site.0);
        let own = self.runners.of(thread).count(access.site, pc, access.kind);
        let is_own = !self.is_in_library(pc);
        if is_own {
            self.runners.of(thread).passed(own);
        }
        let size = u64::from(access.size).max(1);
        if self.is_watched(access.address, size) {
            let runner = self.runners.of(thread);
            let place = if is_own { own } else { runner.own_call().unwrap_or(own) };
            let value = number(if access.kind.writes() { values.after } else { values.before });
            let happening = Happening { value, ..runner.happening(thread, (slot, tick), (pc, place)) };
            let manner = Manner { reads: access.kind.reads(), writes: access.kind.writes(), is_release: false };
            self.note((access.address, size), &happening, manner);
        }
        self.synchronise(slot, access, is_own);
    }

    /// The library's own synchronisation is told by events.
    fn synchronise(&mut self, slot: Slot, access: &Access, is_own: bool) {
        let is_atomic = access.kind == AccessKind::Atomic || self.sites.class(access.site) == SiteClass::Atomic;
        if is_own && (is_atomic || self.order.is_synchronisation(&self.blocks, access.address)) {
            self.order.synchronise(slot, access);
        }
    }

    fn is_watched(&self, address: u64, size: u64) -> bool {
        self.tracks_at(address, size).next().is_some()
    }

    fn tracks_at(&self, address: u64, size: u64) -> impl Iterator<Item = Watched> {
        let from = Watched { address: address.saturating_sub(self.longest), size: 0 };
        let to = Watched { address: address.saturating_add(size), size: 0 };
        self.tracks.range(from..to).map(|(watched, _)| *watched).filter(move |watched| watched.overlaps(address, size))
    }

    fn note(&mut self, (address, size): (u64, u64), happening: &Happening, manner: Manner) {
        self.count += 1;
        let meant: Vec<Watched> = self.tracks_at(address, size).collect();
        let Manner { reads, writes, is_release } = manner;
        for watched in meant {
            let Some(track) = self.tracks.get_mut(&watched) else { continue };
            let mut ordered: BTreeMap<Thread, u64> = BTreeMap::new();
            for (old, entry) in track.entries.iter().rev().filter(|(old, _)| old.thread != happening.thread) {
                if !ordered.contains_key(&old.thread) && self.order.is_before(old, happening.slot) {
                    ordered.insert(old.thread, entry.number);
                }
            }
            let entry = Entry { deed: happening.told(), reads, writes, is_release, number: self.count, ordered };
            let block = self.blocks.number_at(watched.address).and_then(|number| made_as(&self.made, number));
            track.block = block.or(track.block);
            track.push(happening.clone(), entry);
            self.pass_on(watched, happening, manner);
        }
    }

    /// A pointer that was read under the lock that its writer held orders what the reader does next, as with a queue.
    fn pass_on(&mut self, watched: Watched, happening: &Happening, manner: Manner) {
        let Some(track) = self.tracks.get_mut(&watched) else { return };
        if manner.writes {
            self.order.written(&mut track.last_write, happening);
        } else if happening.value.is_some_and(is_pointer)
            && let Some(write) = track.last_write.as_ref().filter(|write| write.thread != happening.thread)
        {
            self.order.depend(happening.slot, happening.locks(), write);
        }
    }

    fn freed(&mut self, thread: Thread, slot: Slot, address: u64, site: u64) {
        let tick = self.order.advance(slot);
        let Some(block) = self.blocks.free(address) else { return };
        let runner = self.runners.of(thread);
        let place = runner.freeing_call(site);
        let free = runner.happening(thread, (slot, tick), (place.pc, place));
        self.note((address, block.size), &free, Manner { reads: false, writes: true, is_release: true });
    }
}

fn number(bytes: Option<&[u8]>) -> Option<u64> {
    let bytes = bytes.filter(|bytes| bytes.len() <= LONGEST_VALUE)?;
    Some(bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
}

impl Listener for Historian {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        for access in accesses {
            self.access(thread, access, Values::default());
        }
    }

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        self.access(thread, access, values);
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        let Some(slot) = self.order.slot(thread) else { return };
        self.order.event(slot, thread, event);
        self.runners.hear(thread, event, &self.libraries);
        match *event {
            Event::Allocated { address, size, site } => {
                self.blocks.allocate(address, size);
                self.made.push(Block { address, size, site });
            }
            Event::Freed { address, site } => self.freed(thread, slot, address, site),
            _ => {}
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sites.name(site, pc);
    }
}
