//! Where the history of each granule is: pages of cells in a table of two levels, made when they are first needed.

use super::cell::{Action, Cell, Entry, Viewpoint, add_to_list};
use super::clock::{Moment, Passed};
use std::ops::Range;

const GRANULE_BITS: u32 = 3;
pub const GRANULE_SIZE: u64 = 1 << GRANULE_BITS;
/// A page of cells is for as much memory as a page of the guest's.
const CELL_BITS: u32 = 9;
const TABLE_BITS: u32 = 17;
const TOP_BITS: u32 = 18;
const CELLS: usize = 1 << CELL_BITS;
const PAGES: usize = 1 << TABLE_BITS;
/// Addresses from here on are the kernel's. What claims to be there is not looked at.
const END: u64 = 1 << (TOP_BITS + TABLE_BITS + CELL_BITS + GRANULE_BITS);

type Page = [Cell; CELLS];
type Table = [u32; PAGES];

/// The numbers of the granules that a range touches, each with the bytes of it.
pub fn granules(address: u64, size: u64) -> impl Iterator<Item = (u64, u8)> {
    let end = address.saturating_add(size).min(END);
    let first = address / GRANULE_SIZE;
    let last = if address < end { end.div_ceil(GRANULE_SIZE) } else { first };
    (first..last).map(move |granule| (granule, bytes_between(granule, address, end)))
}

fn bytes_between(granule: u64, address: u64, end: u64) -> u8 {
    let base = granule * GRANULE_SIZE;
    let skipped = address.saturating_sub(base).min(GRANULE_SIZE);
    let kept = end.saturating_sub(base).min(GRANULE_SIZE);
    (0xff_u16 << skipped & !(0xff_u16 << kept)) as u8
}

/// The history of a granule for which a cell is too small.
#[derive(Default)]
struct List {
    /// The latest at the end.
    entries: Vec<Entry>,
    /// Bytes that are synchronisation, in parts that do not overlap.
    parts: Vec<Part>,
}

/// Bytes that were accessed together, and what their writers pass on to their readers.
struct Part {
    mask: u8,
    passed: Passed,
}

impl List {
    fn sync_mask(&self) -> u8 {
        self.parts.iter().fold(0, |mask, part| mask | part.mask)
    }
}

pub struct Shadow {
    /// By the upper bits of an address, then by the next ones: one more than the number of the page; 0 for none.
    tables: Vec<Option<Box<Table>>>,
    pages: Vec<Box<Page>>,
    free_pages: Vec<u32>,
    lists: Vec<List>,
    free_lists: Vec<u32>,
}

impl Shadow {
    pub fn new() -> Shadow {
        let tables = (0..1 << TOP_BITS).map(|_| None).collect();
        Shadow { tables, pages: Vec::new(), free_pages: Vec::new(), lists: Vec::new(), free_lists: Vec::new() }
    }

    /// The cell of a granule that has been accessed before, or whose neighbour has.
    #[inline]
    pub fn known_cell(&self, granule: u64) -> Option<&Cell> {
        let (top, middle, cell) = indices(granule);
        let number = self.tables.get(top)?.as_ref()?[middle];
        Some(&self.pages.get((number as usize).wrapping_sub(1))?[cell])
    }

    fn list_of(&self, granule: u64) -> Option<usize> {
        self.known_cell(granule)?.list().map(|list| list as usize)
    }

    /// The granule's cell, made if need be. The granule must lie below `END`.
    #[inline]
    pub fn cell_mut(&mut self, granule: u64) -> &mut Cell {
        let (top, middle, cell) = indices(granule);
        let table = self.tables[top].get_or_insert_with(|| Box::new([0; PAGES]));
        if table[middle] == 0 {
            table[middle] = 1 + self.free_pages.pop().unwrap_or_else(|| {
                self.pages.push(Box::new([Cell::default(); CELLS]));
                self.pages.len() as u32 - 1
            });
        }
        &mut self.pages[table[middle] as usize - 1][cell]
    }

    /// Adds an access to a granule's history. Tells the entries that it races with.
    #[inline]
    pub fn add(&mut self, granule: u64, view: &Viewpoint<'_>, new: Entry, races: &mut Vec<Entry>) {
        let cell = self.cell_mut(granule);
        if let Some(list) = cell.list() {
            let entries = &mut self.lists[list as usize].entries;
            add_to_list(view, entries, new, races);
            self.tidy(granule, list);
        } else if let Some(entries) = cell.add(view, new, races) {
            self.spread(granule, entries.to_vec());
        }
    }

    /// Adds the release of a block, where there is any history. What was synchronisation is so no longer.
    pub fn add_freed(&mut self, granule: u64, view: &Viewpoint<'_>, new: Entry, races: &mut Vec<Entry>) {
        let Some(cell) = self.known_cell(granule) else { return };
        if let Some(list) = cell.list() {
            self.lists[list as usize].parts.retain(|part| part.mask & new.mask() == 0);
        }
        self.add(granule, view, new, races);
    }

    /// The bytes of a granule that are synchronisation.
    #[inline]
    pub fn sync_mask(&self, granule: u64) -> u8 {
        self.list_of(granule).map_or(0, |list| self.lists[list].sync_mask())
    }

