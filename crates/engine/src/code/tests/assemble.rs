//! Programs of instructions and labels, and their encoding at an address.

use crate::code::tests::home::{DATA_SIZE, Home, OPERANDS};
use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};
use sched::Rng;

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Label(pub usize);

/// A piece of a program.
pub enum Item {
    Plain(Instruction),
    Branch(Code, Label),
    Bind(Label),
}

/// A program as data; addresses come with [`Program::assemble`].
pub struct Program {
    pub items: Vec<Item>,
    /// Words of the home's data that hold the address of a label.
    pub tables: Vec<(u64, Label)>,
    pub labels: usize,
}

pub struct Assembled {
    pub bytes: Vec<u8>,
    pub instructions: Vec<Instruction>,
    /// Offset into the home's data and the word to put there.
    pub words: Vec<(u64, u64)>,
}

impl Program {
    /// Encodes at `start`. `fs` is the segment that stands for the guest's FS.
    pub fn assemble(&self, start: u64, fs: Register) -> Assembled {
        // Lengths do not depend on targets, so that a second pass is exact.
        let (_, places) = self.encode(start, fs, None);
        self.encode(start, fs, Some(&places)).0
    }

    /// Puts an instruction that faults at a random place, which may or may not be reached.
    pub fn add_fault(&mut self, rng: &mut Rng, home: Home) {
        let nowhere = home.data + DATA_SIZE + rng.below(0x1000);
        let relative = MemoryOperand::with_base_displ(Register::RIP, nowhere as i64);
        let based = MemoryOperand::with_base_displ(Register::R15, (nowhere - home.data - OPERANDS) as i64);
        let instruction = match rng.below(8) {
            0 => Instruction::with2(Code::Mov_r64_rm64, Register::RBX, relative),
            1 => Instruction::with2(Code::Mov_rm64_r64, based, Register::RAX),
            2 => Instruction::with2(Code::Adc_rm64_r64, relative, Register::R11),
            3 => Instruction::with2(Code::Adc_r32_rm32, Register::ECX, based),
            4 => Instruction::with1(Code::Jmp_rm64, based),
            5 => Instruction::with1(Code::Call_rm64, relative),
            6 => Instruction::with1(Code::Push_rm64, relative),
            _ => Ok(Instruction::with(Code::Ud2)),
        };
        let at = rng.below(self.items.len() as u64) as usize;
        self.items.insert(at, Item::Plain(instruction.expect("an instruction that faults")));
    }

    fn encode(&self, start: u64, fs: Register, places: Option<&[u64]>) -> (Assembled, Vec<u64>) {
        let mut encoder = Encoder::new(64);
        let mut at = start;
        let mut instructions = Vec::new();
        let mut found = vec![0; self.labels];
        for item in &self.items {
            let mut instruction = match *item {
                Item::Bind(label) => {
                    found[label.0] = at;
                    continue;
                }
                Item::Plain(instruction) => instruction,
                Item::Branch(code, label) => {
                    let target = places.map_or(at, |places| places[label.0]);
                    Instruction::with_branch(code, target).expect("a near branch")
                }
            };
            if instruction.segment_prefix() == Register::FS {
                instruction.set_segment_prefix(fs);
            }
            let length = encoder.encode(&instruction, at).unwrap_or_else(|error| panic!("{instruction}: {error}"));
            instruction.set_len(length);
            instruction.set_ip(at);
            instructions.push(instruction);
            at += length as u64;
        }
        let words = self.tables.iter().map(|&(offset, label)| (offset, found[label.0])).collect();
        (Assembled { bytes: encoder.take_buffer(), instructions, words }, found)
    }
}

/// Instructions of two operands of any kinds.
pub trait With2<A, B> {
    fn make(code: Code, first: A, second: B) -> Instruction;
}

macro_rules! with2 {
    ($($first:ty, $second:ty);* $(;)?) => {
        $(impl With2<$first, $second> for Instruction {
            fn make(code: Code, first: $first, second: $second) -> Instruction {
                Instruction::with2(code, first, second).unwrap_or_else(|error| panic!("{code:?}: {error}"))
            }
        })*
    };
}
with2! {
    Register, Register;
    Register, MemoryOperand;
    Register, i32;
    Register, u32;
    Register, u64;
    MemoryOperand, Register;
}
