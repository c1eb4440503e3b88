//! Where the history of each granule is: pages of cells in a table of two levels, made when they are first needed.

use super::cell::{Action, Cell, Entry, Stamp, Viewpoint, add_to_list};
use super::clock::{Moment, Passed};
use super::lists::{Change, List, Lists};
use std::ops::Range;

const GRANULE_BITS: u32 = 3;
pub const GRANULE_SIZE: u64 = 1 << GRANULE_BITS;
/// A page of cells is for as much memory as a page of the guest's.
const CELL_BITS: u32 = 9;
const TABLE_BITS: u32 = 17;
const TOP_BITS: u32 = 18;
const CELLS: usize = 1 << CELL_BITS;
const PAGE_SIZE: u64 = GRANULE_SIZE << CELL_BITS;
const PAGES: usize = 1 << TABLE_BITS;
const LOOKED_UP: usize = 16;
/// Addresses from here on are the kernel's. What claims to be there is not looked at.
pub const END: u64 = 1 << (TOP_BITS + TABLE_BITS + CELL_BITS + GRANULE_BITS);

type Page = [Cell; CELLS];
type Table = [u32; PAGES];

/// The numbers of the granules that a range touches, each with the bytes of it.
pub fn granules(address: u64, size: u64) -> impl Iterator<Item = (u64, u8)> {
    let end = address.saturating_add(size).min(END);
    let first = address / GRANULE_SIZE;
    let last = if address < end { end.div_ceil(GRANULE_SIZE) } else { first };
    (first..last).map(move |granule| (granule, bytes_between(granule, address, end)))
}

/// The bytes of a granule that are in a range.
pub fn bytes_between(granule: u64, address: u64, end: u64) -> u8 {
    let base = granule * GRANULE_SIZE;
    let skipped = address.saturating_sub(base).min(GRANULE_SIZE);
    let kept = end.saturating_sub(base).min(GRANULE_SIZE);
    (0xff_u16 << skipped & !(0xff_u16 << kept)) as u8
}

/// An access that is to be added.
pub struct Adding<'a> {
    pub view: Viewpoint<'a>,
    pub new: Entry,
    /// The first stamp of the epoch that a stamp is in, if that is still known; else the stamp itself.
    pub epoch_of: &'a dyn Fn(Stamp) -> Stamp,
}

pub struct Shadow {
    /// By the upper bits of an address, then by the next ones: one more than the number of the page; 0 for none.
    tables: Vec<Option<Box<Table>>>,
    pages: Vec<Box<Page>>,
    free_pages: Vec<u32>,
    /// Pages looked up a moment ago: the number of the guest's page, and that of the page of cells.
    looked_up: [(u64, u32); LOOKED_UP],
    lists: Lists,
    /// For a history that is being changed.
    scratch: Vec<Entry>,
}

impl Shadow {
    pub fn new() -> Shadow {
        let tables = (0..1 << TOP_BITS).map(|_| None).collect();
        Shadow {
            tables,
            pages: Vec::new(),
            free_pages: Vec::new(),
            looked_up: [(u64::MAX, 0); LOOKED_UP],
            lists: Lists::new(),
            scratch: Vec::new(),
        }
    }

    /// The cell of a granule that has been accessed before, or whose neighbour has.
    #[inline]
    pub fn known_cell(&self, granule: u64) -> Option<&Cell> {
        let (top, middle, cell) = indices(granule);
        let number = self.tables.get(top)?.as_ref()?[middle];
        Some(&self.pages.get((number as usize).wrapping_sub(1))?[cell])
    }

    fn list_of(&self, granule: u64) -> Option<&List> {
        self.known_cell(granule)?.list().map(|list| self.lists.get(list))
    }

    /// The granule's cell, made if need be. The granule must lie below `END`.
    #[inline(always)]
    fn cell_mut(&mut self, granule: u64) -> &mut Cell {
        let page = granule >> CELL_BITS;
        let (known, number) = self.looked_up[page as usize % LOOKED_UP];
        let number = if known == page { number } else { self.look_up(page) };
        &mut self.pages[number as usize][granule as usize & (CELLS - 1)]
    }

