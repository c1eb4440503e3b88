//! What the records of a pattern tell a collector: worked out once, since most code runs many times.

use super::sweeps::{LINE, lines_of};
use std::ops::Range;
use trace::stream::records::{Patterns, Template, address};
use trace::stream::{Site, Thread};

/// No thread has this number.
const NOBODY: Thread = Thread::MAX;

/// An instruction that counts.
pub(super) struct Counted {
    /// Among those of pairs.
    pub number: u32,
    pub is_sweeping: bool,
}

/// An access of a pattern that counts.
#[derive(Clone, Copy)]
pub(super) struct Heard {
    offset: i64,
    pub size: u32,
    pub site: Site,
    /// That of its instruction among those of pairs.
    number: u32,
    /// That of the thread with this instruction.
    pub who: u32,
    /// Its place among all accesses of the pattern, from 1.
    pub order: u16,
    word: u16,
    through_fs: bool,
    pub reads: bool,
    pub writes: bool,
    is_sweeping: bool,
    /// Which of the spans it is in, by a bit.
    pub span: u64,
}

impl Heard {
    #[inline]
    pub fn address(&self, words: &[u64], fs_base: u64) -> u64 {
        address(self.word, self.through_fs, self.offset, words, fs_base)
    }

    fn span(&self) -> Span {
        let Heard { word, through_fs, offset, size, is_sweeping, .. } = *self;
        Span { word, through_fs, offset, size: u64::from(size), is_swept: is_sweeping }
    }
}

/// Bytes at a distance from a word of a record, all of which its accesses come near to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    word: u16,
    through_fs: bool,
    offset: i64,
    size: u64,
    /// All instructions that come there sweep.
    is_swept: bool,
}

impl Span {
    #[inline]
    pub fn lines(&self, words: &[u64], fs_base: u64) -> (u64, u64) {
        lines_of(address(self.word, self.through_fs, self.offset, words, fs_base), self.size)
    }

    fn order(&self) -> (u16, bool, i64) {
        (self.word, self.through_fs, self.offset)
    }

    /// Whether both are at a distance from the same.
    fn is_from(&self, other: &Span) -> bool {
        (self.word, self.through_fs) == (other.word, other.through_fs)
    }
}

/// The accesses of a pattern that count.
#[derive(Clone, Copy, Default)]
pub(super) struct Outline {
    is_known: bool,
    /// Some of its spans are swept.
    is_swept: bool,
    /// Whose numbers its accesses have.
    thread: Thread,
    heard: (u32, u32),
    spans: (u32, u32),
}

impl Outline {
    /// The numbers of the accesses.
    pub fn heard(&self) -> Range<u32> {
        self.heard.0..self.heard.1
    }
}

/// By the numbers of patterns.
#[derive(Default)]
pub(super) struct Outlines {
    outlines: Vec<Outline>,
    heard: Vec<Heard>,
    spans: Vec<Span>,
}

impl Outlines {
    /// `counted` tells what an instruction is, if it counts.
    #[inline]
    pub fn of(
        &mut self,
        pattern: u32,
        patterns: &Patterns,
        counted: impl FnMut(&Template) -> Option<Counted>,
    ) -> Outline {
        match self.outlines.get(pattern as usize) {
            Some(outline) if outline.is_known => *outline,
            _ => self.learn(pattern, patterns.templates(pattern), counted),
        }
    }

    #[inline]
    pub fn heard(&self, number: u32) -> &Heard {
        &self.heard[number as usize]
    }

    /// A record of a thread comes: its accesses get that thread's numbers, by those of their instructions.
    #[inline]
    pub fn take_up(&mut self, pattern: u32, thread: Thread, who: impl FnMut(u32) -> u32) {
        if self.outlines[pattern as usize].thread != thread {
            self.change_hands(pattern, thread, who);
        }
    }

    #[cold]
    fn change_hands(&mut self, pattern: u32, thread: Thread, mut who: impl FnMut(u32) -> u32) {
        let outline = &mut self.outlines[pattern as usize];
        outline.thread = thread;
        for heard in &mut self.heard[outline.heard.0 as usize..outline.heard.1 as usize] {
            heard.who = who(heard.number);
        }
    }

