//! What becomes of values that are read: which instructions read pointers that are dereferenced, and which read numbers
//! that addresses are computed from.
//!
//! Seen in the addresses of the accesses that follow: a pointer is dereferenced by an access at it or a little behind it,
//! and a number is an index if an address moves in step with it.

use super::found::Block;
use super::valued_records::{self, Concerning};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use trace::stream::records::{Record, Records};
use trace::stream::{Access, Event, Listener, Site, Thread, Values};

/// A value is looked for in so many of the thread's next accesses.
const REACH: usize = 24;
/// Members are not further behind the start of what a pointer points to.
const LONGEST_OBJECT: u64 = 4096;
/// Vector instructions look at whole lines, which may begin earlier.
const LINE: u64 = 64;
/// Numbers beyond are no indices.
const LARGEST_INDEX: u64 = 1 << 32;
/// Elements of arrays that indices are recognised by.
const SCALES: [u64; 7] = [1, 2, 4, 8, 16, 24, 32];

struct Read {
    pc: u64,
    value: u64,
    n_later: usize,
    /// Whether it has to be found out what becomes of it. Otherwise it only keeps what it is from being found of others.
    is_open: bool,
}

/// What a thread has read of late, the latest at the end.
#[derive(Default)]
struct Recent {
    reads: VecDeque<Read>,
}

impl Recent {
    fn add(&mut self, pc: u64, value: u64, is_open: bool) {
        // What the instruction read before is used up.
        self.reads.retain(|read| read.pc != pc);
        if self.reads.len() == REACH {
            self.reads.pop_front();
        }
        self.reads.push_back(Read { pc, value, n_later: 0, is_open });
    }

    /// Counts an access behind them. Those that it may still belong to are left.
    fn pass(&mut self) {
        while self.reads.front().is_some_and(|read| read.n_later >= REACH) {
            self.reads.pop_front();
        }
        self.reads.iter_mut().for_each(|read| read.n_later += 1);
        if !self.reads.iter().any(|read| read.is_open) {
            self.reads.clear();
        }
    }
}

/// How addresses follow from a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lookup {
    /// Where zero would lead to.
    pub base: u64,
    /// By how many bytes each step moves that.
    pub step: u64,
    /// The block of the heap that it led into when this was seen.
    pub block: Option<Block>,
}

/// After so many values, nothing more is expected of an instruction.
const MOST_TRIED: u32 = 1 << 10;

/// Instructions of which something has to be found out, and how many values of each have been tried.
#[derive(Default)]
struct Open(FxHashMap<u64, u32>);

impl Open {
    /// Whether one more value of an instruction is to be tried.
    fn tries(&mut self, pc: u64) -> bool {
        let Some(n_tried) = self.0.get_mut(&pc) else { return false };
        *n_tried += 1;
        let is_enough = *n_tried > MOST_TRIED;
        if is_enough {
            self.0.remove(&pc);
        }
        !is_enough
    }
}

#[derive(Default)]
struct Uses {
    open: Open,
    /// Pointers and numbers by thread.
    recent: FxHashMap<Thread, (Recent, Recent)>,
    dereferenced: BTreeSet<u64>,
    indices: BTreeMap<u64, Lookup>,
    /// The heap's blocks by address.
    blocks: BTreeMap<u64, Block>,
    /// For a read and an access behind it: the last value, and the first address that came with it.
    steps: FxHashMap<(u64, u64), (u64, u64)>,
}

/// How many pairs of reads and accesses behind them are followed.
const MOST_STEPS: usize = 1 << 18;

impl Uses {
    fn of(readers: impl IntoIterator<Item = u64>) -> Uses {
        Uses { open: Open(readers.into_iter().map(|pc| (pc, 0)).collect()), ..Uses::default() }
    }

    /// Whether a thread's next accesses may show something.
    fn is_waiting(&self, thread: Thread) -> bool {
        let has_reads =
            |(pointers, numbers): &(Recent, Recent)| !(pointers.reads.is_empty() && numbers.reads.is_empty());
        self.recent.get(&thread).is_some_and(has_reads)
    }

