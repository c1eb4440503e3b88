//! What is known of each byte of a guest: whether it is corrupt, and which step wrote it last.

use super::alarms::Alarms;
use crate::code::cache::AlarmMaps;
use guest::flow::{REGISTER_BYTES, Span};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The number of a step; zero is what happened before steps were counted.
pub type Serial = u32;

const PAGE: u64 = 4096;

/// A bit for each byte of a page.
#[derive(Clone, Copy)]
struct Bits([u64; 64]);

impl Bits {
    fn get(&self, offset: usize) -> bool {
        self.0[offset / 64] >> (offset % 64) & 1 != 0
    }

    fn set(&mut self, offset: usize, bit: bool) {
        self.0[offset / 64] = self.0[offset / 64] & !(1 << (offset % 64)) | u64::from(bit) << (offset % 64);
    }

    /// The bits of the eight bytes around an offset.
    fn granule(&self, offset: usize) -> u8 {
        (self.0[offset / 64] >> (offset % 64 / 8 * 8)) as u8
    }
}

struct Page {
    writers: Vec<Serial>,
    corrupt: Bits,
    /// Whose writers are sought.
    sought: Bits,
}

impl Page {
    fn new() -> Page {
        Page { writers: vec![0; PAGE as usize], corrupt: Bits([0; 64]), sought: Bits([0; 64]) }
    }
}

/// What translated code is told of memory.
struct Told {
    reads: Alarms,
    writes: Alarms,
}

/// The guest's memory, as far as it was written to or marked.
#[derive(Default)]
pub struct Memory {
    pages: FxHashMap<u64, Page>,
    n_corrupt: u64,
    n_sought: u64,
    /// Told of every granule that matters, if translated code is to ask.
    told: Option<Told>,
}

impl Memory {
    pub fn is_clean(&self) -> bool {
        self.n_corrupt == 0
    }

    /// From now on, keeps maps for translated code, and tells where they are; none if there is no room for them.
    pub fn raise_alarms(&mut self, for_corruption: bool) -> Option<AlarmMaps> {
        if self.told.is_none() {
            let mut told = Told { reads: Alarms::new()?, writes: Alarms::new()? };
            for (number, page) in &self.pages {
                for offset in (0..PAGE).step_by(8).filter(|offset| page.corrupt.granule(*offset as usize) != 0) {
                    told.reads.set(number * PAGE + offset, true);
                    told.writes.set(number * PAGE + offset, true);
                }
            }
            self.told = Some(told);
        }
        let told = self.told.as_ref()?;
        Some(AlarmMaps { reads: for_corruption.then(|| told.reads.maps()), writes: told.writes.maps() })
    }

    /// From now on, or no longer, those who write to the byte are sought.
    pub fn seek(&mut self, address: u64, sought: bool) {
        let offset = (address % PAGE) as usize;
        let page = self.pages.entry(address / PAGE).or_insert_with(Page::new);
        if page.sought.get(offset) == sought {
            return;
        }
        let before = page.sought.granule(offset);
        page.sought.set(offset, sought);
        page.writers[offset] = 0;
        self.n_sought = self.n_sought + u64::from(sought) - u64::from(!sought);
        let changes = (before == 0) != (page.sought.granule(offset) == 0);
        if let Some(told) = self.told.as_mut().filter(|_| changes) {
            told.writes.set(address, sought);
        }
    }

    pub fn is_any_sought(&self) -> bool {
        self.n_sought > 0
    }

    pub fn is_sought(&self, address: u64) -> bool {
        let page = self.pages.get(&(address / PAGE)).filter(|_| self.n_sought > 0);
        page.is_some_and(|page| page.sought.get((address % PAGE) as usize))
    }

    pub fn is_corrupt(&self, address: u64) -> bool {
        let page = self.pages.get(&(address / PAGE));
        page.is_some_and(|page| page.corrupt.get((address % PAGE) as usize))
    }

    pub fn any_corrupt(&self, range: &Range<u64>) -> bool {
        !self.is_clean() && range.clone().any(|address| self.is_corrupt(address))
    }

    pub fn mark(&mut self, address: u64, corrupt: bool) {
        if !corrupt && self.is_clean() {
            return;
        }
        let offset = (address % PAGE) as usize;
        let page = self.pages.entry(address / PAGE).or_insert_with(Page::new);
        let (was, before) = (page.corrupt.get(offset), page.corrupt.granule(offset));
        page.corrupt.set(offset, corrupt);
        let changes = (before == 0) != (page.corrupt.granule(offset) == 0);
        if let Some(told) = self.told.as_mut().filter(|_| changes) {
            told.reads.set(address, corrupt);
            told.writes.set(address, corrupt);
        }
        self.n_corrupt = self.n_corrupt + u64::from(corrupt) - u64::from(was);
    }

    pub fn mark_all(&mut self, range: Range<u64>, corrupt: bool) {
        range.for_each(|address| self.mark(address, corrupt));
    }

