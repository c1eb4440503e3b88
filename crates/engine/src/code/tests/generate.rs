//! Random programs that surely end: straight runs, forward branches, counted loops of many shapes, calls, and indirect
//! jumps through tables in memory.
//!
//! R15 points to the operands and is never written; R12 to R14 count loops, one per depth; RCX is written only where
//! an instruction wants its count there. Flags that an instruction leaves undefined are overwritten before anything
//! can read them, but for the adjust flag, which only reads behind a comparison see.

use crate::code::tests::assemble::{Item, Label, Program, With2};
use crate::code::tests::home::{Home, OPERANDS, THREAD_AREA};
use crate::code::tests::tables::{
    ARITHMETIC, COUNTED_JUMPS, JUMPS, MOVES_IF, SETS, SHIFTS, SHIFTS_BY_CL, STRINGS, UNARY, XADD,
};
use iced_x86::{Code, Instruction, MemoryOperand, Register, RflagsBits};
use sched::Rng;

/// Registers that straight code may write, and those that it may read besides.
const WRITABLE: [u8; 10] = [0, 2, 3, 5, 6, 7, 8, 9, 10, 11];
const READABLE: [u8; 15] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const COUNTERS: [Register; 3] = [Register::R14, Register::R13, Register::R12];
/// Offset of the address tables in the home's data.
const TABLES: u64 = 0x4800;

/// A function of the program and how many bytes of arguments it pops.
struct Function {
    label: Label,
    pops: u32,
}

pub struct Generator<'a> {
    rng: &'a mut Rng,
    home: Home,
    program: Program,
    functions: Vec<Function>,
    /// Functions that the code under construction may call: those that come after it.
    callable: usize,
}

type Width = usize;

fn register(number: u8, width: Width) -> Register {
    let first = [Register::AL, Register::AX, Register::EAX, Register::RAX][width];
    // Byte registers with a REX prefix follow the four high halves.
    let number = if width == 0 && number >= 4 { number as usize + 4 } else { number as usize };
    Register::values().nth(first as usize + number).expect("registers are numbered in rows")
}

/// Makes one program, which ends by running off its last instruction.
pub fn program(rng: &mut Rng, home: Home) -> Program {
    let program = Program { items: Vec::new(), tables: Vec::new(), labels: 0 };
    let mut generator = Generator { rng, home, program, functions: Vec::new(), callable: 0 };
    for _ in 0..3 {
        let label = generator.label();
        let pops = [0, 0, 8, 16][generator.rng.below(4) as usize];
        generator.functions.push(Function { label, pops });
    }
    let end = generator.label();
    let blocks = 4 + generator.rng.below(4);
    for _ in 0..blocks {
        generator.block(0);
    }
    generator.compare();
    generator.branch(Code::Jmp_rel32_64, end);
    for number in 0..generator.functions.len() {
        generator.function(number);
    }
    generator.bind(end);
    generator.program
}

