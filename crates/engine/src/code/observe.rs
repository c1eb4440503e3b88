//! What an observed unit writes down while it runs, and how it is read back.
//!
//! A unit writes one record each time it is left: a number that names the unit and how far it came, followed by one
//! word for each base address that cannot be derived from an earlier one. Everything else about the instructions and
//! their accesses is constant and kept once, in the catalogue. Records of one thread are in program order, and buffers
//! are emptied before the turn changes hands, so batches are in program order across threads.
//!
//! May miss: the single elements of gathers and scatters and the index of `xlat` (the base is reported), and accesses
//! of system calls.

use guest::instruction::{self, RegisterSet, memory_used, register_number, registers_used, repeats};
use iced_x86::{
    CodeSize, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

/// What an access does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessKind {
    Load,
    Store,
    /// Reads and writes, and another thread could come in between.
    Update,
    /// Reads and writes in one step.
    Atomic,
}

/// One access of an instruction, as far as it is known beforehand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Index of the instruction in its unit.
    pub instruction: u16,
    /// Which word of the record holds the base; zero for none, since that is the record's number.
    pub word: u16,
    /// To be added to the base.
    pub offset: i64,
    pub through_fs: bool,
    /// In bytes, of one element where the instruction repeats.
    pub size: u32,
    pub kind: AccessKind,
}

/// What an instruction is to somebody who counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteKind {
    Plain,
    Jump,
    Call,
    Return,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    pub pc: u64,
    pub kind: SiteKind,
    /// For a repeated instruction, the words that hold the count before and after.
    pub repeat: Option<(u16, u16)>,
}

/// The constant part of what a unit writes down.
#[derive(Clone, Debug, Default)]
pub struct UnitFacts {
    pub sites: Vec<Site>,
    pub accesses: Vec<Access>,
    /// Whether any of the instructions repeats.
    pub repeats: bool,
}

/// What a record's number stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordFacts {
    pub unit: u32,
    /// How many of the unit's instructions ran.
    pub executed: u16,
    /// Words of the record, its number included.
    pub words: u16,
    /// Takes the last instruction of the record before back: it faulted.
    pub retracts: bool,
}

/// All units and records of a run. Numbers are never used twice.
#[derive(Default)]
pub struct Catalogue {
    units: Vec<UnitFacts>,
    records: Vec<RecordFacts>,
}

impl Catalogue {
    pub fn add_unit(&mut self, facts: UnitFacts) -> u32 {
        self.units.push(facts);
        (self.units.len() - 1) as u32
    }

    pub fn add_record(&mut self, facts: RecordFacts) -> u32 {
        self.records.push(facts);
        (self.records.len() - 1) as u32
    }

    pub fn record(&self, number: u64) -> RecordFacts {
        self.records[number as usize]
    }

    pub fn unit(&self, number: u32) -> &UnitFacts {
        &self.units[number as usize]
    }

    pub fn records(&self) -> &[RecordFacts] {
        &self.records
    }
}

/// A word that the unit stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// The value of a register.
    Register(u8),
    /// The sum of base and scaled index.
    Sum(Operand),
    /// The address of a 32-bit operand, which wraps.
    Narrow(Operand, i64),
    /// The repeat count.
    Count,
}

/// Base and index of a memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    pub base: Register,
    pub index: Register,
    pub scale: u32,
}

/// What to store before and after each instruction of a path.
pub struct Plan {
    /// Two registers that the path does not use.
    pub scratch: (u8, u8),
    pub before: Vec<Vec<Word>>,
    pub after: Vec<Vec<Word>>,
    pub facts: UnitFacts,
}

/// A base whose value is in a word already.
struct Known {
    operand: Operand,
    word: u16,
    /// What was added to the base since.
    moved: i64,
}

/// Registers that stay free for observation: all but the stack pointer and RCX, which counting needs.
const UNFIT: u16 = 1 << 4 | 1 << 1;

/// Whether two registers are left over by instructions that use `used`.
pub fn leaves_scratch(used: RegisterSet) -> bool {
    (used.0 | UNFIT).count_ones() <= 14
}

