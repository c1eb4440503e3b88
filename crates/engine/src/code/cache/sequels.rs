//! Sequels: what a thread does right behind some instructions is told, however little else is.
//!
//! Translated code leaves before such an instruction, and the thread runs it, and what follows, from units that tell where all of their accesses go. They come
//! back wherever they go, so the thread is led back to the other units after some of them. That is done the first times that the instruction comes, and a few times more
//! each time that the run has become four times as long; in between, it is like any other.

use super::CodeCache;
use super::gates::FIRST;
use crate::code::path::GuestCode;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// So many times the sequel of an instruction is told at first, and each time later.
const FIRST_TIMES: u32 = 64;
const LATER_TIMES: u32 = 16;

#[derive(Default)]
pub struct Sequels {
    /// How many more times the sequel of an instruction is told.
    left: BTreeMap<u64, u32>,
    /// Instructions whose sequel has been told often enough since translations were last put together again.
    told: BTreeSet<u64>,
    /// Units of sequels, by where they begin.
    hosts: FxHashMap<u64, u64>,
    /// The unit under translation is one of these.
    is_telling: bool,
}

impl Sequels {
    pub fn of(instructions: &BTreeSet<u64>) -> Sequels {
        Sequels { left: instructions.iter().map(|pc| (*pc, FIRST_TIMES)).collect(), ..Sequels::default() }
    }

    pub fn are_none(&self) -> bool {
        self.left.is_empty()
    }

    /// Every translation has been forgotten.
    pub fn clear(&mut self) {
        self.hosts.clear();
    }

    /// Forgets the units that are no longer there.
    pub fn retain(&mut self, is_there: impl Fn(u64) -> bool) {
        self.hosts.retain(|_, host| is_there(*host));
    }

    pub fn are_told_now(&self) -> bool {
        self.is_telling
    }

    /// Whether the next time that an instruction comes, its sequel is told.
    fn are_wanted_of(&self, pc: u64) -> bool {
        self.left.get(&pc).is_some_and(|left| *left > 0)
    }

    /// One more time. Whether that was the last for now.
    fn count(&mut self, pc: u64) -> bool {
        let Some(left) = self.left.get_mut(&pc) else { return false };
        *left = left.saturating_sub(1);
        *left == 0 && self.told.insert(pc)
    }

    /// Those that have been told often enough since this was last asked.
    fn take_told(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.told)
    }

    /// All are told a few times more. Gives the instructions of which that is new.
    fn renew(&mut self) -> BTreeSet<u64> {
        let over = self.left.iter_mut().filter(|(_, left)| **left == 0);
        over.map(|(pc, left)| {
            *left = LATER_TIMES;
            *pc
        })
        .collect()
    }
}

impl CodeCache {
    /// Whether translated code leaves before an instruction, so that its sequel can be told.
    pub fn has_sequel(&self, pc: u64) -> bool {
        !self.anonymous && self.sequels.are_wanted_of(pc) && !self.tellings.is_hushed(pc)
    }

    /// The sequel of an instruction is going to be told.
    pub fn begin_sequel(&mut self, pc: u64) {
        if self.sequels.count(pc) {
            self.drop_unit_at(pc);
        }
    }

    /// A translation of the code at `pc` that tells where all of its accesses go, and comes back wherever it goes.
    pub fn host_for_sequel(&mut self, code: &dyn GuestCode, pc: u64) -> u64 {
        if self.is_place(pc) {
            return self.host_for(code, pc);
        }
        if let Some(&host) = self.sequels.hosts.get(&pc) {
            return host;
        }
        self.make_room();
        (self.anonymous, self.detached, self.keeps_step, self.sequels.is_telling) = (true, true, true, true);
        let host = self.translate(code, pc);
        (self.anonymous, self.detached, self.keeps_step, self.sequels.is_telling) = (false, false, false, false);
        self.sequels.hosts.insert(pc, host);
        host
    }

    /// A slice of the clock begins, in which gates may have been opened or closed. Every other time that they are opened, sequels are told once more: what becomes of what
    /// is read changes less than who reads it. Units that ended before instructions whose
    /// sequel is told no longer are made anew in one piece when gates are closed, and before gates are ever opened, each time that the run has become twice as long: more often, that would
    /// cost more than it saves.
    pub fn review_sequels(&mut self, code: &dyn GuestCode, slice: u64, gates: Option<bool>) {
        let changed = match gates {
            Some(true) if slice.ilog2().is_multiple_of(2) => self.sequels.renew(),
            Some(true) => return,
            Some(false) => self.sequels.take_told(),
            None if slice < FIRST && slice.is_power_of_two() => self.sequels.take_told(),
            None => return,
        };
        self.drop_units_with(code, &changed);
    }
}