    /// A thread has read a value.
    fn read(&mut self, thread: Thread, pc: u64, value: u64) {
        let is_open = self.open.tries(pc);
        if is_pointer(value) {
            let is_open = is_open && !self.dereferenced.contains(&pc);
            let pointers = &mut self.recent.entry(thread).or_default().0;
            // Of several reads of a pointer, the last one is what is used. So others count where one is waited for.
            if is_open || !pointers.reads.is_empty() {
                pointers.add(pc, value, is_open);
            }
        } else if value < LARGEST_INDEX && is_open && !self.indices.contains_key(&pc) {
            self.recent.entry(thread).or_default().1.add(pc, value, true);
        }
    }

    /// A thread has accessed memory.
    fn accessed(&mut self, thread: Thread, pc: u64, address: u64) {
        let Some((pointers, numbers)) = self.recent.get_mut(&thread) else { return };
        if pointers.reads.is_empty() && numbers.reads.is_empty() {
            return;
        }
        pointers.pass();
        let is_near = |read: &&Read| address.wrapping_add(LINE).wrapping_sub(read.value) < LONGEST_OBJECT + LINE;
        let used = pointers.reads.iter().rev().find(is_near).filter(|read| read.is_open);
        self.dereferenced.extend(used.map(|used| used.pc));
        numbers.pass();
        for read in numbers.reads.iter().rev() {
            let known = self.steps.len();
            let last = self.steps.get(&(read.pc, pc)).copied();
            if let Some(step) = last.and_then(|last| step_of(last, (read.value, address))) {
                let base = address.wrapping_sub(read.value.wrapping_mul(step));
                let block = block_at(&self.blocks, address);
                self.indices.entry(read.pc).or_insert(Lookup { base, step, block });
            }
            let is_new = last.map_or(known < MOST_STEPS, |(value, _)| value != read.value);
            if is_new {
                self.steps.insert((read.pc, pc), (read.value, address));
            }
        }
    }

    fn happened(&mut self, thread: Thread, event: &Event) {
        match *event {
            Event::Ended => drop(self.recent.remove(&thread)),
            Event::Allocated { address, size, site } => {
                self.blocks.insert(address, Block { address, size, site });
            }
            Event::Freed { address, .. } => drop(self.blocks.remove(&address)),
            _ => {}
        }
    }
}

fn block_at(blocks: &BTreeMap<u64, Block>, address: u64) -> Option<Block> {
    let (_, block) = blocks.range(..=address).next_back()?;
    (address - block.address < block.size).then_some(*block)
}

/// What became of what instructions read, by their addresses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Used {
    /// They read pointers, which were dereferenced.
    pub dereferenced: BTreeSet<u64>,
    /// They read numbers that addresses were computed from, in this way.
    pub indices: BTreeMap<u64, Lookup>,
}

/// Finds out what becomes of what some instructions read, from a stream with their values, and now and then with all accesses right behind them.
pub struct UseSeeker {
    /// The addresses of sites.
    sites: Vec<u64>,
    /// Patterns with a reader that is open, when there were so many.
    concerning: (usize, Concerning),
    uses: Uses,
}

impl UseSeeker {
    pub fn new(readers: impl IntoIterator<Item = u64>) -> UseSeeker {
        UseSeeker { sites: Vec::new(), concerning: (0, Concerning::default()), uses: Uses::of(readers) }
    }

    /// Whether a record may tell what is to be found out.
    fn is_concerned(&mut self, record: &Record<'_>, records: &Records<'_>) -> bool {
        let UseSeeker { sites, uses, concerning: (n_open, concerning) } = self;
        if *n_open != uses.open.0.len() {
            (*n_open, *concerning) = (uses.open.0.len(), Concerning::default());
        }
        let is_open = |site: Site| uses.open.0.contains_key(&sites[site.0 as usize]);
        concerning.is_so(record.number, records.patterns, is_open)
    }

    pub fn into_used(self) -> Used {
        Used { dereferenced: self.uses.dereferenced, indices: self.uses.indices }
    }
}

impl Listener for UseSeeker {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        for access in accesses {
            self.valued(thread, access, Values::default());
        }
    }

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        let mut length = 0;
        for record in records.plain() {
            length += record.words.len();
            if self.is_concerned(&record, records) || self.uses.is_waiting(thread) {
                valued_records::tell(&record, records, |access, values| self.valued(thread, access, values));
            }
        }
        length
    }

    fn reads_records(&self) -> bool {
        true
    }

    fn hears_calls(&self) -> bool {
        false
    }

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        let pc = self.sites[access.site.0 as usize];
        self.uses.accessed(thread, pc, access.address);
        if access.kind.reads() {
            let words = values.before.unwrap_or_default().chunks(8);
            for word in words {
                let value = word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
                self.uses.read(thread, pc, value);
            }
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.uses.happened(thread, event);
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sites.resize(self.sites.len().max(site.0 as usize + 1), 0);
        self.sites[site.0 as usize] = pc;
    }
}

