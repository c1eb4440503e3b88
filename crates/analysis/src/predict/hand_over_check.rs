//! Which instructions hand over what they seem to: those that read and write pointers under locks, and those that have to do with
//! [flags](super::waits) that are waited for under locks, and with nothing else.
//!
//! Who never handles a pointer where values are looked at needs not be told with values elsewhere.
//!
//! A sieve that is told to trust such instructions, and the [`Detector`](super::Detector) after it, take for an order what any of the trusted writers wrote and any of
//! the trusted readers read. It must not be one that the run speaks against, so all that they read and write is looked at. They are few, which costs little more
//! than a plain replay.

use super::parts::{POINTER_SIZE, number_of};
use super::uses::is_pointer;
use super::valued_records::{self, Concerning};
use super::waits::{Read, Taken, Waits};
use crate::races::{Flags, HandOvers};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use trace::stream::records::Records;
use trace::stream::{Access, AccessKind, Event, Listener, Site, Thread, Values};

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
    reads: bool,
    writes: bool,
    /// It may take a pointer, or give one.
    takes: bool,
    gives: bool,
    /// How many pointers it has taken or given, and how many numbers that are none.
    pointers: u32,
    numbers: u32,
}

impl Role {
    fn is_looked_at(self) -> bool {
        self.reads || self.writes || self.takes
    }

    /// Now and then a number looks like a pointer.
    fn hands_pointers(&self) -> bool {
        self.pointers > 0 && self.pointers >= self.numbers
    }

    fn count(&mut self, access: &Access, values: Values<'_>) {
        let value = match access.kind {
            AccessKind::Read if self.takes => values.before,
            AccessKind::Write if self.gives => values.after,
            _ => return,
        };
        match value.map(number_of) {
            None | Some(0) => {}
            Some(value) if is_pointer(value) => self.pointers = self.pointers.saturating_add(1),
            Some(_) => self.numbers = self.numbers.saturating_add(1),
        }
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
    waits: Waits,
}

impl HandOverCheck {
    pub fn new(hand_overs: HandOvers) -> HandOverCheck {
        HandOverCheck {
            waits: Waits::by(hand_overs.flags.waits.clone()),
            hand_overs,
            sites: Vec::new(),
            concerning: Concerning::default(),
            holding: FxHashMap::default(),
            written: BTreeMap::new(),
        }
    }

    /// The instructions that have to be told, with values. What others than those that are known to write flags have written to one is needed too.
    pub fn instructions(&self) -> BTreeSet<u64> {
        self.hand_overs.instructions()
    }

    /// Those that may have to do with flags and turned out to have to do with nothing else.
    pub fn into_trusted(self) -> Flags {
        self.waits.into_trusted()
    }

    /// Those, and the others that have read or written pointers.
    pub fn into_checked(self) -> HandOvers {
        let with_pointers = |is_one: fn(&Role) -> bool| {
            let sites = self.sites.iter().filter(|role| role.hands_pointers() && is_one(role));
            sites.map(|role| role.pc).collect()
        };
        let (readers, writers) = (with_pointers(|role| role.takes), with_pointers(|role| role.gives));
        HandOvers { readers, writers, flags: self.into_trusted() }
    }

    /// The plain records at the front that have so many words.
    pub fn records_in_front(&mut self, thread: Thread, records: &Records<'_>, length: usize) {
        let front = Records { words: &records.words[..length], ..*records };
        for record in front.plain() {
            let sites = &self.sites;
            let is_looked_at = |site: Site| sites[site.0 as usize].is_looked_at();
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

    fn has_read(&mut self, thread: Thread, (pc, access): (u64, &Access), value: Option<u64>) {
        let Some(value) = value else { return self.waits.doubt(pc) };
        if let Some(written) = self.given(thread, access.address) {
            // Of different sizes, the rest was what it is now.
            let (of_write, of_read) = (mask_of(written.size), mask_of(access.size));
            let old = written.old.map(|old| (old & of_write | value & !of_write) & of_read);
            let writer = written.pc;
            match old {
                Some(old) => self.waits.has_taken(pc, Taken { writer, old, new: value }),
                None => self.waits.doubt(pc),
            }
        }
        self.waits.has_read(thread, Read { pc, address: access.address, value });
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
        let role = &mut self.sites[access.site.0 as usize];
        role.count(access, values);
        let Role { pc, reads, writes, .. } = *role;
        let old = values.before.filter(|bytes| bytes.len() <= POINTER_SIZE as usize).map(number_of);
        if access.kind.reads() && reads {
            self.has_read(thread, (pc, access), old);
        }
        if access.kind.writes() && writes {
            let holding = self.holding.entry(thread).or_default().clone();
            self.written.insert(access.address, Written { pc, thread, holding, old, size: access.size });
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        match *event {
            Event::Locked { object, .. } => {
                self.waits.locked(thread, object);
                Arc::make_mut(self.holding.entry(thread).or_default()).push(object);
            }
            Event::Unlocked { object, site } => {
                self.waits.unlocked(thread, object, site);
                let holding = self.holding.entry(thread).or_default();
                if let Some(position) = holding.iter().rposition(|held| *held == object) {
                    Arc::make_mut(holding).remove(position);
                }
            }
            Event::Allocated { address, size, .. } => self.forget_in(address..address.saturating_add(size)),
            Event::Ended => {
                self.waits.ended(thread);
                self.holding.remove(&thread);
            }
            _ => {}
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        let length = self.sites.len().max(site.0 as usize + 1);
        self.sites.resize(length, Role::default());
        let HandOvers { readers, writers, flags } = &self.hand_overs;
        let (takes, gives) = (readers.contains(&pc), writers.contains(&pc));
        let (reads, writes) = (flags.readers.contains(&pc), gives || flags.writers.contains(&pc));
        self.sites[site.0 as usize] = Role { pc, reads, writes, takes, gives, ..Role::default() };
    }
}
