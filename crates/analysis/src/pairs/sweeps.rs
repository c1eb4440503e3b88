//! Which accesses are worth looking at, where instructions go over a lot of memory.
//!
//! An instruction that comes to very many lines of memory *sweeps*: what it does to one of them is like what it does to the others. So it is
//! looked at in some of them, which are chosen by their addresses, and wherever an instruction comes that does not sweep. A line where anybody was
//! looked at is looked at with everybody from then on, as long as it is the same memory: so no access is missing between two that are told
//! as a pair.

use super::chunks::Chunks;
use rustc_hash::FxHashSet;
use trace::stream::Site;
use trace::stream::strips::{self, STRIP_SIZE};

/// Memory is told apart in lines of so many bytes.
pub(super) const LINE: u64 = STRIP_SIZE;
/// A chunk is for a megabyte.
const CHUNK: usize = (1 << 20) / LINE as usize;
/// Lines that are so far apart share a bit: a quarter of a gigabyte.
const FILTER_BITS: u64 = 1 << 19;
const FILTER_WORDS: usize = FILTER_BITS as usize / 64;

/// One line in so many is looked at with instructions that sweep.
const ONE_IN: u32 = 64;

/// The numbers of the strips that they are on.
pub fn samples() -> impl Iterator<Item = u16> {
    strips::one_in(ONE_IN)
}

/// Whether a line is looked at with instructions that sweep, whoever else comes.
fn is_sample(line: u64) -> bool {
    strips::is_one_in(ONE_IN, strips::number_of(line * LINE))
}

/// Tells quickly of most lines that they are neither samples nor known. Neighbours are neighbours here, too.
struct Filter(Box<[u64; FILTER_WORDS]>);

impl Default for Filter {
    fn default() -> Filter {
        let mut filter = Filter(Box::new([0; FILTER_WORDS]));
        (0..FILTER_BITS).filter(|line| is_sample(*line)).for_each(|line| filter.add(line));
        filter
    }
}

impl Filter {
    #[inline]
    fn place(line: u64) -> (usize, u64) {
        ((line / 64) as usize % FILTER_WORDS, 1 << (line % 64))
    }

    fn add(&mut self, line: u64) {
        let (word, bit) = Filter::place(line);
        self.0[word] |= bit;
    }

    #[inline]
    fn may_have(&self, line: u64) -> bool {
        let (word, bit) = Filter::place(line);
        self.0[word] & bit != 0
    }
}

/// How closely an access is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Regard {
    /// Not at all.
    None,
    /// The line is a sample: what was there before is known by chance.
    Sample,
    Whole,
    /// It may be looked at in some lines only: its [`pieces`] have to come one by one.
    InPart,
}

#[derive(Default)]
pub(super) struct Sweeps {
    /// The instructions that sweep.
    sweeping: FxHashSet<u64>,
    /// Which of them do, by the stream's numbers.
    sites: Vec<bool>,
    /// The lines that somebody has come to who does not sweep.
    known: Chunks<bool, CHUNK>,
    filter: Filter,
}

impl Sweeps {
    pub fn of(sweeping: impl IntoIterator<Item = u64>) -> Sweeps {
        Sweeps { sweeping: sweeping.into_iter().collect(), ..Sweeps::default() }
    }

    pub fn add_site(&mut self, site: Site, pc: u64) {
        let length = self.sites.len().max(site.0 as usize + 1);
        self.sites.resize(length, false);
        self.sites[site.0 as usize] = self.sweeping.contains(&pc);
    }

    pub fn is_sweeping(&self, site: Site) -> bool {
        self.sites[site.0 as usize]
    }

    /// An instruction comes to some bytes.
    #[inline]
    pub fn come(&mut self, site: Site, (address, size): (u64, u64)) -> Regard {
        if self.sweeping.is_empty() {
            return Regard::Whole;
        }
        let is_sweeping = self.is_sweeping(site);
        let (first, last) = lines_of(address, size);
        if first != last {
            return if is_sweeping { Regard::InPart } else { self.come_to_all(first, last) };
        }
        if *self.known.at(first) {
            Regard::Whole
        } else if !is_sweeping {
            self.know(first)
        } else if is_sample(first) {
            Regard::Sample
        } else {
            Regard::None
        }
    }

    /// Somebody comes who does not sweep.
    #[cold]
    fn know(&mut self, line: u64) -> Regard {
        *self.known.at(line) = true;
        self.filter.add(line);
        // Where nobody was looked at, nothing is told either.
        if is_sample(line) { Regard::Sample } else { Regard::Whole }
    }

