//! Something for each of some granules of memory. Whoever asks for one mostly asks for its neighbours next, so they are found
//! by the page.

use rustc_hash::FxHashMap;
use std::ops::RangeInclusive;

const PAGE_BITS: u32 = 6;
const PAGE: usize = 1 << PAGE_BITS;
/// Pages that were looked up a moment ago.
const LOOKED_UP: usize = 64;

type Page<T> = [Option<T>; PAGE];

pub struct Pages<T> {
    pages: Vec<Box<Page<T>>>,
    /// Of pages that nothing is on.
    free: Vec<u32>,
    numbers: FxHashMap<u64, u32>,
    /// The upper bits of a granule, and the number of its page.
    looked_up: [(u64, u32); LOOKED_UP],
    /// How many granules have something.
    n_granules: usize,
}

impl<T> Default for Pages<T> {
    fn default() -> Pages<T> {
        let looked_up = [(u64::MAX, 0); LOOKED_UP];
        Pages { pages: Vec::new(), free: Vec::new(), numbers: FxHashMap::default(), looked_up, n_granules: 0 }
    }
}

impl<T: Default> Pages<T> {
    /// What there is for a granule, made if need be; nothing if there would be something for more than `most`.
    #[inline]
    pub fn at(&mut self, granule: u64, most: usize) -> Option<&mut T> {
        let number = self.page(granule >> PAGE_BITS);
        let slot = &mut self.pages[number as usize][granule as usize % PAGE];
        if slot.is_none() {
            if self.n_granules >= most {
                return None;
            }
            self.n_granules += 1;
        }
        Some(slot.get_or_insert_default())
    }

    /// What there is for a granule already.
    #[inline]
    pub fn known(&mut self, granule: u64) -> Option<&mut T> {
        let upper = granule >> PAGE_BITS;
        let (known, number) = self.looked_up[upper as usize % LOOKED_UP];
        let number = if known == upper { number } else { self.look_for(upper)? };
        self.pages[number as usize][granule as usize % PAGE].as_mut()
    }

    fn look_for(&mut self, upper: u64) -> Option<u32> {
        let number = *self.numbers.get(&upper)?;
        self.looked_up[upper as usize % LOOKED_UP] = (upper, number);
        Some(number)
    }

    /// Forgets some granules, and gives what there was for them, in ascending order.
    pub fn take(&mut self, granules: RangeInclusive<u64>) -> Vec<T> {
        let mut taken = Vec::new();
        let (first, last) = granules.into_inner();
        for upper in first >> PAGE_BITS..=last >> PAGE_BITS {
            let Some(&number) = self.numbers.get(&upper) else { continue };
            let start = first.max(upper << PAGE_BITS) as usize % PAGE;
            let end = last.min(((upper + 1) << PAGE_BITS) - 1) as usize % PAGE;
            let page = &mut self.pages[number as usize];
            taken.extend(page[start..=end].iter_mut().filter_map(Option::take));
            if page.iter().all(Option::is_none) {
                self.numbers.remove(&upper);
                self.looked_up[upper as usize % LOOKED_UP] = (u64::MAX, 0);
                self.free.push(number);
            }
        }
        self.n_granules -= taken.len();
        taken
    }

    pub fn is_empty(&self) -> bool {
        self.n_granules == 0
    }

    #[inline]
    fn page(&mut self, upper: u64) -> u32 {
        let (known, number) = self.looked_up[upper as usize % LOOKED_UP];
        if known == upper { number } else { self.look_up(upper) }
    }

    #[inline(never)]
    fn look_up(&mut self, upper: u64) -> u32 {
        let number = *self.numbers.entry(upper).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.pages.push(Box::new([const { None }; PAGE]));
                self.pages.len() as u32 - 1
            })
        });
        self.looked_up[upper as usize % LOOKED_UP] = (upper, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_granule_has_its_own() {
        let mut pages: Pages<u32> = Pages::default();
        // The same place in a page, in the pages looked up, and a neighbour.
        let granules = [3, 3 + PAGE as u64, 3 + (PAGE * LOOKED_UP) as u64, 4];
        for (number, granule) in (1..).zip(granules) {
            assert_eq!(pages.at(granule, 4).copied(), Some(0));
            pages.at(granule, 4).into_iter().for_each(|value| *value = number);
        }
        assert_eq!(pages.at(5, 4), None, "too many");
        assert!([5, 1 << 40].into_iter().all(|granule| pages.known(granule).is_none()), "nothing is made");
        assert_eq!(pages.known(4).copied(), Some(4));
        assert_eq!(pages.at(3, 4).copied(), Some(1), "known already");
        assert_eq!(pages.take(3..=3 + PAGE as u64), [1, 4, 2]);
        assert_eq!(pages.at(3, 4).copied(), Some(0), "forgotten");
        assert_eq!(pages.take(0..=(2 * PAGE * LOOKED_UP) as u64), [0, 3]);
        assert!(pages.is_empty());
    }

    #[test]
    fn pages_are_used_again() {
        let mut pages: Pages<u32> = Pages::default();
        for round in 0..3 * PAGE as u64 {
            let granule = round << PAGE_BITS;
            pages.at(granule, 1).into_iter().for_each(|value| *value = 7);
            assert_eq!(pages.take(granule..=granule), [7]);
        }
        assert_eq!(pages.pages.len(), 1);
    }
}
