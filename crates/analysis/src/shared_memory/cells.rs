//! What is known of each granule, in pages.

use crate::races::sieve::epoch::{Epoch, Sight};
use crate::races::sieve::readers::Readers;
use rustc_hash::FxHashMap;

/// A page has the granules of 4 KB.
const CELL_BITS: u32 = 9;
const CELLS: usize = 1 << CELL_BITS;
/// How many pages are watched at a time: those of 256 MB.
const MOST_PAGES: usize = 1 << 16;
/// Pages are looked up among those of a moment ago first.
const LOOKED_UP: usize = 64;

type Page = [Cell; CELLS];

#[derive(Clone, Copy, Default)]
pub struct Cell {
    written: Epoch,
    /// The readers since.
    readers: Epoch,
    /// The number of the set of instructions that have accessed it.
    pub sites: u32,
    pub is_contended: bool,
}

impl Cell {
    /// Whether a thread's access is as one of its own before.
    #[inline]
    pub fn knows(&self, now: Epoch, writes: bool) -> bool {
        let is_known = if writes {
            self.written == now && self.readers == Epoch::NONE
        } else {
            self.written == now || self.readers == now
        };
        is_known || self.is_contended
    }

    /// An access: contended, if what it conflicts with is not ordered before it.
    pub fn touch(&mut self, writes: bool, sight: &Sight<'_>, readers: &mut Readers) {
        let new = match writes {
            _ if !sight.covers(self.written) => None,
            true => readers.are_seen(self.readers, sight).then_some((sight.now, Epoch::NONE)),
            false => readers.add(self.readers, sight).map(|readers| (self.written, readers)),
        };
        match new {
            Some((written, readers)) => (self.written, self.readers) = (written, readers),
            None => self.is_contended = true,
        }
    }

    /// Whether all accesses were ordered among each other, and are before what a thread does now.
    pub fn is_before(&self, sight: &Sight<'_>, readers: &Readers) -> bool {
        !self.is_contended && sight.covers(self.written) && readers.are_seen(self.readers, sight)
    }

    /// The list of readers that the cell refers to.
    pub fn list(&self) -> Option<u32> {
        self.readers.list()
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

    pub fn iter(&self) -> impl Iterator<Item = &Cell> {
        self.pages.iter().flat_map(|page| page.iter())
    }

    pub fn n_pages(&self) -> usize {
        self.pages.len()
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
    use crate::races::clock::Seen;

    /// What a thread that has seen these epochs does to a cell in one of its own.
    fn touch(cell: &mut Cell, readers: &mut Readers, (slot, writes): (u16, bool), seen: &[(u16, u64)]) {
        let mut all = Seen::default();
        seen.iter().for_each(|(slot, tick)| assert!(all.raise(*slot, *tick)));
        cell.touch(writes, &Sight { now: Epoch::new(slot, 5), seen: &all }, readers);
    }

    #[test]
    fn who_does_not_follow_contends() {
        let (one, two) = (Epoch::new(1, 5), Epoch::new(2, 5));
        let mut readers = Readers::new();
        let mut cell_after = |second_writes: bool, seen: &[(u16, u64)]| {
            let mut cell = Cell::default();
            touch(&mut cell, &mut readers, (1, true), &[]);
            assert!(cell.knows(one, true) && cell.knows(one, false) && !cell.knows(two, false));
            touch(&mut cell, &mut readers, (2, second_writes), seen);
            cell
        };
        assert!(cell_after(false, &[]).is_contended);
        assert!(cell_after(true, &[(1, 4)]).is_contended);
        assert!(!cell_after(true, &[(1, 5)]).is_contended);
        assert!(!cell_after(false, &[(1, 5)]).knows(two, true), "that it has read says nothing of writing");
    }

    #[test]
    fn readers_contend_with_writers_alone() {
        let after = |seen: &[(u16, u64)]| {
            let (mut cell, mut readers) = (Cell::default(), Readers::new());
            touch(&mut cell, &mut readers, (1, false), &[]);
            touch(&mut cell, &mut readers, (2, false), &[]);
            assert!(!cell.is_contended);
            touch(&mut cell, &mut readers, (3, true), seen);
            cell
        };
        assert!(after(&[(2, 5)]).is_contended, "one of the readers is not before the write");
        assert!(!after(&[(1, 5), (2, 5)]).is_contended);
    }
}