    fn come_to_all(&mut self, first: u64, last: u64) -> Regard {
        (first..=last).for_each(|line| {
            self.know(line);
        });
        Regard::Whole
    }

    /// Whether it is certain that instructions that sweep are not looked at in any of these lines.
    #[inline]
    pub fn are_passed(&self, first: u64, last: u64) -> bool {
        (first..last + 1).all(|line| !self.filter.may_have(line))
    }

    /// Whether all that is told of this memory was looked at.
    pub fn is_known(&mut self, address: u64) -> bool {
        self.sweeping.is_empty() || *self.known.at(address / LINE)
    }

    /// The memory is another one from now on.
    pub fn forget(&mut self, address: u64, size: u64) {
        let end = address.saturating_add(size);
        let (first, last) = (address.div_ceil(LINE), (end / LINE).saturating_sub(1));
        if first <= last {
            self.known.for_each_known(first..=last, |_, is_known| *is_known = false);
        }
    }
}

/// The first and the last line of some bytes.
#[inline]
pub(super) fn lines_of(address: u64, size: u64) -> (u64, u64) {
    (address / LINE, address.saturating_add(size.max(1) - 1) / LINE)
}

/// The pieces of some bytes that are in one line each.
pub(super) fn pieces(address: u64, size: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = address.saturating_add(size.max(1));
    let (first, last) = lines_of(address, size);
    (first..=last).map(move |line| {
        let start = address.max(line * LINE);
        (start, end.min((line + 1).saturating_mul(LINE)) - start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOT: Site = Site(0);
    const COLD: Site = Site(1);

    /// An instruction sweeps, and another one does not.
    fn sweeps() -> Sweeps {
        let mut sweeps = Sweeps::of([0x10]);
        sweeps.add_site(HOT, 0x10);
        sweeps.add_site(COLD, 0x20);
        sweeps
    }

    /// The lines of a megabyte that are looked at with an instruction that sweeps.
    fn samples(sweeps: &mut Sweeps) -> Vec<u64> {
        let lines = (1 << 20) / LINE..(2 << 20) / LINE;
        lines.filter(|line| sweeps.come(HOT, (line * LINE, 8)) == Regard::Sample).collect()
    }

    #[test]
    fn an_instruction_that_sweeps_is_looked_at_in_some_lines() {
        let mut sweeps = sweeps();
        let some = samples(&mut sweeps);
        assert!((20..150).contains(&some.len()), "{} lines", some.len());
        assert_eq!(samples(&mut sweeps), some, "always the same ones");
        assert!(sweeps.is_sweeping(HOT) && !sweeps.is_sweeping(COLD));
    }

    #[test]
    fn where_nobody_sweeps_all_is_looked_at() {
        let mut sweeps = Sweeps::default();
        sweeps.add_site(COLD, 0x20);
        for line in 0..1000 {
            assert_eq!(sweeps.come(COLD, (line * LINE, 8)), Regard::Whole);
            assert!(sweeps.is_known(line * LINE));
        }
    }

    #[test]
    fn a_line_is_looked_at_with_everybody_after_somebody_who_does_not_sweep() {
        let mut sweeps = sweeps();
        let sample = samples(&mut sweeps)[0];
        let passed = (1 << 20) / LINE..(2 << 20) / LINE;
        let passed = passed.into_iter().find(|line| sweeps.are_passed(*line, *line)).unwrap_or_default();
        for (line, first) in [(sample, Regard::Sample), (passed, Regard::Whole)] {
            assert!(!sweeps.is_known(line * LINE));
            assert_eq!(sweeps.come(COLD, (line * LINE + 8, 8)), first);
            assert_eq!(sweeps.come(HOT, (line * LINE, 8)), Regard::Whole);
            assert!(sweeps.is_known(line * LINE));
            sweeps.forget(line * LINE, LINE);
            assert!(!sweeps.is_known(line * LINE));
        }
        assert_eq!(sweeps.come(HOT, (passed * LINE, 8)), Regard::None);
    }

    #[test]
    fn accesses_across_lines_come_in_pieces() {
        let mut sweeps = sweeps();
        assert_eq!(sweeps.come(HOT, (LINE - 4, 8)), Regard::InPart);
        assert_eq!(pieces(LINE - 4, 8).collect::<Vec<_>>(), [(LINE - 4, 4), (LINE, 4)]);
        assert_eq!(sweeps.come(COLD, (LINE - 4, 8)), Regard::Whole);
        assert!(sweeps.is_known(0) && sweeps.is_known(LINE));
    }
}
