//! How a sieve is told what threads hand to each other, and what it makes of it.

use super::super::clock::Passed;
use super::super::shadow::GRANULE_SIZE;
use super::super::sites::SiteClass;
use super::Sieve;
use super::cells::{Cell, State, cells_of_granule};
use crate::predict::uses::is_pointer;
use trace::stream::records::{Held, LONGEST_VALUE, Record, Records};
use trace::stream::{Access, AccessKind, Values};

/// Whether an access of a pointer's size has read or written one, as far as that is told.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Pointers {
    is_read: bool,
    is_written: bool,
}

impl Pointers {
    pub fn of(access: &Access, values: Values<'_>) -> Pointers {
        let is_pointer = |bytes: Option<&[u8]>| bytes.and_then(number_of).is_some_and(is_pointer);
        match access.kind {
            AccessKind::Read => Pointers { is_read: is_pointer(values.before), is_written: false },
            AccessKind::Write => Pointers { is_read: false, is_written: is_pointer(values.after) },
            AccessKind::Update | AccessKind::Atomic => Pointers::default(),
        }
    }

    /// The same of what a record holds before and after the access.
    #[inline]
    fn held(access: &Access, held: Option<&[Held; 2]>, words: &[u64]) -> Pointers {
        let Some([before, after]) = held.filter(|held| **held != [Held::Nowhere; 2]) else {
            return Pointers::default();
        };
        let mut places = [[0; LONGEST_VALUE]; 2];
        let [of_before, of_after] = &mut places;
        let before = before.bytes(words, access.size, of_before);
        Pointers::of(access, Values { before, after: after.bytes(words, access.size, of_after) })
    }
}

/// The number in as many bytes as a pointer has.
fn number_of(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

impl Sieve {
    /// The accesses of a record one by one.
    pub(super) fn take_apart(&mut self, record: &Record<'_>, records: &Records<'_>) {
        let Record { number, words, .. } = *record;
        let held = records.patterns.held(number);
        for (index, template) in records.patterns.templates(number).iter().enumerate() {
            let access = template.access(words, records.fs_base);
            self.valued_access(&access, Pointers::held(&access, held.get(index), words));
        }
    }

    /// An access of which it is known whether it is of a pointer. One that is handed over orders what follows.
    #[inline]
    pub(super) fn valued_access(&mut self, access: &Access, pointers: Pointers) {
        self.access(access);
        if pointers != Pointers::default() && self.is_handing(access) {
            self.hand_pointer_over(access, pointers);
        }
    }

    fn hand_pointer_over(&mut self, access: &Access, pointers: Pointers) {
        let is_plain = self.sites.class(access.site) == SiteClass::Plain;
        let Some(number) = self.hatch_number(access.address).filter(|_| is_plain) else { return };
        if pointers.is_read
            && let Some(moment) = self.hatches.pointer_in(number, access)
        {
            self.threads.at(self.now.slot).acquire(&Passed::One(moment.clone()));
        }
        if pointers.is_written && self.hatches.lacks_moment(number, access) {
            self.pass_on(number);
        }
    }

    /// Whether an access of the program's own may hand something over.
    #[inline]
    pub(super) fn is_handing(&self, access: &Access) -> bool {
        self.hatches.is_handing(access) && self.orders[access.site.0 as usize]
    }

    /// A thread that holds a lock reads or writes what may be a pointer or a flag.
    pub(super) fn hand_over(&mut self, access: &Access) {
        self.know(access.address, access.size);
        let first = cells_of_granule(access.address / GRANULE_SIZE).start;
        if !self.cells.is_watched(first) {
            return;
        }
        let number = self.hatch_number(access.address);
        if access.kind == AccessKind::Read {
            let taken = number.and_then(|number| self.hatches.take(number, access));
            if let Some(moment) = taken {
                self.threads.at(self.now.slot).acquire(&Passed::One(moment.clone()));
            }
            return;
        }
        let Some(number) = number.or_else(|| self.open_hatch([first, first + 1])) else { return };
        self.hatches.give(number, access);
        if self.hatches.writes_flag(access.site) {
            self.pass_on(number);
        }
    }

    /// What the running thread has done by now is given with what it has just written.
    fn pass_on(&mut self, number: u32) {
        let moment = self.threads.at(self.now.slot).release();
        self.hatches.give_moment(number, moment);
        // What the thread does from now on is not handed over, so another epoch begins.
        self.enter(self.now.slot);
    }

    fn hatch_number(&mut self, address: u64) -> Option<u32> {
        let first = cells_of_granule(address / GRANULE_SIZE).start;
        if self.cells.is_watched(first) { self.cells.get(first).hatch_number() } else { None }
    }

    fn open_hatch(&mut self, cells: [u64; 2]) -> Option<u32> {
        let known = cells.map(|cell| self.cells.get(cell));
        if known.iter().any(|cell| matches!(cell.state(), State::Sync(_))) {
            return None;
        }
        let number = self.hatches.open(known)?;
        cells.into_iter().for_each(|cell| self.cells.set(cell, Cell::hatch(number)));
        Some(number)
    }

    /// Nothing is handed over through a granule any longer.
    pub(super) fn close_hatch(&mut self, granule: u64) {
        let Some(number) = cells_of_granule(granule).find_map(|cell| self.cells.get(cell).hatch_number()) else {
            return;
        };
        for (cell, known) in cells_of_granule(granule).zip(self.hatches.at(number).cells) {
            self.cells.set(cell, known);
        }
        self.hatches.close(number);
    }
}
