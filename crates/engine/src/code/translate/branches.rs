//! Control transfers: jumps inside the cache, and the lookup of targets that only running the program tells.

use super::{AX, CX, Emitter, SCRATCH};
use crate::code::assembler::{Assembler, Condition};
use crate::code::cache::Disturbance;
use crate::code::memory::BranchTable;
use crate::code::path::GuestCode;
use crate::context::{Layout, R11, RCX, RSP};
use guest::instruction::{branches_on_count, register_number};
use iced_x86::{Code, ConditionCode, FlowControl, Instruction, Mnemonic, OpKind, Register};

impl Emitter<'_> {
    /// A branch that the path follows to `successor`; the other way leaves.
    pub(super) fn conditional(&mut self, instruction: &Instruction, successor: Option<u64>) {
        self.pass_event(instruction);
        let target = instruction.near_branch_target();
        let taken = successor == Some(target) && target != instruction.next_ip();
        let other = if taken { instruction.next_ip() } else { target };
        if !branches_on_count(instruction) {
            let condition = condition_of(instruction);
            return self.side_exit(Some(if taken { condition.inverted() } else { condition }), other);
        }
        if matches!(
            instruction.code(),
            Code::Loop_rel8_64_ECX | Code::Loope_rel8_64_ECX | Code::Loopne_rel8_64_ECX | Code::Jecxz_rel8_64
        ) {
            self.asm.raw(&[0x67]);
        }
        let opcode = match instruction.mnemonic() {
            Mnemonic::Loopne => 0xe0,
            Mnemonic::Loope => 0xe1,
            Mnemonic::Loop => 0xe2,
            _ => 0xe3,
        };
        if taken {
            self.asm.raw(&[opcode, 5]);
        } else {
            // Over the short jump into the long one.
            self.asm.raw(&[opcode, 2, 0xeb, 5]);
        }
        self.side_exit(None, other);
    }

    pub(super) fn push_return_address(&mut self, address: u64) {
        if let Ok(small) = i32::try_from(address) {
            self.asm.raw(&[0x68]);
            self.asm.raw(&small.to_le_bytes());
            return;
        }
        let constant = self.cache.emit_constant(address);
        self.asm.raw(&[0xff, 0x35]); // push [rip + …]
        self.asm.relative(constant);
    }

    pub(super) fn spill_for_branch(&mut self, pc: u64) {
        self.asm.store_slot(self.layout.gpr(RCX), CX);
        self.asm.store_slot(self.layout.gpr(R11), SCRATCH);
        self.step(pc, Disturbance { branching: true, ..Disturbance::default() });
    }

    /// Looks the address in RCX up and goes there.
    pub(super) fn jump_through_table(&mut self) {
        if self.cache.is_detached() {
            self.asm.jump(self.cache.stubs.indirect_miss);
            return;
        }
        self.asm.raw(&[0xc4, 0x63, 0x7b, 0xf0, 0xd9, BranchTable::SHIFT as u8]); // rorx r11d, ecx, SHIFT
        self.asm.raw(&[0x45, 0x0f, 0xb7, 0xdb]); // movzx r11d, r11w
        self.asm.raw(&[0x42, 0xff, 0x24, 0xdd]); // jmp [table + r11*8]
        self.asm.raw(&self.cache.table.displacement().to_le_bytes());
    }

    pub(super) fn return_to_caller(&mut self, instruction: &Instruction, successor: Option<u64>) {
        if !matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16) {
            return self.special(instruction);
        }
        self.spill_for_branch(instruction.ip());
        self.asm.raw(&[0x59]); // pop rcx
        if instruction.code() == Code::Retnq_imm16 {
            self.asm.add_displacement(RSP as u8, i32::from(instruction.immediate16()));
        }
        self.go_to_target(successor);
    }

    /// Goes where RCX says: usually on along the path, if it goes on.
    fn go_to_target(&mut self, successor: Option<u64>) {
        let Some(expected) = successor else { return self.jump_through_table() };
        subtract_from_rcx(self.asm, expected);
        self.asm.raw(&[0xe3, 5]); // jrcxz over the jump
        self.depart_to_unexpected(expected);
        self.asm.load_slot(SCRATCH, self.layout.gpr(R11));
        self.asm.load_slot(CX, self.layout.gpr(RCX));
    }

    pub(super) fn indirect(&mut self, instruction: &Instruction, successor: Option<u64>) {
        if !matches!(instruction.code(), Code::Jmp_rm64 | Code::Call_rm64) {
            return self.special(instruction);
        }
        self.asm.store_slot(self.layout.gpr(RCX), CX);
        let uncounted = instruction.flow_control() == FlowControl::IndirectBranch && self.ahead == 0;
        if uncounted {
            let home = self.layout.gpr(RCX);
            self.count_in_rcx(instruction.ip(), instruction.ip(), |asm| asm.load_slot(CX, home));
            if reads_rcx(instruction) {
                self.asm.load_slot(CX, home);
            }
            self.ahead = 1;
        }
        self.asm.store_slot(self.layout.gpr(R11), SCRATCH);
        self.step(instruction.ip(), Disturbance { branching: true, ..Disturbance::default() });
        self.load_target(instruction);
        if instruction.flow_control() == FlowControl::IndirectCall {
            self.push_return_address(instruction.next_ip());
        }
        self.pass_event(instruction);
        self.go_to_target(successor);
    }

    /// Loads the target of an indirect branch into RCX; RCX and R11 still hold the guest's values.
    pub(super) fn load_target(&mut self, instruction: &Instruction) {
        if instruction.op0_kind() == OpKind::Register {
            let register =
                register_number(instruction.op0_register()).expect("a branch target is in a general register");
            if register != CX {
                self.asm.copy(CX, register);
            }
            return;
        }
        let mut load = *instruction;
        load.set_code(Code::Mov_r64_rm64);
        load.set_op1_kind(OpKind::Memory);
        load.set_op0_kind(OpKind::Register);
        load.set_op0_register(Register::RCX);
        if load.segment_prefix() == Register::DS {
            load.set_segment_prefix(Register::None); // the no-track prefix
        }
        match load.segment_prefix() {
            Register::FS => load.set_segment_prefix(Register::GS),
            Register::GS => {
                self.materialise(&mut load, CX);
            }
            _ => {}
        }
        if load.is_ip_rel_memory_operand() && !self.reaches(load.ip_rel_memory_address()) {
            self.materialise(&mut load, CX);
        }
        self.encode(&load);
    }

    /// Transactions always abort: `xbegin` goes to its fallback with a zero status.
    pub(super) fn transaction(&mut self, code: &dyn GuestCode, instruction: &Instruction) {
        if instruction.mnemonic() != Mnemonic::Xbegin {
            self.plain(code, instruction);
            self.link(None, instruction.next_ip());
            return;
        }
        self.asm.load_constant(AX, 0);
        self.link(None, instruction.near_branch_target());
    }
}

