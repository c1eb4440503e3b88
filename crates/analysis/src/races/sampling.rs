//! Which part is looked at of memory that is like much other: that which code goes over, as with the elements of arrays and the
//! bytes of buffers.
//!
//! Memory is divided into strips of 512 bytes. An instruction that has come to many strips before anybody else did is a
//! *sweeper*. Of the strips that it comes to first from then on, one in [`ONE_OF_MANY`] is looked at: the same ones whoever comes.
//! A strip that somebody else has come to, or that means something, is known, and whatever happens there from then on is looked
//! at.
//!
//! Who leaves out accesses of which it has never seen one to the same strip knows less of that strip, and nothing wrong of others.

use super::bits::Bits;
use std::ops::Range;
use trace::stream::Site;

/// How many strips an instruction comes to first without being a sweeper, unless somebody says otherwise.
pub const FEW_STRIPS: u32 = 64;
/// Where instructions have come to so many strips altogether, fewer of each will do.
const MANY_STRIPS: u32 = 2048;
const FEWER: u32 = 8;

const STRIP_BITS: u32 = 9;
pub const STRIP_SIZE: i64 = 1 << STRIP_BITS;
const ONE_OF_MANY: u64 = 64;

/// Strips are told apart by so many bits of their numbers. Some that are not meant are looked at as well.
const NUMBER_BITS: u32 = 17;
/// What makes a set of numbers one of so many bits.
const MEMBERS: usize = 1 << (NUMBER_BITS - 5);

/// Whether an address is on one of a few strips that are spread over all memory.
#[inline]
pub fn is_sampled(address: u64) -> bool {
    is_number_sampled(number_of(address >> STRIP_BITS))
}

#[inline]
fn number_of(strip: u64) -> u64 {
    // Neighbours have neighbouring numbers.
    strip.wrapping_add(strip >> NUMBER_BITS) & ((1 << NUMBER_BITS) - 1)
}

fn is_number_sampled(number: u64) -> bool {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(ONE_OF_MANY)
}

/// How much of some memory is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    All,
    Some,
    Nothing,
}

/// The strips that are looked at.
pub struct Sampling {
    few: u32,
    /// Those that are known, and the few that are looked at anyway.
    looked_at: Bits,
    /// The same, and the strips before these.
    near: Bits,
    /// How many strips each site has come to first, and all of them together.
    n_strips: Vec<u32>,
    n_known: u32,
}

impl Sampling {
    /// Whoever has come to more than a few strips first is a sweeper.
    pub fn after(few: u32) -> Sampling {
        let mut sampling =
            Sampling { few, looked_at: Bits::new(MEMBERS), near: Bits::new(MEMBERS), n_strips: Vec::new(), n_known: 0 };
        let sampled = (0..1 << NUMBER_BITS).filter(|number| is_number_sampled(*number));
        sampled.for_each(|number| sampling.look_at(number));
        sampling
    }

    fn look_at(&mut self, number: u64) {
        self.looked_at.set(number);
        self.near.set(number);
        self.near.set(number.wrapping_sub(1) & ((1 << NUMBER_BITS) - 1));
    }

    /// How many strips have become known: what is a sweeper may change with that.
    #[inline]
    pub fn n_known(&self) -> u32 {
        self.n_known
    }

    /// Whether the strip of an address or the next one may be looked at.
    #[inline]
    pub fn is_near(&self, address: u64) -> bool {
        self.near.has(number_of(address >> STRIP_BITS))
    }

    /// How much is looked at of memory that an instruction has come to. What is looked at is known from now on.
    #[inline]
    pub fn share(&mut self, site: Site, address: u64, size: u32) -> Share {
        let strips = strips(address, size);
        let (first, last) = (strips.start, strips.end - 1);
        let is_looked_at = self.is_looked_at(first) && self.is_looked_at(last) && last - first <= 1;
        if is_looked_at { Share::All } else { self.share_of(site, strips) }
    }

    fn share_of(&mut self, site: Site, strips: Range<u64>) -> Share {
        if !self.is_sweeper(site) {
            let n_new = self.know_strips(strips);
            self.n_strips.resize(self.n_strips.len().max(site.0 as usize + 1), 0);
            self.n_strips[site.0 as usize] += n_new;
            return Share::All;
        }
        if strips.into_iter().any(|strip| self.is_looked_at(strip)) { Share::Some } else { Share::Nothing }
    }

    pub fn is_sweeper(&self, site: Site) -> bool {
        let few = if self.n_known <= MANY_STRIPS { self.few } else { self.few.min(FEWER) };
        self.n_strips.get(site.0 as usize).is_some_and(|n_strips| *n_strips > few)
    }