    /// From now on these bytes are synchronisation. What was known of them is over, but for their release.
    pub fn make_sync(&mut self, granule: u64, mask: u8) {
        let list = match self.cell_mut(granule).list() {
            Some(list) => list,
            None => {
                let entries = self.cell_mut(granule).entries().collect();
                self.spread(granule, entries)
            }
        };
        let history = &mut self.lists[list as usize];
        let new = mask & !history.sync_mask();
        if new == 0 {
            return;
        }
        history.parts.push(Part { mask: new, passed: Passed::Nothing });
        for entry in history.entries.iter_mut().filter(|entry| entry.action() != Action::Freed) {
            *entry = entry.with_mask(entry.mask() & !new);
        }
        history.entries.retain(|entry| entry.mask() != 0);
        self.tidy(granule, list);
    }

    /// What readers of these synchronisation bytes acquire.
    pub fn passed(&self, granule: u64, mask: u8) -> impl Iterator<Item = &Passed> {
        let parts = self.list_of(granule).into_iter().flat_map(|list| &self.lists[list].parts);
        parts.filter(move |part| part.mask & mask != 0).map(|part| &part.passed)
    }

    /// A write to these synchronisation bytes: it replaces what it overwrites as a whole.
    pub fn pass_on(&mut self, granule: u64, mask: u8, moment: &Moment) {
        let Some(list) = self.list_of(granule) else { return };
        for part in self.lists[list].parts.iter_mut().filter(|part| part.mask & mask != 0) {
            if part.mask & !mask == 0 {
                part.passed = Passed::One(moment.clone());
            } else {
                part.passed.add(moment.clone());
            }
        }
    }

    /// Forgets all that is known of a range. Pages that lie in it as a whole are given back.
    pub fn clear(&mut self, address: u64, size: u64) {
        let end = address.saturating_add(size).min(END);
        let page_size = GRANULE_SIZE << CELL_BITS;
        let mut page = address / page_size;
        while page * page_size < end {
            let (top, middle, _) = indices(page << CELL_BITS);
            let Some(table) = &self.tables[top] else {
                page = (top as u64 + 1) << TABLE_BITS;
                continue;
            };
            let number = table[middle];
            if number != 0 {
                let start = page * page_size;
                let part = address.max(start) - start..end.min(start + page_size) - start;
                self.clear_in_page(top, middle, number - 1, part);
            }
            page += 1;
        }
    }

    fn clear_in_page(&mut self, top: usize, middle: usize, number: u32, part: Range<u64>) {
        let cells = (part.start / GRANULE_SIZE) as usize..part.end.div_ceil(GRANULE_SIZE) as usize;
        for cell in &mut self.pages[number as usize][cells.clone()] {
            if let Some(list) = cell.list() {
                self.lists[list as usize] = List::default();
                self.free_lists.push(list);
            }
            *cell = Cell::default();
        }
        if cells.len() == CELLS
            && let Some(table) = &mut self.tables[top]
        {
            table[middle] = 0;
            self.free_pages.push(number);
        }
    }

    /// Moves a cell's history into a list of its own, and gives its number.
    fn spread(&mut self, granule: u64, entries: Vec<Entry>) -> u32 {
        let history = List { entries, parts: Vec::new() };
        let list = match self.free_lists.pop() {
            Some(list) => {
                self.lists[list as usize] = history;
                list
            }
            None => {
                self.lists.push(history);
                self.lists.len() as u32 - 1
            }
        };
        self.point_at(granule, list);
        list
    }

    fn point_at(&mut self, granule: u64, list: u32) {
        let entries = &self.lists[list as usize].entries;
        let latest = entries.last().copied().unwrap_or_default();
        let cell = Cell::listed(list, entries, latest);
        *self.cell_mut(granule) = cell;
    }

    /// After a change of a list: back into the cell if it is short enough.
    fn tidy(&mut self, granule: u64, list: u32) {
        let history = &self.lists[list as usize];
        let cell = if history.parts.is_empty() { Cell::of(&history.entries) } else { None };
        match cell {
            Some(cell) => {
                *self.cell_mut(granule) = cell;
                self.lists[list as usize] = List::default();
                self.free_lists.push(list);
            }
            None => self.point_at(granule, list),
        }
    }

    /// How much memory the history takes, in bytes, without what is free for reuse.
    pub fn size(&self) -> usize {
        let pages = (self.pages.len() - self.free_pages.len()) * size_of::<Page>();
        let tables = self.tables.iter().flatten().count() * size_of::<Table>();
        let lists = self.lists.iter().map(|list| {
            size_of::<List>() + list.entries.capacity() * size_of::<Entry>() + list.parts.capacity() * size_of::<Part>()
        });
        pages + tables + lists.sum::<usize>()
    }
}

#[inline]
fn indices(granule: u64) -> (usize, usize, usize) {
    let page = granule >> CELL_BITS;
    ((page >> TABLE_BITS) as usize, page as usize & (PAGES - 1), granule as usize & (CELLS - 1))
}