/// Whether the target of an indirect branch depends on RCX.
fn reads_rcx(instruction: &Instruction) -> bool {
    let names = |register: Register| register_number(register) == Some(CX);
    match instruction.op0_kind() {
        OpKind::Register => names(instruction.op0_register()),
        _ => names(instruction.memory_base()) || names(instruction.memory_index()),
    }
}

pub(super) fn condition_of(instruction: &Instruction) -> Condition {
    Condition(match instruction.condition_code() {
        ConditionCode::o => 0,
        ConditionCode::no => 1,
        ConditionCode::b => 2,
        ConditionCode::ae => 3,
        ConditionCode::e => 4,
        ConditionCode::ne => 5,
        ConditionCode::be => 6,
        ConditionCode::a => 7,
        ConditionCode::s => 8,
        ConditionCode::ns => 9,
        ConditionCode::p => 10,
        ConditionCode::np => 11,
        ConditionCode::l => 12,
        ConditionCode::ge => 13,
        ConditionCode::le => 14,
        ConditionCode::g => 15,
        ConditionCode::None => unreachable!("a conditional branch has a condition"),
    })
}

/// Emits the check that RCX is `pc`, which falls into what follows with the guest's RCX and R11 restored, and returns
/// the address that the branch table is to hold. The jump to `miss` lies in front of it, in reach of a short branch.
pub fn prefix_check(asm: &mut Assembler, layout: Layout, pc: u64, miss: u64) -> u64 {
    let to_miss = asm.here();
    asm.jump(miss);
    let prefix = asm.here();
    // RCX becomes one on a match, which `loop` takes to zero and falls through.
    subtract_from_rcx(asm, pc.wrapping_sub(1));
    let back = to_miss.wrapping_sub(asm.here() + 2) as i8;
    asm.raw(&[0xe2, back as u8]);
    asm.load_slot(SCRATCH, layout.gpr(R11));
    asm.load_slot(CX, layout.gpr(RCX));
    prefix
}

/// Undoes the check's arithmetic (RCX holds the wanted address less `pc`) and tries the next unit of the chain.
pub fn prefix_miss(asm: &mut Assembler, pc: u64, next_in_chain: u64) {
    subtract_from_rcx(asm, pc.wrapping_neg());
    asm.jump(next_in_chain);
}

/// RCX -= value, through R11 where the value is large; leaves flags alone.
pub(super) fn subtract_from_rcx(asm: &mut Assembler, value: u64) {
    let negated = value.wrapping_neg();
    match i32::try_from(negated as i64) {
        Ok(small) => asm.add_displacement(CX, small),
        Err(_) => {
            asm.load_constant(SCRATCH, negated);
            asm.raw(&[0x4a, 0x8d, 0x0c, 0x19]); // lea rcx, [rcx + r11]
        }
    }
}
