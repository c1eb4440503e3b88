//! What becomes of values that are read: which instructions read pointers that are dereferenced, and which read numbers
//! that addresses are computed from.
//!
//! Seen in the addresses of the accesses that follow: a pointer is dereferenced by an access at it or a little behind it,
//! and a number is an index if an address moves in step with it.

use super::found::Block;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
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
}

/// What a thread has read of late, the latest at the end.
#[derive(Default)]
struct Recent {
    reads: VecDeque<Read>,
}

impl Recent {
    fn add(&mut self, pc: u64, value: u64) {
        // What the instruction read before is used up.
        self.reads.retain(|read| read.pc != pc);
        if self.reads.len() == REACH {
            self.reads.pop_front();
        }
        self.reads.push_back(Read { pc, value, n_later: 0 });
    }

    /// Counts an access behind them, and gives those that it may still belong to, the latest first.
    fn pass(&mut self) -> impl Iterator<Item = &Read> {
        while self.reads.front().is_some_and(|read| read.n_later >= REACH) {
            self.reads.pop_front();
        }
        self.reads.iter_mut().rev().map(|read| {
            read.n_later += 1;
            &*read
        })
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

#[derive(Default)]
struct Uses {
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
    /// A thread has read a value.
    fn read(&mut self, thread: Thread, pc: u64, value: u64) {
        if is_pointer(value) {
            self.recent.entry(thread).or_default().0.add(pc, value);
        } else if value < LARGEST_INDEX && !self.indices.contains_key(&pc) {
            self.recent.entry(thread).or_default().1.add(pc, value);
        }
    }

    /// A thread has accessed memory.
    fn accessed(&mut self, thread: Thread, pc: u64, address: u64) {
        let Some((pointers, numbers)) = self.recent.get_mut(&thread) else { return };
        if pointers.reads.is_empty() && numbers.reads.is_empty() {
            return;
        }
        // Of several reads of a pointer, the last one is what is used.
        let is_near = |read: &&Read| address.wrapping_add(LINE).wrapping_sub(read.value) < LONGEST_OBJECT + LINE;
        let near: Vec<u64> = pointers.pass().filter(is_near).map(|read| read.pc).collect();
        self.dereferenced.extend(near.first());
        for read in numbers.pass() {
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
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Used {
    /// They read pointers, which were dereferenced.
    pub dereferenced: BTreeSet<u64>,
    /// They read numbers that addresses were computed from, in this way.
    pub indices: BTreeMap<u64, Lookup>,
}

/// Finds out what becomes of what some instructions read, from a stream with all accesses, and values of these.
pub struct UseSeeker {
    readers: FxHashSet<u64>,
    pcs: Vec<u64>,
    uses: Uses,
}

impl UseSeeker {
    pub fn new(readers: impl IntoIterator<Item = u64>) -> UseSeeker {
        UseSeeker { readers: readers.into_iter().collect(), pcs: Vec::new(), uses: Uses::default() }
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

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        let pc = self.pcs[access.site.0 as usize];
        self.uses.accessed(thread, pc, access.address);
        if access.kind.reads() && self.readers.contains(&pc) {
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
        self.pcs.resize(self.pcs.len().max(site.0 as usize + 1), 0);
        self.pcs[site.0 as usize] = pc;
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

    #[test]
    fn a_pointer_is_dereferenced_behind_its_start() {
        let mut uses = Uses::default();
        uses.read(1, 0x10, 0x7000_0000_0000);
        uses.accessed(2, 0x20, 0x7000_0000_0010);
        assert!(!uses.dereferenced.contains(&0x10), "another thread");
        uses.accessed(1, 0x20, 0x7000_0000_0010);
        assert!(uses.dereferenced.contains(&0x10));
    }

    #[test]
    fn a_value_is_not_looked_for_for_ever() {
        let mut uses = Uses::default();
        uses.read(1, 0x10, 0x7000_0000_0000);
        for _ in 0..REACH {
            uses.accessed(1, 0x20, 0x5000);
        }
        uses.accessed(1, 0x20, 0x7000_0000_0000);
        assert!(!uses.dereferenced.contains(&0x10));
    }

    #[test]
    fn an_index_moves_addresses() {
        let mut uses = Uses::default();
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
        let mut uses = Uses::default();
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
}
