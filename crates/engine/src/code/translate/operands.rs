//! Instructions that only compute: copied as they are, but for operands that mean something else at another address.

use super::limiting::takes_components;
use super::observed::Observer;
use super::{AX, CX, Emitter};
use crate::code::cache::{Disturbance, Exit, Trap};
use crate::code::path::GuestCode;
use crate::context::{RSP, SPILL_SLOTS};
use crate::instructions;
use guest::instruction::{
    loads_segment_register, memory_used, register_named, register_number, registers_used, saved_form,
    x87_pointer_stored,
};
use iced_x86::{Code, Decoder, Instruction, MemoryOperand, Mnemonic, OpKind, Register};
use trace::event::InstructionKind;

/// Displacements are kept a little below two gigabytes, so that the final address need not be known exactly.
const REACH: i64 = 0x7fff_0000;

impl Emitter<'_> {
    pub(super) fn reaches(&self, target: u64) -> bool {
        (target.wrapping_sub(self.asm.here()) as i64).abs() < REACH
    }

    /// An instruction that goes on to the next one.
    pub(super) fn plain(&mut self, code: &dyn GuestCode, instruction: &Instruction) {
        if names_fs_or_gs(instruction) {
            return self.special(instruction);
        }
        if self.is_intercepted(instruction) {
            return self.leave_by(Exit::Instruction { pc: instruction.ip() });
        }
        let is_mended =
            x87_pointer_stored(instruction).is_some() || self.cache.intercepts && saved_form(instruction).is_some();
        if is_mended && self.observer.is_none() && !self.cache.single_steps {
            return self.leave_by(Exit::Step { pc: instruction.ip() });
        }
        if let Some(limit) = self.cache.state_limit.filter(|_| takes_components(instruction)) {
            return self.with_components(instruction, limit);
        }
        if self.is_moved(instruction) {
            return self.at_moved(instruction);
        }
        let bytes = &code.fetch(instruction.ip())[..instruction.len()];
        match instruction.mnemonic() {
            Mnemonic::Rdfsbase | Mnemonic::Wrfsbase => {
                // The guest's FS base lives in GS: the neighbouring opcode extension.
                let (modrm, head) = bytes.split_last().expect("an instruction has bytes");
                self.asm.raw(head);
                return self.asm.raw(&[modrm + 8]);
            }
            Mnemonic::Rdgsbase | Mnemonic::Wrgsbase => return self.gs_base(instruction),
            _ => {}
        }
        let far_rip = instruction.is_ip_rel_memory_operand()
            && (instruction.memory_base() == Register::EIP || !self.reaches(instruction.ip_rel_memory_address()));
        // `lea` computes an address without its segment.
        let through_gs = instruction.segment_prefix() == Register::GS
            && instruction.mnemonic() != Mnemonic::Lea
            && (instruction.mnemonic() == Mnemonic::Clzero // whose operand the decoder does not tell
                || memory_used(self.cache.factory.info(instruction), instruction).any(|used| used.segment() == Register::GS));
        if through_gs && !has_ordinary_operand(instruction) {
            return self.with_own_gs(instruction, bytes);
        }
        if far_rip || through_gs {
            return self.at_materialised_address(instruction);
        }
        self.copy(instruction, bytes);
    }

    /// Whether the engine answers the instruction.
    fn is_intercepted(&self, instruction: &Instruction) -> bool {
        match instructions::kind(instruction) {
            Some(InstructionKind::Xgetbv) => self.cache.intercepts_state,
            kind => self.cache.intercepts && kind.is_some(),
        }
    }

    /// Copies the instruction's bytes, adjusting a RIP-relative displacement and an FS prefix.
    pub(super) fn copy(&mut self, instruction: &Instruction, bytes: &[u8]) {
        let mut copy = [0u8; 16];
        let copy = &mut copy[..bytes.len()];
        copy.copy_from_slice(bytes);
        if instruction.segment_prefix() == Register::FS {
            for byte in copy.iter_mut().take_while(|byte| is_legacy_prefix(**byte)) {
                if *byte == 0x64 {
                    *byte = 0x65;
                }
            }
        }
        if instruction.is_ip_rel_memory_operand() {
            let at = displacement_offset(instruction, bytes);
            let next = self.asm.here() + bytes.len() as u64;
            let displacement = instruction.ip_rel_memory_address().wrapping_sub(next) as i32;
            copy[at..at + 4].copy_from_slice(&displacement.to_le_bytes());
        }
        self.asm.raw(copy);
    }

    pub(super) fn gs_base(&mut self, instruction: &Instruction) {
        let register = register_number(instruction.op0_register()).expect("rdgsbase names a general register");
        let slot = self.layout.guest_gs();
        if instruction.mnemonic() == Mnemonic::Rdgsbase {
            self.asm.load_slot(register, slot);
            if instruction.op0_register().is_gpr32() {
                self.narrow(instruction);
            }
        } else if instruction.op0_register().is_gpr32() {
            // Only the lower half counts: zero the slot, then store that.
            let home = self.layout.branch_target();
            self.asm.store_slot(home, register);
            self.narrow(instruction);
            self.asm.store_slot(slot, register);
            self.asm.load_slot(register, home);
        } else {
            self.asm.store_slot(slot, register);
        }
    }

    /// `mov r32, r32` on the instruction's operand: clears the upper half.
    pub(super) fn narrow(&mut self, instruction: &Instruction) {
        let register = instruction.op0_register();
        let mut narrow = Instruction::with2(Code::Mov_r32_rm32, register, register).expect("a plain register move");
        narrow.set_ip(instruction.ip());
        self.encode(&narrow);
    }

    /// Runs the instruction with its address in a spilled register.
    pub(super) fn at_materialised_address(&mut self, instruction: &Instruction) {
        let mut used = registers_used(self.cache.factory.info(instruction));
        if let Some((pointer, value)) = self.observer.as_ref().and_then(Observer::scratch) {
            used.insert(pointer);
            used.insert(value);
        }
        // AH and its kin cannot be encoded beside a register that needs a REX prefix.
        let highest = if names_high_byte(instruction) { 8 } else { 16 };
        let register = (0..highest)
            .rev()
            .find(|&register| register != RSP as u8 && !used.contains(register))
            .expect("no instruction uses all registers");
        let home = self.layout.spill(SPILL_SLOTS - 1);
        self.asm.store_slot(home, register);
        let spilled = Disturbance { spilled: Some(register), ..Disturbance::default() };
        self.step(instruction.ip(), spilled);
        let mut moved = *instruction;
        self.materialise(&mut moved, register);
        self.encode(&moved);
        self.asm.load_slot(register, home);
    }

    /// Computes the memory operand's address into `register` and makes it the operand's base.
    pub(super) fn materialise(&mut self, instruction: &mut Instruction, register: u8) {
        let named = register_named(register);
        let displacement = instruction.memory_displacement64();
        if instruction.is_ip_rel_memory_operand() {
            let mut address = instruction.ip_rel_memory_address();
            if instruction.memory_base() == Register::EIP {
                address = u64::from(address as u32);
            }
            self.asm.load_constant(register, address);
            if instruction.segment_prefix() == Register::GS {
                self.add_guest_gs(register);
            }
        } else {
            let mut lea = Instruction::with2(
                Code::Lea_r64_m,
                named,
                MemoryOperand::new(
                    instruction.memory_base(),
                    instruction.memory_index(),
                    instruction.memory_index_scale(),
                    displacement as i64,
                    instruction.memory_displ_size().max(u32::from(displacement != 0)),
                    false,
                    Register::None,
                ),
            )
            .expect("every memory operand can be computed");
            lea.set_ip(instruction.ip());
            self.encode(&lea);
            if instruction.segment_prefix() == Register::GS {
                self.add_guest_gs(register);
            }
        }
        instruction.set_segment_prefix(Register::None);
        instruction.set_memory_base(named);
        instruction.set_memory_index(Register::None);
        instruction.set_memory_index_scale(1);
        instruction.set_memory_displacement64(0);
        instruction.set_memory_displ_size(0);
    }

    /// Adds the guest's GS base without touching flags or another register.
    pub(super) fn add_guest_gs(&mut self, register: u8) {
        // xchg keeps flags: park the sum's one half in the branch slot, which is free between branches.
        let other = if register == AX { CX } else { AX };
        let home = self.layout.branch_target();
        self.asm.store_slot(home, other);
        self.asm.load_slot(other, self.layout.guest_gs());
        let sum = Instruction::with2(
            Code::Lea_r64_m,
            register_named(register),
            MemoryOperand::with_base_index(register_named(register), register_named(other)),
        )
        .expect("a sum of two registers");
        self.encode(&sum);
        self.asm.load_slot(other, home);
    }

    /// Runs the instruction with the guest's GS base where the processor looks for it, and its FS base put by: for
    /// addresses that no instruction of ours can compute.
    fn with_own_gs(&mut self, instruction: &Instruction, bytes: &[u8]) {
        let (home, fs_base) = (self.layout.spill(SPILL_SLOTS - 1), self.layout.branch_target());
        self.asm.store_slot(home, AX);
        self.gs_register(Code::Rdgsbase_r64);
        self.asm.store_slot(fs_base, AX);
        self.asm.load_slot(AX, self.layout.guest_gs());
        self.gs_register(Code::Wrgsbase_r64);
        self.asm.load_slot(AX, home);
        self.step(instruction.ip(), Disturbance { own_gs: true, ..Disturbance::default() });
        self.asm.raw(bytes);
        self.asm.store_slot(home, AX);
        self.asm.load_slot(AX, fs_base);
        self.gs_register(Code::Wrgsbase_r64);
        self.asm.load_slot(AX, home);
    }

    /// Moves between RAX and the base of the GS register.
    fn gs_register(&mut self, code: Code) {
        let operation = Instruction::with1(code, Register::RAX).expect("a general register");
        self.encode(&operation);
    }

    pub(super) fn encode(&mut self, instruction: &Instruction) {
        let here = self.asm.here();
        match self.cache.encoder.encode(instruction, here) {
            Ok(_) => {
                let mut buffer = self.cache.encoder.take_buffer();
                self.asm.raw(&buffer);
                buffer.clear();
                self.cache.encoder.set_buffer(buffer);
            }
            Err(_) => {
                let _ = self.cache.encoder.take_buffer();
                self.leave_by(Exit::Trap { pc: instruction.ip(), kind: Trap::Unsupported });
            }
        }
    }
}

