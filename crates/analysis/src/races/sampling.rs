//! Which part is looked at of memory that is like much other: that which code goes over, as with the elements of arrays and the
//! bytes of buffers.
//!
//! Memory is divided into [strips]. An instruction that has come to many strips before anybody else did is a
//! *sweeper*. Of the strips that it comes to first from then on, a few are looked at: the same ones whoever comes.
//! A strip that somebody else has come to, or that means something, is known, and whatever happens there from then on is looked
//! at.
//!
//! Who leaves out accesses of which it has never seen one to the same strip knows less of that strip, and nothing wrong of others.

use super::bits::Bits;
use std::ops::Range;
use trace::stream::Site;
use trace::stream::strips::{self, NUMBERS, STRIP_BITS, STRIP_SIZE, number_of};

/// How many strips an instruction comes to first without being a sweeper, unless somebody says otherwise.
pub const FEW_STRIPS: u32 = 64;
/// Where instructions have come to so many strips altogether, fewer of each will do.
const MANY_STRIPS: u32 = 2048;
const FEWER: u32 = 8;

/// One strip in so many is looked at whoever comes.
const ONE_IN: u32 = 256;

/// The numbers of these strips.
pub fn samples() -> impl Iterator<Item = u16> {
    strips::one_in(ONE_IN)
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
    /// How many strips an instruction comes to first without being a sweeper; nothing if everybody is one.
    few: Option<u32>,
    /// Those that are known, and the few that are looked at anyway, by number.
    looked_at: Bits,
    /// How many strips each site has come to first, and all of them together.
    n_strips: Vec<u32>,
    n_known: u32,
}

impl Sampling {
    /// Whoever has come to more than a few strips first is a sweeper.
    pub fn after(few: u32) -> Sampling {
        Sampling::of(samples(), Some(few))
    }

    /// Everybody is looked at on strips with these numbers, and nowhere else unless it means something.
    pub fn on(numbers: impl IntoIterator<Item = u16>) -> Sampling {
        Sampling::of(numbers, None)
    }

    fn of(numbers: impl IntoIterator<Item = u16>, few: Option<u32>) -> Sampling {
        let mut looked_at = Bits::new(NUMBERS / 32);
        numbers.into_iter().for_each(|number| looked_at.set(u64::from(number)));
        Sampling { few, looked_at, n_strips: Vec::new(), n_known: 0 }
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

    fn is_sweeper(&self, site: Site) -> bool {
        let Some(few) = self.few else { return true };
        let few = if self.n_known <= MANY_STRIPS { few } else { few.min(FEWER) };
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

    /// The parts of some addresses that are looked at.
    pub fn parts_of(&self, addresses: Range<u64>) -> Vec<Range<u64>> {
        let strips = addresses.start >> STRIP_BITS..addresses.end.div_ceil(STRIP_SIZE);
        let mut parts: Vec<Range<u64>> = Vec::new();
        for strip in strips.filter(|strip| self.is_looked_at(*strip)) {
            let start = addresses.start.max(strip << STRIP_BITS);
            let end = addresses.end.min((strip + 1) << STRIP_BITS);
            match parts.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => parts.push(start..end),
            }
        }
        parts
    }

    /// This memory means something, so that all that happens there counts.
    pub fn know(&mut self, address: u64, size: u32) {
        self.know_strips(strips(address, size));
    }

    #[inline]
    fn is_looked_at(&self, strip: u64) -> bool {
        self.looked_at.has(u64::from(number_of(strip << STRIP_BITS)))
    }

    /// Gives how many of them are new.
    fn know_strips(&mut self, strips: Range<u64>) -> u32 {
        let mut n_new = 0;
        for strip in strips {
            n_new += u32::from(!self.is_looked_at(strip));
            self.looked_at.set(u64::from(number_of(strip << STRIP_BITS)));
        }
        self.n_known = self.n_known.saturating_add(n_new);
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
    use trace::stream::strips::is_one_in;

    const ARRAY: u64 = 0x7000_0000;
    const SIZE: u64 = STRIP_SIZE;

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
        let n_further = looks_at(3, 2 * n_few..514 * n_few);
        assert!((n_few..n_few * 4).contains(&n_further), "{n_further} of {}", 512 * n_few);
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
        let mut plain = (9..).filter(|number| (0..4).all(|next| !is_one_in(ONE_IN, number_of(strip(number + next)))));
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
        assert_eq!(sampling.parts_of(first + 8..after + 4), vec![next..after + 4]);
        assert_eq!(sampling.parts_of(first..next), []);
        assert_eq!(sampling.share(Site(0), u64::MAX, 8), sampling.share(Site(0), u64::MAX, 0));
    }
}
