//! Lines of memory with what one thread has accessed of each since its last release: an access that adds nothing to that
//! is passed over without a look at its history.
//!
//! A line belongs to the thread that was there last. Whoever looks at a history takes the line over, or has it forgotten,
//! so what a line says holds for as long as it is there. Lines that share a place push each other out, which costs time
//! and nothing else.

use super::cell::Stamp;
use super::shadow::{END, GRANULE_SIZE};
use std::ops::Range;
use trace::stream::Access;

const LINE_SIZE: u64 = 64;
const LINES: usize = 1 << 14;

/// The bytes of one line that an access touches.
#[derive(Clone, Copy)]
pub struct Part {
    line: u64,
    mask: u64,
}

impl Part {
    /// Nothing if the access reaches beyond one line, or is none of the guest's.
    #[inline]
    pub fn of(access: &Access) -> Option<Part> {
        let (line, offset) = (access.address / LINE_SIZE, access.address % LINE_SIZE);
        let size = u64::from(access.size);
        let bytes = u64::MAX.checked_shr(64_u32.wrapping_sub(access.size)).unwrap_or(0);
        (offset + size <= LINE_SIZE && access.address < END).then_some(Part { line, mask: bytes << offset })
    }

    /// The granules, each with the bytes of it.
    #[inline]
    pub fn granules(self) -> impl Iterator<Item = (u64, u8)> {
        let mut left = self.mask;
        std::iter::from_fn(move || {
            let number = (left != 0).then(|| left.trailing_zeros() / 8)?;
            let mask = (left >> (8 * number)) as u8;
            left &= !(0xff << (8 * number));
            Some((self.line * (LINE_SIZE / GRANULE_SIZE) + u64::from(number), mask))
        })
    }
}

#[derive(Clone, Copy, Default)]
struct Line {
    number: u64,
    /// Since when its thread has not released; the default stands for nobody.
    since: Stamp,
    accessed: u64,
    written: u64,
}

pub struct Recent {
    lines: Box<[Line; LINES]>,
}

impl Recent {
    pub fn new() -> Recent {
        let lines = vec![Line::default(); LINES].into_boxed_slice();
        Recent { lines: lines.try_into().unwrap_or_else(|_| unreachable!("there are as many lines as asked for")) }
    }

    /// Whether the thread that has not released since then has accessed these bytes in this way already, and nobody
    /// else has since.
    #[inline]
    pub fn knows(&self, since: Stamp, part: Part, writes: bool) -> bool {
        let line = &self.lines[place(part.line)];
        let known = if writes { line.written } else { line.accessed };
        line.number == part.line && line.since == since && part.mask & !known == 0
    }

    /// The thread has accessed these bytes, and their history says so.
    #[inline]
    pub fn note(&mut self, since: Stamp, part: Part, writes: bool) {
        let line = &mut self.lines[place(part.line)];
        if line.number != part.line || line.since != since {
            *line = Line { number: part.line, since, accessed: 0, written: 0 };
        }
        line.accessed |= part.mask;
        line.written |= if writes { part.mask } else { 0 };
    }

    pub fn forget(&mut self, range: Range<u64>) {
        let end = range.end.min(END);
        if range.start >= end {
            return;
        }
        let (first, last) = (range.start / LINE_SIZE, (end - 1) / LINE_SIZE);
        if last - first >= LINES as u64 {
            self.lines.fill(Line::default());
            return;
        }
        for number in first..=last {
            let line = &mut self.lines[place(number)];
            if line.number == number {
                *line = Line::default();
            }
        }
    }
}

#[inline]
fn place(line: u64) -> usize {
    line as usize % LINES
}