    /// The number of the page of cells, made if need be.
    fn look_up(&mut self, page: u64) -> u32 {
        let (top, middle, _) = indices(page << CELL_BITS);
        let number = match &self.tables[top] {
            Some(table) if table[middle] != 0 => table[middle],
            _ => self.make_page(top, middle),
        };
        self.looked_up[page as usize % LOOKED_UP] = (page, number - 1);
        number - 1
    }

    #[cold]
    fn make_page(&mut self, top: usize, middle: usize) -> u32 {
        let table = self.tables[top].get_or_insert_with(|| Box::new([0; PAGES]));
        table[middle] = 1 + self.free_pages.pop().unwrap_or_else(|| {
            self.pages.push(Box::new([Cell::default(); CELLS]));
            self.pages.len() as u32 - 1
        });
        table[middle]
    }

    /// Adds an access to a granule's history, if it has no list. Tells the entries that it races with.
    #[inline]
    pub fn add_unlisted(&mut self, granule: u64, adding: &Adding<'_>, races: &mut Vec<Entry>) -> bool {
        let cell = self.cell_mut(granule);
        if cell.knows(&adding.view, adding.new.mask(), adding.new.writes()) {
            return true;
        }
        if cell.list().is_some() {
            return false;
        }
        if let Some(entries) = cell.add(&adding.view, adding.new, races) {
            self.spread(granule, adding, entries);
        }
        true
    }

    /// Adds an access to a granule's history, which may have a list. Tells the entries that it races with.
    pub fn add(&mut self, granule: u64, adding: &Adding<'_>, races: &mut Vec<Entry>) {
        let cell = self.cell_mut(granule);
        let Some(list) = cell.list() else {
            if let Some(entries) = cell.add(&adding.view, adding.new, races) {
                self.spread(granule, adding, entries);
            }
            return;
        };
        if self.lists.get(list).parts.is_empty() {
            self.change(granule, list, adding, races);
        } else {
            add_to_list(&adding.view, &mut self.lists.own(list).entries, adding.new, races);
            self.point_at(granule, list);
        }
    }

    /// Gives a granule another list in place of a shared one.
    fn change(&mut self, granule: u64, list: u32, adding: &Adding<'_>, races: &mut Vec<Entry>) {
        let change = Change { list, since: adding.view.since, what: adding.new.what };
        if let Some(result) = self.lists.recall(change) {
            self.point_at(granule, result);
            self.lists.release(list);
            return;
        }
        let n_races = races.len();
        let mut entries = std::mem::take(&mut self.scratch);
        entries.clone_from(&self.lists.get(list).entries);
        add_to_list(&adding.view, &mut entries, adding.new.at(adding.view.since), races);
        if let Some(cell) = Cell::of(&entries) {
            *self.cell_mut(granule) = cell;
        } else {
            let result = self.lists.share(&entries);
            self.point_at(granule, result);
            // A thread that sees more later would have remembered less, which is no harm; but races must be told.
            if races.len() == n_races {
                self.lists.remember(change, result);
            }
        }
        self.lists.release(list);
        self.scratch = entries;
    }

    /// Adds the release of a block. What was synchronisation is so no longer.
    pub fn add_freed(&mut self, granule: u64, adding: &Adding<'_>, races: &mut Vec<Entry>) {
        let list = self.known_cell(granule).and_then(Cell::list);
        if let Some(list) = list.filter(|list| !self.lists.get(*list).parts.is_empty()) {
            let owned = self.lists.own(list);
            owned.parts.remove(adding.new.mask());
            if owned.parts.is_empty() {
                let entries = std::mem::take(&mut owned.entries);
                self.lists.release(list);
                self.store(granule, &entries);
            }
        }
        self.add(granule, adding, races);
    }

    /// The bytes of a granule that are synchronisation.
    pub fn sync_mask(&self, granule: u64) -> u8 {
        self.list_of(granule).map_or(0, |list| list.parts.mask())
    }

    /// From now on these bytes are synchronisation. What was known of them is over, but for their release.
    pub fn make_sync(&mut self, granule: u64, mask: u8) {
        let new = mask & !self.sync_mask(granule);
        if new == 0 {
            return;
        }
        let list = self.owned_list(granule);
        let history = self.lists.own(list);
        history.parts.add(new);
        for entry in history.entries.iter_mut().filter(|entry| !entry.is(Action::Freed)) {
            *entry = entry.with_mask(entry.mask() & !new);
        }
        history.entries.retain(|entry| entry.mask() != 0);
        self.point_at(granule, list);
    }

