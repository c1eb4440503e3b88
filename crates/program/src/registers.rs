//! The registers that unwinding carries from frame to frame.

use gimli::{Register, X86_64};

/// Position of the stack pointer among the general registers.
const SP: usize = 4;
/// Position of the frame pointer among the general registers.
const BP: usize = 5;

/// DWARF's numbers in the order of the machine's encoding.
pub(crate) const DWARF_NUMBERS: [Register; 16] = [
    X86_64::RAX,
    X86_64::RCX,
    X86_64::RDX,
    X86_64::RBX,
    X86_64::RSP,
    X86_64::RBP,
    X86_64::RSI,
    X86_64::RDI,
    X86_64::R8,
    X86_64::R9,
    X86_64::R10,
    X86_64::R11,
    X86_64::R12,
    X86_64::R13,
    X86_64::R14,
    X86_64::R15,
];

/// Which general registers a function must leave as it found them: rbx, rbp, r12 to r15.
pub(crate) const CALLEE_SAVED: u16 = 0b1111_0000_0010_1000;

/// What is known of a thread's registers. The general ones stand in encoding order: rax, rcx, rdx, rbx, rsp, rbp, rsi,
/// rdi, r8 to r15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    pub pc: u64,
    pub general: [Option<u64>; 16],
}

impl Registers {
    /// The least that unwinding can start from.
    pub fn new(pc: u64, sp: u64, bp: u64) -> Registers {
        let mut general = [None; 16];
        general[SP] = Some(sp);
        general[BP] = Some(bp);
        Registers { pc, general }
    }

    pub fn full(pc: u64, general: [u64; 16]) -> Registers {
        Registers { pc, general: general.map(Some) }
    }

    pub fn sp(&self) -> Option<u64> {
        self.general[SP]
    }

    pub fn bp(&self) -> Option<u64> {
        self.general[BP]
    }

    pub(crate) fn set_sp(&mut self, sp: u64) {
        self.general[SP] = Some(sp);
    }

    pub(crate) fn set_bp(&mut self, bp: u64) {
        self.general[BP] = Some(bp);
    }

    /// By DWARF's number; the return address column reads as the program counter.
    pub(crate) fn by_dwarf_number(&self, register: Register) -> Option<u64> {
        if register == X86_64::RA {
            return Some(self.pc);
        }
        let position = DWARF_NUMBERS.iter().position(|number| *number == register)?;
        self.general[position]
    }

    /// What the caller of a function sees if nothing states otherwise.
    pub(crate) fn preserved(&self) -> Registers {
        let kept = |position: usize| self.general[position].filter(|_| CALLEE_SAVED >> position & 1 == 1);
        Registers { pc: self.pc, general: std::array::from_fn(kept) }
    }
}
