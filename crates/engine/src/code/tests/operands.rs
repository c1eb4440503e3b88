//! Random operands for any instruction of the decoder's tables, and registers that make its memory accesses land in
//! the home's data.

use crate::code::tests::home::{Home, LOW, OPERANDS, OPERANDS_SIZE, THREAD_AREA};
use crate::code::tests::machine::Segment;
use crate::code::tests::state::State;
use crate::context::{RCX, RDX, RSP};
use guest::instruction::register_number;
use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, Instruction, InstructionInfoFactory, Mnemonic, OpCodeOperandKind, OpKind,
    Register, UsedMemory,
};
use sched::Rng;

/// One encoded instruction at its place.
pub struct Encoded {
    pub instruction: Instruction,
    pub bytes: Vec<u8>,
    pub segment: Option<Segment>,
}

/// Encodes `code` with random operands at `ip`; `None` where the operands do not go together.
pub fn encode(code: Code, rng: &mut Rng, home: Home, ip: u64) -> Option<Encoded> {
    let mut instruction = Instruction::default();
    instruction.set_code(code);
    let segment = match rng.below(6) {
        0 => Some(Segment::Fs),
        1 => Some(Segment::Gs),
        _ => None,
    };
    let wants_memory = rng.below(3) != 0;
    let operations = code.op_code();
    for (operand, &kind) in operations.op_kinds().iter().enumerate() {
        Operand { rng, home, segment, wants_memory }.fill(&mut instruction, operand as u32, kind)?;
    }
    prefixes(&mut instruction, rng);
    if let Some(segment) = segment {
        instruction.set_segment_prefix(if segment == Segment::Fs { Register::FS } else { Register::GS });
    }
    let mut encoder = Encoder::new(64);
    encoder.encode(&instruction, ip).ok()?;
    let bytes = encoder.take_buffer();
    let decoded = Decoder::with_ip(64, &bytes, ip, DecoderOptions::NONE).decode();
    let is_same = decoded.code() == code && decoded.len() == bytes.len();
    is_same.then_some(Encoded { instruction: decoded, bytes, segment })
}

fn prefixes(instruction: &mut Instruction, rng: &mut Rng) {
    let operations = instruction.code().op_code();
    if operations.can_use_lock_prefix() && instruction.op0_kind() == OpKind::Memory && rng.below(2) == 0 {
        instruction.set_has_lock_prefix(true);
    }
    if operations.can_use_rep_prefix() && rng.below(2) == 0 {
        instruction.set_has_rep_prefix(true);
    } else if operations.can_use_repne_prefix() && rng.below(2) == 0 {
        instruction.set_has_repne_prefix(true);
    }
    let needs_mask = operations.require_op_mask_register();
    if needs_mask || operations.can_use_op_mask_register() && rng.below(2) == 0 {
        instruction.set_op_mask(numbered(Register::K1, rng.below(7)));
        instruction.set_zeroing_masking(operations.can_use_zeroing_masking() && !needs_mask && rng.below(3) == 0);
    }
    let has_memory = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    instruction.set_is_broadcast(operations.can_broadcast() && has_memory && rng.below(3) == 0);
}

fn numbered(first: Register, number: u64) -> Register {
    Register::values().nth(first as usize + number as usize).expect("registers are numbered in rows")
}

struct Operand<'a> {
    rng: &'a mut Rng,
    home: Home,
    segment: Option<Segment>,
    wants_memory: bool,
}

