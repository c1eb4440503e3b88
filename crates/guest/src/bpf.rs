//! Filters of system calls: the classic BPF programs that `seccomp` takes.
//!
//! A program that passes [`Program::check`] is one that the kernel accepts, and [`Program::run`] ends: jumps lead only
//! forward.

/// What a filter looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    pub number: u32,
    /// Behind the instruction that makes the call.
    pub pc: u64,
    pub arguments: [u64; 6],
}

/// The machine as the kernel's audit numbers it: 64-bit x86.
pub const ARCHITECTURE: u32 = 0xc000_003e;
const SUBJECT_SIZE: usize = 64;

impl Subject {
    /// As the kernel's `struct seccomp_data` has it.
    fn words(&self) -> [u32; SUBJECT_SIZE / 4] {
        let mut words = [0; SUBJECT_SIZE / 4];
        (words[0], words[1]) = (self.number, ARCHITECTURE);
        for (index, value) in std::iter::once(self.pc).chain(self.arguments).enumerate() {
            words[2 + 2 * index] = value as u32;
            words[3 + 2 * index] = (value >> 32) as u32;
        }
        words
    }
}

/// One instruction: operation, jump distances if true and if false, constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub code: u16,
    pub if_true: u8,
    pub if_false: u8,
    pub constant: u32,
}

impl Instruction {
    pub fn from_word(word: u64) -> Instruction {
        let [low, high, if_true, if_false, constant @ ..] = word.to_le_bytes();
        let constant = u32::from_le_bytes(constant);
        Instruction { code: u16::from_le_bytes([low, high]), if_true, if_false, constant }
    }

    pub fn word(self) -> u64 {
        u64::from(self.code)
            | u64::from(self.if_true) << 16
            | u64::from(self.if_false) << 24
            | u64::from(self.constant) << 32
    }
}

/// The longest program that the kernel takes.
pub const MOST_INSTRUCTIONS: usize = 4096;
const SLOTS: u32 = 16;
const X: u16 = 0x08;
const LOAD_WORD: u16 = 0x20;
const LOAD_LENGTH: u16 = 0x80;
const LOAD_X_LENGTH: u16 = 0x81;
const LOAD_CONSTANT: u16 = 0x00;
const LOAD_X_CONSTANT: u16 = 0x01;
const LOAD_SLOT: u16 = 0x60;
const LOAD_X_SLOT: u16 = 0x61;
const STORE: u16 = 0x02;
const STORE_X: u16 = 0x03;
const TAKE_X: u16 = 0x07;
const GIVE_X: u16 = 0x87;
const RETURN_CONSTANT: u16 = 0x06;
const RETURN: u16 = 0x16;
const COMPUTE: u16 = 0x04;
const JUMP: u16 = 0x05;
const OPERATION: u16 = 0xf0;
const DIVIDE: u16 = 0x30;
const SHIFT_LEFT: u16 = 0x60;
const SHIFT_RIGHT: u16 = 0x70;

/// A program that the kernel would take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(Vec<Instruction>);

impl Program {
    /// The program if it is a valid one.
    pub fn check(instructions: Vec<Instruction>) -> Option<Program> {
        let length = instructions.len();
        let ends = matches!(instructions.last()?.code, RETURN | RETURN_CONSTANT);
        let valid = |(index, instruction): (usize, &Instruction)| is_valid(*instruction, length - index - 1);
        let good = length <= MOST_INSTRUCTIONS
            && ends
            && instructions.iter().enumerate().all(valid)
            && stores_before_loads(&instructions);
        good.then_some(Program(instructions))
    }

    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }

    /// What is to become of the call.
    pub fn run(&self, subject: &Subject) -> u32 {
        let mut machine = Machine { subject: subject.words(), a: 0, x: 0, slots: [0; SLOTS as usize] };
        let mut at = 0;
        while let Some(instruction) = self.0.get(at) {
            at += 1;
            match machine.step(*instruction) {
                Step::Next => {}
                Step::Over(count) => at += count,
                Step::Done(verdict) => return verdict,
            }
        }
        0
    }
}

