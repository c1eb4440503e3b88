//! What single instructions do with values, the stack pointer and the flow of control, as far as it need not be looked
//! up in memory.

use crate::context;
use guest::instruction::register_number;
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

const RSP: u8 = context::RSP as u8;

/// Transfers that the engine runs and whose target is in a register or in memory.
pub fn has_hidden_target(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Jmp_rm64 | Code::Call_rm64 | Code::Retnq | Code::Retnq_imm16)
}

/// The general register that an operand names in full or from its lowest bit on.
fn low_register(instruction: &Instruction, operand: u32) -> Option<u8> {
    if instruction.op_kind(operand) != OpKind::Register {
        return None;
    }
    match instruction.op_register(operand) {
        Register::AH | Register::BH | Register::CH | Register::DH => None,
        register if register.is_gpr() => register_number(register),
        _ => None,
    }
}

/// The register whose lowest bytes are what the instruction loaded.
pub fn loaded_into(instruction: &Instruction) -> Option<u8> {
    match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd => low_register(instruction, 0),
        Mnemonic::Pop => low_register(instruction, 0).filter(|_| instruction.op0_register() != Register::RSP),
        _ => None,
    }
}

/// How the value that an instruction stores is known.
pub enum Stored {
    Constant(u64),
    Register(u8),
    Computed,
}

pub fn stored(instruction: &Instruction) -> Stored {
    let operand = match instruction.mnemonic() {
        Mnemonic::Call => return Stored::Constant(instruction.next_ip()),
        Mnemonic::Push => 0,
        Mnemonic::Mov => 1,
        _ => return Stored::Computed,
    };
    match (instruction.op_kind(operand), low_register(instruction, operand)) {
        (OpKind::Register, Some(register)) if register != RSP || operand == 1 => Stored::Register(register),
        (OpKind::Register | OpKind::Memory, _) => Stored::Computed,
        _ => Stored::Constant(instruction.immediate(operand)),
    }
}

/// The register that the instruction moves by a constant, and by how much, if it changes no other that may be a base.
pub fn constant_move(instruction: &Instruction) -> Option<(Register, i64)> {
    let own =
        (instruction.op0_kind() == OpKind::Register).then(|| instruction.op0_register()).filter(|it| it.is_gpr64());
    let immediate = |sign: i64| {
        let is_constant = !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory);
        own.filter(|_| is_constant).map(|register| (register, (instruction.immediate(1) as i64).wrapping_mul(sign)))
    };
    let stack = || (Register::RSP, i64::from(instruction.stack_pointer_increment()));
    match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Pushfq | Mnemonic::Popfq | Mnemonic::Call | Mnemonic::Ret => Some(stack()),
        Mnemonic::Pop if instruction.op0_register() != Register::RSP => Some(stack()),
        Mnemonic::Add => immediate(1),
        Mnemonic::Sub => immediate(-1),
        Mnemonic::Inc => own.map(|register| (register, 1)),
        Mnemonic::Dec => own.map(|register| (register, -1)),
        Mnemonic::Lea => own
            .filter(|register| instruction.memory_base() == *register && instruction.memory_index() == Register::None)
            .map(|register| (register, instruction.memory_displacement64() as i64)),
        _ => None,
    }
}
