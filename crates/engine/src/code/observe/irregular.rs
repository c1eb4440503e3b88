//! Instructions whose accesses no code inside a unit can write down: an observed unit leaves for the engine there, which
//! looks at registers and memory before and after.

use super::{Wanted, access_size};
use guest::instruction::{repeats, x87_pointer_stored};
use iced_x86::{Instruction, Mnemonic, OpKind, UsedMemory};

/// Values up to this size are copied by the unit itself.
pub const LARGEST_VALUE: u32 = 64;

/// Whether the engine has to run an instruction with these accesses by itself to see them.
pub fn needs_engine(instruction: &Instruction, memory: &[UsedMemory], wanted: Wanted) -> bool {
    if !wanted.any_address() || memory.is_empty() {
        return false;
    }
    let has_size = |is_such: fn(u32) -> bool| memory.iter().any(|used| is_such(access_size(instruction, used)));
    let other_address = instruction.is_vsib() || indexes_by_byte_or_bit(instruction) || has_size(|size| size == 0);
    let other_value = repeats(instruction) || is_masked(instruction) || has_size(|size| size > LARGEST_VALUE);
    // What it stores has to be mended.
    let other_result = x87_pointer_stored(instruction).is_some();
    other_address || other_result || wanted.values && other_value
}

/// `xlat` adds a byte register; bit tests with a register reach as far from their operand as the register says.
pub fn indexes_by_byte_or_bit(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Xlatb || tests_distant_bit(instruction)
}

pub fn tests_distant_bit(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc)
        && instruction.op0_kind() == OpKind::Memory
        && instruction.op1_kind() == OpKind::Register
}

/// Whether the instruction need not touch all of its operand, so that the rest may be inaccessible.
fn is_masked(instruction: &Instruction) -> bool {
    instruction.has_op_mask()
        || matches!(
            instruction.mnemonic(),
            Mnemonic::Maskmovq
                | Mnemonic::Maskmovdqu
                | Mnemonic::Vmaskmovdqu
                | Mnemonic::Vmaskmovps
                | Mnemonic::Vmaskmovpd
                | Mnemonic::Vpmaskmovd
                | Mnemonic::Vpmaskmovq
        )
}