impl Plan {
    pub fn new(factory: &mut InstructionInfoFactory, path: &[Instruction]) -> Plan {
        let mut used = RegisterSet(UNFIT);
        for instruction in path {
            used = used.union(registers_used(factory, instruction));
        }
        let mut free =
            [3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 5, 2, 0].into_iter().filter(|&register| !used.contains(register));
        let scratch =
            (free.next().expect("paths leave two registers"), free.next().expect("paths leave two registers"));
        let mut planner = Planner { known: Vec::new(), words: 1 };
        let mut plan = Plan { scratch, before: Vec::new(), after: Vec::new(), facts: UnitFacts::default() };
        for (index, instruction) in path.iter().enumerate() {
            planner.instruction(factory, &mut plan, index, instruction);
        }
        plan
    }
}

struct Planner {
    known: Vec<Known>,
    words: u16,
}

impl Planner {
    fn instruction(
        &mut self,
        factory: &mut InstructionInfoFactory,
        plan: &mut Plan,
        index: usize,
        instruction: &Instruction,
    ) {
        let mut before = Vec::new();
        let mut after = Vec::new();
        let memory: Vec<UsedMemory> = memory_used(factory, instruction).copied().collect();
        for used in &memory {
            let access = self.access(&mut before, index, instruction, used);
            plan.facts.accesses.push(access);
        }
        let mut repeat = None;
        if repeats(instruction) {
            plan.facts.repeats = true;
            repeat = Some((self.next(&mut before, Word::Count), self.next(&mut after, Word::Count)));
        }
        plan.facts.sites.push(Site { pc: instruction.ip(), kind: site_kind(instruction), repeat });
        self.forget_changed(factory, instruction);
        plan.before.push(before);
        plan.after.push(after);
    }

    fn next(&mut self, list: &mut Vec<Word>, word: Word) -> u16 {
        list.push(word);
        self.words += 1;
        self.words - 1
    }

    fn access(&mut self, words: &mut Vec<Word>, index: usize, instruction: &Instruction, used: &UsedMemory) -> Access {
        let (word, offset) = self.base(words, used);
        let through_fs = used.segment() == Register::FS;
        let size = used.memory_size().size() as u32;
        Access { instruction: index as u16, word, offset, through_fs, size, kind: access_kind(instruction, used) }
    }

    fn base(&mut self, words: &mut Vec<Word>, used: &UsedMemory) -> (u16, i64) {
        let displacement = used.displacement() as i64;
        // Neither a vector of indices nor the byte index of `xlat` is part of a sum that one instruction computes.
        let plain = used.index().is_gpr64() || used.index().is_gpr32();
        let index = if plain { used.index() } else { Register::None };
        let operand = Operand { base: used.base(), index, scale: used.scale() };
        if matches!(used.base(), Register::RIP | Register::EIP)
            || used.base() == Register::None && index == Register::None
        {
            return (0, displacement);
        }
        if used.address_size() == CodeSize::Code32 {
            return (self.next(words, Word::Narrow(operand, displacement)), 0);
        }
        if let Some(known) = self.known.iter().find(|known| known.operand == operand) {
            return (known.word, displacement + known.moved);
        }
        let word = match (register_number(operand.base), operand.index) {
            (Some(base), Register::None) => Word::Register(base),
            _ => Word::Sum(operand),
        };
        let word = self.next(words, word);
        self.known.push(Known { operand, word, moved: 0 });
        (word, displacement)
    }

    /// Bases that the instruction changes are unknown afterwards, unless it moves the stack pointer by a constant.
    fn forget_changed(&mut self, factory: &mut InstructionInfoFactory, instruction: &Instruction) {
        let moved = constant_stack_move(instruction);
        let written: Vec<Register> = factory
            .info(instruction)
            .used_registers()
            .iter()
            .filter(|used| {
                matches!(
                    used.access(),
                    OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
                )
            })
            .map(|used| used.register().full_register())
            .collect();
        for known in &mut self.known {
            if known.operand.base == Register::RSP && known.operand.index == Register::None {
                known.moved += moved.unwrap_or(0);
            }
        }
        self.known.retain(|known| {
            let names = |register: Register| {
                written.contains(&register.full_register()) && !(register == Register::RSP && moved.is_some())
            };
            !names(known.operand.base) && !names(known.operand.index)
        });
    }
}

