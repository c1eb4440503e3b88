//! A word for each granule of the guest's memory.

use super::last::GRANULE;
use std::collections::BTreeMap;

/// What is kept of a granule; zero for nothing.
pub(super) type Word = u32;

/// A chunk is for a megabyte.
const CHUNK: u64 = 1 << 17;
const LOOKED_UP: usize = 256;

/// The words of all granules, in chunks that are made when they are first needed.
pub(super) struct Words {
    chunks: Vec<Box<[Word]>>,
    /// By the numbers of their first granules, in chunks.
    numbers: BTreeMap<u64, usize>,
    /// Those looked up a moment ago.
    looked_up: [(u64, usize); LOOKED_UP],
}

impl Default for Words {
    fn default() -> Words {
        Words { chunks: Vec::new(), numbers: BTreeMap::new(), looked_up: [(u64::MAX, 0); LOOKED_UP] }
    }
}

impl Words {
    /// The words of granules from the first on, as many as one chunk has.
    #[inline]
    pub fn from(&mut self, first: u64, last: u64) -> &mut [Word] {
        let upper = first / CHUNK;
        let place = &mut self.looked_up[upper as usize % LOOKED_UP];
        if place.0 != upper {
            let (chunks, fresh) = (&mut self.chunks, self.numbers.len());
            let number = *self.numbers.entry(upper).or_insert_with(|| {
                chunks.push(vec![0; CHUNK as usize].into_boxed_slice());
                fresh
            });
            *place = (upper, number);
        }
        let length = (last - first).min(CHUNK - 1 - first % CHUNK) as usize;
        let start = (first % CHUNK) as usize;
        &mut self.chunks[place.1][start..=start + length]
    }

    /// The words of a range that there are, each with its granule, in ascending order.
    pub fn known(&mut self, address: u64, size: u64) -> impl Iterator<Item = (u64, &mut Word)> {
        let (first, last) = (address / GRANULE, address.saturating_add(size.max(1) - 1) / GRANULE);
        let wanted = self.numbers.range(first / CHUNK..=last / CHUNK).map(|(upper, number)| (*number, *upper));
        let wanted: BTreeMap<usize, u64> = wanted.collect();
        // Most ranges are in one chunk.
        let (lowest, highest) = (wanted.keys().next(), wanted.keys().next_back());
        let range = lowest.map_or(0..0, |lowest| *lowest..highest.unwrap_or(lowest) + 1);
        let chunks = self.chunks[range.clone()].iter_mut().zip(range);
        let mut parts: Vec<(u64, &mut [Word])> = chunks
            .filter_map(|(chunk, number)| {
                let base = wanted.get(&number)? * CHUNK;
                let (start, end) = (first.max(base), last.min(base + (CHUNK - 1)));
                Some((start, &mut chunk[(start - base) as usize..=(end - base) as usize]))
            })
            .collect();
        parts.sort_unstable_by_key(|(start, _)| *start);
        parts.into_iter().flat_map(|(start, words)| (start..).zip(words))
    }
}
