//! Instructions whose outcome the machine decides: run here while a run is written down, and answered from the recording
//! when it is run again.

use crate::context::{Context, RAX, RCX, RDX};
use crate::engine::Engine;
use crate::kernel::{hardware_random, processor, timestamp};
use crate::signals::frame;
use guest::instruction::register_number;
use iced_x86::{Instruction, Mnemonic, Register};
use std::arch::x86_64::__cpuid_count;
use trace::event::InstructionKind;

const RBX: usize = 3;
const CARRY: u64 = 1;
/// Overflow, sign, zero, auxiliary carry and parity, which the random number instructions clear.
const OTHER_FLAGS: u64 = 0x8d4;

/// What kind of question the instruction asks; `None` if its outcome depends on the guest alone.
pub fn kind(instruction: &Instruction) -> Option<InstructionKind> {
    match instruction.mnemonic() {
        Mnemonic::Rdtsc => Some(InstructionKind::Rdtsc),
        Mnemonic::Rdtscp => Some(InstructionKind::Rdtscp),
        Mnemonic::Cpuid => Some(InstructionKind::Cpuid),
        Mnemonic::Rdrand => Some(InstructionKind::Rdrand),
        Mnemonic::Rdseed => Some(InstructionKind::Rdseed),
        Mnemonic::Xgetbv => Some(InstructionKind::Xgetbv),
        Mnemonic::Rdpid => Some(InstructionKind::Other(RDPID)),
        _ => None,
    }
}

const RDPID: u8 = 100;

/// Whether the instruction faults for what it asks: `xgetbv` knows two registers.
pub fn is_refused(instruction: &Instruction, context: &Context) -> bool {
    instruction.mnemonic() == Mnemonic::Xgetbv && context.gpr[RCX] as u32 > 1
}

/// Asks the machine, as far as the guest is shown it.
pub fn ask(instruction: &Instruction, engine: &Engine, context: &mut Context) -> Vec<u64> {
    match instruction.mnemonic() {
        Mnemonic::Rdtsc => vec![timestamp()],
        Mnemonic::Rdtscp => vec![timestamp(), processor()],
        Mnemonic::Cpuid => {
            let (leaf, subleaf) = (context.gpr[RAX] as u32, context.gpr[RCX] as u32);
            let answer =
                engine.options.shown.map_or_else(|| __cpuid_count(leaf, subleaf), |it| it.cpuid(leaf, subleaf));
            [leaf, subleaf, answer.eax, answer.ebx, answer.ecx, answer.edx].map(u64::from).to_vec()
        }
        Mnemonic::Rdrand | Mnemonic::Rdseed => {
            let (value, success) = hardware_random();
            vec![value, u64::from(success)]
        }
        Mnemonic::Xgetbv => {
            let xstate = engine.xstate();
            let in_use = frame::in_use(frame::state_area(context, xstate));
            let enabled = xstate.shown_components;
            vec![context.gpr[RCX] & 1, if context.gpr[RCX] as u32 == 0 { enabled } else { enabled & in_use }]
        }
        _ => vec![processor()],
    }
}

/// Puts the answer where the guest expects it.
pub fn answer(instruction: &Instruction, context: &mut Context, values: &[u64]) {
    let value = |index: usize| values.get(index).copied().unwrap_or(0);
    match instruction.mnemonic() {
        Mnemonic::Rdtsc | Mnemonic::Rdtscp => {
            context.gpr[RAX] = value(0) & 0xffff_ffff;
            context.gpr[RDX] = value(0) >> 32;
            if instruction.mnemonic() == Mnemonic::Rdtscp {
                context.gpr[RCX] = value(1) & 0xffff_ffff;
            }
        }
        Mnemonic::Cpuid => {
            for (index, register) in [RAX, RBX, RCX, RDX].into_iter().enumerate() {
                context.gpr[register] = value(2 + index);
            }
        }
        Mnemonic::Xgetbv => {
            context.gpr[RAX] = value(1) & 0xffff_ffff;
            context.gpr[RDX] = value(1) >> 32;
        }
        Mnemonic::Rdrand | Mnemonic::Rdseed => {
            context.rflags = (context.rflags & !(CARRY | OTHER_FLAGS)) | (value(1) & CARRY);
            set(context, instruction.op0_register(), value(0));
        }
        _ => set(context, instruction.op0_register(), value(0)),
    }
}

fn set(context: &mut Context, register: Register, value: u64) {
    let Some(number) = register_number(register.full_register()) else { return };
    let slot = &mut context.gpr[usize::from(number)];
    *slot = match register.size() {
        2 => (*slot & !0xffff) | (value & 0xffff),
        4 => value & 0xffff_ffff,
        _ => value,
    };
}