    /// The parts of some memory that are looked at, with their sizes.
    pub fn looked_at(&self, address: u64, size: u32) -> Vec<(u64, u32)> {
        let end = address.saturating_add(u64::from(size));
        let part = |strip: u64| {
            let (start, end) = (address.max(strip << STRIP_BITS), end.min((strip + 1) << STRIP_BITS));
            (start, end.saturating_sub(start) as u32)
        };
        strips(address, size).filter(|strip| self.is_looked_at(*strip)).map(part).collect()
    }

    /// This memory means something, so that all that happens there counts.
    pub fn know(&mut self, address: u64, size: u32) {
        self.know_strips(strips(address, size));
    }

    #[inline]
    fn is_looked_at(&self, strip: u64) -> bool {
        self.looked_at.has(number_of(strip))
    }

    /// Gives how many of them are new.
    fn know_strips(&mut self, strips: Range<u64>) -> u32 {
        let mut n_new = 0;
        for strip in strips {
            n_new += u32::from(!self.is_looked_at(strip));
            self.look_at(number_of(strip));
            // The number of the strip before is not always the one before.
            self.near.set(number_of(strip.wrapping_sub(1)));
        }
        self.n_known = self.n_known.wrapping_add(n_new);
        n_new
    }
}

/// The strips that some memory lies on: one at least.
#[inline]
fn strips(address: u64, size: u32) -> Range<u64> {
    let last = address.saturating_add(u64::from(size.max(1)) - 1);
    address >> STRIP_BITS..(last >> STRIP_BITS) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: u64 = 0x7000_0000;
    const SIZE: u64 = STRIP_SIZE as u64;

    fn strip(number: u64) -> u64 {
        ARRAY + number * SIZE
    }

    #[test]
    fn of_what_a_sweeper_comes_to_first_a_part_is_looked_at() {
        let mut sampling = Sampling::after(FEW_STRIPS);
        let mut looks_at = |site: u32, numbers: Range<u64>| {
            numbers.filter(|number| sampling.share(Site(site), strip(*number) + 8, 8) == Share::All).count() as u64
        };
        let n_few = u64::from(FEW_STRIPS);
        assert_eq!(looks_at(3, 0..n_few), n_few);
        let n_further = looks_at(3, 2 * n_few..130 * n_few);
        assert!((n_few..n_few * 4).contains(&n_further), "{n_further} of {}", 128 * n_few);
        assert_eq!(looks_at(3, 0..n_few), n_few, "they are known");
        assert_eq!(looks_at(1, 2 * n_few..2 * n_few + 9), 9, "another instruction");
        assert_eq!(looks_at(3, 2 * n_few..2 * n_few + 9), 9, "where another has been");
    }

    #[test]
    fn of_many_instructions_each_comes_to_fewer_strips() {
        let mut sampling = Sampling::after(FEW_STRIPS);
        let n_each = 4 * u64::from(FEW_STRIPS);
        let mut looks_at = |site: u32| {
            let first = u64::from(site) * n_each;
            let numbers = first..first + n_each;
            numbers.filter(|number| sampling.share(Site(site), strip(*number), 8) == Share::All).count() as u32
        };
        assert!(looks_at(0) > FEW_STRIPS);
        assert!((1..100).map(&mut looks_at).last().is_some_and(|n_strips| n_strips < 4 * FEWER));
    }

    #[test]
    fn of_several_strips_those_are_looked_at_that_are_known() {
        let mut sampling = Sampling::after(0);
        let mut plain = (9..).filter(|number| (0..4).all(|next| !is_sampled(strip(number + next))));
        let first = strip(plain.next().unwrap_or_default());
        assert_eq!(sampling.share(Site(0), first + 2 * SIZE, 8), Share::All, "the first one");
        assert_eq!(sampling.share(Site(0), first, SIZE as u32), Share::Nothing);
        assert_eq!(sampling.share(Site(0), first, 3 * SIZE as u32), Share::Some);
        sampling.know(first + SIZE, 4);
        let (next, after) = (first + SIZE, first + 2 * SIZE);
        let looked_at = sampling.looked_at(first + 8, 2 * SIZE as u32);
        assert_eq!(looked_at, [(next, SIZE as u32), (after, 8)]);
        assert_eq!(sampling.looked_at(next - 4, 8), [(next, 4)]);
        assert_eq!(sampling.share(Site(0), next, 8), Share::All);
        assert_eq!(sampling.share(Site(0), u64::MAX, 8), sampling.share(Site(0), u64::MAX, 0));
    }
}