    /// Those spans, by their bits, that are to be looked at. `is_passed` tells whether instructions that sweep are not looked at in some
    /// lines.
    #[inline]
    pub fn live_spans(
        &self,
        outline: &Outline,
        words: &[u64],
        fs_base: u64,
        is_passed: impl Fn(u64, u64) -> bool,
    ) -> u64 {
        if !outline.is_swept {
            return u64::MAX;
        }
        let spans = &self.spans[outline.spans.0 as usize..outline.spans.1 as usize];
        let mut live = 0;
        for (number, span) in spans.iter().enumerate() {
            let are_passed = || {
                let (first, last) = span.lines(words, fs_base);
                is_passed(first, last)
            };
            if !span.is_swept || !are_passed() {
                live |= bit_of(number);
            }
        }
        live
    }

    #[cold]
    fn learn(
        &mut self,
        pattern: u32,
        templates: &[Template],
        mut counted: impl FnMut(&Template) -> Option<Counted>,
    ) -> Outline {
        let (first, first_span) = (self.heard.len() as u32, self.spans.len() as u32);
        for (order, template) in (1..).zip(templates) {
            let Some(Counted { number, is_sweeping }) = counted(template) else { continue };
            self.heard.push(Heard {
                offset: template.offset,
                size: template.size,
                site: template.site,
                number,
                who: 0,
                order,
                word: template.word,
                through_fs: template.through_fs,
                reads: template.kind.reads(),
                writes: template.kind.writes(),
                is_sweeping,
                span: 0,
            });
        }
        self.spans.extend(spans_of(&mut self.heard[first as usize..]));
        let (heard, spans) = ((first, self.heard.len() as u32), (first_span, self.spans.len() as u32));
        let is_swept = self.spans[first_span as usize..].iter().any(|span| span.is_swept);
        let outline = Outline { is_known: true, is_swept, thread: NOBODY, heard, spans };
        self.outlines.resize(self.outlines.len().max(pattern as usize + 1), Outline::default());
        self.outlines[pattern as usize] = outline;
        outline
    }
}

/// Spans beyond these share the last bit.
fn bit_of(span: usize) -> u64 {
    1 << span.min(63)
}

/// All bytes of some accesses, in few spans: those that are nearer to each other than a line are in one.
fn spans_of(heard: &mut [Heard]) -> Vec<Span> {
    let mut spans: Vec<Span> = heard.iter().map(Heard::span).collect();
    spans.sort_unstable_by_key(Span::order);
    spans.dedup_by(|next, span| {
        let distance = next.offset.abs_diff(span.offset);
        let is_near = next.is_from(span) && distance <= span.size.saturating_add(LINE);
        if is_near {
            span.size = span.size.max(distance + next.size);
            span.is_swept &= next.is_swept;
        }
        is_near
    });
    for heard in heard {
        let own = heard.span();
        let number = spans.partition_point(|span| span.order() <= own.order());
        heard.span = bit_of(number - 1);
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_in_one_span() {
        let heard = |word, offset, size| Heard {
            offset,
            size,
            site: Site(0),
            number: 0,
            who: 0,
            order: 1,
            word,
            through_fs: false,
            reads: true,
            writes: false,
            is_sweeping: word == 1 && offset > 0,
            span: 0,
        };
        let mut all = [heard(1, 64, 8), heard(2, 0, 8), heard(1, -8, 4), heard(1, 1000, 16), heard(1, 0, 128)];
        let spans = spans_of(&mut all);
        let span = |word, offset, size, is_swept| Span { word, through_fs: false, offset, size, is_swept };
        assert_eq!(spans, [span(1, -8, 136, false), span(1, 1000, 16, true), span(2, 0, 8, false)]);
        assert_eq!(all.map(|heard| heard.span), [1, 4, 1, 2, 1]);
        assert_eq!(span(2, LINE as i64 - 4, 8, false).lines(&[0, 0, 10 * LINE], 0), (10, 11));
    }
}