fn names_high_byte(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|operand| {
        instruction.op_kind(operand) == OpKind::Register
            && matches!(instruction.op_register(operand), Register::AH | Register::CH | Register::DH | Register::BH)
    })
}

/// Whether the address is a sum that an instruction of its own can compute.
fn has_ordinary_operand(instruction: &Instruction) -> bool {
    let ordinary = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    let constant = matches!(
        instruction.code(),
        Code::Mov_AL_moffs8
            | Code::Mov_AX_moffs16
            | Code::Mov_EAX_moffs32
            | Code::Mov_RAX_moffs64
            | Code::Mov_moffs8_AL
            | Code::Mov_moffs16_AX
            | Code::Mov_moffs32_EAX
            | Code::Mov_moffs64_RAX
    );
    ordinary && !constant && !instruction.is_vsib() && instruction.mnemonic() != Mnemonic::Xlatb
}

/// Loads of FS or GS would take them from the engine.
fn names_fs_or_gs(instruction: &Instruction) -> bool {
    loads_segment_register(instruction) && matches!(instruction.op0_register(), Register::FS | Register::GS)
}

fn is_legacy_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3)
}

fn displacement_offset(instruction: &Instruction, bytes: &[u8]) -> usize {
    // The decoder tells offsets only of what it has just decoded.
    let mut decoder = Decoder::with_ip(64, bytes, instruction.ip(), 0);
    let _ = decoder.decode();
    decoder.get_constant_offsets(instruction).displacement_offset()
}
