//! Blocks of the heap at the moment of a store.

use super::Student;
use crate::naming::{Block, Blocks};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use trace::stream::{Access, Event, Listener, Site, Thread};

/// A store, and a pointer that it may have been meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub pc: u64,
    pub address: u64,
    pub base: Option<u64>,
}

/// What was where when the instruction last accessed the address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The block that the address is in, and the one that the pointer leads to.
    pub block: Option<Block>,
    pub meant: Option<Block>,
    /// The block that it was in, and that has been given back.
    pub freed: Option<Block>,
}

pub struct BlocksAt {
    question: Question,
    sites: BTreeSet<Site>,
    blocks: Blocks,
    freed: BTreeMap<u64, Block>,
    judged: Judged,
}

impl BlocksAt {
    pub fn new(question: Question) -> BlocksAt {
        let judged = Judged::default();
        BlocksAt { question, sites: BTreeSet::new(), blocks: Blocks::default(), freed: BTreeMap::new(), judged }
    }

    fn judge(&mut self) {
        let Question { address, base, .. } = self.question;
        let freed = self.freed.range(..=address).next_back().map(|(_, block)| *block);
        self.judged = Judged {
            block: self.blocks.at(address).copied(),
            meant: base.and_then(|base| self.blocks.at(base)).copied(),
            freed: freed.filter(|block| address - block.address < block.size),
        };
    }
}

impl Listener for BlocksAt {
    fn accesses(&mut self, _thread: Thread, accesses: &[Access]) {
        let address = self.question.address;
        let is_it = |access: &&Access| {
            let range = access.address..access.address + u64::from(access.size);
            range.contains(&address) && self.sites.contains(&access.site)
        };
        if accesses.iter().any(|access| is_it(&access)) {
            self.judge();
        }
    }

    fn event(&mut self, _thread: Thread, event: &Event) {
        match *event {
            Event::Freed { address, .. } => {
                if let Some(block) = self.blocks.at(address) {
                    self.freed.insert(address, *block);
                }
            }
            Event::Allocated { address, size, .. } => {
                self.freed.retain(|_, block| block.address >= address + size || block.address + block.size <= address);
            }
            _ => {}
        }
        self.blocks.hear(event);
    }

    fn site(&mut self, site: Site, pc: u64) {
        if pc == self.question.pc {
            self.sites.insert(site);
        }
    }
}

impl Student for BlocksAt {
    fn report(&mut self) -> Value {
        json!(self.judged)
    }
}
