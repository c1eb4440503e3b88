//! Accesses as an observed replay writes them down: records, each of which stands for all accesses of a stretch of code.
//!
//! A record is a number, which tells its pattern, and words that cannot be known beforehand. An access of a pattern is at a
//! fixed distance from one of the words. Listeners that can tell from a pattern that most of its records do not
//! concern them are faster with records than with accesses.

use super::{Access, AccessKind, Site};

/// An access of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Template {
    /// To be added to the base.
    pub offset: i64,
    pub size: u32,
    pub site: Site,
    /// Which word of the record is the base; zero for none, since that is the record's number.
    pub word: u16,
    pub kind: AccessKind,
    /// The FS base is to be added too.
    pub through_fs: bool,
}

impl Template {
    /// Where the access is that it stands for.
    #[inline]
    pub fn address(&self, words: &[u64], fs_base: u64) -> u64 {
        address(self.word, self.through_fs, self.offset, words, fs_base)
    }

    #[inline]
    pub fn access(&self, words: &[u64], fs_base: u64) -> Access {
        Access { address: self.address(words, fs_base), size: self.size, site: self.site, kind: self.kind }
    }
}

/// The address at a distance from a word of a record.
#[inline]
pub fn address(word: u16, through_fs: bool, offset: i64, words: &[u64], fs_base: u64) -> u64 {
    let base = if word == 0 { 0 } else { words[usize::from(word)] };
    let segment = if through_fs { fs_base } else { 0 };
    base.wrapping_add_signed(offset).wrapping_add(segment)
}

/// The longest value that a record has.
pub const LONGEST_VALUE: usize = 64;

/// Where a value of an access is to be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    Nowhere,
    /// In the record, from this word on.
    Word(u16),
    Constant(u64),
}

impl Held {
    /// The bytes of a value, put together in a place for them.
    #[inline]
    pub fn bytes<'a>(self, words: &[u64], size: u32, place: &'a mut [u8; LONGEST_VALUE]) -> Option<&'a [u8]> {
        let size = size as usize;
        let first = match self {
            Held::Nowhere => return None,
            Held::Constant(value) => {
                place[8..].fill(0);
                value
            }
            Held::Word(first) => {
                let rest = words.get(usize::from(first) + 1..).unwrap_or(&[]);
                for (piece, word) in place[8..].chunks_exact_mut(8).zip(rest).take(size.div_ceil(8).saturating_sub(1)) {
                    piece.copy_from_slice(&word.to_le_bytes());
                }
                *words.get(usize::from(first))?
            }
        };
        place[..8].copy_from_slice(&first.to_le_bytes());
        place.get(..size)
    }
}

/// What the records of one number have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// Where its templates begin.
    pub first: u32,
    pub accesses: u16,
    /// How long its records are.
    pub words: u16,
    pub nature: Nature,
}

/// Whether a record is all that there is to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nature {
    Plain,
    /// There is more to tell than the accesses of its templates.
    Special,
    /// It takes the last instruction of the record before back.
    Retracting,
}

/// By the number of a record. Numbers are given in order, and stand for the same as long as the stream lasts.
#[derive(Default)]
pub struct Patterns {
    pub templates: Vec<Template>,
    pub patterns: Vec<Pattern>,
    /// Of each template, what its memory holds before and after. Empty where no values are wanted.
    pub held: Vec<[Held; 2]>,
}

impl Patterns {
    /// What the first of these words is the number of.
    #[inline]
    pub fn of(&self, words: &[u64]) -> Option<Pattern> {
        self.patterns.get(*words.first()? as usize).copied()
    }

    /// Nothing if there is no such pattern.
    pub fn templates(&self, number: u32) -> &[Template] {
        let pattern = self.patterns.get(number as usize);
        pattern.map_or(&[], |pattern| &self.templates[pattern.first as usize..][..usize::from(pattern.accesses)])
    }

    /// What the memory of these templates holds. Nothing where no values are wanted.
    pub fn held(&self, number: u32) -> &[[Held; 2]] {
        let range = |pattern: &Pattern| pattern.first as usize..pattern.first as usize + usize::from(pattern.accesses);
        self.patterns.get(number as usize).and_then(|pattern| self.held.get(range(pattern))).unwrap_or(&[])
    }
}

/// Records of one thread, in program order.
#[derive(Clone, Copy)]
pub struct Records<'a> {
    pub words: &'a [u64],
    pub fs_base: u64,
    pub patterns: &'a Patterns,
}

impl<'a> Records<'a> {
    /// The plain records that come first. One that is taken back in part is not among them.
    #[inline]
    pub fn plain(&self) -> Plain<'a> {
        Plain { rest: self.words, patterns: self.patterns, next: self.patterns.of(self.words) }
    }

    /// How many words the plain records have that come first, up to one that is not as wanted.
    pub fn length_while(&self, is_wanted: impl Fn(&[Template]) -> bool) -> usize {
        let records = self.plain().take_while(|record| is_wanted(self.patterns.templates(record.number)));
        records.map(|record| record.words.len()).sum()
    }
}

#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// Of its pattern.
    pub number: u32,
    pub accesses: u16,
    pub words: &'a [u64],
}

/// Plain records, one after the other.
pub struct Plain<'a> {
    rest: &'a [u64],
    patterns: &'a Patterns,
    /// The pattern of what comes first in the rest.
    next: Option<Pattern>,
}

impl<'a> Iterator for Plain<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let pattern = self.next.filter(|pattern| pattern.nature == Nature::Plain)?;
        let (words, after) = self.rest.split_at_checked(usize::from(pattern.words))?;
        self.next = self.patterns.of(after);
        if self.next.is_some_and(|next| next.nature == Nature::Retracting) {
            self.next = None;
            return None;
        }
        self.rest = after;
        Some(Record { number: words[0] as u32, accesses: pattern.accesses, words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_from_words_and_constants() {
        let words = [7, 0x0807_0605_0403_0201, 0x100f_0e0d_0c0b_0a09];
        let mut place = [0xff; LONGEST_VALUE];
        let all: Vec<u8> = (1..=16).collect();
        for size in [1, 4, 8, 12, 16] {
            assert_eq!(Held::Word(1).bytes(&words, size, &mut place), Some(&all[..size as usize]));
        }
        assert_eq!(Held::Constant(0x201).bytes(&words, 4, &mut place), Some(&[1, 2, 0, 0][..]));
        assert_eq!(Held::Nowhere.bytes(&words, 4, &mut place), None);
        assert_eq!(Held::Word(3).bytes(&words, 8, &mut place), None, "beyond the record");
        assert_eq!(Held::Word(1).bytes(&words, 65, &mut place), None, "longer than any");
    }
}
