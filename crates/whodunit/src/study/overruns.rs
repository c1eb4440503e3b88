//! Stores of a function that go on where one of them went astray, and what else it stored before: a loop or a copy rarely
//! overruns by one store, and what one statement came to, those beside it may have come to earlier.

use super::Student;
use crate::inquiry::Reply;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use trace::stream::{Access, AccessKind, Event, Listener, Site, Thread};

/// So many stores of the function are looked at on either side of the one that is known.
const MOST_KEPT: usize = 4096;
/// Stores are no further apart.
const WIDEST_GAP: u64 = 8;
/// Longer ones are not single instructions.
const LONGEST: u32 = 64;

/// A store that went astray, and what it went beyond.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub thread: u32,
    pub store: Store,
    /// Of the function.
    pub code: Range<u64>,
    /// What it was meant for ends here.
    pub end: u64,
}

/// A store of an instruction, which it made for the `time`th time in its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Store {
    pub pc: u64,
    pub time: u64,
    /// How many stores the function had made before.
    pub order: u64,
    pub address: u64,
    pub size: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The stores that touch what is known to be overrun, nearest first; the one that was asked about among them.
    pub overruns: Vec<Store>,
    /// The last store of each other instruction before the first of them, the latest first.
    pub before: Vec<Store>,
}

impl Store {
    fn bytes(&self) -> Range<u64> {
        self.address..self.address + u64::from(self.size)
    }
}

pub struct Overruns {
    question: Question,
    /// The instruction at each site, if it is one of the function's, and how often it has stored.
    sites: BTreeMap<u32, (u64, u64)>,
    n_stores: u64,
    latest: VecDeque<Store>,
    /// The stores up to the one that is asked about, when that was last made, and those behind it.
    before: Vec<Store>,
    after: Vec<Store>,
}

impl Overruns {
    pub fn new(question: Question) -> Overruns {
        let (sites, latest) = (BTreeMap::new(), VecDeque::new());
        Overruns { question, sites, n_stores: 0, latest, before: Vec::new(), after: Vec::new() }
    }

    fn hear(&mut self, access: &Access) {
        let Some((pc, time)) = self.sites.get_mut(&access.site.0) else { return };
        if access.kind == AccessKind::Read {
            return;
        }
        *time += 1;
        let store = Store { pc: *pc, time: *time, order: self.n_stores, address: access.address, size: access.size };
        self.n_stores += 1;
        if self.latest.len() == MOST_KEPT {
            self.latest.pop_front();
        }
        self.latest.push_back(store);
        let Question { store: asked, .. } = &self.question;
        if (store.pc, store.address) == (asked.pc, asked.address) {
            self.before = self.latest.iter().copied().collect();
            self.after.clear();
        } else if !self.before.is_empty() && self.after.len() < MOST_KEPT {
            self.after.push(store);
        }
    }

    fn answer(&self) -> Answer {
        let overruns = self.overruns();
        let first = overruns.iter().map(|store| store.order).min().unwrap_or(0);
        let mut before: Vec<Store> = Vec::new();
        for store in self.before.iter().rev().filter(|store| store.order < first) {
            if store.pc != self.question.store.pc && !before.iter().any(|known| known.pc == store.pc) {
                before.push(*store);
            }
        }
        Answer { overruns, before }
    }

    fn overruns(&self) -> Vec<Store> {
        let end = self.question.end;
        let mut extent = self.question.store.bytes();
        let mut found = Vec::new();
        for store in self.after.iter().chain(self.before.iter().rev()) {
            let bytes = store.bytes();
            let is_near = bytes.start <= extent.end + WIDEST_GAP && extent.start <= bytes.end + WIDEST_GAP;
            if is_near && bytes.end > end && bytes.start + u64::from(LONGEST) > end && store.size <= LONGEST {
                extent = extent.start.min(bytes.start)..extent.end.max(bytes.end);
                found.push(*store);
            }
        }
        found
    }
}

impl Listener for Overruns {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        if thread == self.question.thread {
            accesses.iter().for_each(|access| self.hear(access));
        }
    }

    fn event(&mut self, _thread: Thread, _event: &Event) {}

    fn site(&mut self, site: Site, pc: u64) {
        if self.question.code.contains(&pc) {
            self.sites.insert(site.0, (pc, 0));
        }
    }
}

impl Student for Overruns {
    fn report(&mut self) -> Reply {
        Reply::of(&self.answer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_that_go_on_beyond_the_end_are_told() {
        let asked = Store { pc: 0x10, time: 0, order: 0, address: 0x118, size: 8 };
        let mut study = Overruns::new(Question { thread: 1, store: asked, code: 0x10..0x20, end: 0x110 });
        study.site(Site(0), 0x10);
        study.site(Site(1), 0x30);
        study.site(Site(2), 0x18);
        let store = |address, site| Access { address, size: 8, site: Site(site), kind: AccessKind::Write };
        study.accesses(1, &[store(0x70, 2), store(0x78, 2)]);
        let addresses = [0x900, 0x100, 0x108, 0x110, 0x118, 0x120, 0x200];
        study.accesses(1, &addresses.map(|address| store(address, 0)));
        study.accesses(1, &[store(0x128, 1)]);
        study.accesses(2, &[store(0x128, 0)]);
        let answer = study.answer();
        let told: Vec<(u64, u64)> = answer.overruns.iter().map(|store| (store.address, store.time)).collect();
        assert_eq!(told, [(0x120, 6), (0x118, 5), (0x110, 4)]);
        assert_eq!(answer.before, [Store { pc: 0x18, time: 2, order: 1, address: 0x78, size: 8 }]);
    }
}
