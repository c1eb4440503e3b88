//! What the records of a pattern tell a collector: worked out once, since most code runs many times.

use super::groups::Member;
use super::touched::Span;
use crate::races::shapes::joined;
use std::collections::BTreeMap;
use std::ops::Range;
use trace::stream::records::{Patterns, Template, address};

/// An access of a pattern that counts.
#[derive(Clone, Copy)]
pub(super) struct Heard {
    memory: Memory,
    /// That of its instruction among those of pairs.
    pub number: u32,
    /// Its place among all accesses of the pattern, from 1.
    pub order: u16,
}

impl Heard {
    #[inline]
    pub fn span(&self, words: &[u64], fs_base: u64) -> Span {
        self.memory.span(words, fs_base)
    }
}

/// Memory that records of a pattern access all of.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    offset: i64,
    size: u32,
    word: u16,
    through_fs: bool,
    reads: bool,
    writes: bool,
}

impl Memory {
    fn of(template: &Template) -> Memory {
        Memory {
            offset: template.offset,
            size: template.size,
            word: template.word,
            through_fs: template.through_fs,
            reads: template.kind.reads(),
            writes: template.kind.writes(),
        }
    }

    fn bytes(&self) -> Range<i64> {
        self.offset..self.offset.saturating_add(i64::from(self.size))
    }

    fn is_in(&self, other: &Memory) -> bool {
        let (own, others) = (self.bytes(), other.bytes());
        let is_same_kind = self.reads && other.reads || self.writes && other.writes;
        (self.word, self.through_fs) == (other.word, other.through_fs)
            && is_same_kind
            && others.start <= own.start
            && own.end <= others.end
    }

    #[inline]
    pub fn span(&self, words: &[u64], fs_base: u64) -> Span {
        let address = address(self.word, self.through_fs, self.offset, words, fs_base);
        Span { address, size: u64::from(self.size), reads: self.reads, writes: self.writes }
    }
}

/// What a pattern is.
#[derive(Clone, Copy, Default)]
pub(super) struct Outline {
    first: u32,
    n_heard: u16,
    n_parts: u16,
    first_part: u32,
    /// All of them, also those that do not count.
    pub accesses: u16,
}

/// Memory that several accesses of a pattern make up.
#[derive(Clone)]
pub(super) struct Part {
    pub memory: Memory,
    /// Those of the instructions whose accesses they are.
    pub numbers: Box<[u32]>,
    /// The group of these, once threads have met there.
    pub group: Option<Member>,
}

/// By the numbers of patterns.
#[derive(Default)]
pub(super) struct Outlines {
    outlines: Vec<Option<Outline>>,
    heard: Vec<Heard>,
    /// The memory of those accesses, with as few parts as it takes.
    parts: Vec<Part>,
}

impl Outlines {
    /// `number_of` gives that of an instruction, if its accesses count.
    #[inline]
    pub fn of(
        &mut self,
        pattern: u32,
        patterns: &Patterns,
        number_of: impl FnMut(&Template) -> Option<u32>,
    ) -> Outline {
        match self.outlines.get(pattern as usize) {
            Some(Some(outline)) => *outline,
            _ => self.learn(pattern, patterns.templates(pattern), number_of),
        }
    }

    /// One that has been asked for before.
    #[inline]
    pub fn known(&self, pattern: u32) -> Outline {
        self.outlines.get(pattern as usize).copied().flatten().unwrap_or_default()
    }

    #[inline]
    pub fn heard(&self, outline: Outline) -> &[Heard] {
        &self.heard[outline.first as usize..][..usize::from(outline.n_heard)]
    }

    #[inline]
    pub fn parts(&mut self, outline: Outline) -> &mut [Part] {
        &mut self.parts[outline.first_part as usize..][..usize::from(outline.n_parts)]
    }

    #[cold]
    fn learn(
        &mut self,
        pattern: u32,
        templates: &[Template],
        mut number_of: impl FnMut(&Template) -> Option<u32>,
    ) -> Outline {
        let (first, first_part) = (self.heard.len(), self.parts.len());
        for (order, template) in (1..).zip(templates) {
            let Some(number) = number_of(template) else { continue };
            self.heard.push(Heard { memory: Memory::of(template), number, order });
        }
        self.parts.extend(parts_of(&self.heard[first..]));
        let outline = Outline {
            first: first as u32,
            n_heard: (self.heard.len() - first) as u16,
            n_parts: (self.parts.len() - first_part) as u16,
            first_part: first_part as u32,
            accesses: templates.len() as u16,
        };
        self.outlines.resize(self.outlines.len().max(pattern as usize + 1), None);
        self.outlines[pattern as usize] = Some(outline);
        outline
    }
}

/// What is read and what is written, each in as few parts as it takes; what is both in the same bounds is one part.
fn parts_of(heard: &[Heard]) -> Vec<Part> {
    let mut bases: BTreeMap<(u16, bool), [Vec<Range<i64>>; 2]> = BTreeMap::new();
    for Heard { memory, .. } in heard {
        let [read, written] = bases.entry((memory.word, memory.through_fs)).or_default();
        read.extend(memory.reads.then(|| memory.bytes()));
        written.extend(memory.writes.then(|| memory.bytes()));
    }
    let mut parts = Vec::new();
    for ((word, through_fs), spans) in bases {
        let [read, written] = spans.map(joined);
        let part = |bytes: &Range<i64>, reads, writes| {
            let (offset, size) = (bytes.start, (bytes.end - bytes.start) as u32);
            let memory = Memory { offset, size, word, through_fs, reads, writes };
            let numbers = heard.iter().filter(|heard| heard.memory.is_in(&memory)).map(|heard| heard.number).collect();
            Part { memory, numbers, group: None }
        };
        parts.extend(read.iter().map(|bytes| part(bytes, true, written.contains(bytes))));
        parts.extend(written.iter().filter(|bytes| !read.contains(bytes)).map(|bytes| part(bytes, false, true)));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::stream::{AccessKind, Site};

    #[test]
    fn neighbours_are_one_part() {
        let heard = |offset, size, kind| {
            let template = Template { offset, size, site: Site(0), word: 1, kind, through_fs: false };
            Heard { memory: Memory::of(&template), number: 0, order: 1 }
        };
        use AccessKind::{Read, Update, Write};
        let accesses =
            [heard(0, 8, Read), heard(8, 4, Update), heard(0, 8, Write), heard(32, 8, Read), heard(36, 8, Write)];
        let parts = parts_of(&accesses);
        let told: Vec<_> = parts
            .iter()
            .map(|Part { memory: Memory { offset, size, reads, writes, .. }, .. }| (*offset, *size, *reads, *writes))
            .collect();
        assert_eq!(parts.iter().map(|part| part.numbers.len()).collect::<Vec<_>>(), [3, 1, 1]);
        assert_eq!(told, [(0, 12, true, true), (32, 8, true, false), (36, 8, false, true)]);
    }
}
