//! Which bytes a thread has touched since it got its turn.
//!
//! Nobody else accesses memory meanwhile, so that only the first accesses to a byte can be tails of pairs, and only the last ones heads.
//! Most accesses are neither, and looking at a few bits tells that.

use super::chunks::Chunks;
use super::groups::{Groups, Member};
use std::ops::RangeInclusive;

/// A bit of a word stands for each byte of a line.
const LINE: u64 = 64;
/// A chunk is for a megabyte.
const CHUNK: usize = (1 << 20) / LINE as usize;

/// Of the bytes of a line: which were read and written in this turn, and at which threads have met in any. The last word is one more than the
/// member of the group of instructions that come there, if threads have met.
type Line = [u64; 4];
const READ: usize = 0;
const WRITTEN: usize = 1;
const MET: usize = 2;
const GROUP: usize = 3;

/// Memory, and what is done to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub address: u64,
    pub size: u64,
    pub reads: bool,
    pub writes: bool,
}

impl Span {
    /// Goes over the lines, each with the bytes of it, until told to stop.
    #[inline]
    fn all_lines(self, mut what: impl FnMut(u64, u64) -> bool) -> bool {
        let first = self.address % LINE;
        if first + self.size <= LINE {
            return what(self.address / LINE, mask(first, self.size.max(1)));
        }
        let end = self.address.saturating_add(self.size);
        let mut at = self.address;
        while at < end {
            let length = (end - at).min(LINE - at % LINE);
            if !what(at / LINE, mask(at % LINE, length)) {
                return false;
            }
            at += length;
        }
        true
    }

    #[inline]
    fn each_line(self, mut what: impl FnMut(u64, u64)) {
        self.all_lines(|line, mask| {
            what(line, mask);
            true
        });
    }
}

/// So many ones from a place on; not none.
#[inline]
fn mask(first: u64, length: u64) -> u64 {
    !0 >> (LINE - length) << first
}

/// What an access does for the first time.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Fresh {
    /// It reads bytes that have neither been read nor written.
    pub reads: bool,
    /// It writes bytes that have not been written.
    pub writes: bool,
    /// Threads have met at some of its bytes.
    pub is_met: bool,
}

#[derive(Default)]
pub(super) struct Touched {
    lines: Chunks<Line, CHUNK>,
    /// How many bits of bytes read and written are set.
    n_bits: u64,
}

impl Touched {
    /// Whether all this has been done before. If so, gives whether threads have met there, and the group is not known to be this one.
    #[inline]
    pub fn is_known(&mut self, span: Span, group: Option<Member>) -> Option<bool> {
        let (reads, writes) = (ones_if(span.reads), ones_if(span.writes));
        let group = word_of(group);
        let mut is_met = false;
        let is_known = span.all_lines(|line, mask| {
            let known = self.lines.at(line);
            is_met |= mask & known[MET] != 0 && known[GROUP] != group;
            mask & (reads & !known[READ] | writes & !known[WRITTEN]) == 0
        });
        is_known.then_some(is_met)
    }

    /// Notes an access.
    #[inline]
    pub fn touch(&mut self, span: Span) -> Fresh {
        let mut fresh = Fresh::default();
        span.each_line(|line, mask| {
            let known = self.lines.at(line);
            if span.reads {
                fresh.reads |= mask & !(known[READ] | known[WRITTEN]) != 0;
                self.n_bits += u64::from((mask & !known[READ]).count_ones());
                known[READ] |= mask;
            }
            if span.writes {
                fresh.writes |= mask & !known[WRITTEN] != 0;
                self.n_bits += u64::from((mask & !known[WRITTEN]).count_ones());
                known[WRITTEN] |= mask;
            }
            fresh.is_met |= mask & known[MET] != 0;
        });
        fresh
    }

    /// An instruction has met another thread's at these bytes.
    pub fn meet(&mut self, span: Span, instruction: u32, groups: &mut Groups) {
        span.each_line(|line, mask| self.lines.at(line)[MET] |= mask);
        self.join(span, instruction, groups);
    }

    /// An instruction belongs to the groups of those bytes of a span where threads have met. Gives who stands for all of them.
    pub fn join(&mut self, span: Span, instruction: u32, groups: &mut Groups) -> Member {
        let mut member = groups.of(instruction);
        span.each_line(|line, mask| {
            let known = self.lines.at(line);
            if mask & known[MET] != 0 {
                if let Some(other) = known[GROUP].checked_sub(1) {
                    member = groups.join(member, other as u32);
                }
                known[GROUP] = word_of(Some(member));
            }
        });
        member
    }

