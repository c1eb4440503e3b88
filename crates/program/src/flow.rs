//! How control can go through one function: its blocks, which of them every way passes, and its loops.
//!
//! The graph is read from machine code, from the entry on. Direct branches, what follows calls, and the jump tables that
//! compilers make of `switch` are followed ([`tables`]); calls stay inside their block unless they end it by never
//! returning. Every other way out, also an indirect jump that could not be read, leads to one virtual exit. A loop that is
//! never left is given a way to that exit, so that every block has post-dominators.
//!
//! Loops are natural ones (Aho, Lam, Sethi and Ullman, section 9.6): the target of a back edge dominates its source. Loops
//! that share a header are one. May miss: loops with several entries, which compilers make of `goto` at most, and what is
//! only reached by an indirect jump listed in [`Graph::unread_jumps`].

mod dominance;
mod loops;
mod reach;
mod tables;

use crate::space::GuestAddress;
use dominance::Dominators;
pub use loops::{Loop, LoopIdx};
use std::ops::Range;

/// Where the graph's instructions come from, and what is known about them from elsewhere.
pub trait Code {
    /// Copies what stands from an address on, and says how many bytes there were: fewer than wanted at the end of what is
    /// readable.
    fn read(&self, address: GuestAddress, into: &mut [u8]) -> usize;

    /// Whether the called function can return.
    fn returns(&self, _callee: GuestAddress) -> bool {
        true
    }

    /// Whether a jump to this address stays in the function; one that does not is a call in its last position.
    fn is_inside(&self, _target: GuestAddress) -> bool {
        true
    }
}

/// The position of a block in [`Graph::blocks`].
pub type BlockIdx = usize;

/// Instructions that run one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub start: GuestAddress,
    /// The first address past the block.
    pub end: GuestAddress,
    /// Its last instruction.
    pub last: GuestAddress,
    /// In order, each once; empty where control leaves the function.
    pub successors: Vec<BlockIdx>,
    /// Whether control can leave the function at the block's end.
    pub leaves: bool,
}

/// One function's control flow.
#[derive(Clone, Debug)]
pub struct Graph {
    /// In order of address, and apart from each other.
    blocks: Vec<Block>,
    entry: BlockIdx,
    unread_jumps: Vec<GuestAddress>,
    dominators: Dominators,
    post_dominators: Dominators,
    loops: Vec<Loop>,
    /// The innermost loop of every block.
    loop_of_block: Vec<Option<LoopIdx>>,
}

impl Graph {
    /// The function that starts at `entry`; nothing if there is no instruction.
    pub fn of(entry: GuestAddress, code: &impl Code) -> Option<Graph> {
        let reached = reach::Reached::from(entry, code);
        let blocks = reached.blocks();
        let entry = position(&blocks, entry)?;
        let successors: Vec<Vec<BlockIdx>> = blocks.iter().map(|block| block.successors.clone()).collect();
        let dominators = Dominators::of(&successors, entry);
        let post_dominators = dominance::post_dominators(&blocks);
        let loops = loops::natural_loops(&blocks, &dominators);
        let loop_of_block = loops::innermost(&loops, blocks.len());
        let unread_jumps = reached.unread_jumps();
        Some(Graph { blocks, entry, unread_jumps, dominators, post_dominators, loops, loop_of_block })
    }

    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub fn entry(&self) -> &Block {
        &self.blocks[self.entry]
    }

    /// Indirect jumps whose targets are unknown, in order of address.
    pub fn unread_jumps(&self) -> &[GuestAddress] {
        &self.unread_jumps
    }

    /// The block that an instruction is in.
    pub fn block_of(&self, pc: GuestAddress) -> Option<BlockIdx> {
        position(&self.blocks, pc)
    }

    /// The start of the last block that every way from the entry passes before that of `pc`. Nothing for the entry.
    pub fn immediate_dominator(&self, pc: GuestAddress) -> Option<GuestAddress> {
        let dominator = self.dominators.immediate(self.block_of(pc)?)?;
        Some(self.blocks[dominator].start)
    }

    /// Whether every way from the entry to `pc` passes the block of `other`.
    pub fn dominates(&self, other: GuestAddress, pc: GuestAddress) -> bool {
        match (self.block_of(other), self.block_of(pc)) {
            (Some(other), Some(block)) => self.dominators.dominates(other, block),
            _ => false,
        }
    }

    /// The start of the first block that every way out of the block of `pc` passes. Nothing if that is the exit.
    pub fn immediate_post_dominator(&self, pc: GuestAddress) -> Option<GuestAddress> {
        let post_dominator = self.post_dominators.immediate(self.block_of(pc)?)?;
        // The virtual exit has the number past the last block.
        Some(self.blocks.get(post_dominator)?.start)
    }

    /// The function's loops, outer ones before those within them.
    pub fn loops(&self) -> &[Loop] {
        &self.loops
    }

    /// The innermost loop that an instruction is in.
    pub fn loop_of(&self, pc: GuestAddress) -> Option<LoopIdx> {
        self.loop_of_block[self.block_of(pc)?]
    }

    /// The loops that an instruction is in, the outermost first.
    pub fn loops_around(&self, pc: GuestAddress) -> Vec<LoopIdx> {
        let inner = self.loop_of(pc);
        let mut around: Vec<LoopIdx> = std::iter::successors(inner, |idx| self.loops[*idx].parent).collect();
        around.reverse();
        around
    }

    /// The addresses of the function's code, in pieces.
    pub fn ranges(&self) -> impl Iterator<Item = Range<GuestAddress>> + '_ {
        self.blocks.iter().map(|block| block.start..block.end)
    }
}

fn position(blocks: &[Block], pc: GuestAddress) -> Option<BlockIdx> {
    let after = blocks.partition_point(|block| block.start <= pc);
    let idx = after.checked_sub(1)?;
    (pc < blocks[idx].end).then_some(idx)
}

#[cfg(test)]
mod tests;