/// Whether a value can be an address.
pub fn is_pointer(value: u64) -> bool {
    (LARGEST_INDEX..1 << 47).contains(&value)
}

/// By how many bytes an address moves with each step of a value, if it does.
fn step_of((old_value, old_address): (u64, u64), (value, address): (u64, u64)) -> Option<u64> {
    let by = value.wrapping_sub(old_value);
    let explains = |scale: &&u64| by.wrapping_mul(**scale) == address.wrapping_sub(old_address);
    SCALES.iter().find(explains).copied().filter(|_| by != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two instructions that read pointers and numbers.
    fn uses() -> Uses {
        Uses::of([0x10, 0x30])
    }

    #[test]
    fn a_pointer_is_dereferenced_behind_its_start() {
        let mut uses = uses();
        uses.read(1, 0x10, 0x7000_0000_0000);
        uses.accessed(2, 0x20, 0x7000_0000_0010);
        assert!(!uses.dereferenced.contains(&0x10), "another thread");
        uses.accessed(1, 0x20, 0x7000_0000_0010);
        assert!(uses.dereferenced.contains(&0x10));
    }

    #[test]
    fn a_value_is_not_looked_for_for_ever() {
        let mut uses = uses();
        uses.read(1, 0x10, 0x7000_0000_0000);
        for _ in 0..REACH {
            uses.accessed(1, 0x20, 0x5000);
        }
        uses.accessed(1, 0x20, 0x7000_0000_0000);
        assert!(!uses.dereferenced.contains(&0x10));
    }

    #[test]
    fn an_index_moves_addresses() {
        let mut uses = uses();
        for (value, address) in [(3, 0x6000), (3, 0x6000), (4, 0x9100)] {
            uses.read(1, 0x10, value);
            uses.accessed(1, 0x20, address);
            assert!(!uses.indices.contains_key(&0x10));
        }
        uses.read(1, 0x10, 7);
        uses.accessed(1, 0x20, 0x9118);
        let lookup = Lookup { base: 0x9100 - 4 * 8, step: 8, block: None };
        assert_eq!(uses.indices.get(&0x10), Some(&lookup), "three elements of eight bytes further on");
        for (value, address) in [(14, 0x700e), (14, 0x700f), (14, 0x7010), (28, 0x701c)] {
            uses.read(1, 0x30, value);
            uses.accessed(1, 0x40, address);
        }
        assert!(uses.indices.contains_key(&0x30), "the address also moved without it");
    }

    #[test]
    fn an_index_is_one_of_the_block_that_it_leads_into() {
        let mut uses = uses();
        let block = Block { address: 0x6000, size: 64, site: 0x1 };
        uses.happened(1, &Event::Allocated { address: block.address, size: block.size, site: block.site });
        for value in [2, 5] {
            uses.read(1, 0x10, value);
            uses.accessed(1, 0x20, 0x6000 + 4 * value);
        }
        assert_eq!(uses.indices.get(&0x10), Some(&Lookup { base: 0x6000, step: 4, block: Some(block) }));
        uses.happened(1, &Event::Freed { address: block.address, site: 0 });
        assert_eq!(block_at(&uses.blocks, 0x6000), None);
    }

    #[test]
    fn what_is_read_last_is_what_is_used_also_if_it_is_known() {
        let mut uses = uses();
        let pointer = 0x7000_0000_0000;
        for _ in 0..3 {
            uses.read(1, 0x10, pointer);
            uses.read(1, 0x30, pointer);
            uses.accessed(1, 0x40, pointer);
            assert_eq!(uses.dereferenced, [0x30].into());
        }
    }

    #[test]
    fn nothing_is_expected_for_ever() {
        let mut uses = uses();
        for _ in 0..=MOST_TRIED {
            assert!(!uses.open.0.is_empty());
            for pc in [0x10, 0x30] {
                uses.read(1, pc, 3);
            }
        }
        assert!(uses.open.0.is_empty());
        uses.accessed(1, 0x20, 0x5000);
        uses.accessed(1, 0x20, 0x5000);
    }
}