    /// Whether no last access is still to be found.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.n_bits == 0
    }

    /// Whether any byte of a span still has to be found the last access of.
    #[inline]
    pub fn is_sought(&mut self, span: Span) -> bool {
        let (reads, writes) = (ones_if(span.reads), ones_if(span.writes));
        !span.all_lines(|line, mask| {
            let known = self.lines.at(line);
            mask & (reads & known[READ] | writes & known[WRITTEN]) == 0
        })
    }

    /// Going backwards, this reads: gives the bytes that nobody reads or writes after it, in rows.
    pub fn take_last_reads(&mut self, span: Span, mut last: impl FnMut(u64, u64)) {
        span.each_line(|line, mask| {
            let known = self.lines.at(line);
            let found = known[READ] & mask;
            known[READ] &= !mask;
            self.n_bits -= u64::from(found.count_ones());
            rows(line, found, &mut last);
        });
    }

    /// Going backwards, this writes: gives the bytes that nobody writes after it, in rows, with whether they were read before and not
    /// after it.
    pub fn take_last_writes(&mut self, span: Span, mut last: impl FnMut(u64, u64, bool)) {
        span.each_line(|line, mask| {
            let known = self.lines.at(line);
            let (found, read) = (known[WRITTEN] & mask, known[READ] & mask);
            self.n_bits -= u64::from(found.count_ones() + read.count_ones());
            known[READ] &= !mask;
            known[WRITTEN] &= !mask;
            rows(line, found & read, &mut |at, length| last(at, length, true));
            rows(line, found & !read, &mut |at, length| last(at, length, false));
        });
    }

    /// What was done to these bytes does not count any more; with `for_good`, neither does that threads have met there.
    pub fn forget(&mut self, bytes: RangeInclusive<u64>, for_good: bool) {
        let (start, end) = (*bytes.start(), *bytes.end());
        let n_bits = &mut self.n_bits;
        self.lines.for_each_known(start / LINE..=end / LINE, |line, known| {
            let base = line * LINE;
            let first = start.max(base) - base;
            let mask = mask(first, end.min(base + (LINE - 1)) - base - first + 1);
            *n_bits -= u64::from((known[READ] & mask).count_ones() + (known[WRITTEN] & mask).count_ones());
            known[READ] &= !mask;
            known[WRITTEN] &= !mask;
            if for_good {
                known[MET] &= !mask;
                known[GROUP] = if known[MET] == 0 { 0 } else { known[GROUP] };
            }
        });
    }
}

#[inline]
fn word_of(group: Option<Member>) -> u64 {
    group.map_or(0, |member| u64::from(member) + 1)
}

#[inline]
fn ones_if(condition: bool) -> u64 {
    if condition { !0 } else { 0 }
}

/// The rows of ones, by their first bytes and lengths.
#[inline]
fn rows(line: u64, mut mask: u64, row: &mut impl FnMut(u64, u64)) {
    while mask != 0 {
        let first = u64::from(mask.trailing_zeros());
        let length = u64::from((mask >> first).trailing_ones());
        row(line * LINE + first, length);
        mask &= !self::mask(first, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(address: u64, size: u64, (reads, writes): (bool, bool)) -> Span {
        Span { address, size, reads, writes }
    }

    const READS: (bool, bool) = (true, false);
    const WRITES: (bool, bool) = (false, true);

    #[test]
    fn what_was_done_before_is_known() {
        let mut touched = Touched::default();
        assert_eq!(touched.is_known(span(60, 8, READS), None), None);
        assert_eq!(touched.touch(span(60, 8, READS)), Fresh { reads: true, ..Fresh::default() });
        assert_eq!(touched.is_known(span(61, 7, READS), None), Some(false));
        assert_eq!(touched.is_known(span(61, 7, WRITES), None), None);
        assert_eq!(touched.touch(span(60, 8, (true, true))), Fresh { writes: true, ..Fresh::default() });
        // Who reads what it has written meets nobody, but may be the last one.
        assert_eq!(touched.touch(span(0, 64, WRITES)), Fresh { writes: true, ..Fresh::default() });
        assert_eq!(touched.touch(span(0, 64, READS)), Fresh::default());
        let mut groups = Groups::default();
        touched.meet(span(64, 1, READS), 3, &mut groups);
        assert_eq!(touched.is_known(span(0, 64, READS), None), Some(false));
        assert_eq!(touched.is_known(span(60, 8, READS), None), Some(true));
        let group = touched.join(span(60, 8, READS), 5, &mut groups);
        assert_eq!(touched.is_known(span(60, 8, READS), Some(group)), Some(false));
        assert_eq!(groups.named(u64::from), [[3, 5]]);
    }

    #[test]
    fn the_last_accesses_are_found_backwards() {
        let mut touched = Touched::default();
        for (address, size, deeds) in [(60, 8, READS), (56, 8, WRITES), (62, 4, READS)] {
            touched.touch(span(address, size, deeds));
        }
        let mut found = Vec::new();
        touched.take_last_reads(span(62, 4, READS), |at, length| found.push((at, length)));
        touched.take_last_writes(span(56, 8, WRITES), |at, length, _| found.push((at, length)));
        touched.take_last_reads(span(60, 8, READS), |at, length| found.push((at, length)));
        assert_eq!(found, [(62, 2), (64, 2), (60, 2), (56, 4), (62, 2), (66, 2)]);
        assert!(touched.is_empty());
        touched.touch(span(0, 256, (true, true)));
        touched.forget(1..=200, false);
        assert!(!touched.is_sought(span(1, 200, READS)) && touched.is_sought(span(200, 2, READS)));
        touched.forget(0..=u64::MAX, true);
        assert!(touched.is_empty());
    }
}
