//! The granules that may race, as a [`Sieve`](super::Sieve) has found them, and a quick way to pass over all others.

use super::bits::Bits;
use super::shadow::{GRANULE_SIZE, bytes_between, granules};
use serde::{Deserialize, Serialize};

/// Numbers of granules, in ascending order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Suspects(Vec<u64>);

/// From the first granules of stretches, and how many there are: they mostly are many in a row.
impl From<Vec<(u64, u64)>> for Suspects {
    fn from(stretches: Vec<(u64, u64)>) -> Suspects {
        Suspects(stretches.into_iter().flat_map(|(first, length)| first..first.saturating_add(length)).collect())
    }
}

impl From<Suspects> for Vec<(u64, u64)> {
    fn from(Suspects(granules): Suspects) -> Vec<(u64, u64)> {
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        for granule in granules {
            match stretches.last_mut() {
                Some((first, length)) if *first + *length == granule => *length += 1,
                _ => stretches.push((granule, 1)),
            }
        }
        stretches
    }
}

impl Suspects {
    pub fn new(granules: impl IntoIterator<Item = u64>) -> Suspects {
        let mut granules: Vec<u64> = granules.into_iter().collect();
        granules.sort_unstable();
        Suspects(granules)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The addresses of the granules.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|granule| granule * GRANULE_SIZE)
    }

    /// Those of a range, each with the bytes of it.
    pub fn within(&self, address: u64, size: u64) -> impl Iterator<Item = (u64, u8)> {
        let start = self.0.partition_point(|granule| *granule < address / GRANULE_SIZE);
        let end = address.saturating_add(size);
        let granules = self.0[start..].iter().copied().take_while(move |granule| granule * GRANULE_SIZE < end);
        granules.map(move |granule| (granule, bytes_between(granule, address, end)))
    }
}

/// A block has 512 bytes.
const BLOCK_BITS: u32 = 9;

/// Bits of granules, and of blocks of them, by a hash of their numbers. A granule that is not meant may be taken for one, which
/// costs time only: nothing races there.
pub struct Filter {
    blocks: Bits,
    granules: Bits,
    pub suspects: Suspects,
}

impl Filter {
    pub fn new(suspects: Suspects) -> Filter {
        let (blocks, granules) = (Bits::new(suspects.0.len()), Bits::new(suspects.0.len()));
        let mut filter = Filter { blocks, granules, suspects: Suspects::default() };
        suspects.0.iter().for_each(|granule| filter.add(*granule));
        Filter { suspects, ..filter }
    }

    /// One more granule is meant.
    pub fn add(&mut self, granule: u64) {
        self.blocks.set((granule * GRANULE_SIZE) >> BLOCK_BITS);
        self.granules.set(granule);
    }

    #[inline]
    pub fn wants(&self, address: u64, size: u64) -> bool {
        let last = address.saturating_add(size).saturating_sub(1);
        let is_near = self.blocks.has(address >> BLOCK_BITS) || self.blocks.has(last >> BLOCK_BITS);
        if size <= GRANULE_SIZE {
            let [first, last] = [address, last].map(|address| address / GRANULE_SIZE);
            return size != 0 && is_near && (self.granules.has(first) || self.granules.has(last));
        }
        let blocks = || address >> BLOCK_BITS..(last >> BLOCK_BITS) + 1;
        (is_near || blocks().any(|block| self.blocks.has(block)))
            && granules(address, size).any(|(granule, _)| self.granules.has(granule))
    }
}
