//! What a thread has done since it got its turn, to be gone over backwards when it loses it.

use super::stamps::Who;
use super::touched::Span;
use std::ops::Range;

/// A stretch of more words and accesses than these is gone over before it ends.
const LONG: usize = 1 << 20;

/// An access that was told by itself.
#[derive(Clone, Copy)]
pub(super) struct Single {
    pub who: Who,
    pub order: u64,
    pub span: Span,
}

/// Records that were told together.
#[derive(Clone)]
pub(super) struct Row {
    records: Range<usize>,
    pub fs_base: u64,
    /// The place of their last access among all accesses.
    pub order: u64,
}

pub(super) enum Done {
    Row(Row),
    Single(Single),
}

#[derive(Default)]
pub(super) struct Stretch {
    words: Vec<u64>,
    /// Where records begin among the words.
    starts: Vec<u32>,
    done: Vec<Done>,
}

impl Stretch {
    pub fn is_long(&self) -> bool {
        self.words.len() + self.done.len() > LONG
    }

    /// A record begins, so many words after the last ones that were added.
    #[inline]
    pub fn begin(&mut self, after: usize) {
        self.starts.push((self.words.len() + after) as u32);
    }

    /// Adds the words of the last records that have begun.
    pub fn add_row(&mut self, words: &[u64], n_records: usize, fs_base: u64, order: u64) {
        self.words.extend_from_slice(words);
        let records = self.starts.len() - n_records..self.starts.len();
        self.done.push(Done::Row(Row { records, fs_base, order }));
    }

    pub fn add_single(&mut self, single: Single) {
        self.done.push(Done::Single(single));
    }

    /// All that was done, the last of it first.
    pub fn backwards(&self) -> impl Iterator<Item = &Done> {
        self.done.iter().rev()
    }

    /// The words of each record, and of those behind it; the last one comes first.
    pub fn records_backwards(&self, row: &Row) -> impl Iterator<Item = &[u64]> {
        self.starts[row.records.clone()].iter().rev().map(|start| &self.words[*start as usize..])
    }

    pub fn clear(&mut self) {
        self.words.clear();
        self.starts.clear();
        self.done.clear();
    }
}