/// By how much the instruction moves the stack pointer, if that is constant.
fn constant_stack_move(instruction: &Instruction) -> Option<i64> {
    let immediate = |sign: i64| {
        let own = instruction.op0_register() == Register::RSP && instruction.op0_kind() == OpKind::Register;
        let constant = !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory);
        (own && constant).then(|| sign * instruction.immediate(1) as i64)
    };
    match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Pushfq | Mnemonic::Popfq | Mnemonic::Call | Mnemonic::Ret => {
            Some(i64::from(instruction.stack_pointer_increment()))
        }
        Mnemonic::Pop if instruction.op0_register() != Register::RSP => {
            Some(i64::from(instruction.stack_pointer_increment()))
        }
        Mnemonic::Add => immediate(1),
        Mnemonic::Sub => immediate(-1),
        _ => None,
    }
}

pub fn access_kind(instruction: &Instruction, used: &UsedMemory) -> AccessKind {
    match used.access() {
        OpAccess::Read | OpAccess::CondRead => AccessKind::Load,
        OpAccess::Write | OpAccess::CondWrite => AccessKind::Store,
        _ if instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg => AccessKind::Atomic,
        _ => AccessKind::Update,
    }
}

pub fn site_kind(instruction: &Instruction) -> SiteKind {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => {
            SiteKind::Jump
        }
        FlowControl::Call if !instruction::enters_kernel(instruction) => SiteKind::Call,
        FlowControl::IndirectCall => SiteKind::Call,
        FlowControl::Return if !instruction::enters_kernel(instruction) => SiteKind::Return,
        _ => SiteKind::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn plan(bytes: &[u8]) -> Plan {
        let path: Vec<Instruction> = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).into_iter().collect();
        Plan::new(&mut InstructionInfoFactory::new(), &path)
    }

    fn bases(plan: &Plan) -> Vec<(u16, i64)> {
        plan.facts.accesses.iter().map(|access| (access.word, access.offset)).collect()
    }

    #[test]
    fn one_word_serves_all_accesses_through_an_unchanged_base() {
        // mov rax, [rbx]; mov [rbx+8], rax; mov rdx, [rbx+rax*4]; mov rbx, [rbx]; mov rax, [rbx]
        let plan = plan(&[
            0x48, 0x8b, 0x03, 0x48, 0x89, 0x43, 0x08, 0x48, 0x8b, 0x14, 0x83, 0x48, 0x8b, 0x1b, 0x48, 0x8b, 0x03,
        ]);
        assert_eq!(bases(&plan), [(1, 0), (1, 8), (2, 0), (1, 0), (3, 0)]);
        let kinds: Vec<AccessKind> = plan.facts.accesses.iter().map(|access| access.kind).collect();
        assert_eq!(kinds[..2], [AccessKind::Load, AccessKind::Store]);
    }

    #[test]
    fn pushes_and_pops_move_a_known_stack_pointer() {
        // push rax; push rbx; sub rsp, 16; mov rax, [rsp+4]; pop rbx
        let plan = plan(&[0x50, 0x53, 0x48, 0x83, 0xec, 0x10, 0x48, 0x8b, 0x44, 0x24, 0x04, 0x5b]);
        assert_eq!(bases(&plan), [(1, -8), (1, -16), (1, -28), (1, -32)]);
    }

    #[test]
    fn constant_addresses_need_no_word_and_locked_updates_are_atomic() {
        // lock add [rip+0x10], eax; xchg [rax], ebx; add [rax], ebx
        let plan = plan(&[0xf0, 0x01, 0x05, 0x10, 0, 0, 0, 0x87, 0x18, 0x01, 0x18]);
        assert_eq!(bases(&plan), [(0, 0x1017), (1, 0), (1, 0)]);
        let kinds: Vec<AccessKind> = plan.facts.accesses.iter().map(|access| access.kind).collect();
        assert_eq!(kinds, [AccessKind::Atomic, AccessKind::Atomic, AccessKind::Update]);
    }

    #[test]
    fn repeats_are_counted_before_and_after() {
        let plan = plan(&[0xf3, 0x48, 0xa5]); // rep movsq
        assert_eq!(plan.facts.sites[0].repeat, Some((3, 4)));
        assert_eq!(plan.after, [[Word::Count]]);
    }
}