    /// Who wrote the byte last.
    pub fn writer(&self, address: u64) -> Serial {
        self.pages.get(&(address / PAGE)).map_or(0, |page| page.writers[(address % PAGE) as usize])
    }

    /// Who wrote to a range last.
    pub fn last_writer(&self, range: Range<u64>) -> Serial {
        let mut address = range.start;
        let mut last = 0;
        while address < range.end {
            let end = range.end.min((address / PAGE + 1) * PAGE);
            let first = (address % PAGE) as usize;
            let writers =
                self.pages.get(&(address / PAGE)).map(|page| &page.writers[first..first + (end - address) as usize]);
            last = last.max(writers.and_then(|writers| writers.iter().copied().max()).unwrap_or(0));
            address = end;
        }
        last
    }

    /// Forgets who wrote what, but for what is sought.
    pub fn forget_writers(&mut self) {
        for page in self.pages.values_mut() {
            let sought = page.sought;
            let unknown = page.writers.iter_mut().enumerate().filter(|(offset, _)| !sought.get(*offset));
            unknown.for_each(|(_, writer)| *writer = 0);
        }
    }

    /// The same as [`Memory::write`] for those bytes alone whose writers are sought.
    pub fn write_sought(&mut self, range: Range<u64>, serial: Serial) {
        for address in range.filter(|address| self.is_sought(*address)).collect::<Vec<u64>>() {
            self.write(address..address + 1, serial);
        }
    }

    pub fn write(&mut self, range: Range<u64>, serial: Serial) {
        let mut address = range.start;
        while address < range.end {
            let end = range.end.min((address / PAGE + 1) * PAGE);
            let page = self.pages.entry(address / PAGE).or_insert_with(Page::new);
            let first = (address % PAGE) as usize;
            page.writers[first..first + (end - address) as usize].fill(serial);
            address = end;
        }
    }
}

/// One thread's registers.
pub struct Registers {
    writers: Vec<Serial>,
    corrupt: Vec<bool>,
    n_corrupt: u32,
}

impl Default for Registers {
    fn default() -> Registers {
        Registers { writers: vec![0; REGISTER_BYTES], corrupt: vec![false; REGISTER_BYTES], n_corrupt: 0 }
    }
}

impl Registers {
    pub fn is_clean(&self) -> bool {
        self.n_corrupt == 0
    }

    pub fn is_corrupt(&self, byte: usize) -> bool {
        self.corrupt[byte]
    }

    pub fn any_corrupt(&self, span: Span) -> bool {
        !self.is_clean() && span.bytes().any(|byte| self.corrupt[byte])
    }

    pub fn mark(&mut self, byte: usize, corrupt: bool) {
        let was = std::mem::replace(&mut self.corrupt[byte], corrupt);
        self.n_corrupt = self.n_corrupt + u32::from(corrupt) - u32::from(was);
    }

    pub fn mark_all(&mut self, span: Span, corrupt: bool) {
        span.bytes().for_each(|byte| self.mark(byte, corrupt));
    }

    pub fn writer(&self, byte: usize) -> Serial {
        self.writers[byte]
    }

    pub fn forget_writers(&mut self) {
        self.writers.fill(0);
    }

    pub fn write(&mut self, span: Span, serial: Serial) {
        span.bytes().for_each(|byte| self.writers[byte] = serial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_writers_are_by_byte_and_across_pages() {
        let mut memory = Memory::default();
        memory.write(4090..4100, 7);
        memory.mark_all(4095..4097, true);
        assert_eq!([4089, 4090, 4099, 4100].map(|address| memory.writer(address)), [0, 7, 7, 0]);
        assert!(memory.any_corrupt(&(4000..4096)) && !memory.any_corrupt(&(4097..5000)));
        memory.mark(4095, false);
        memory.mark(4096, false);
        assert!(memory.is_clean());
        memory.mark(4096, false);
        assert!(memory.is_clean(), "a clean byte cannot be cleaned");
    }

    #[test]
    fn who_wrote_what_is_sought_stays_known() {
        let mut memory = Memory::default();
        memory.seek(8, true);
        memory.write_sought(0..16, 3);
        assert_eq!([7, 8, 9].map(|address| memory.writer(address)), [0, 3, 0]);
        memory.write(0..16, 4);
        memory.forget_writers();
        assert_eq!([7, 8, 9].map(|address| memory.writer(address)), [0, 4, 0]);
        memory.seek(8, false);
        assert_eq!((memory.writer(8), memory.is_any_sought()), (0, false));
    }

    #[test]
    fn a_part_of_a_register_is_no_other_part() {
        let mut registers = Registers::default();
        let [low, all] = [2, 8].map(|length| Span { start: 16, length });
        registers.mark_all(low, true);
        assert!(registers.any_corrupt(all) && !registers.any_corrupt(Span { start: 18, length: 6 }));
        registers.mark_all(all, false);
        assert!(registers.is_clean());
    }
}
