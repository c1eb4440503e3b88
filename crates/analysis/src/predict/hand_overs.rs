//! Which instructions hand pointers over under locks, and nothing else; and which have to do with [flags](super::waits) that are waited for.
//!
//! To the [`Detector`](super::Detector), a pointer that is read under a lock that its writer held is an order, as with a queue, and
//! other values are none, unless they are flags. A sieve sees no values. It must not leave less than the detector needs, so it may trust
//! instructions only that never read anything else in this way. A few instructions are looked at, which costs little more than a plain replay.
//!
//! Both sieve and detector take for an order what any of the trusted writers wrote and any of the trusted readers read. So of each reader,
//! all writers that are looked at count, whichever of the two they were found as.

use super::parts::{POINTER_SIZE, number_of};
use super::uses::is_pointer;
use super::valued_records::{self, Concerning};
use super::waits::{FlagCheck, Read, Taken};
use crate::races::HandOvers;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use trace::stream::records::Records;
use trace::stream::{Access, Event, Listener, Site, Thread, Values};

/// Who wrote last that is known of, by which instruction, over what, and holding which locks.
struct Written {
    pc: u64,
    thread: Thread,
    holding: Arc<Vec<u64>>,
    /// Nothing if it is not known.
    old: Option<u64>,
    size: u32,
}

/// What is known of a site.
#[derive(Clone, Copy, Default)]
struct Role {
    pc: u64,
    reads_pointers: bool,
    reads_flags: bool,
    writes: bool,
}

impl Role {
    fn is_any(self) -> bool {
        self.reads_pointers || self.reads_flags || self.writes
    }
}

/// Finds the instructions to trust, of those that a sieve has found.
pub struct HandOverCheck {
    hand_overs: HandOvers,
    sites: Vec<Role>,
    /// Patterns with an instruction that is looked at.
    concerning: Concerning,
    holding: FxHashMap<Thread, Arc<Vec<u64>>>,
    /// By address. Writes that are not looked at leave it as it is, so that more is doubted than has to be.
    written: BTreeMap<u64, Written>,
    /// Who wrote what was read, and who read it.
    pairs: BTreeSet<(u64, u64)>,
    /// They have read something else than a pointer.
    doubted: BTreeSet<u64>,
    flags: FlagCheck,
}

impl HandOverCheck {
    pub fn new(hand_overs: HandOvers) -> HandOverCheck {
        HandOverCheck {
            flags: FlagCheck::new(hand_overs.flags.waits.clone()),
            hand_overs,
            sites: Vec::new(),
            concerning: Concerning::default(),
            holding: FxHashMap::default(),
            written: BTreeMap::new(),
            pairs: BTreeSet::new(),
            doubted: BTreeSet::new(),
        }
    }

    /// The instructions that have to be told, with values.
    pub fn instructions(&self) -> BTreeSet<u64> {
        self.hand_overs.instructions()
    }

    pub fn into_trusted(self) -> HandOvers {
        let trusted = || self.pairs.iter().filter(|(_, reader)| !self.doubted.contains(reader));
        HandOvers {
            readers: trusted().map(|(_, reader)| *reader).collect(),
            writers: trusted().map(|(writer, _)| *writer).collect(),
            flags: self.flags.into_trusted(),
        }
    }

    /// The plain records at the front that have so many words.
    pub fn records_in_front(&mut self, thread: Thread, records: &Records<'_>, length: usize) {
        let front = Records { words: &records.words[..length], ..*records };
        for record in front.plain() {
            let sites = &self.sites;
            let is_looked_at = |site: Site| sites[site.0 as usize].is_any();
            if self.concerning.is_so(record.number, records.patterns, is_looked_at) {
                valued_records::tell(&record, records, |access, values| self.valued(thread, access, values));
            }
        }
    }

    /// Memory has become something else.
    fn forget_in(&mut self, range: Range<u64>) {
        while let Some((&address, _)) = self.written.range(range.clone()).next() {
            self.written.remove(&address);
        }
    }

    /// Who wrote what a thread reads from an address, if that was another and both hold a lock.
    fn given(&self, thread: Thread, address: u64) -> Option<&Written> {
        let written = self.written.get(&address).filter(|written| written.thread != thread)?;
        let holding = self.holding.get(&thread)?;
        holding.iter().any(|object| written.holding.contains(object)).then_some(written)
    }

    fn has_read_pointer(&mut self, thread: Thread, (pc, address): (u64, u64), value: Option<u64>) {
        let Some(writer) = self.given(thread, address).map(|written| written.pc) else { return };
        if value.is_some_and(is_pointer) {
            self.pairs.insert((writer, pc));
        } else {
            self.doubted.insert(pc);
        }
    }

    fn has_read_flag(&mut self, thread: Thread, (pc, access): (u64, &Access), value: Option<u64>) {
        let Some(value) = value else { return self.flags.doubt(pc) };
        if let Some(written) = self.given(thread, access.address) {
            // Of different sizes, the rest was what it is now.
            let (of_write, of_read) = (mask_of(written.size), mask_of(access.size));
            let old = written.old.map(|old| (old & of_write | value & !of_write) & of_read);
            let writer = written.pc;
            match old {
                Some(old) => self.flags.has_taken(pc, Taken { writer, old, new: value }),
                None => self.flags.doubt(pc),
            }
        }
        self.flags.has_read(thread, Read { pc, address: access.address, value });
    }
}

/// The bits of a number of so many bytes.
fn mask_of(size: u32) -> u64 {
    1_u64.checked_shl(8 * size).map_or(u64::MAX, |end| end - 1)
}

impl Listener for HandOverCheck {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        for access in accesses {
            self.valued(thread, access, Values::default());
        }
    }

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        let Role { pc, reads_pointers, reads_flags, writes } = self.sites[access.site.0 as usize];
        let old = values.before.filter(|bytes| bytes.len() <= POINTER_SIZE as usize).map(number_of);
        if access.kind.reads() && reads_pointers {
            let value = old.filter(|_| u64::from(access.size) == POINTER_SIZE);
            self.has_read_pointer(thread, (pc, access.address), value);
        }
        if access.kind.reads() && reads_flags {
            self.has_read_flag(thread, (pc, access), old);
        }
        if access.kind.writes() && writes {
            let holding = self.holding.entry(thread).or_default().clone();
            self.written.insert(access.address, Written { pc, thread, holding, old, size: access.size });
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        match *event {
            Event::Locked { object, .. } => {
                self.flags.locked(thread, object);
                Arc::make_mut(self.holding.entry(thread).or_default()).push(object);
            }
            Event::Unlocked { object, site } => {
                self.flags.unlocked(thread, object, site);
                let holding = self.holding.entry(thread).or_default();
                if let Some(position) = holding.iter().rposition(|held| *held == object) {
                    Arc::make_mut(holding).remove(position);
                }
            }
            Event::Allocated { address, size, .. } => self.forget_in(address..address.saturating_add(size)),
            Event::Ended => {
                self.flags.ended(thread);
                self.holding.remove(&thread);
            }
            _ => {}
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        let length = self.sites.len().max(site.0 as usize + 1);
        self.sites.resize(length, Role::default());
        let HandOvers { readers, writers, flags } = &self.hand_overs;
        self.sites[site.0 as usize] = Role {
            pc,
            reads_pointers: readers.contains(&pc),
            reads_flags: flags.readers.contains(&pc),
            writes: writers.contains(&pc) || flags.writers.contains(&pc),
        };
    }
}