impl Generator<'_> {
    fn label(&mut self) -> Label {
        self.program.labels += 1;
        Label(self.program.labels - 1)
    }

    fn bind(&mut self, label: Label) {
        self.program.items.push(Item::Bind(label));
    }

    fn branch(&mut self, code: Code, label: Label) {
        self.program.items.push(Item::Branch(code, label));
    }

    /// Adds an instruction, and one that defines flags if this one leaves more than the adjust flag undefined.
    fn add(&mut self, instruction: Instruction) {
        self.program.items.push(Item::Plain(instruction));
        if instruction.rflags_undefined() & !RflagsBits::AF != 0 {
            self.compare();
        }
    }

    fn add2<A, B>(&mut self, code: Code, first: A, second: B)
    where
        Instruction: With2<A, B>,
    {
        self.add(Instruction::make(code, first, second));
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.below(from.len() as u64) as usize]
    }

    fn flip(&mut self) -> bool {
        self.rng.below(2) == 0
    }

    fn written(&mut self, width: Width) -> Register {
        let number = self.choose(&WRITABLE);
        register(number, width)
    }

    fn read(&mut self, width: Width) -> Register {
        let number = self.choose(&READABLE);
        register(number, width)
    }

    fn memory(&mut self) -> MemoryOperand {
        let offset = (self.rng.below(0x100) * 8) as i64;
        let target = self.home.data + OPERANDS + offset as u64;
        match self.rng.below(6) {
            0 => MemoryOperand::with_base_displ(Register::RIP, target as i64),
            1 => {
                let displacement = (target - self.home.data - THREAD_AREA) as i64;
                MemoryOperand::new(Register::None, Register::None, 1, displacement, 8, false, Register::FS)
            }
            _ => MemoryOperand::with_base_displ(Register::R15, offset),
        }
    }

    /// A comparison, which defines every flag.
    fn compare(&mut self) {
        let (first, second) = (self.read(3), self.read(3));
        self.add2(Code::Cmp_rm64_r64, first, second);
    }

    fn straight(&mut self) {
        let width = self.rng.below(4) as usize;
        match self.rng.below(14) {
            0..=4 => self.arithmetic(width),
            5 => {
                let group = self.choose(&UNARY);
                let register = self.written(width);
                self.add(Instruction::with1(group[width], register).expect("a unary instruction"));
            }
            6 => {
                let group = self.choose(&SHIFTS);
                let (register, count) = (self.written(width), self.rng.below(40) as u32);
                self.add2(group[width], register, count);
            }
            7 => {
                let code = self.choose(&SETS);
                let register = self.written(0);
                self.add(Instruction::with1(code, register).expect("a conditional set"));
            }
            8 => self.move_if(),
            9 => {
                let (register, base, index) = (self.written(3), self.read(3), self.read(3));
                self.add2(Code::Lea_r64_m, register, MemoryOperand::with_base_index(base, index));
            }
            10 => {
                let code = self.choose(&[Code::Clc, Code::Stc, Code::Cmc]);
                self.add(Instruction::with(code));
            }
            11 => self.stack_pair(),
            12 => {
                self.compare();
                let code = self.choose(&[Code::Lahf, Code::Sahf]);
                self.add(Instruction::with(code));
            }
            _ => {
                let register = self.written(3);
                let value = self.rng.draw();
                self.add2(Code::Mov_r64_imm64, register, value);
            }
        }
    }

    fn arithmetic(&mut self, width: Width) {
        let group = self.rng.below(ARITHMETIC.len() as u64) as usize;
        let code = ARITHMETIC[group][width];
        // An exchange writes its second operand, too.
        let source = if group == XADD { self.written(width) } else { self.read(width) };
        if self.rng.below(3) == 0 {
            let memory = self.memory();
            self.add2(code, memory, source);
        } else {
            let register = self.written(width);
            self.add2(code, register, source);
        }
    }

    fn move_if(&mut self) {
        let code = self.choose(&MOVES_IF);
        let width = if matches!(code, Code::Cmovb_r32_rm32 | Code::Cmovl_r32_rm32) { 2 } else { 3 };
        let (to, from) = (self.written(width), self.read(width));
        self.add2(code, to, from);
    }

    fn stack_pair(&mut self) {
        if self.rng.below(3) == 0 {
            self.compare();
            self.add(Instruction::with(Code::Pushfq));
            self.arithmetic(3);
            self.add(Instruction::with(Code::Popfq));
            return;
        }
        let (from, to) = (self.read(3), self.written(3));
        self.add(Instruction::with1(Code::Push_r64, from).expect("a push"));
        self.arithmetic(2);
        self.add(Instruction::with1(Code::Pop_r64, to).expect("a pop"));
    }

    fn run(&mut self, most: u64) {
        for _ in 0..=self.rng.below(most) {
            self.straight();
        }
    }

    fn block(&mut self, depth: usize) {
        self.run(3);
        match self.rng.below(8) {
            0 | 1 => self.forward_branch(depth),
            2 | 3 if depth < COUNTERS.len() => self.counted_loop(depth),
            4 => self.loop_on_rcx(),
            5 => self.call(),
            6 => self.table_jump(),
            7 => self.string(),
            _ => self.out_of_line(),
        }
    }

    fn forward_branch(&mut self, depth: usize) {
        let over = self.label();
        if self.rng.below(4) == 0 {
            let value = if self.flip() { 0 } else { self.rng.below(3) << 32 | 1 };
            self.add2(Code::Mov_r64_imm64, Register::RCX, value);
            let code = self.choose(&[Code::Jrcxz_rel8_64, Code::Jecxz_rel8_64]);
            self.branch(code, over);
            self.run(2);
        } else {
            let code = self.choose(&JUMPS);
            self.branch(code, over);
            if depth < 2 { self.block(depth) } else { self.run(3) }
        }
        self.bind(over);
    }

    /// Control goes to a piece further down and comes back by a backward jump.
    fn out_of_line(&mut self) {
        let (piece, back, over) = (self.label(), self.label(), self.label());
        self.branch(Code::Jmp_rel32_64, piece);
        self.bind(back);
        self.run(2);
        self.branch(Code::Jmp_rel32_64, over);
        self.bind(piece);
        self.run(2);
        self.branch(Code::Jmp_rel32_64, back);
        self.bind(over);
    }

    fn counted_loop(&mut self, depth: usize) {
        let counter = COUNTERS[depth];
        let count = 1 + self.rng.below(5) as u32;
        let shape = self.rng.below(7);
        self.add2(Code::Mov_rm64_imm32, counter, count as i32);
        if shape == 6 {
            self.add2(Code::Mov_r32_imm32, Register::ECX, 0u32);
        }
        let (top, out) = (self.label(), self.label());
        self.bind(top);
        if shape == 5 {
            self.flag_reader();
        }
        if shape < 5 && depth < 2 {
            self.block(depth + 1)
        } else {
            self.run(2)
        }
        self.close_loop(shape, counter, top, out);
        self.bind(out);
        if self.flip() {
            self.flag_reader();
        }
    }

    fn close_loop(&mut self, shape: u64, counter: Register, top: Label, out: Label) {
        let less_one = MemoryOperand::with_base_displ(counter, -1);
        match shape {
            0 => {
                self.add(Instruction::with1(Code::Dec_rm64, counter).expect("a decrement"));
                self.branch(Code::Jne_rel32_64, top);
            }
            1 => {
                self.add2(Code::Sub_rm64_imm8, counter, 1);
                self.branch(Code::Ja_rel32_64, top);
            }
            2 => {
                self.add2(Code::Lea_r64_m, counter, less_one);
                self.add2(Code::Test_rm64_r64, counter, counter);
                self.branch(Code::Jg_rel32_64, top);
            }
            3 => {
                self.add2(Code::Lea_r64_m, counter, less_one);
                self.add2(Code::Cmp_rm64_imm8, counter, 1);
                self.branch(Code::Jae_rel32_64, top);
            }
            4 => {
                self.add(Instruction::with1(Code::Dec_rm64, counter).expect("a decrement"));
                self.branch(Code::Je_rel32_64, out);
                self.run(2);
                self.branch(Code::Jmp_rel32_64, top);
            }
            5 => self.close_keeping_flags(counter, top, out),
            _ => {
                // A shift by zero keeps the flags that the branch reads.
                self.add(Instruction::with1(Code::Dec_rm64, counter).expect("a decrement"));
                let code = self.choose(&SHIFTS_BY_CL);
                let register = self.written(if matches!(code, Code::Shr_rm32_CL | Code::Ror_rm32_CL) { 2 } else { 3 });
                let shift = Instruction::with2(code, register, Register::CL).expect("a shift");
                self.program.items.push(Item::Plain(shift));
                self.branch(Code::Jne_rel32_64, top);
            }
        }
    }

    /// Tests the counter without flags, and jumps back with flags that the top of the loop reads.
    fn close_keeping_flags(&mut self, counter: Register, top: Label, out: Label) {
        let leave = self.label();
        self.compare();
        self.add2(Code::Lea_r64_m, counter, MemoryOperand::with_base_displ(counter, -1));
        self.add2(Code::Mov_r64_rm64, Register::RCX, counter);
        self.branch(Code::Jrcxz_rel8_64, leave);
        self.branch(Code::Jmp_rel32_64, top);
        self.bind(leave);
        self.branch(Code::Jmp_rel32_64, out);
    }

    fn flag_reader(&mut self) {
        match self.rng.below(3) {
            0 => {
                let (to, from) = (self.written(3), self.read(3));
                self.add2(Code::Adc_rm64_r64, to, from);
            }
            1 => self.move_if(),
            _ => {
                let code = self.choose(&SETS);
                let register = self.written(0);
                self.add(Instruction::with1(code, register).expect("a conditional set"));
            }
        }
    }

    fn loop_on_rcx(&mut self) {
        let code = self.choose(&COUNTED_JUMPS);
        let is_short = matches!(code, Code::Loop_rel8_64_ECX | Code::Loope_rel8_64_ECX | Code::Loopne_rel8_64_ECX);
        let high = if is_short { self.rng.draw() << 32 } else { 0 };
        let count = 1 + self.rng.below(6);
        self.add2(Code::Mov_r64_imm64, Register::RCX, high | count);
        let top = self.label();
        self.bind(top);
        self.run(2);
        self.branch(code, top);
    }

    fn string(&mut self) {
        let (from, to) = (self.rng.below(0x100) as i64 * 8, 0x800 + self.rng.below(0x100) as i64 * 8);
        self.add2(Code::Lea_r64_m, Register::RSI, MemoryOperand::with_base_displ(Register::R15, from));
        self.add2(Code::Lea_r64_m, Register::RDI, MemoryOperand::with_base_displ(Register::R15, to));
        let count = self.rng.below(9) as u32;
        self.add2(Code::Mov_r32_imm32, Register::ECX, count);
        let make = self.choose(&STRINGS);
        self.add(make(64).expect("a string instruction"));
        if self.flip() {
            self.flag_reader();
        }
    }

    /// A word of the tables that holds the address of `label`: its offset in the home's data.
    fn table_word(&mut self, label: Label) -> u64 {
        let offset = TABLES + 8 * self.program.tables.len() as u64;
        self.program.tables.push((offset, label));
        offset
    }

    fn table_jump(&mut self) {
        let targets: Vec<Label> = (0..4).map(|_| self.label()).collect();
        let words: Vec<u64> = targets.iter().map(|&label| self.table_word(label)).collect();
        let end = self.label();
        let index = self.written(3);
        self.add2(Code::And_rm64_imm8, index, 3);
        let table =
            MemoryOperand::with_base_index_scale_displ_size(Register::R15, index, 8, (words[0] - OPERANDS) as i64, 8);
        match self.rng.below(3) {
            0 => self.add(Instruction::with1(Code::Jmp_rm64, table).expect("an indirect jump")),
            1 => {
                let to = self.written(3);
                self.add2(Code::Mov_r64_rm64, to, table);
                self.add(Instruction::with1(Code::Jmp_rm64, to).expect("an indirect jump"));
            }
            _ => {
                self.add(Instruction::with1(Code::Push_rm64, table).expect("a push"));
                self.add(Instruction::with(Code::Retnq));
            }
        }
        for target in targets {
            self.bind(target);
            self.run(2);
            self.branch(Code::Jmp_rel32_64, end);
        }
        self.bind(end);
    }

    fn call(&mut self) {
        if self.callable >= self.functions.len() {
            return self.run(2);
        }
        let choices = (self.functions.len() - self.callable) as u64;
        let function = self.callable + self.rng.below(choices) as usize;
        let Function { label, pops } = self.functions[function];
        for _ in 0..pops / 8 {
            let register = self.read(3);
            self.add(Instruction::with1(Code::Push_r64, register).expect("a push"));
        }
        let word = self.table_word(label);
        let in_table = MemoryOperand::with_base_displ(Register::R15, (word - OPERANDS) as i64);
        match self.rng.below(7) {
            0 => {
                let to = self.written(3);
                self.add2(Code::Mov_r64_rm64, to, in_table);
                self.add(Instruction::with1(Code::Call_rm64, to).expect("an indirect call"));
            }
            1 => self.add(Instruction::with1(Code::Call_rm64, in_table).expect("an indirect call")),
            2 => {
                let target = (self.home.data + word) as i64;
                let operand = MemoryOperand::with_base_displ(Register::RIP, target);
                self.add(Instruction::with1(Code::Call_rm64, operand).expect("an indirect call"));
            }
            3 => {
                let displacement = (word - THREAD_AREA) as i64;
                let operand =
                    MemoryOperand::new(Register::None, Register::None, 1, displacement, 8, false, Register::FS);
                self.add(Instruction::with1(Code::Call_rm64, operand).expect("an indirect call"));
            }
            4 if pops == 0 => {
                self.add(Instruction::with1(Code::Push_rm64, in_table).expect("a push"));
                let operand = MemoryOperand::with_base(Register::RSP);
                self.add(Instruction::with1(Code::Call_rm64, operand).expect("an indirect call"));
                self.add2(Code::Lea_r64_m, Register::RSP, MemoryOperand::with_base_displ(Register::RSP, 8));
            }
            _ => self.branch(Code::Call_rel32_64, label),
        }
    }

    /// Saves the loop counters, which its caller may be using.
    fn function(&mut self, number: usize) {
        let Function { label, pops } = self.functions[number];
        self.callable = number + 1;
        self.bind(label);
        for counter in COUNTERS {
            self.add(Instruction::with1(Code::Push_r64, counter).expect("a push"));
        }
        self.block(1);
        for counter in COUNTERS.into_iter().rev() {
            self.add(Instruction::with1(Code::Pop_r64, counter).expect("a pop"));
        }
        match pops {
            0 => self.add(Instruction::with(Code::Retnq)),
            _ => self.add(Instruction::with1(Code::Retnq_imm16, pops).expect("a return")),
        }
    }
}
