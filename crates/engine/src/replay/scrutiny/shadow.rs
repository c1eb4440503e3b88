//! What is known of each byte of a guest: whether it is corrupt, and which step wrote it last.

use guest::flow::{REGISTER_BYTES, Span};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The number of a step; zero is what happened before steps were counted.
pub type Serial = u32;

const PAGE: u64 = 4096;

struct Page {
    writers: Vec<Serial>,
    corrupt: [u64; 64],
}

impl Page {
    fn new() -> Page {
        Page { writers: vec![0; PAGE as usize], corrupt: [0; 64] }
    }

    fn is_corrupt(&self, offset: usize) -> bool {
        self.corrupt[offset / 64] >> (offset % 64) & 1 != 0
    }
}

/// The guest's memory, as far as it was written to or marked.
#[derive(Default)]
pub struct Memory {
    pages: FxHashMap<u64, Page>,
    n_corrupt: u64,
}

impl Memory {
    pub fn is_clean(&self) -> bool {
        self.n_corrupt == 0
    }

    pub fn is_corrupt(&self, address: u64) -> bool {
        let page = self.pages.get(&(address / PAGE));
        page.is_some_and(|page| page.is_corrupt((address % PAGE) as usize))
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
        let was = page.is_corrupt(offset);
        page.corrupt[offset / 64] =
            page.corrupt[offset / 64] & !(1 << (offset % 64)) | u64::from(corrupt) << (offset % 64);
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
    fn a_part_of_a_register_is_no_other_part() {
        let mut registers = Registers::default();
        let [low, all] = [2, 8].map(|length| Span { start: 16, length });
        registers.mark_all(low, true);
        assert!(registers.any_corrupt(all) && !registers.any_corrupt(Span { start: 18, length: 6 }));
        registers.mark_all(all, false);
        assert!(registers.is_clean());
    }
}