/// Whether the kernel takes the instruction, which `left` others follow.
fn is_valid(instruction: Instruction, left: usize) -> bool {
    let Instruction { code, if_true, if_false, constant } = instruction;
    match code {
        LOAD_WORD => constant % 4 == 0 && (constant as usize) < SUBJECT_SIZE,
        LOAD_LENGTH | LOAD_X_LENGTH | LOAD_CONSTANT | LOAD_X_CONSTANT | TAKE_X | GIVE_X | RETURN | RETURN_CONSTANT => {
            true
        }
        LOAD_SLOT | LOAD_X_SLOT | STORE | STORE_X => constant < SLOTS,
        _ if code & 0x07 == COMPUTE && code & !(OPERATION | X | 0x07) == 0 => match (code & OPERATION, code & X) {
            (DIVIDE, 0) => constant != 0,
            (SHIFT_LEFT | SHIFT_RIGHT, 0) => constant < 32,
            (0x80, source) => source == 0,
            (operation, _) => operation <= 0x70 || operation == 0xa0,
        },
        JUMP => (constant as usize) < left,
        _ if code & 0x07 == JUMP && code & !(OPERATION | X | 0x07) == 0 => {
            matches!(code & OPERATION, 0x10 | 0x20 | 0x30 | 0x40)
                && usize::from(if_true) < left
                && usize::from(if_false) < left
        }
        _ => false,
    }
}

/// Whether each slot that is read has been written on every way there.
fn stores_before_loads(instructions: &[Instruction]) -> bool {
    let mut written = vec![u16::MAX; instructions.len() + 1];
    let mut now = 0u16;
    for (at, instruction) in instructions.iter().enumerate() {
        now &= written[at];
        let slot = 1u16.checked_shl(instruction.constant).unwrap_or(0);
        match instruction.code {
            STORE | STORE_X => now |= slot,
            LOAD_SLOT | LOAD_X_SLOT if now & slot == 0 => return false,
            JUMP => {
                written[at + 1 + instruction.constant as usize] &= now;
                now = u16::MAX;
            }
            code if code & 0x07 == JUMP => {
                written[at + 1 + usize::from(instruction.if_true)] &= now;
                written[at + 1 + usize::from(instruction.if_false)] &= now;
                now = u16::MAX;
            }
            _ => {}
        }
    }
    true
}

struct Machine {
    subject: [u32; SUBJECT_SIZE / 4],
    a: u32,
    x: u32,
    slots: [u32; SLOTS as usize],
}

enum Step {
    Next,
    Over(usize),
    Done(u32),
}

impl Machine {
    fn step(&mut self, instruction: Instruction) -> Step {
        let Instruction { code, constant, .. } = instruction;
        match code {
            LOAD_WORD => self.a = self.subject[constant as usize / 4],
            LOAD_LENGTH => self.a = SUBJECT_SIZE as u32,
            LOAD_X_LENGTH => self.x = SUBJECT_SIZE as u32,
            LOAD_CONSTANT => self.a = constant,
            LOAD_X_CONSTANT => self.x = constant,
            LOAD_SLOT => self.a = self.slots[constant as usize],
            LOAD_X_SLOT => self.x = self.slots[constant as usize],
            STORE => self.slots[constant as usize] = self.a,
            STORE_X => self.slots[constant as usize] = self.x,
            TAKE_X => self.x = self.a,
            GIVE_X => self.a = self.x,
            RETURN => return Step::Done(self.a),
            RETURN_CONSTANT => return Step::Done(constant),
            JUMP => return Step::Over(constant as usize),
            _ if code & 0x07 == JUMP => return self.branch(instruction),
            _ => return self.compute(code & OPERATION, self.operand(instruction)),
        }
        Step::Next
    }

    fn operand(&self, instruction: Instruction) -> u32 {
        if instruction.code & X != 0 { self.x } else { instruction.constant }
    }

    fn branch(&self, instruction: Instruction) -> Step {
        let operand = self.operand(instruction);
        let holds = match instruction.code & OPERATION {
            0x10 => self.a == operand,
            0x20 => self.a > operand,
            0x30 => self.a >= operand,
            _ => self.a & operand != 0,
        };
        Step::Over(usize::from(if holds { instruction.if_true } else { instruction.if_false }))
    }

