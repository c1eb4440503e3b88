//! x86-64 registers in the order and form in which gdb wants them; `target.xml` names them.

use super::wire::Thread;
use gdbstub::arch::{Arch, Registers};
use gdbstub_arch::x86::reg::{X86_64CoreRegs, X86SegmentRegs, X87FpuInternalRegs};

/// Linux on x86-64: what `gdbstub_arch` has, and the bases of FS and GS.
pub enum LinuxX86_64 {}

impl Arch for LinuxX86_64 {
    type Usize = u64;
    type Registers = AllRegisters;
    type BreakpointKind = usize;
    type RegId = ();

    fn target_description_xml() -> Option<&'static str> {
        Some(include_str!("target.xml"))
    }
}

#[derive(Debug, Default, Clone, PartialEq)]
pub struct AllRegisters {
    core: X86_64CoreRegs,
    fs_base: u64,
    gs_base: u64,
}

/// gdb's order of the general-purpose registers, by their encoding numbers.
const ORDER: [usize; 16] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
/// Segment registers as Linux programs have them.
const SEGMENTS: X86SegmentRegs = X86SegmentRegs { cs: 0x33, ss: 0x2b, ds: 0, es: 0, fs: 0, gs: 0 };
/// What stands for the number of an interrupted system call: none is restarted.
const NO_CALL: u64 = u64::MAX;

/// Offsets in what `fxsave` stores.
const LAST_INSTRUCTION: usize = 8;
const LAST_OPERAND: usize = 16;
const MXCSR: usize = 24;
const FIRST_X87: usize = 32;
const FIRST_XMM: usize = 160;

impl AllRegisters {
    pub fn of(thread: &Thread) -> AllRegisters {
        let state = &thread.legacy;
        let bytes = |at: usize, length: usize| state.get(at..at + length).unwrap_or(&[]);
        let word =
            |at: usize, length: usize| bytes(at, length).iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
        let mut core = X86_64CoreRegs {
            regs: ORDER.map(|number| thread.general[number]),
            eflags: thread.rflags as u32,
            rip: thread.pc,
            segments: SEGMENTS,
            mxcsr: word(MXCSR, 4),
            fpu: X87FpuInternalRegs {
                fctrl: word(0, 2),
                fstat: word(2, 2),
                ftag: full_tags(word(4, 1)),
                fiseg: word(LAST_INSTRUCTION + 4, 2),
                fioff: word(LAST_INSTRUCTION, 4),
                foseg: word(LAST_OPERAND + 4, 2),
                fooff: word(LAST_OPERAND, 4),
                fop: word(6, 2),
            },
            ..X86_64CoreRegs::default()
        };
        for (index, register) in core.st.iter_mut().enumerate() {
            if let Ok(value) = bytes(FIRST_X87 + 16 * index, 10).try_into() {
                *register = value;
            }
        }
        for (index, register) in core.xmm.iter_mut().enumerate() {
            if let Ok(value) = bytes(FIRST_XMM + 16 * index, 16).try_into() {
                *register = u128::from_le_bytes(value);
            }
        }
        AllRegisters { core, fs_base: thread.fs_base, gs_base: thread.gs_base }
    }
}

/// `fxsave` has one bit a register, set if it is in use; gdb wants two, all set if it is empty.
fn full_tags(short: u32) -> u32 {
    (0..8).filter(|register| short & 1 << register == 0).map(|register| 3 << (2 * register)).sum()
}

impl Registers for AllRegisters {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.core.rip
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        self.core.gdb_serialize(&mut write_byte);
        for word in [NO_CALL, self.fs_base, self.gs_base] {
            word.to_le_bytes().into_iter().for_each(|byte| write_byte(Some(byte)));
        }
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.core.gdb_deserialize(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_and_packet_agree() {
        let described: usize = include_str!("target.xml")
            .split("<reg ")
            .skip(1)
            .filter_map(|register| register.split("bitsize=\"").nth(1)?.split('"').next()?.parse::<usize>().ok())
            .sum();
        let mut sent = 0;
        AllRegisters::default().gdb_serialize(|_| sent += 1);
        assert_eq!(described, 8 * sent);
    }

    #[test]
    fn empty_registers_have_both_bits() {
        assert_eq!(full_tags(0), 0xffff);
        assert_eq!(full_tags(0xff), 0);
        assert_eq!(full_tags(0x80), 0x3fff);
    }
}
