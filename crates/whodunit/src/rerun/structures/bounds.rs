//! Whether loops know how far they may go, and whether blocks are made as large as somebody thinks that they need to be.

use super::{StructuresOf, changes_stack_pointer};
use iced_x86::{Instruction, Mnemonic, Register};
use program::space::GuestAddress;
use std::collections::BTreeSet;

impl StructuresOf {
    /// Whether the loops of its function that an instruction is in go by what they read alone: they compare with nothing but
    /// constants, and count nothing down. None if it is in no loop.
    pub fn loops_are_unbounded(&self, pc: u64) -> Option<bool> {
        let graph = self.control_flow(&self.function_around(pc)?)?;
        let around = graph.loops_around(GuestAddress(pc));
        let blocks: BTreeSet<usize> =
            around.iter().flat_map(|idx| graph.loops()[*idx].blocks.iter().copied()).collect();
        let blocks = blocks.into_iter().map(|block| &graph.blocks()[block]);
        let mut instructions = blocks.flat_map(|block| self.instructions(block.start.0..block.end.0));
        (!around.is_empty()).then(|| !instructions.any(|instruction| is_bound(&instruction)))
    }

    /// Whether the call that returns to an address gets constants for its first two arguments, or only the first.
    pub fn asks_for_constant(&self, return_address: u64) -> bool {
        let set = |register| self.setting_before_call(return_address, register);
        set(Register::RDI).is_some_and(|size| is_constant(&size))
            && set(Register::RSI).is_none_or(|other| is_constant(&other))
    }
}

fn is_constant(setting: &Instruction) -> bool {
    setting.mnemonic() == Mnemonic::Mov && setting.try_immediate(1).is_ok()
}

/// Whether an instruction compares two numbers that the program has computed, or counts down.
fn is_bound(instruction: &Instruction) -> bool {
    let constant = || instruction.try_immediate(1).ok().map(u64::cast_signed);
    match instruction.mnemonic() {
        Mnemonic::Cmp => constant().is_none(),
        Mnemonic::Dec => true,
        Mnemonic::Sub => !changes_stack_pointer(instruction) && constant().is_some_and(|by| by > 0),
        Mnemonic::Add => !changes_stack_pointer(instruction) && constant().is_some_and(|by| by < 0),
        Mnemonic::Lea => is_one_less(instruction),
        _ => false,
    }
}

/// Whether the sum is that of one register and a negative constant, and no place in a frame.
fn is_one_less(lea: &Instruction) -> bool {
    let is_frame = matches!(lea.memory_base(), Register::RSP | Register::RBP | Register::RIP);
    lea.memory_index() == Register::None && !is_frame && (lea.memory_displacement64() as i64) < 0
}
