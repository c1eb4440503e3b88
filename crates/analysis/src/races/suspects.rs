//! The granules that may race, as a [`Sieve`](super::Sieve) has found them, and a quick way to pass over all others.

use super::bits::Bits;
use super::blocks::Blocks;
use super::shadow::{GRANULE_SIZE, bytes_between, granules};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

    /// How many bytes they are.
    pub fn size(&self) -> u64 {
        self.0.len() as u64 * GRANULE_SIZE
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

/// Suspects by the number of the block that they were in; 0 for none. Elsewhere in the run, the same memory may be something else.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Placed(BTreeMap<u64, Suspects>);

impl Placed {
    /// Whether some of a range is suspect, in the blocks that there are.
    pub fn any_within(&self, blocks: &Blocks, address: u64, size: u64) -> bool {
        granules(address, size).any(|(granule, _)| {
            let block = blocks.number_at(granule * GRANULE_SIZE).unwrap_or(0);
            self.0.get(&block).is_some_and(|suspects| suspects.0.binary_search(&granule).is_ok())
        })
    }
}

/// Suspects as they are being found.
#[derive(Default)]
pub struct Suspected {
    granules: FxHashSet<u64>,
    /// The same by the block, if that is wanted.
    placed: Option<BTreeMap<u64, FxHashSet<u64>>>,
}

impl Suspected {
    /// With the blocks that they are in.
    pub fn placed() -> Suspected {
        Suspected { placed: Some(BTreeMap::new()), ..Suspected::default() }
    }

    pub fn insert(&mut self, granule: u64, blocks: &Blocks) {
        let block = || blocks.number_at(granule * GRANULE_SIZE).unwrap_or(0);
        self.insert_in(block, granule);
    }

    /// The same in a block that has just been given back.
    pub fn insert_in(&mut self, block: impl FnOnce() -> u64, granule: u64) {
        self.granules.insert(granule);
        if let Some(placed) = &mut self.placed {
            placed.entry(block()).or_default().insert(granule);
        }
    }

    /// Those that are of concern.
    pub fn into_suspects(self, concerns: impl Fn(u64) -> bool) -> (Suspects, Placed) {
        let of_concern = |granules: FxHashSet<u64>| {
            Suspects::new(granules.into_iter().filter(|granule| concerns(granule * GRANULE_SIZE)))
        };
        let placed = self.placed.into_iter().flatten();
        let placed = placed.map(|(block, granules)| (block, of_concern(granules))).collect();
        (of_concern(self.granules), Placed(placed))
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
            let is_meant = |address: u64| self.granules.has(address / GRANULE_SIZE);
            return size != 0 && is_near && (is_meant(address) || is_meant(last));
        }
        let blocks = || address >> BLOCK_BITS..(last >> BLOCK_BITS) + 1;
        (is_near || blocks().any(|block| self.blocks.has(block)))
            && granules(address, size).any(|(granule, _)| self.granules.has(granule))
    }
}
