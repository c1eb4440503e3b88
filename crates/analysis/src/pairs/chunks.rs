//! Something for every piece of the memory that a run touches, in chunks that are made when they are first needed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// How many chunks are found without a search.
const LOOKED_UP: usize = 256;

/// `LENGTH` pieces are a chunk.
pub(super) struct Chunks<T, const LENGTH: usize> {
    chunks: Vec<Box<[T]>>,
    /// By the numbers of their first pieces, in chunks.
    numbers: BTreeMap<u64, usize>,
    /// Those looked up a moment ago.
    looked_up: Box<[(u64, usize); LOOKED_UP]>,
}

impl<T, const LENGTH: usize> Default for Chunks<T, LENGTH> {
    fn default() -> Chunks<T, LENGTH> {
        let looked_up = Box::new([(u64::MAX, 0); LOOKED_UP]);
        Chunks { chunks: Vec::new(), numbers: BTreeMap::new(), looked_up }
    }
}

impl<T: Copy + Default + PartialEq, const LENGTH: usize> Chunks<T, LENGTH> {
    /// What there is for a piece.
    #[inline]
    pub fn at(&mut self, piece: u64) -> &mut T {
        let chunk = self.chunk(piece / LENGTH as u64);
        &mut chunk[piece as usize % LENGTH]
    }

    /// Some pieces in a row, if they are in a chunk that was looked up a moment ago.
    #[inline]
    pub fn row(&mut self, first: u64, length: usize) -> Option<&mut [T]> {
        let upper = first / LENGTH as u64;
        let (known, number) = self.looked_up[upper as usize % LOOKED_UP];
        if known != upper {
            return None;
        }
        self.chunks[number].get_mut(first as usize % LENGTH..)?.get_mut(..length)
    }

    #[inline]
    fn chunk(&mut self, upper: u64) -> &mut [T] {
        let place = upper as usize % LOOKED_UP;
        if self.looked_up[place].0 != upper {
            self.looked_up[place] = (upper, self.find(upper));
        }
        &mut self.chunks[self.looked_up[place].1]
    }

    #[cold]
    fn find(&mut self, upper: u64) -> usize {
        *self.numbers.entry(upper).or_insert_with(|| {
            self.chunks.push(vec![T::default(); LENGTH].into_boxed_slice());
            self.chunks.len() - 1
        })
    }

    /// Goes over the pieces of a range that anything is known of, in ascending order.
    pub fn for_each_known(&mut self, range: RangeInclusive<u64>, mut what: impl FnMut(u64, &mut T)) {
        let (first, last, length) = (*range.start(), *range.end(), LENGTH as u64);
        let nothing = T::default();
        for (upper, number) in self.numbers.range(first / length..=last / length) {
            let base = upper * length;
            let (start, end) = (first.max(base), last.min(base + (length - 1)));
            let pieces = &mut self.chunks[*number][(start - base) as usize..=(end - base) as usize];
            let known = (start..).zip(pieces).filter(|(_, thing)| **thing != nothing);
            known.for_each(|(piece, thing)| what(piece, thing));
        }
    }
}