    fn compute(&mut self, operation: u16, operand: u32) -> Step {
        self.a = match operation {
            0x00 => self.a.wrapping_add(operand),
            0x10 => self.a.wrapping_sub(operand),
            0x20 => self.a.wrapping_mul(operand),
            DIVIDE => match self.a.checked_div(operand) {
                Some(quotient) => quotient,
                None => return Step::Done(0),
            },
            0x40 => self.a | operand,
            0x50 => self.a & operand,
            SHIFT_LEFT => self.a.wrapping_shl(operand),
            SHIFT_RIGHT => self.a.wrapping_shr(operand),
            0x80 => self.a.wrapping_neg(),
            _ => self.a ^ operand,
        };
        Step::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(code: u16, if_true: u8, if_false: u8, constant: u32) -> Instruction {
        Instruction { code, if_true, if_false, constant }
    }

    fn program(instructions: &[(u16, u8, u8, u32)]) -> Option<Program> {
        let each = |&(code, if_true, if_false, constant)| instruction(code, if_true, if_false, constant);
        Program::check(instructions.iter().map(each).collect())
    }

    const SUBJECT: Subject = Subject { number: 257, pc: 0x5500_1234_5678, arguments: [7, 1 << 40, 3, 4, 5, 6] };

    fn verdict(instructions: &[(u16, u8, u8, u32)]) -> u32 {
        program(instructions).expect("a valid program").run(&SUBJECT)
    }

    #[test]
    fn words_and_instructions_are_one() {
        let one = instruction(0x15, 2, 3, 0xc000_003e);
        assert_eq!(Instruction::from_word(one.word()), one);
        assert_eq!(one.word(), 0xc000_003e_0302_0015);
    }

    #[test]
    fn every_field_can_be_loaded() {
        let expected = [257, ARCHITECTURE, 0x1234_5678, 0x5500, 7, 0, 0, 1 << 8, 3, 0, 4, 0, 5, 0, 6, 0];
        for (index, value) in expected.into_iter().enumerate() {
            assert_eq!(verdict(&[(LOAD_WORD, 0, 0, 4 * index as u32), (RETURN, 0, 0, 0)]), value, "word {index}");
        }
    }

    #[test]
    fn jumps_choose() {
        let choose =
            |code, constant| verdict(&[(LOAD_WORD, 0, 0, 0), (code, 0, 1, constant), (0x06, 0, 0, 1), (0x06, 0, 0, 2)]);
        assert_eq!([choose(0x15, 257), choose(0x15, 258)], [1, 2]);
        assert_eq!([choose(0x25, 256), choose(0x25, 257)], [1, 2]);
        assert_eq!([choose(0x35, 257), choose(0x35, 258)], [1, 2]);
        assert_eq!([choose(0x45, 0x101), choose(0x45, 2)], [1, 2]);
        assert_eq!(verdict(&[(JUMP, 0, 0, 1), (0x06, 0, 0, 1), (0x06, 0, 0, 2)]), 2);
    }

    #[test]
    fn arithmetic() {
        let with = |code, constant| verdict(&[(LOAD_CONSTANT, 0, 0, 12), (code, 0, 0, constant), (RETURN, 0, 0, 0)]);
        let results = [0x04, 0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0xa4].map(|code| with(code, 5));
        assert_eq!(results, [17, 7, 60, 2, 13, 4, 384, 0, 9]);
        assert_eq!(with(0x84, 0), 12u32.wrapping_neg());
        let by_zero = [(LOAD_X_CONSTANT, 0, 0, 0), (LOAD_CONSTANT, 0, 0, 9), (0x3c, 0, 0, 0), (RETURN, 0, 0, 0)];
        assert_eq!(verdict(&by_zero), 0);
    }

    #[test]
    fn registers_and_slots() {
        let moves = [(LOAD_LENGTH, 0, 0, 0), (TAKE_X, 0, 0, 0), (STORE_X, 0, 0, 15), (LOAD_CONSTANT, 0, 0, 1)];
        let back = [(LOAD_X_SLOT, 0, 0, 15), (0x0c, 0, 0, 0), (RETURN, 0, 0, 0)];
        assert_eq!(verdict(&[moves.as_slice(), &back].concat()), 65);
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        let end = (RETURN_CONSTANT, 0, 0, 0);
        let bad: &[&[(u16, u8, u8, u32)]] = &[
            &[],
            &[(LOAD_CONSTANT, 0, 0, 0)],
            &[(LOAD_WORD, 0, 0, 64), end],
            &[(LOAD_WORD, 0, 0, 2), end],
            &[(0x28, 0, 0, 0), end],
            &[(0x34, 0, 0, 0), end],
            &[(0x64, 0, 0, 32), end],
            &[(0x94, 0, 0, 1), end],
            &[(JUMP, 0, 0, 1), end],
            &[(JUMP, 0, 0, u32::MAX), end],
            &[(0x15, 0, 1, 0), end],
            &[(LOAD_SLOT, 0, 0, 0), end],
            &[(STORE, 0, 0, 16), end],
            &[(0x15, 0, 1, 0), (STORE, 0, 0, 3), (LOAD_SLOT, 0, 0, 3), end],
            &[(0xffff, 0, 0, 0), end],
        ];
        for instructions in bad {
            assert_eq!(program(instructions), None, "{instructions:x?}");
        }
        assert!(program(&[(STORE, 0, 0, 3), (0x15, 0, 1, 0), (STORE, 0, 0, 4), (LOAD_SLOT, 0, 0, 3), end]).is_some());
        assert!(Program::check(vec![instruction(RETURN_CONSTANT, 0, 0, 0); MOST_INSTRUCTIONS + 1]).is_none());
    }
}
