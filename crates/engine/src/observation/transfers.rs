//! Calls and returns of units that tell nothing else, worked out once for all their records: programs that call small functions have little but these.

use super::Flat;
use crate::code::observe::{Site, SiteKind, Target, UnitFacts};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// A call that a thread has made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Of the instruction: those that call are numbered as they come.
    pub number: u32,
    pub pc: u64,
    pub target: u64,
    pub return_address: u64,
    /// Where the return address is; zero if that is not known.
    pub stack: u64,
}

/// One of a unit's calls and returns.
#[derive(Clone, Copy)]
struct Transfer {
    /// The index of the instruction in its unit.
    instruction: u16,
    target: Target,
    /// Of a return, nothing.
    call: Option<Calling>,
}

#[derive(Clone, Copy)]
struct Calling {
    number: u32,
    pc: u64,
    return_address: u64,
    /// The word that the address of what is pushed is in, and what is to be added; word zero stands for none.
    stack: (u16, i64),
}

/// The calls and returns of all units that have nothing else to tell.
#[derive(Default)]
pub struct Transfers {
    transfers: Vec<Transfer>,
    /// By the instruction that calls.
    numbers: FxHashMap<u64, u32>,
}

impl Transfers {
    /// Those of a unit, if it tells of these alone.
    pub fn learn(&mut self, unit: &UnitFacts) -> Option<Range<u32>> {
        let tells_more = |site: &Site| site.mark.is_some() || site.fs_base.is_some();
        let accesses = unit.accesses.iter().any(|access| !access.is_push_or_pop);
        if unit.repeats || accesses || unit.sites.iter().any(tells_more) {
            return None;
        }
        let first = self.transfers.len() as u32;
        for (instruction, site) in (0..).zip(&unit.sites) {
            let transfer = self.transfer(unit, instruction, site);
            self.transfers.extend(transfer);
        }
        Some(first..self.transfers.len() as u32)
    }

    /// Tells what the first `executed` instructions of a unit did.
    #[inline]
    pub fn tell(&self, of_unit: Range<u32>, executed: u16, words: &[u64], to: &mut impl Flat) {
        for transfer in &self.transfers[of_unit.start as usize..of_unit.end as usize] {
            if transfer.instruction >= executed {
                break;
            }
            let target = match transfer.target {
                Target::Word(word) => words[usize::from(word)],
                Target::Constant(target) => target,
                Target::Unknown => continue,
            };
            match transfer.call {
                None => to.returned(target),
                Some(Calling { number, pc, return_address, stack: (word, offset) }) => {
                    let stack = if word == 0 { 0 } else { words[usize::from(word)].wrapping_add_signed(offset) };
                    to.called(Call { number, pc, target, return_address, stack });
                }
            }
        }
    }

    fn transfer(&mut self, unit: &UnitFacts, instruction: u16, site: &Site) -> Option<Transfer> {
        let Site { pc, next: return_address, target, kind, .. } = *site;
        let call = match kind {
            SiteKind::Call => {
                let fresh = self.numbers.len() as u32;
                let number = *self.numbers.entry(pc).or_insert(fresh);
                let pushed = unit.accesses.iter().rfind(|access| access.instruction == instruction);
                let stack = pushed.map_or((0, 0), |push| (push.word, push.offset));
                Some(Calling { number, pc, return_address, stack })
            }
            SiteKind::Return => None,
            SiteKind::Plain | SiteKind::Jump => return None,
        };
        (target != Target::Unknown).then_some(Transfer { instruction, target, call })
    }
}
