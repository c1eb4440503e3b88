//! Memory that is synchronisation, found beforehand: which bytes, and for how long.

use super::blocks::Blocks;
use super::shadow::{GRANULE_SIZE, granules};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that are synchronisation while their block lives, or for the whole run where they lie in no block.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SyncMemory {
    /// By the block's number, then by granule: the bytes, in parts that were accessed together and do not overlap. Block
    /// 0 stands for memory outside of blocks.
    parts: BTreeMap<u64, BTreeMap<u64, Vec<u8>>>,
}

impl SyncMemory {
    pub(super) fn add(&mut self, blocks: &Blocks, address: u64, size: u64) {
        let block = blocks.number_at(address).unwrap_or(0);
        for (granule, mask) in granules(address, size) {
            self.add_part(block, granule, mask);
        }
    }

    fn add_part(&mut self, block: u64, granule: u64, mask: u8) {
        let parts = self.parts.entry(block).or_default().entry(granule).or_default();
        let new = mask & !parts.iter().fold(0, |known, part| known | part);
        if new != 0 {
            parts.push(new);
        }
    }

    pub(crate) fn contains(&self, block: u64, address: u64) -> bool {
        let parts = self.parts.get(&block).and_then(|known| known.get(&(address / GRANULE_SIZE)));
        parts.is_some_and(|parts| parts.iter().any(|mask| mask >> (address % GRANULE_SIZE) & 1 != 0))
    }

    /// All granules that have such bytes at some time.
    pub(crate) fn granules(&self) -> impl Iterator<Item = u64> {
        self.parts.values().flat_map(|granules| granules.keys()).copied()
    }

    /// Whether all of the other's bytes are here too.
    pub(super) fn covers(&self, other: &SyncMemory) -> bool {
        let mut theirs =
            other.parts.iter().flat_map(|(block, granules)| masks(granules).map(move |part| (*block, part)));
        theirs.all(|(block, (granule, mask))| {
            let parts = self.parts.get(&block).and_then(|known| known.get(&granule));
            mask & !parts.map_or(0, |parts| parts.iter().fold(0, |known, part| known | part)) == 0
        })
    }

    pub(super) fn merge(&mut self, other: &SyncMemory) {
        for (block, granules) in &other.parts {
            for (granule, mask) in masks(granules) {
                self.add_part(*block, granule, mask);
            }
        }
    }

    /// The granules of a block, and which of their bytes are one.
    pub(super) fn of_block(&self, number: u64) -> impl Iterator<Item = (u64, u8)> {
        self.parts.get(&number).into_iter().flat_map(masks)
    }

    /// The granules of a range outside of blocks, and which of their bytes are one.
    pub(super) fn outside_blocks(&self, range: Range<u64>) -> impl Iterator<Item = (u64, u8)> {
        let first = range.start / GRANULE_SIZE;
        let granules = first..range.end.div_ceil(GRANULE_SIZE).max(first);
        let known = self.parts.get(&0).into_iter().flat_map(move |known| known.range(granules.clone()));
        masks(known)
    }
}

fn masks<'a>(granules: impl IntoIterator<Item = (&'a u64, &'a Vec<u8>)>) -> impl Iterator<Item = (u64, u8)> {
    granules.into_iter().flat_map(|(granule, parts)| parts.iter().map(|mask| (*granule, *mask)))
}
