//! The heap's blocks, each with the number of its allocation, which tells it from others at the same address.

use std::collections::BTreeMap;
use std::ops::Range;
use trace::stream::Event;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    pub size: u64,
    /// Counted over the whole stream, from 1.
    pub number: u64,
}

#[derive(Default, Debug)]
pub struct Blocks {
    blocks: BTreeMap<u64, Block>,
    allocated: u64,
}

impl Blocks {
    /// The number of the new block.
    pub fn allocate(&mut self, address: u64, size: u64) -> u64 {
        self.allocated += 1;
        self.blocks.insert(address, Block { size, number: self.allocated });
        self.allocated
    }

    /// The block that was there, if one is known.
    pub fn free(&mut self, address: u64) -> Option<Block> {
        self.blocks.remove(&address)
    }

    /// The number of the block that an address lies in.
    pub fn number_at(&self, address: u64) -> Option<u64> {
        let (start, block) = self.blocks.range(..=address).next_back()?;
        (address - start < block.size).then_some(block.number)
    }

    /// Keeps up with what threads allocate, give back and map.
    pub fn hear(&mut self, event: &Event) {
        match *event {
            Event::Allocated { address, size, .. } => drop(self.allocate(address, size)),
            Event::Freed { address, .. } => drop(self.free(address)),
            Event::Mapped { address, size } => self.forget_in(address..address.saturating_add(size)),
            _ => {}
        }
    }

    pub fn forget_in(&mut self, range: Range<u64>) {
        let gone: Vec<u64> = self.blocks.range(range).map(|(address, _)| *address).collect();
        for address in gone {
            self.blocks.remove(&address);
        }
    }
}
