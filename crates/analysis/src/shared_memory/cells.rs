//! What is known of each granule, in pages.

use crate::predict::Order;
use crate::races::cell::Slot;
use rustc_hash::FxHashMap;

/// A page has the granules of 4 KB.
const CELL_BITS: u32 = 9;
const CELLS: usize = 1 << CELL_BITS;
/// How many pages are watched at a time: those of 256 MB.
const MOST_PAGES: usize = 1 << 16;
/// Pages are looked up among those of a moment ago first.
const LOOKED_UP: usize = 64;

type Page = [Cell; CELLS];

/// When a thread was where: its slot, and its tick between two releases.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stamp(u32);

const TICK_BITS: u32 = 23;
const LATEST: u64 = (1 << TICK_BITS) - 1;

impl Stamp {
    const NEVER: Stamp = Stamp(0);

    pub fn new(slot: Slot, tick: u64) -> Stamp {
        Stamp(u32::from(slot) << TICK_BITS | tick.min(LATEST) as u32)
    }

    /// Whether the stamps of a slot differ from those of others.
    pub fn can_tell(slot: Slot) -> bool {
        u32::from(slot) < 1 << (u32::BITS - TICK_BITS)
    }

    fn slot(self) -> u32 {
        self.0 >> TICK_BITS
    }

    /// Whether it is before all that another thread does now. Ticks that are too late to be told apart never are.
    pub fn is_seen_by(self, slot: Slot, order: &Order) -> bool {
        let tick = u64::from(self.0) & LATEST;
        self.slot() == u32::from(slot) || tick != LATEST && order.has_seen(slot, self.slot() as Slot, tick)
    }
}

#[derive(Clone, Copy, Default)]
pub struct Cell {
    write: Stamp,
    read: Stamp,
    /// The number of the set of instructions that have accessed it.
    pub sites: u32,
    /// Only the last reader's stamp is kept.
    pub has_several_readers: bool,
    pub is_contended: bool,
}

impl Cell {
    /// Whether a thread's access is as one of its own before.
    #[inline]
    pub fn knows(&self, stamp: Stamp, writes: bool) -> bool {
        let is_known = if writes {
            self.write == stamp && self.read == Stamp::NEVER
        } else {
            self.write == stamp || self.read == stamp
        };
        is_known || self.is_contended
    }

    /// An access: contended, if what it conflicts with is not ordered before it.
    pub fn touch(&mut self, stamp: Stamp, writes: bool, is_ordered: impl Fn(Stamp) -> bool) {
        let follows = |other: Stamp| other == Stamp::NEVER || is_ordered(other);
        if !follows(self.write) || writes && (self.has_several_readers || !follows(self.read)) {
            self.is_contended = true;
        } else if writes {
            (self.write, self.read, self.has_several_readers) = (stamp, Stamp::NEVER, false);
        } else {
            self.has_several_readers |= !follows(self.read);
            self.read = stamp;
        }
    }

    /// The last accesses.
    pub fn stamps(&self) -> impl Iterator<Item = Stamp> {
        [self.write, self.read].into_iter().filter(|stamp| *stamp != Stamp::NEVER)
    }
}

pub struct Cells {
    numbers: FxHashMap<u64, u32>,
    pages: Vec<Box<Page>>,
    /// The number of a page of memory, and that of its cells.
    looked_up: [(u64, u32); LOOKED_UP],
    pub unwatched: u64,
}

impl Default for Cells {
    fn default() -> Cells {
        Cells { numbers: FxHashMap::default(), pages: Vec::new(), looked_up: [(u64::MAX, 0); LOOKED_UP], unwatched: 0 }
    }
}

impl Cells {
    /// The granule's cell, made if need be; none if too much is watched already.
    #[inline]
    pub fn at(&mut self, granule: u64) -> Option<&mut Cell> {
        let page = granule >> CELL_BITS;
        let (known, number) = self.looked_up[page as usize % LOOKED_UP];
        let number = if known == page { number } else { self.look_up(page)? };
        Some(&mut self.pages[number as usize][granule as usize & (CELLS - 1)])
    }

    fn look_up(&mut self, page: u64) -> Option<u32> {
        let number = match self.numbers.get(&page) {
            Some(number) => *number,
            None if self.pages.len() == MOST_PAGES => {
                self.unwatched += 1;
                return None;
            }
            None => {
                self.pages.push(Box::new([Cell::default(); CELLS]));
                self.numbers.insert(page, self.pages.len() as u32 - 1);
                self.pages.len() as u32 - 1
            }
        };
        self.looked_up[page as usize % LOOKED_UP] = (page, number);
        Some(number)
    }

    /// What is known of a granule, which is forgotten.
    pub fn take(&mut self, granule: u64) -> Option<Cell> {
        let number = *self.numbers.get(&(granule >> CELL_BITS))?;
        Some(std::mem::take(&mut self.pages[number as usize][granule as usize & (CELLS - 1)]))
    }

    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// All that is known, which is forgotten.
    pub fn drain(&mut self) -> impl Iterator<Item = (u64, Cell)> {
        self.looked_up = [(u64::MAX, 0); LOOKED_UP];
        let pages = std::mem::take(&mut self.pages);
        let numbers = std::mem::take(&mut self.numbers);
        numbers.into_iter().flat_map(move |(page, number)| {
            let cells = *pages[number as usize];
            (page << CELL_BITS..).zip(cells)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_follow_contends() {
        let (one, two) = (Stamp::new(1, 5), Stamp::new(2, 7));
        let cell_after = |second_writes: bool, is_ordered: bool| {
            let mut cell = Cell::default();
            cell.touch(one, true, |_| false);
            assert!(cell.knows(one, true) && cell.knows(one, false) && !cell.knows(two, false));
            cell.touch(two, second_writes, |_| is_ordered);
            cell
        };
        assert!(cell_after(false, false).is_contended);
        assert!(cell_after(true, false).is_contended);
        assert!(!cell_after(true, true).is_contended);
        assert!(!cell_after(false, true).knows(two, true), "that it has read says nothing of writing");
    }

    #[test]
    fn readers_contend_with_writers_alone() {
        let mut cell = Cell::default();
        cell.touch(Stamp::new(1, 1), false, |_| false);
        cell.touch(Stamp::new(2, 1), false, |_| false);
        assert!(!cell.is_contended);
        cell.touch(Stamp::new(3, 1), true, |_| true);
        assert!(cell.is_contended, "the first reader's stamp is gone");
    }
}
