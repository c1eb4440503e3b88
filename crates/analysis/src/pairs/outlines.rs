//! What the records of a pattern tell a collector: worked out once, since most code runs many times.

use std::ops::Range;
use trace::stream::Site;
use trace::stream::records::{Patterns, Template, address};

/// An access of a pattern that counts.
#[derive(Clone, Copy)]
pub(super) struct Heard {
    offset: i64,
    pub size: u32,
    pub site: Site,
    /// That of its instruction among those of pairs.
    pub number: u32,
    /// Its place among all accesses of the pattern, from 1.
    pub order: u16,
    word: u16,
    through_fs: bool,
    pub reads: bool,
    pub writes: bool,
}

impl Heard {
    #[inline]
    pub fn address(&self, words: &[u64], fs_base: u64) -> u64 {
        address(self.word, self.through_fs, self.offset, words, fs_base)
    }
}

/// By the numbers of patterns.
#[derive(Default)]
pub(super) struct Outlines {
    outlines: Vec<Option<(u32, u32)>>,
    heard: Vec<Heard>,
}

impl Outlines {
    /// The numbers of the accesses that count. `number_of` gives that of an instruction, if it does.
    #[inline]
    pub fn of(
        &mut self,
        pattern: u32,
        patterns: &Patterns,
        number_of: impl FnMut(&Template) -> Option<u32>,
    ) -> Range<u32> {
        match self.outlines.get(pattern as usize) {
            Some(Some((first, end))) => *first..*end,
            _ => self.learn(pattern, patterns.templates(pattern), number_of),
        }
    }

    #[inline]
    pub fn heard(&self, number: u32) -> Heard {
        self.heard[number as usize]
    }

    #[cold]
    fn learn(
        &mut self,
        pattern: u32,
        templates: &[Template],
        mut number_of: impl FnMut(&Template) -> Option<u32>,
    ) -> Range<u32> {
        let first = self.heard.len() as u32;
        for (order, template) in (1..).zip(templates) {
            let Some(number) = number_of(template) else { continue };
            self.heard.push(Heard {
                offset: template.offset,
                size: template.size,
                site: template.site,
                number,
                order,
                word: template.word,
                through_fs: template.through_fs,
                reads: template.kind.reads(),
                writes: template.kind.writes(),
            });
        }
        let end = self.heard.len() as u32;
        self.outlines.resize(self.outlines.len().max(pattern as usize + 1), None);
        self.outlines[pattern as usize] = Some((first, end));
        first..end
    }
}
