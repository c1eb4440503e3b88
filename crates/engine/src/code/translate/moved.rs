//! Operands that name a variable which a plan has put elsewhere.

use super::Emitter;
use iced_x86::{Code, Instruction, MemoryOperand, Mnemonic, OpKind, Register};

impl Emitter<'_> {
    pub(super) fn is_moved(&self, instruction: &Instruction) -> bool {
        self.cache.distance_at(instruction.ip()).is_some()
    }

    /// The instruction as it is to be run, if it names a variable that lies elsewhere.
    pub(super) fn moved(&self, instruction: &Instruction) -> Option<Instruction> {
        Some(moved_by(instruction, self.cache.distance_at(instruction.ip())?))
    }

    /// An instruction whose operand has been moved: its bytes are no longer the guest's.
    pub(super) fn at_moved(&mut self, instruction: &Instruction) {
        if instruction.is_ip_rel_memory_operand() && !self.reaches(instruction.ip_rel_memory_address()) {
            return self.at_materialised_address(instruction);
        }
        self.encode(instruction);
    }
}

/// A copy of a pointer to the stack becomes a sum.
fn moved_by(instruction: &Instruction, distance: i64) -> Instruction {
    let is_copy = instruction.mnemonic() == Mnemonic::Mov && instruction.op1_kind() == OpKind::Register;
    let is_copy = is_copy && instruction.op0_kind() == OpKind::Register;
    if is_copy {
        let operand = MemoryOperand::with_base_displ(instruction.op1_register(), distance);
        let sum = Instruction::with2(Code::Lea_r64_m, instruction.op0_register(), operand);
        let mut sum = sum.unwrap_or(*instruction);
        sum.set_len(instruction.len());
        sum.set_ip(instruction.ip());
        return sum;
    }
    let mut moved = *instruction;
    moved.set_memory_displacement64(instruction.memory_displacement64().wrapping_add_signed(distance));
    if moved.memory_base() != Register::RIP {
        moved.set_memory_displ_size(8);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn moved(bytes: &[u8], distance: i64) -> String {
        let instruction = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
        moved_by(&instruction, distance).to_string()
    }

    #[test]
    fn operands_mean_another_place() {
        assert_eq!(moved(&[0x48, 0x8d, 0x05, 0x10, 0, 0, 0], 0x100), "lea rax,[1117h]");
        assert_eq!(moved(&[0x88, 0x44, 0x0d, 0xf0], -0x1000), "mov [rbp+rcx-1010h],al");
        assert_eq!(moved(&[0x48, 0x89, 0xe7], -0x1000), "lea rdi,[rsp-1000h]");
    }
}