impl Operand<'_> {
    fn fill(&mut self, instruction: &mut Instruction, operand: u32, kind: OpCodeOperandKind) -> Option<()> {
        use OpCodeOperandKind as K;
        if let Some(register) = self.register_or_memory(kind) {
            match register {
                Some(register) if !self.wants_memory => set_register(instruction, operand, register),
                _ => self.memory(instruction, operand)?,
            }
            return Some(());
        }
        if let Some(register) = self.register(kind) {
            set_register(instruction, operand, register);
            return Some(());
        }
        match kind {
            K::mem_vsib32x | K::mem_vsib64x => self.vector_memory(instruction, operand, Register::XMM0),
            K::mem_vsib32y | K::mem_vsib64y => self.vector_memory(instruction, operand, Register::YMM0),
            K::mem_vsib32z | K::mem_vsib64z => self.vector_memory(instruction, operand, Register::ZMM0),
            K::mem_offs => self.absolute(instruction, operand),
            K::seg_rSI => instruction.set_op_kind(operand, OpKind::MemorySegRSI),
            K::es_rDI => instruction.set_op_kind(operand, OpKind::MemoryESRDI),
            K::seg_rDI => instruction.set_op_kind(operand, OpKind::MemorySegRDI),
            K::seg_rBX_al => {
                instruction.set_op_kind(operand, OpKind::Memory);
                instruction.set_memory_base(Register::RBX);
                instruction.set_memory_index(Register::AL);
            }
            _ => return self.immediate(instruction, operand, kind),
        }
        Some(())
    }

    /// For operands that may be in memory: the register form, or `Some(None)` if there is only memory.
    fn register_or_memory(&mut self, kind: OpCodeOperandKind) -> Option<Option<Register>> {
        use OpCodeOperandKind as K;
        Some(match kind {
            K::mem => None,
            K::r8_or_mem => Some(self.byte_register()),
            K::r16_or_mem => Some(self.any(Register::AX, 16)),
            K::r32_or_mem => Some(self.any(Register::EAX, 16)),
            K::r64_or_mem => Some(self.any(Register::RAX, 16)),
            K::mm_or_mem => Some(self.any(Register::MM0, 8)),
            K::xmm_or_mem => Some(self.any(Register::XMM0, 16)),
            K::ymm_or_mem => Some(self.any(Register::YMM0, 16)),
            K::zmm_or_mem => Some(self.any(Register::ZMM0, 16)),
            K::k_or_mem => Some(self.any(Register::K0, 8)),
            _ => return None,
        })
    }

    fn register(&mut self, kind: OpCodeOperandKind) -> Option<Register> {
        use OpCodeOperandKind as K;
        Some(match kind {
            K::r8_reg | K::r8_opcode => self.byte_register(),
            K::r16_reg | K::r16_reg_mem | K::r16_rm | K::r16_opcode => self.any(Register::AX, 16),
            K::r32_reg | K::r32_reg_mem | K::r32_rm | K::r32_opcode | K::r32_vvvv => self.any(Register::EAX, 16),
            K::r64_reg | K::r64_reg_mem | K::r64_rm | K::r64_opcode | K::r64_vvvv => self.any(Register::RAX, 16),
            K::seg_reg => self.any(Register::ES, 6),
            K::k_reg | K::k_rm | K::k_vvvv => self.any(Register::K0, 8),
            K::mm_reg | K::mm_rm => self.any(Register::MM0, 8),
            K::xmm_reg | K::xmm_rm | K::xmm_vvvv | K::xmm_is4 | K::xmm_is5 => self.any(Register::XMM0, 16),
            K::ymm_reg | K::ymm_rm | K::ymm_vvvv | K::ymm_is4 | K::ymm_is5 => self.any(Register::YMM0, 16),
            K::zmm_reg | K::zmm_rm | K::zmm_vvvv => self.any(Register::ZMM0, 16),
            K::es => Register::ES,
            K::cs => Register::CS,
            K::ss => Register::SS,
            K::ds => Register::DS,
            K::fs => Register::FS,
            K::gs => Register::GS,
            K::al => Register::AL,
            K::cl => Register::CL,
            K::ax => Register::AX,
            K::dx => Register::DX,
            K::eax => Register::EAX,
            K::rax => Register::RAX,
            K::st0 => Register::ST0,
            K::sti_opcode => self.any(Register::ST0, 8),
            _ => return None,
        })
    }

    fn any(&mut self, first: Register, count: u64) -> Register {
        numbered(first, self.rng.below(count))
    }

    /// The high halves, which exclude a REX prefix, more often than by chance.
    fn byte_register(&mut self) -> Register {
        match self.rng.below(4) {
            0 => self.any(Register::AH, 4),
            _ => self.any(Register::AL, 4 + 12),
        }
    }

    fn immediate(&mut self, instruction: &mut Instruction, operand: u32, kind: OpCodeOperandKind) -> Option<()> {
        use OpCodeOperandKind as K;
        let value = self.rng.draw();
        let is_second = (0..operand).any(|before| {
            matches!(instruction.op_kind(before), OpKind::Immediate8 | OpKind::Immediate16 | OpKind::Immediate32)
        });
        let kind = match kind {
            K::imm8 if is_second => OpKind::Immediate8_2nd,
            K::imm8 | K::imm8_const_1 => OpKind::Immediate8,
            K::imm8sex16 => OpKind::Immediate8to16,
            K::imm8sex32 => OpKind::Immediate8to32,
            K::imm8sex64 => OpKind::Immediate8to64,
            K::imm16 => OpKind::Immediate16,
            K::imm32 => OpKind::Immediate32,
            K::imm32sex64 => OpKind::Immediate32to64,
            K::imm64 => OpKind::Immediate64,
            _ => return None,
        };
        instruction.set_op_kind(operand, kind);
        match kind {
            OpKind::Immediate8_2nd => instruction.set_immediate8_2nd(value as u8),
            OpKind::Immediate8 if instruction.code().op_code().op_kind(operand) == K::imm8_const_1 => {
                instruction.set_immediate8(1);
            }
            OpKind::Immediate8 => instruction.set_immediate8(value as u8),
            OpKind::Immediate8to16 => instruction.set_immediate8to16(value as i8 as i16),
            OpKind::Immediate8to32 => instruction.set_immediate8to32(value as i8 as i32),
            OpKind::Immediate8to64 => instruction.set_immediate8to64(value as i8 as i64),
            // A frame of `enter` must stay on the stack.
            OpKind::Immediate16 => instruction.set_immediate16(value as u16 & 0x1ff),
            OpKind::Immediate32 => instruction.set_immediate32(value as u32),
            OpKind::Immediate32to64 => instruction.set_immediate32to64(value as i32 as i64),
            _ => instruction.set_immediate64(value),
        }
        Some(())
    }

    fn memory(&mut self, instruction: &mut Instruction, operand: u32) -> Option<()> {
        let in_low_memory = self.home == LOW || self.segment.is_some();
        match self.rng.below(8) {
            0 | 1 if self.segment.is_none() => self.relative(instruction, operand),
            2 if in_low_memory => self.absolute(instruction, operand),
            3 if in_low_memory => self.based(instruction, operand, Register::EAX, 4),
            _ => self.based(instruction, operand, Register::RAX, 8),
        }
        Some(())
    }

    /// An address among the operands, aligned for all but one in four.
    fn target(&mut self) -> u64 {
        target(self.rng, self.home)
    }

    fn relative(&mut self, instruction: &mut Instruction, operand: u32) {
        let is_short = self.home == LOW && self.rng.below(4) == 0;
        instruction.set_op_kind(operand, OpKind::Memory);
        instruction.set_memory_base(if is_short { Register::EIP } else { Register::RIP });
        instruction.set_memory_displ_size(if is_short { 4 } else { 8 });
        instruction.set_memory_displacement64(self.target());
    }

    fn absolute(&mut self, instruction: &mut Instruction, operand: u32) {
        let base = if self.segment.is_some() { self.home.data + THREAD_AREA } else { 0 };
        instruction.set_op_kind(operand, OpKind::Memory);
        instruction.set_memory_displ_size(8);
        instruction.set_memory_displacement64(self.target() - base);
    }

    fn based(&mut self, instruction: &mut Instruction, operand: u32, first: Register, address_size: u32) {
        let base = self.rng.below(16);
        let index = self.rng.below(16);
        // The stack pointer is no address of the thread area, and its low half is none of the stack's elsewhere.
        let base = if base == RSP as u64 && (self.segment.is_some() || address_size == 4) { 5 } else { base };
        instruction.set_op_kind(operand, OpKind::Memory);
        instruction.set_memory_base(numbered(first, base));
        if index != RSP as u64 && index != base && self.rng.below(2) == 0 {
            instruction.set_memory_index(numbered(first, index));
            instruction.set_memory_index_scale(1 << self.rng.below(4));
        }
        let (size, displacement) = match self.rng.below(3) {
            0 => (0, 0),
            1 => (1, i64::from(self.rng.draw() as i8)),
            _ => (address_size, self.rng.below(0x800) as i64 - 0x400),
        };
        instruction.set_memory_displ_size(size);
        let mask = if address_size == 4 { u64::from(u32::MAX) } else { u64::MAX };
        instruction.set_memory_displacement64(displacement as u64 & mask);
    }

    fn vector_memory(&mut self, instruction: &mut Instruction, operand: u32, first: Register) {
        self.based(instruction, operand, Register::RAX, 8);
        instruction.set_memory_index(self.any(first, 16));
        instruction.set_memory_index_scale(1 << self.rng.below(4));
    }
}

