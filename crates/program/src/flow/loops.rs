//! The natural loops of a graph, and which lies in which.

use super::dominance::Dominators;
use super::{Block, BlockIdx};
use crate::space::GuestAddress;
use std::collections::{BTreeMap, BTreeSet};

/// The position of a loop in [`super::Graph::loops`].
pub type LoopIdx = usize;

/// Blocks that can run again and again, entered at one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The first instruction of the block by which the loop is entered, and which starts every iteration.
    pub header: GuestAddress,
    pub header_block: BlockIdx,
    /// With the header, and with the blocks of loops within.
    pub blocks: BTreeSet<BlockIdx>,
    /// The blocks that end an iteration by a branch back to the header.
    pub latches: BTreeSet<BlockIdx>,
    /// The innermost loop around this one.
    pub parent: Option<LoopIdx>,
    /// How many loops are around this one.
    pub depth: usize,
}

/// Larger loops before smaller ones, so that outer ones come first.
pub(super) fn natural_loops(blocks: &[Block], dominators: &Dominators) -> Vec<Loop> {
    let mut loops: Vec<Loop> = latches_by_header(blocks, dominators)
        .into_iter()
        .map(|(header_block, latches)| Loop {
            header: blocks[header_block].start,
            header_block,
            blocks: body(blocks, header_block, &latches),
            latches,
            parent: None,
            depth: 0,
        })
        .collect();
    loops.sort_by_key(|found| (std::cmp::Reverse(found.blocks.len()), found.header));
    for idx in 0..loops.len() {
        let header = loops[idx].header_block;
        // Natural loops with different headers are nested or apart: the one that holds the header holds the loop.
        loops[idx].parent = (0..idx).rev().find(|outer| loops[*outer].blocks.contains(&header));
        loops[idx].depth = loops[idx].parent.map_or(0, |parent| loops[parent].depth + 1);
    }
    loops
}

fn latches_by_header(blocks: &[Block], dominators: &Dominators) -> BTreeMap<BlockIdx, BTreeSet<BlockIdx>> {
    let mut latches: BTreeMap<BlockIdx, BTreeSet<BlockIdx>> = BTreeMap::new();
    for (from, block) in blocks.iter().enumerate() {
        for to in block.successors.iter().filter(|to| dominators.dominates(**to, from)) {
            latches.entry(*to).or_default().insert(from);
        }
    }
    latches
}

/// The header, and all that reaches a latch without passing it.
fn body(blocks: &[Block], header: BlockIdx, latches: &BTreeSet<BlockIdx>) -> BTreeSet<BlockIdx> {
    let mut predecessors: BTreeMap<BlockIdx, Vec<BlockIdx>> = BTreeMap::new();
    for (from, block) in blocks.iter().enumerate() {
        for to in &block.successors {
            predecessors.entry(*to).or_default().push(from);
        }
    }
    let mut members = BTreeSet::from([header]);
    let mut open: Vec<BlockIdx> = latches.iter().copied().collect();
    while let Some(block) = open.pop() {
        if members.insert(block) {
            open.extend(predecessors.get(&block).into_iter().flatten().copied());
        }
    }
    members
}

pub(super) fn innermost(loops: &[Loop], n_blocks: usize) -> Vec<Option<LoopIdx>> {
    let mut inner = vec![None; n_blocks];
    for (idx, found) in loops.iter().enumerate() {
        for block in &found.blocks {
            inner[*block] = Some(idx);
        }
    }
    inner
}
