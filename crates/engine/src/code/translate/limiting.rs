//! Instructions of the XSAVE family, kept to the components that the guest was shown.
//!
//! Loaders ask for components by a constant that names more than XCR0 does, and make the area as large as `cpuid` says.
//! The processor would save all that it has, and write beyond such an area.

use super::{AX, Emitter};
use crate::code::cache::Disturbance;
use crate::context::{RDX, RSP, SPILL_SLOTS};
use guest::instruction::{register_named, registers_used};
use iced_x86::{Code, Instruction, Mnemonic, Register};

const DX: u8 = RDX as u8;

/// Whether the instruction saves or restores the components that EDX:EAX names.
pub(super) fn takes_components(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Xsave
            | Mnemonic::Xsave64
            | Mnemonic::Xsavec
            | Mnemonic::Xsavec64
            | Mnemonic::Xsaveopt
            | Mnemonic::Xsaveopt64
            | Mnemonic::Xrstor
            | Mnemonic::Xrstor64
    )
}

impl Emitter<'_> {
    /// Runs the instruction with fewer components in EDX:EAX, which get their values back, also if it faults. The operand
    /// may name them, so its address is computed first.
    pub(super) fn with_components(&mut self, instruction: &Instruction, limit: u32) {
        let used = registers_used(self.cache.factory.info(instruction));
        let address = (0..16)
            .rev()
            .find(|&register| ![AX, DX, RSP as u8].contains(&register) && !used.contains(register))
            .expect("no instruction uses all registers");
        let homes = [(address, SPILL_SLOTS - 1), (AX, 0), (DX, 1)].map(|(it, slot)| (it, self.layout.spill(slot)));
        for (register, home) in homes {
            self.asm.store_slot(home, register);
        }
        self.step(instruction.ip(), Disturbance { spilled: Some(address), components: true, ..Disturbance::default() });
        let mut moved = *instruction;
        self.materialise(&mut moved, address);
        if instruction.segment_prefix() == Register::FS {
            // The guest's FS base is in GS.
            moved.set_segment_prefix(Register::GS);
        }
        self.asm.load_constant(DX, u64::from(limit));
        // These two keep flags: what the mask leaves of EAX, taken together and put back in place.
        for code in [Code::VEX_Pext_r32_r32_rm32, Code::VEX_Pdep_r32_r32_rm32] {
            let operands = [AX, AX, DX].map(|register| register_named(register).full_register32());
            let masked = Instruction::with3(code, operands[0], operands[1], operands[2]).expect("three registers");
            self.encode(&masked);
        }
        self.asm.load_constant(DX, 0);
        self.encode(&moved);
        for (register, home) in homes {
            self.asm.load_slot(register, home);
        }
    }
}
