//! What is wanted of which instructions.

use super::notes::Notes;
use super::quiet::QuietFunctions;
use super::{Chosen, MarkTable, SiteKind, Wanted, site_kind};
use crate::code::path::GuestCode;
use iced_x86::{Instruction, Mnemonic};
use std::collections::BTreeSet;
use std::ops::Range;

/// What is to be written down of which instructions.
#[derive(Clone, Copy)]
pub struct Wishes<'a> {
    pub wanted: Wanted,
    pub marks: &'a MarkTable,
    pub chosen: Option<&'a Chosen>,
    pub quiet: &'a QuietFunctions,
    /// Where accesses go is wanted of all instructions.
    pub tells_all: bool,
    /// Chosen instructions that are not told just now.
    pub hushed: Option<&'a BTreeSet<u64>>,
}

impl Chosen {
    fn code_around(&self, pc: u64) -> Option<&Range<u64>> {
        self.inner.iter().find(|code| code.contains(&pc))
    }

    /// Whether an instruction calls what is in the same code.
    fn keeps_inside(&self, instruction: &Instruction) -> bool {
        instruction.is_call_near()
            && self.code_around(instruction.ip()).is_some_and(|code| code.contains(&instruction.near_branch_target()))
    }
}

impl<'a> Wishes<'a> {
    pub fn new(
        wanted: Wanted,
        marks: &'a MarkTable,
        chosen: Option<&'a Chosen>,
        quiet: &'a QuietFunctions,
    ) -> Wishes<'a> {
        Wishes { wanted, marks, chosen, quiet, tells_all: false, hushed: None }
    }

    pub fn of(&self, instruction: &Instruction) -> Wanted {
        if self.leave_out(instruction.ip()) {
            return Wanted::COUNTS;
        }
        match self.chosen {
            Some(chosen) if !self.are_of(chosen, instruction) => {
                let is_call = matches!(site_kind(instruction), SiteKind::Call | SiteKind::Return);
                let targets = chosen.others.targets
                    && is_call
                    && !self.quiet.concern(instruction)
                    && !chosen.keeps_inside(instruction);
                let addresses = chosen.others.addresses || self.tells_all && !self.hushes(instruction.ip());
                Wanted { targets, addresses, ..chosen.others }
            }
            _ => self.wanted,
        }
    }

    /// Whether nothing is wanted of an instruction but its mark.
    pub fn leave_out(&self, pc: u64) -> bool {
        self.chosen.is_some_and(|chosen| chosen.unheard.iter().any(|code| code.contains(&pc)))
    }

    /// Whether it is wanted to know that instructions ran.
    pub fn count(&self) -> bool {
        self.chosen.is_none()
    }

    /// The code of which it matters only whether an instruction leaves it.
    pub fn code_around(&self, pc: u64) -> Option<&'a Range<u64>> {
        self.chosen?.code_around(pc)
    }

    /// Whether a chosen instruction is not told just now.
    pub fn hushes(&self, pc: u64) -> bool {
        self.hushed.is_some_and(|hushed| hushed.contains(&pc))
    }

    /// Whether an instruction is chosen, and told just now.
    fn are_of(&self, chosen: &Chosen, instruction: &Instruction) -> bool {
        chosen.instructions.contains(&instruction.ip()) && !self.hushes(instruction.ip())
    }

    /// An instruction is about to be translated: whether the function that it calls is quiet is found out first.
    pub fn meet(&self, code: &dyn GuestCode, instruction: &Instruction) {
        if self.chosen.is_some_and(|chosen| chosen.spares_calls) {
            // What is told right behind some instructions alone makes no function worth hearing of.
            self.quiet.meet(code, Wishes { tells_all: false, ..*self }, instruction);
        }
    }

    /// Whether there is anything to write down of a path. Where all instructions are wanted, that they ran counts too.
    pub fn concern(&self, path: &[Instruction]) -> bool {
        let mut notes = Notes::default();
        path.iter().any(|instruction| notes.add(self, instruction).is_told)
    }

    /// Whether later addresses depend on the new FS base.
    pub fn moves_fs_base(&self, instruction: &Instruction) -> bool {
        instruction.mnemonic() == Mnemonic::Wrfsbase && self.wanted.any_address()
    }
}
