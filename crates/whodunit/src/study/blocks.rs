//! Blocks of the heap at the moments of some accesses.

use super::Student;
use crate::inquiry::Reply;
use crate::naming::{Block, Blocks};
use engine::Chosen;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::stream::{Access, Event, Listener, Site, Thread};

/// A place in memory that an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    pub pc: u64,
    pub address: u64,
}

/// An access, and a pointer that it may have been meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub pc: u64,
    pub address: u64,
    pub base: Option<u64>,
    /// An access that came before, and that the block may be newer than.
    pub since: Option<Spot>,
}

/// What was where when the instruction last accessed the address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The block that the address is in, and the one that the pointer leads to.
    pub block: Option<Block>,
    pub meant: Option<Block>,
    /// The block that it was in, and that has been given back.
    pub freed: Option<Block>,
    /// The block that the pointer leads to was allocated after the last access that came before.
    pub is_newer: bool,
    /// How many blocks the site of the block that the pointer leads to had made with it.
    pub nth: u64,
}

/// The questions that an instruction matters for: as the one that is asked about, and as the one before.
#[derive(Clone, Debug, Default)]
struct Asked {
    about: Vec<usize>,
    before: Vec<usize>,
}

/// The accesses that questions are about; no others need to be told.
pub fn accesses_of(questions: &[Question]) -> Chosen {
    let before = questions.iter().filter_map(|question| question.since).map(|since| since.pc);
    let instructions = questions.iter().map(|question| question.pc).chain(before).collect();
    Chosen { instructions, ..Chosen::default() }
}

pub struct BlocksAt {
    questions: Vec<Question>,
    /// By the number of the site.
    sites: Vec<Asked>,
    blocks: Blocks,
    /// When blocks were allocated, by how many were before.
    born: BTreeMap<u64, u64>,
    n_allocated: u64,
    /// How many blocks each site has made, and for each block how many that were with it.
    n_made: BTreeMap<u64, u64>,
    nth: BTreeMap<u64, u64>,
    freed: BTreeMap<u64, Block>,
    /// For each question, how many blocks had been allocated at the access before.
    before: Vec<Option<u64>>,
    judged: Vec<Judged>,
}

impl BlocksAt {
    pub fn new(questions: Vec<Question>) -> BlocksAt {
        BlocksAt {
            before: vec![None; questions.len()],
            judged: vec![Judged::default(); questions.len()],
            questions,
            sites: Vec::new(),
            blocks: Blocks::default(),
            born: BTreeMap::new(),
            n_allocated: 0,
            n_made: BTreeMap::new(),
            nth: BTreeMap::new(),
            freed: BTreeMap::new(),
        }
    }

    fn judge(&mut self, position: usize) {
        let Question { address, base, .. } = self.questions[position];
        let freed = self.freed.range(..=address).next_back().map(|(_, block)| *block);
        let block = self.blocks.at(address).copied();
        let meant = base.and_then(|base| self.blocks.at(base)).copied();
        // Without a pointer, the address stands for itself.
        let pointed = if base.is_some() { meant } else { block };
        let born = pointed.and_then(|block| self.born.get(&block.address));
        self.judged[position] = Judged {
            block,
            meant,
            freed: freed.filter(|block| address - block.address < block.size),
            nth: meant.and_then(|meant| self.nth.get(&meant.address)).copied().unwrap_or(0),
            is_newer: born.zip(self.before[position]).is_some_and(|(born, before)| *born >= before),
        };
    }

    /// Memory is in use again.
    fn forget_freed(&mut self, start: u64, end: u64) {
        let below = self.freed.range(..end).rev();
        let overlapping = below.take_while(|(_, block)| block.address + block.size.max(1) > start);
        let addresses: Vec<u64> = overlapping.map(|(address, _)| *address).collect();
        for address in addresses {
            self.freed.remove(&address);
        }
    }

    fn hear(&mut self, access: &Access) {
        let Some(asked) = self.sites.get(access.site.0 as usize) else { return };
        if asked.about.is_empty() && asked.before.is_empty() {
            return;
        }
        let asked = asked.clone();
        let range = access.address..access.address + u64::from(access.size);
        for position in asked.before {
            if self.questions[position].since.is_some_and(|since| range.contains(&since.address)) {
                self.before[position] = Some(self.n_allocated);
            }
        }
        for position in asked.about {
            if range.contains(&self.questions[position].address) {
                self.judge(position);
            }
        }
    }
}

impl Listener for BlocksAt {
    fn accesses(&mut self, _thread: Thread, accesses: &[Access]) {
        accesses.iter().for_each(|access| self.hear(access));
    }

    fn event(&mut self, _thread: Thread, event: &Event) {
        match *event {
            Event::Freed { address, .. } => {
                if let Some(block) = self.blocks.at(address) {
                    self.freed.insert(address, *block);
                }
            }
            Event::Allocated { address, size, site } => {
                let n_made = self.n_made.entry(site).or_default();
                *n_made += 1;
                self.nth.insert(address, *n_made);
                self.forget_freed(address, address.saturating_add(size));
                self.born.insert(address, self.n_allocated);
                self.n_allocated += 1;
            }
            _ => {}
        }
        self.blocks.hear(event);
    }

    fn site(&mut self, site: Site, pc: u64) {
        let position = site.0 as usize;
        if self.sites.len() <= position {
            self.sites.resize(position + 1, Asked::default());
        }
        let asked = &mut self.sites[position];
        for (number, question) in self.questions.iter().enumerate() {
            if question.pc == pc {
                asked.about.push(number);
            }
            if question.since.is_some_and(|since| since.pc == pc) {
                asked.before.push(number);
            }
        }
    }
}

impl Student for BlocksAt {
    fn report(&mut self) -> Reply {
        Reply::of(&self.judged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::stream::AccessKind;

    #[test]
    fn a_block_that_took_the_place_of_another_is_newer_than_the_pointer() {
        let kept = Spot { pc: 1, address: 0x900 };
        let mut study = BlocksAt::new(vec![Question { pc: 2, address: 0x108, base: Some(0x100), since: Some(kept) }]);
        let access = |address, site| Access { address, size: 8, site: Site(site), kind: AccessKind::Write };
        study.site(Site(0), 1);
        study.site(Site(1), 2);
        study.event(1, &Event::Allocated { address: 0x100, size: 32, site: 5 });
        study.accesses(1, &[access(0x900, 0), access(0x108, 1)]);
        assert_eq!((study.judged[0].is_newer, study.judged[0].nth), (false, 1));
        study.event(1, &Event::Freed { address: 0x100, site: 6 });
        study.accesses(1, &[access(0x108, 1)]);
        assert_eq!(study.judged[0].freed.map(|block| block.address), Some(0x100));
        study.event(1, &Event::Allocated { address: 0x100, size: 24, site: 7 });
        study.accesses(1, &[access(0x108, 1)]);
        let judged = &study.judged[0];
        assert_eq!((judged.is_newer, judged.freed, judged.block.map(|block| block.size)), (true, None, Some(24)));
    }
}
