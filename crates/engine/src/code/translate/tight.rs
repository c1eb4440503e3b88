//! Loops of a single straight run: the budget stays in a register while they turn.
//!
//! Counting in memory costs a store and a load that wait for each other, which a short loop has no work to hide. A register that the loop does not use is free to hold the budget instead.

use super::{CX, Emitter};
use crate::code::assembler::Condition;
use crate::code::cache::{Disturbance, Exit};
use crate::code::events::{Form, Placement};
use crate::code::path::{End, GuestCode, Path};
use crate::context::RSP;
use guest::instruction::{RegisterSet, branches_on_count, registers_used};
use iced_x86::{FlowControl, InstructionInfoFactory};

/// Longer loops hide the cost of counting in memory.
const LONGEST: usize = 40;
/// The spill slot of the guest's value of the register.
const HOME: usize = 1;

/// A loop that can be run this way.
pub(super) struct TightLoop {
    /// The instructions of the loop, its branch last.
    pub(super) length: usize,
    /// What holds the budget.
    register: u8,
    placement: Placement,
}

/// Recognises a path that begins with a loop back to its head.
pub(super) fn recognise(
    factory: &mut InstructionInfoFactory,
    path: &Path,
    head: u64,
    placements: &[Placement],
) -> Option<TightLoop> {
    let branch = path.instructions.iter().position(|instruction| instruction.flow_control() != FlowControl::Next)?;
    let last = &path.instructions[branch];
    let closes = last.flow_control() == FlowControl::ConditionalBranch
        && last.near_branch_target() == head
        && !branches_on_count(last);
    let placement = *placements.first()?;
    if !closes || branch >= LONGEST || placement.branch != branch || placement.form == Form::KeepFlags {
        return None;
    }
    let mut used = RegisterSet::default();
    used.insert(RSP as u8);
    used.insert(CX);
    for instruction in &path.instructions[..=branch] {
        used = used.union(registers_used(factory, instruction));
    }
    let register = (0..16).rev().find(|&register| !used.contains(register))?;
    Some(TightLoop { length: branch + 1, register, placement })
}

impl Emitter<'_> {
    /// Emits the loop and the way on behind it.
    pub(super) fn tight_loop(&mut self, code: &dyn GuestCode, path: &Path, tight: &TightLoop) {
        let TightLoop { length, register, placement } = *tight;
        let head = path.instructions[0].ip();
        let branch = &path.instructions[length - 1];
        self.step(head, Disturbance::default());
        self.asm.store_slot(self.layout.spill(HOME), register);
        self.asm.load_slot(register, self.layout.budget());
        self.held = Some(register);
        let body = self.asm.here();
        let mut out_of_budget = None;
        for (index, instruction) in path.instructions[..length].iter().enumerate() {
            if placement.before == index {
                self.step(instruction.ip(), Disturbance::default());
                match placement.form {
                    Form::Subtract => self.asm.subtract_one(register),
                    _ => self.asm.decrement(register),
                }
                let patch = self.asm.jump_if(Condition::NOT_ZERO.inverted(), 0);
                out_of_budget = Some((patch, instruction.ip()));
                self.counted = true;
            }
            self.step(instruction.ip(), Disturbance::default());
            if index + 1 < length {
                self.plain(code, instruction);
            }
        }
        self.asm.jump_if(super::branches::condition_of(branch), body);
        self.counted = false;
        self.release_budget(branch.next_ip());
        self.finish(End::Continues(branch.next_ip()));
        if let Some((patch, pc)) = out_of_budget {
            self.held = Some(register);
            let here = self.asm.here();
            self.asm.aim(patch, here);
            self.release_budget(pc);
            let stub = self.cache.emit_exit(Exit::Budget { pc, branch: branch.ip(), record: None }, |_| {});
            self.asm.jump(stub);
        }
    }

    /// Puts the budget back into memory and the guest's register back into place.
    pub(super) fn release_budget(&mut self, pc: u64) {
        let Some(register) = self.held else { return };
        self.step(pc, Disturbance::default());
        self.asm.store_slot(self.layout.budget(), register);
        self.held = None;
        self.step(pc, Disturbance::default());
        self.asm.load_slot(register, self.layout.spill(HOME));
    }
}