fn set_register(instruction: &mut Instruction, operand: u32, register: Register) {
    instruction.set_op_kind(operand, OpKind::Register);
    instruction.set_op_register(operand, register);
}

fn target(rng: &mut Rng, home: Home) -> u64 {
    let aligned = home.data + OPERANDS + rng.below(OPERANDS_SIZE / 64) * 64;
    if rng.below(4) == 0 { aligned + rng.below(64) } else { aligned }
}

/// Sets the registers that the instruction addresses memory or counts with.
pub fn prepare(state: &mut State, encoded: &Encoded, rng: &mut Rng, home: Home) {
    let instruction = &encoded.instruction;
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    for memory in info.used_memory() {
        address(state, memory, encoded, rng, home);
    }
    match instruction.mnemonic() {
        Mnemonic::Bt | Mnemonic::Btc | Mnemonic::Btr | Mnemonic::Bts => {
            if let Some(register) = register_number(instruction.op1_register()) {
                state.gpr[register as usize] &= 0x3ff;
            }
        }
        Mnemonic::Div | Mnemonic::Idiv if rng.below(4) != 0 => state.gpr[RDX] = 0,
        Mnemonic::Popf | Mnemonic::Popfd | Mnemonic::Popfq => {
            // Never the trap flag.
            let at = (state.gpr[RSP] - home.data) as usize;
            state.memory[at + 1] &= 0x0c;
            state.memory[at + 2] = 0;
        }
        _ => {}
    }
    if instruction.has_rep_prefix() || instruction.has_repne_prefix() {
        state.gpr[RCX] = rng.below(6);
    }
}

fn address(state: &mut State, memory: &UsedMemory, encoded: &Encoded, rng: &mut Rng, home: Home) {
    let Some(base) = register_number(memory.base()) else { return };
    if base == RSP as u8 {
        return;
    }
    let index = register_number(memory.index());
    let mut displacement = memory.displacement();
    if let Some(index) = index.filter(|_| memory.index() != Register::AL) {
        state.gpr[index as usize] = rng.below(32);
        displacement = displacement.wrapping_add(state.gpr[index as usize] * u64::from(memory.scale()));
    } else if memory.index().is_vector_register() {
        let lane = if encoded.instruction.is_vsib64() { 8 } else { 4 };
        state.set_small_index(memory.index().number(), lane, rng);
    }
    if encoded.segment.is_some() && matches!(memory.segment(), Register::FS | Register::GS) {
        displacement = displacement.wrapping_add(home.data + THREAD_AREA);
    }
    let value = target(rng, home).wrapping_sub(displacement);
    state.gpr[base as usize] = if memory.base().is_gpr32() { u64::from(value as u32) } else { value };
}
