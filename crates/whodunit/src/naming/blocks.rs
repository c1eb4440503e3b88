//! Blocks of the heap, as a stream of events tells of them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::stream::Event;

/// A block that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub address: u64,
    pub size: u64,
    /// Where the function that made it returned to.
    pub site: u64,
}

/// All blocks that are in use at some moment.
#[derive(Default)]
pub struct Blocks {
    by_address: BTreeMap<u64, Block>,
}

impl Blocks {
    pub fn hear(&mut self, event: &Event) {
        match *event {
            Event::Allocated { address, size, site } => {
                self.by_address.insert(address, Block { address, size, site });
            }
            Event::Freed { address, .. } => {
                self.by_address.remove(&address);
            }
            _ => {}
        }
    }

    /// The block that an address is in. One without bytes still has an address.
    pub fn at(&self, address: u64) -> Option<&Block> {
        let (_, block) = self.by_address.range(..=address).next_back()?;
        (address - block.address < block.size.max(1)).then_some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_and_go() {
        let mut blocks = Blocks::default();
        blocks.hear(&Event::Allocated { address: 0x100, size: 16, site: 7 });
        blocks.hear(&Event::Allocated { address: 0x110, size: 0, site: 8 });
        assert_eq!(
            [0xff, 0x100, 0x10f, 0x110, 0x111].map(|at| blocks.at(at).map(|block| block.site)),
            [None, Some(7), Some(7), Some(8), None]
        );
        blocks.hear(&Event::Freed { address: 0x100, site: 9 });
        assert_eq!(blocks.at(0x108), None);
    }
}
