//! Which instructions hand pointers over under locks, and nothing else.
//!
//! To the [`Detector`](super::Detector), a pointer that is read under a lock that its writer held is an order, as with a queue, and
//! other values are none. A sieve sees no values. It must not leave less than the detector needs, so it may trust instructions only
//! that never read anything else in this way. A few instructions are looked at, which costs little more than a plain replay.

use super::uses::is_pointer;
use crate::races::HandOvers;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use trace::stream::{Access, Event, Listener, Site, Thread, Values};

/// Who wrote last that is known of, by which instruction, and holding which locks.
struct Written {
    pc: u64,
    thread: Thread,
    holding: Arc<Vec<u64>>,
}

/// Finds the instructions to trust, of those that a sieve has found.
pub struct HandOverCheck {
    hand_overs: HandOvers,
    /// By site: its address, and whether it reads and writes what is handed over.
    sites: Vec<(u64, bool, bool)>,
    holding: FxHashMap<Thread, Arc<Vec<u64>>>,
    /// By address. Writes that are not looked at leave it as it is, so that more is doubted than has to be.
    written: BTreeMap<u64, Written>,
    /// Who wrote what was read, and who read it.
    pairs: BTreeSet<(u64, u64)>,
    /// They have read something else than a pointer.
    doubted: BTreeSet<u64>,
}

impl HandOverCheck {
    pub fn new(hand_overs: HandOvers) -> HandOverCheck {
        HandOverCheck {
            hand_overs,
            sites: Vec::new(),
            holding: FxHashMap::default(),
            written: BTreeMap::new(),
            pairs: BTreeSet::new(),
            doubted: BTreeSet::new(),
        }
    }

    /// The instructions that have to be told, with values.
    pub fn instructions(&self) -> BTreeSet<u64> {
        self.hand_overs.readers.union(&self.hand_overs.writers).copied().collect()
    }

    pub fn into_trusted(self) -> HandOvers {
        let trusted = || self.pairs.iter().filter(|(_, reader)| !self.doubted.contains(reader));
        HandOvers {
            readers: trusted().map(|(_, reader)| *reader).collect(),
            writers: trusted().map(|(writer, _)| *writer).collect(),
        }
    }

    /// Memory has become something else.
    fn forget_in(&mut self, range: Range<u64>) {
        while let Some((&address, _)) = self.written.range(range.clone()).next() {
            self.written.remove(&address);
        }
    }

    fn has_read(&mut self, thread: Thread, (pc, address): (u64, u64), value: Option<u64>) {
        let Some(written) = self.written.get(&address).filter(|written| written.thread != thread) else { return };
        let shares_lock = self
            .holding
            .get(&thread)
            .is_some_and(|holding| holding.iter().any(|object| written.holding.contains(object)));
        if shares_lock && value.is_some_and(is_pointer) {
            self.pairs.insert((written.pc, pc));
        } else if shares_lock {
            self.doubted.insert(pc);
        }
    }
}

impl Listener for HandOverCheck {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        for access in accesses {
            self.valued(thread, access, Values::default());
        }
    }

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        let (pc, reads, writes) = self.sites[access.site.0 as usize];
        if access.kind.reads() && reads {
            let value = values.before.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
            self.has_read(thread, (pc, access.address), value);
        }
        if access.kind.writes() && writes {
            let holding = self.holding.entry(thread).or_default().clone();
            self.written.insert(access.address, Written { pc, thread, holding });
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        match *event {
            Event::Locked { object, .. } => Arc::make_mut(self.holding.entry(thread).or_default()).push(object),
            Event::Unlocked { object, .. } => {
                let holding = self.holding.entry(thread).or_default();
                if let Some(position) = holding.iter().rposition(|held| *held == object) {
                    Arc::make_mut(holding).remove(position);
                }
            }
            Event::Allocated { address, size, .. } => self.forget_in(address..address.saturating_add(size)),
            Event::Ended => drop(self.holding.remove(&thread)),
            _ => {}
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        let length = self.sites.len().max(site.0 as usize + 1);
        self.sites.resize(length, (0, false, false));
        let HandOvers { readers, writers } = &self.hand_overs;
        self.sites[site.0 as usize] = (pc, readers.contains(&pc), writers.contains(&pc));
    }
}
