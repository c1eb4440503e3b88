//! The granules that may race, as a [`Sieve`](super::Sieve) has found them, and a quick way to pass over all others.

use super::shadow::{GRANULE_SIZE, bytes_between, granules};
use serde::{Deserialize, Serialize};

/// Numbers of granules, in ascending order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Suspects(Vec<u64>);

impl Suspects {
    pub fn new(granules: impl IntoIterator<Item = u64>) -> Suspects {
        let mut granules: Vec<u64> = granules.into_iter().collect();
        granules.sort_unstable();
        Suspects(granules)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of a range, each with the bytes of it.
    pub fn within(&self, address: u64, size: u64) -> impl Iterator<Item = (u64, u8)> {
        let start = self.0.partition_point(|granule| *granule < address / GRANULE_SIZE);
        let end = address.saturating_add(size);
        let granules = self.0[start..].iter().copied().take_while(move |granule| granule * GRANULE_SIZE < end);
        granules.map(move |granule| (granule, bytes_between(granule, address, end)))
    }
}

/// How many bits there are at least, so that few granules that are not meant share one with one that is.
const FEW_BITS: usize = 1 << 16;
const MOST_BITS: usize = 1 << 24;
const BITS_EACH: usize = 32;

/// Bits of granules by a hash of their numbers. A granule that is not meant may be taken for one, which costs time only:
/// nothing races there.
pub struct Filter {
    bits: Vec<u64>,
    pub suspects: Suspects,
}

impl Filter {
    pub fn new(suspects: Suspects) -> Filter {
        let n_bits = (suspects.0.len() * BITS_EACH).next_power_of_two().clamp(FEW_BITS, MOST_BITS);
        let mut filter = Filter { bits: vec![0; n_bits / 64], suspects: Suspects::default() };
        suspects.0.iter().for_each(|granule| filter.add(*granule));
        Filter { suspects, ..filter }
    }

    /// One more granule is meant.
    pub fn add(&mut self, granule: u64) {
        let (word, bit) = self.place(granule);
        self.bits[word] |= bit;
    }

    #[inline]
    pub fn wants(&self, address: u64, size: u64) -> bool {
        granules(address, size).any(|(granule, _)| {
            let (word, bit) = self.place(granule);
            self.bits[word] & bit != 0
        })
    }

    #[inline]
    fn place(&self, granule: u64) -> (usize, u64) {
        let hash = (granule ^ granule >> 16) as usize;
        ((hash / 64) & (self.bits.len() - 1), 1 << (hash % 64))
    }
}