    /// A list of the granule's history that is its own.
    fn owned_list(&mut self, granule: u64) -> u32 {
        let cell = *self.cell_mut(granule);
        let Some(list) = cell.list() else { return self.lists.add(&cell.entries().collect::<Vec<_>>()) };
        if !self.lists.get(list).parts.is_empty() {
            return list;
        }
        let entries = self.lists.get(list).entries.clone();
        self.lists.release(list);
        self.lists.add(&entries)
    }

    /// What readers of these synchronisation bytes acquire.
    pub fn passed(&self, granule: u64, mask: u8) -> impl Iterator<Item = &Passed> {
        self.list_of(granule).into_iter().flat_map(move |list| list.parts.passed(mask))
    }

    /// A write to these synchronisation bytes.
    pub fn pass_on(&mut self, granule: u64, mask: u8, moment: &Moment) {
        if let Some(list) = self.known_cell(granule).and_then(Cell::list) {
            self.lists.own(list).parts.pass_on(mask, moment);
        }
    }

    /// The parts of a range of which anything is known, page by page. Ranges may be far larger than what was ever
    /// touched of them.
    pub fn known_parts(&self, address: u64, size: u64) -> Vec<Range<u64>> {
        let end = address.saturating_add(size).min(END);
        let mut parts = Vec::new();
        let mut page = address / PAGE_SIZE;
        while page * PAGE_SIZE < end {
            let (top, middle, _) = indices(page << CELL_BITS);
            let Some(table) = &self.tables[top] else {
                page = (top as u64 + 1) << TABLE_BITS;
                continue;
            };
            if table[middle] != 0 {
                let start = page * PAGE_SIZE;
                parts.push(address.max(start)..end.min(start + PAGE_SIZE));
            }
            page += 1;
        }
        parts
    }

    /// Forgets all that is known of a range. Pages that lie in it as a whole are given back.
    pub fn clear(&mut self, address: u64, size: u64) {
        for part in self.known_parts(address, size) {
            for (granule, _) in granules(part.start, part.end - part.start) {
                if let Some(list) = std::mem::take(self.cell_mut(granule)).list() {
                    self.lists.release(list);
                }
            }
            if part.end - part.start == PAGE_SIZE {
                self.give_back_page(part.start / GRANULE_SIZE);
            }
        }
    }

    /// Gives back the page that begins with a granule. Its cells must be clear.
    fn give_back_page(&mut self, granule: u64) {
        let (top, middle, _) = indices(granule);
        self.looked_up[(granule >> CELL_BITS) as usize % LOOKED_UP] = (u64::MAX, 0);
        if let Some(table) = &mut self.tables[top] {
            self.free_pages.push(table[middle] - 1);
            table[middle] = 0;
        }
    }

    /// Moves the history of a cell into a list, by epochs.
    #[cold]
    fn spread(&mut self, granule: u64, adding: &Adding<'_>, entries: [Entry; 3]) {
        let by_epochs = entries.map(|entry| entry.at((adding.epoch_of)(entry.stamp)));
        self.store(granule, &by_epochs);
    }

    /// Gives a granule a history that is in no list yet.
    fn store(&mut self, granule: u64, entries: &[Entry]) {
        match Cell::of(entries) {
            Some(cell) => *self.cell_mut(granule) = cell,
            None => {
                let list = self.lists.share(entries);
                self.point_at(granule, list);
            }
        }
    }

    fn point_at(&mut self, granule: u64, list: u32) {
        let cell = Cell::listed(list, &self.lists.get(list).entries);
        *self.cell_mut(granule) = cell;
    }

    /// How much memory the history takes, in bytes, without what is free for reuse.
    pub fn size(&self) -> usize {
        let pages = (self.pages.len() - self.free_pages.len()) * size_of::<Page>();
        let tables = self.tables.iter().flatten().count() * size_of::<Table>();
        pages + tables + self.lists.size()
    }
}

#[inline]
fn indices(granule: u64) -> (usize, usize, usize) {
    let page = granule >> CELL_BITS;
    ((page >> TABLE_BITS) as usize, page as usize & (PAGES - 1), granule as usize & (CELLS - 1))
}
