//! Which words a path stores before and after each of its instructions, and where paths are cut for that.

use super::moves::{Stored, constant_move, has_hidden_target, loaded_into, stored};
use super::notes::{Note, Notes};
use super::wishes::Wishes;
use super::{
    AccessFacts, AccessKind, Held, Mark, Repeat, Site, SiteKind, Target, UnitFacts, Wanted, access_kind, access_size,
    site_kind,
};
use crate::context::{RDI, RSI};
use guest::instruction::{RegisterSet, register_number, repeats};
use iced_x86::{CodeSize, FlowControl, Instruction, Mnemonic, OpKind, Register, UsedMemory};
use std::ops::Range;

/// What the unit stores into its record: one word, or as many as a value in memory fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// The value of a register.
    Register(u8),
    /// The sum of base and scaled index.
    Sum(Operand),
    /// The address of a 32-bit operand, which wraps.
    Narrow(Operand, i64),
    /// The address of an operand through the guest's GS.
    ThroughGs(Operand, i64),
    /// The repeat count.
    Count,
    /// The bytes in memory.
    Memory(Place),
}

impl Word {
    pub fn length(&self) -> u16 {
        match self {
            Word::Memory(place) => place.size.div_ceil(8) as u16,
            _ => 1,
        }
    }
}

/// Bytes in memory, and how to get there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub address: Address,
    pub through_fs: bool,
    pub size: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address {
    Constant(u64),
    Operand(Operand, i64),
    /// A base that a word of the record holds already.
    Derived(u16, i64),
}

/// Base and index of a memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    pub base: Register,
    pub index: Register,
    pub scale: u32,
}

impl Operand {
    fn of(used: &UsedMemory) -> Operand {
        // Neither a vector of indices nor the byte index of `xlat` is part of a sum that one instruction computes.
        let plain = used.index().is_gpr64() || used.index().is_gpr32();
        let index = if plain { used.index() } else { Register::None };
        Operand { base: used.base(), index, scale: used.scale() }
    }

    fn is_constant(&self) -> bool {
        matches!(self.base, Register::RIP | Register::EIP)
            || self.base == Register::None && self.index == Register::None
    }

    fn names_one_of(&self, registers: RegisterSet) -> bool {
        let names = |register: Register| register_number(register).is_some_and(|number| registers.contains(number));
        names(self.base) || names(self.index)
    }
}

/// What to store before and after each instruction of a path.
pub struct Plan {
    /// Two registers that the path does not use.
    pub scratch: (u8, u8),
    /// All words, in the order in which they are stored.
    pub words: Vec<Word>,
    /// How many of them are stored up to and after each instruction.
    stored: Vec<(usize, usize)>,
    pub facts: UnitFacts,
    /// The path is one instruction that the engine has to run by itself.
    pub needs_engine: bool,
    /// Nothing is told but where the last instruction goes, and that only if it leaves some code.
    pub leaving: Option<Leaving>,
}

/// A call or return that is told if it leaves this code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaving {
    /// Index of the instruction in its unit.
    pub instruction: u16,
    /// Where it goes.
    pub word: u16,
    pub code: Range<u64>,
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

/// Where an observed path ends: it leaves two registers unused, some instructions stand alone, and what runs up to a branch
/// without anything to write down is a path by itself: it may be a loop.
pub struct Cut<'a> {
    wishes: Wishes<'a>,
    notes: &'a mut Notes,
    used: RegisterSet,
    is_first: bool,
    stands_alone: bool,
    /// Nothing is written down so far.
    is_quiet: bool,
    has_branched: bool,
}

impl<'a> Cut<'a> {
    /// A note is taken of each instruction that is asked about.
    pub fn new(wishes: Wishes<'a>, notes: &'a mut Notes) -> Cut<'a> {
        let used = RegisterSet(UNFIT);
        Cut { wishes, notes, used, is_first: true, stands_alone: false, is_quiet: true, has_branched: false }
    }

    /// Whether the path may go on with this instruction; a first one comes in any case.
    pub fn admits(&mut self, instruction: &Instruction) -> bool {
        let is_first = std::mem::take(&mut self.is_first);
        let note = self.notes.add(&self.wishes, instruction);
        // All accesses of a record go through the same FS base.
        let stands_alone = instruction.mnemonic() == Mnemonic::Wrfsbase || note.needs_engine;
        let is_quiet = self.is_quiet && !note.is_told;
        let ends_quiet = self.is_quiet && !is_quiet && self.has_branched;
        if !is_first && (stands_alone || self.stands_alone || ends_quiet) {
            return false;
        }
        self.is_quiet = is_quiet;
        self.has_branched |= instruction.flow_control() == FlowControl::ConditionalBranch;
        self.stands_alone = stands_alone;
        self.used = self.used.union(note.used);
        self.used.len() <= 14
    }
}

impl Plan {
    /// The plan for a path that is what there are notes on, or that several times over.
    pub fn new(path: &[Instruction], notes: &Notes, wishes: Wishes<'_>) -> Plan {
        let used = notes.iter().fold(RegisterSet(UNFIT), |used, note| used.union(note.used));
        let mut free =
            [3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 5, 2, 0].into_iter().filter(|&register| !used.contains(register));
        let scratch =
            (free.next().expect("paths leave two registers"), free.next().expect("paths leave two registers"));
        let needs_engine = notes.iter().next().is_some_and(|first| first.needs_engine);
        let facts = UnitFacts { sites: Vec::with_capacity(path.len()), ..UnitFacts::default() };
        let mut planner = Planner {
            wishes,
            wanted: wishes.wanted,
            known: Vec::new(),
            words: Vec::with_capacity(path.len()),
            n_words: 1,
            accesses: Vec::new(),
            facts,
        };
        let mut stored = Vec::with_capacity(path.len());
        for (index, (instruction, note)) in path.iter().zip(notes.iter().cycle()).enumerate() {
            stored.push(planner.instruction(index, instruction, note, notes.memory_of(note)));
        }
        let Planner { words, facts, .. } = planner;
        let leaving = facts.leaving(wishes);
        Plan { scratch, words, stored, facts, needs_engine, leaving }
    }

    /// Which words are stored before an instruction.
    pub fn before(&self, index: usize) -> Range<usize> {
        let first = index.checked_sub(1).map_or(0, |last| self.stored[last].1);
        first..self.stored[index].0
    }

    /// Which words are stored after an instruction.
    pub fn after(&self, index: usize) -> Range<usize> {
        let (before, after) = self.stored[index];
        before..after
    }
}

impl UnitFacts {
    /// The call or return that is all there is to tell, and is worth it only if it leaves the code around it.
    fn leaving(&self, wishes: Wishes<'_>) -> Option<Leaving> {
        let &[instruction] = &self.telling[..] else { return None };
        let site = self.sites.get(usize::from(instruction))?;
        let is_chosen = wishes.chosen?.instructions.contains(&site.pc);
        let is_bare = !self.repeats && site.mark.is_none() && site.fs_base.is_none();
        match site.target {
            Target::Word(word) if is_bare && !is_chosen && !wishes.tells_all => {
                wishes.code_around(site.pc).map(|code| Leaving { instruction, word, code: code.clone() })
            }
            _ => None,
        }
    }
}

struct Planner<'a> {
    wishes: Wishes<'a>,
    /// Of the instruction that is being planned for.
    wanted: Wanted,
    known: Vec<Known>,
    words: Vec<Word>,
    /// How far they fill the record.
    n_words: u16,
    /// Of the instruction that is being planned for.
    accesses: Vec<AccessFacts>,
    facts: UnitFacts,
}

impl Planner<'_> {
    /// Gives how many words are stored before the instruction has run, and after it has.
    fn instruction(
        &mut self,
        index: usize,
        instruction: &Instruction,
        note: &Note,
        memory: &[UsedMemory],
    ) -> (usize, usize) {
        self.wanted = note.wanted;
        let mark = note.mark.map(|mark| (mark, self.mark(mark)));
        let reads_target = self.wanted.targets && has_hidden_target(instruction);
        let addressed = self.wanted.any_address() || reads_target || note.is_narrowed && self.wanted.targets;
        let mut accesses = std::mem::take(&mut self.accesses);
        accesses.extend(memory.iter().map(|used| self.access(index, instruction, used, addressed)));
        let repeats = repeats(instruction) && !note.is_narrowed;
        let mut repeat = repeats.then(|| self.count_before(&accesses, memory));
        if self.wanted.values {
            for (used, access) in memory.iter().zip(&mut accesses) {
                access.before = self.value_before(instruction, used, access);
            }
        }
        let target = self.target(instruction, memory, &accesses);
        let fs_base = self.fs_base(instruction);
        let stored_before = self.words.len();
        if self.wanted.values {
            for (used, access) in memory.iter().zip(&mut accesses) {
                self.values_after(instruction, used, access, note.written);
            }
        }
        if let Some(repeat) = &mut repeat {
            self.facts.repeats = true;
            self.count_after(repeat, memory);
        }
        self.accesses = accesses;
        self.add_site(index, instruction, note, Site { target, repeat, fs_base, mark, ..Site::plain(instruction) });
        self.forget_changed(instruction, note.written);
        (stored_before, self.words.len())
    }

    /// Adds what is told of an instruction to the facts.
    fn add_site(&mut self, index: usize, instruction: &Instruction, note: &Note, mut site: Site) {
        let is_hushed = (note.is_narrowed || self.wishes.tells_all) && self.wishes.quiet.concern(instruction);
        if note.is_narrowed && site.kind == SiteKind::Jump || is_hushed {
            site.target = Target::Unknown;
        }
        if note.is_narrowed {
            // Where a call puts its return address is wanted with where it goes.
            self.accesses.retain(|access| self.wanted.targets && access.is_push_or_pop);
        }
        let is_told = site.target != Target::Unknown || site.fs_base.is_some() || site.mark.is_some();
        if is_told || !self.accesses.is_empty() {
            self.facts.telling.push(index as u16);
        }
        self.facts.sites.push(site);
        self.facts.accesses.append(&mut self.accesses);
    }

    fn next(&mut self, word: Word) -> u16 {
        let at = self.n_words;
        self.words.push(word);
        self.n_words += word.length();
        at
    }

    /// The word from which on the mark's registers stand.
    fn mark(&mut self, mark: Mark) -> u16 {
        let first = self.n_words;
        for register in mark.registers() {
            self.next(Word::Register(register));
        }
        if mark == Mark::Entry {
            let operand = Operand { base: Register::RSP, index: Register::None, scale: 1 };
            let place = Place { address: Address::Operand(operand, 0), through_fs: false, size: 8 };
            self.next(Word::Memory(place));
        }
        first
    }

    fn access(&mut self, index: usize, instruction: &Instruction, used: &UsedMemory, addressed: bool) -> AccessFacts {
        let (word, offset) = if addressed { self.base(used) } else { (0, 0) };
        AccessFacts {
            instruction: index as u16,
            word,
            offset,
            through_fs: used.segment() == Register::FS,
            size: access_size(instruction, used),
            kind: access_kind(instruction, used),
            is_push_or_pop: instruction.is_stack_instruction() && used.base() == Register::RSP,
            before: Held::Nowhere,
            after: Held::Nowhere,
        }
    }

    fn base(&mut self, used: &UsedMemory) -> (u16, i64) {
        let displacement = used.displacement() as i64;
        let operand = Operand::of(used);
        if used.segment() == Register::GS {
            return (self.next(Word::ThroughGs(operand, displacement)), 0);
        }
        if operand.is_constant() {
            return (0, displacement);
        }
        if used.address_size() == CodeSize::Code32 {
            return (self.next(Word::Narrow(operand, displacement)), 0);
        }
        let in_reach =
            |known: &&Known| known.operand == operand && i32::try_from(displacement.wrapping_add(known.moved)).is_ok();
        if let Some(known) = self.known.iter().find(in_reach) {
            return (known.word, displacement + known.moved);
        }
        let word = match (register_number(operand.base), operand.index) {
            (Some(base), Register::None) => Word::Register(base),
            _ => Word::Sum(operand),
        };
        let word = self.next(word);
        self.known.retain(|known| known.operand != operand);
        self.known.push(Known { operand, word, moved: 0 });
        (word, displacement)
    }

    /// The bytes of an access, while the registers in `written` no longer hold what the operand means by them.
    fn place(&self, used: &UsedMemory, access: &AccessFacts, written: RegisterSet) -> Place {
        let operand = Operand::of(used);
        let is_sum = used.segment() != Register::GS && used.address_size() != CodeSize::Code32;
        let address = if access.word == 0 {
            Address::Constant(access.offset as u64)
        } else if is_sum && !operand.names_one_of(written) {
            Address::Operand(operand, used.displacement() as i64)
        } else {
            Address::Derived(access.word, access.offset)
        };
        Place { address, through_fs: access.through_fs, size: access.size }
    }

    /// What is in memory beforehand; a load that leaves it in a register is written down afterwards.
    fn value_before(&mut self, instruction: &Instruction, used: &UsedMemory, access: &AccessFacts) -> Held {
        if access.kind == AccessKind::Load && loaded_into(instruction).is_some() {
            return Held::Nowhere;
        }
        Held::Word(self.next(Word::Memory(self.place(used, access, RegisterSet::default()))))
    }

    fn values_after(
        &mut self,
        instruction: &Instruction,
        used: &UsedMemory,
        access: &mut AccessFacts,
        written: RegisterSet,
    ) {
        if access.kind == AccessKind::Load {
            if let Some(register) = loaded_into(instruction) {
                access.before = Held::Word(self.next(Word::Register(register)));
            }
            return;
        }
        access.after = match stored(instruction) {
            Stored::Constant(value) => Held::Constant(value),
            Stored::Register(register) => Held::Word(self.next(Word::Register(register))),
            Stored::Computed => Held::Word(self.next(Word::Memory(self.place(used, access, written)))),
        };
    }

    fn target(&mut self, instruction: &Instruction, memory: &[UsedMemory], accesses: &[AccessFacts]) -> Target {
        if site_kind(instruction) == SiteKind::Plain {
            return Target::Unknown;
        }
        if instruction.op0_kind() == OpKind::NearBranch64 {
            return Target::Constant(instruction.near_branch_target());
        }
        if !self.wanted.targets || !has_hidden_target(instruction) {
            return Target::Unknown;
        }
        if instruction.flow_control() != FlowControl::Return
            && let (OpKind::Register, Some(register)) =
                (instruction.op0_kind(), register_number(instruction.op0_register()))
        {
            return Target::Word(self.next(Word::Register(register)));
        }
        let load = memory.iter().zip(accesses).find(|(_, access)| access.kind == AccessKind::Load);
        match load {
            Some((_, AccessFacts { before: Held::Word(word), .. })) => Target::Word(*word),
            Some((used, access)) => {
                Target::Word(self.next(Word::Memory(self.place(used, access, RegisterSet::default()))))
            }
            None => Target::Unknown,
        }
    }

    fn fs_base(&mut self, instruction: &Instruction) -> Option<u16> {
        if !self.wishes.moves_fs_base(instruction) {
            return None;
        }
        let register = instruction.op0_register();
        let operand = Operand { base: register, index: Register::None, scale: 1 };
        let word = match register_number(register) {
            Some(number) if register.is_gpr64() => Word::Register(number),
            _ => Word::Narrow(operand, 0),
        };
        Some(self.next(word))
    }

    fn count_before(&mut self, accesses: &[AccessFacts], memory: &[UsedMemory]) -> Repeat {
        let before = self.next(Word::Count);
        let is_narrow = memory.iter().any(|used| used.address_size() == CodeSize::Code32);
        let pointer = moving_access(memory).filter(|_| self.wanted.any_address());
        let pointer = pointer.map(|index| (accesses[index].word, 0));
        Repeat { before, after: 0, pointer, is_narrow }
    }

    fn count_after(&mut self, repeat: &mut Repeat, memory: &[UsedMemory]) {
        repeat.after = self.next(Word::Count);
        let register = moving_access(memory).and_then(|index| register_number(memory[index].base()));
        if let (Some(pointer), Some(register)) = (&mut repeat.pointer, register) {
            pointer.1 = self.next(Word::Register(register));
        }
    }

    /// Bases that the instruction changes are unknown afterwards, unless it moves a register by a constant.
    fn forget_changed(&mut self, instruction: &Instruction, written: RegisterSet) {
        let mut changed = written;
        if let Some((register, distance)) = constant_move(instruction) {
            self.known.iter_mut().for_each(|known| known.move_by(register, distance));
            register_number(register).into_iter().for_each(|moved| changed.remove(moved));
        }
        if !changed.is_empty() {
            self.known.retain(|known| !known.operand.names_one_of(changed));
        }
    }
}

impl Known {
    fn move_by(&mut self, register: Register, distance: i64) {
        if self.operand.base == register {
            self.moved = self.moved.wrapping_add(distance);
        }
        if self.operand.index == register {
            self.moved = self.moved.wrapping_add(distance.wrapping_mul(i64::from(self.operand.scale)));
        }
    }
}

/// Which access of a string instruction shows the way it goes.
fn moving_access(memory: &[UsedMemory]) -> Option<usize> {
    memory
        .iter()
        .position(|used| register_number(used.base()).is_some_and(|base| [RSI, RDI].contains(&usize::from(base))))
}

#[cfg(test)]
mod tests {
    use super::super::{Chosen, MarkTable};
    use super::*;
    use crate::code::observe::quiet::QuietFunctions;
    use iced_x86::{Decoder, DecoderOptions};

    fn plan(bytes: &[u8]) -> Plan {
        plan_for(bytes, Wanted::ADDRESSES)
    }

    fn plan_for(bytes: &[u8], wanted: Wanted) -> Plan {
        let path: Vec<Instruction> = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).into_iter().collect();
        plan_with(&path, Wishes::new(wanted, &MarkTable::default(), None, &QuietFunctions::default()))
    }

    fn plan_with(path: &[Instruction], wishes: Wishes<'_>) -> Plan {
        Plan::new(path, &Notes::on(path, &wishes), wishes)
    }

    fn before(plan: &Plan, index: usize) -> &[Word] {
        &plan.words[plan.before(index)]
    }

    fn after(plan: &Plan, index: usize) -> &[Word] {
        &plan.words[plan.after(index)]
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
    fn registers_that_move_by_a_constant_stay_known() {
        // mov rax, [rbx]; add rbx, 16; mov rax, [rbx+4]; mov rax, [rsi+rdx*8]; inc rdx; mov rax, [rsi+rdx*8]; dec rbx
        let bytes = [
            0x48, 0x8b, 0x03, 0x48, 0x83, 0xc3, 0x10, 0x48, 0x8b, 0x43, 0x04, 0x48, 0x8b, 0x04, 0xd6, 0x48, 0xff, 0xc2,
            0x48, 0x8b, 0x04, 0xd6, 0x48, 0xff, 0xcb,
        ];
        assert_eq!(bases(&plan(&bytes)), [(1, 0), (1, 20), (2, 0), (2, 8)]);
        // mov rax, [rbx]; lea rbx, [rbx-8]; mov rax, [rbx]; add ebx, 8; mov rax, [rbx]
        let bytes = [0x48, 0x8b, 0x03, 0x48, 0x8d, 0x5b, 0xf8, 0x48, 0x8b, 0x03, 0x83, 0xc3, 0x08, 0x48, 0x8b, 0x03];
        assert_eq!(bases(&plan(&bytes)), [(1, 0), (1, -8), (2, 0)], "a narrow sum wraps");
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
    fn values_in_registers_are_taken_from_there_and_constants_not_at_all() {
        // mov ax, [rbx]; mov [rbx], ah; mov dword [rbx], 7; push rcx; push rsp
        let bytes = [0x66, 0x8b, 0x03, 0x88, 0x23, 0xc7, 0x03, 7, 0, 0, 0, 0x51, 0x54];
        let plan = plan_for(&bytes, Wanted::EVERYTHING);
        let held: Vec<(Held, Held)> = plan.facts.accesses.iter().map(|access| (access.before, access.after)).collect();
        let word = Held::Word;
        assert_eq!(held[0], (word(2), Held::Nowhere));
        assert_eq!(held[1], (word(3), word(4)));
        assert_eq!(held[2], (word(5), Held::Constant(7)));
        assert_eq!(held[3..], [(word(7), word(8)), (word(9), word(10))]);
        assert_eq!(after(&plan, 0), [Word::Register(0)]);
        assert!(matches!(after(&plan, 1), [Word::Memory(_)]), "AH is not at the bottom of its register");
        assert_eq!(after(&plan, 3), [Word::Register(1)]);
        assert!(matches!(after(&plan, 4), [Word::Memory(_)]), "the stack pointer changes on its way");
    }

    #[test]
    fn nothing_is_written_down_that_nobody_wants() {
        // mov rax, [rbx]; call [rcx]
        let plan = plan_for(&[0x48, 0x8b, 0x03, 0xff, 0x11], Wanted::COUNTS);
        assert!(plan.words.is_empty());
        let targets = Wanted { targets: true, ..Wanted::COUNTS };
        let plan = plan_for(&[0x48, 0x8b, 0x03, 0xff, 0x11], targets);
        assert_eq!(before(&plan, 0), []);
        assert_eq!(plan.facts.sites[1].target, Target::Word(3), "behind the addresses of the call's own accesses");
    }

    #[test]
    fn of_instructions_that_were_not_chosen_only_calls_are_told() {
        // mov rax, [rbx]; mov [rbx], rax; call +0
        let bytes = [0x48, 0x8b, 0x03, 0x48, 0x89, 0x03, 0xe8, 0, 0, 0, 0];
        let path: Vec<Instruction> = Decoder::with_ip(64, &bytes, 0x1000, DecoderOptions::NONE).into_iter().collect();
        let (marks, quiet) = (MarkTable::default(), QuietFunctions::default());
        let others = Wanted { targets: true, ..Wanted::COUNTS };
        let chosen = Chosen { instructions: [0x1003].into(), others, spares_calls: false, ..Chosen::default() };
        let wishes = Wishes::new(Wanted::EVERYTHING, &marks, Some(&chosen), &quiet);
        let plan = plan_with(&path, wishes);
        let told: Vec<(u16, bool)> =
            plan.facts.accesses.iter().map(|access| (access.instruction, access.is_push_or_pop)).collect();
        assert_eq!(told, [(1, false), (2, true)]);
        assert!(before(&plan, 0).is_empty() && after(&plan, 0).is_empty());
        assert!(matches!(plan.facts.accesses[0].after, Held::Word(_)), "with its value");
        assert!(wishes.concern(&path) && !wishes.concern(&path[..1]));
    }

    #[test]
    fn a_loop_without_accesses_is_a_path_by_itself() {
        // add rax, rbx; jne -5; ret
        let bytes = [0x48, 0x01, 0xd8, 0x75, 0xfb, 0xc3];
        let path: Vec<Instruction> = Decoder::with_ip(64, &bytes, 0x1000, DecoderOptions::NONE).into_iter().collect();
        let (marks, quiet) = (MarkTable::default(), QuietFunctions::default());
        let chosen =
            Chosen { instructions: [].into(), others: Wanted::ADDRESSES, spares_calls: false, ..Chosen::default() };
        let wishes = Wishes::new(Wanted::ADDRESSES, &marks, Some(&chosen), &quiet);
        let admitted = |wishes| {
            let mut notes = Notes::default();
            let mut cut = Cut::new(wishes, &mut notes);
            path.iter().take_while(|instruction| cut.admits(instruction)).count()
        };
        assert_eq!(admitted(wishes), 2);
        assert_eq!(admitted(Wishes { chosen: None, ..wishes }), 3, "where all that runs is counted");
    }

    #[test]
    fn paths_without_accesses_are_not_observed_for_addresses() {
        // add rax, rbx; jne -5
        let bytes = [0x48, 0x01, 0xd8, 0x75, 0xfb];
        let path: Vec<Instruction> = Decoder::with_ip(64, &bytes, 0x1000, DecoderOptions::NONE).into_iter().collect();
        let (marks, quiet) = (MarkTable::default(), QuietFunctions::default());
        let chosen =
            Chosen { instructions: [].into(), others: Wanted::ADDRESSES, spares_calls: false, ..Chosen::default() };
        let wishes = Wishes::new(Wanted::ADDRESSES, &marks, Some(&chosen), &quiet);
        assert!(!wishes.concern(&path));
        assert!(Wishes { chosen: None, ..wishes }.concern(&path), "where all that runs is counted");
    }

    #[test]
    fn some_instructions_stand_alone() {
        let mut decoder = Decoder::with_ip(64, &[0x90, 0xf3, 0xa4, 0x90], 0, DecoderOptions::NONE);
        let [nop, moves] = [decoder.decode(), decoder.decode()];
        let (unmarked, quiet) = (MarkTable::default(), QuietFunctions::default());
        let wishes = |wanted| Wishes::new(wanted, &unmarked, None, &quiet);
        let mut notes = Notes::default();
        let mut cut = Cut::new(wishes(Wanted::EVERYTHING), &mut notes);
        assert!(cut.admits(&nop) && !cut.admits(&moves), "not behind others");
        let mut cut = Cut::new(wishes(Wanted::EVERYTHING), &mut notes);
        assert!(cut.admits(&moves) && !cut.admits(&nop), "and nothing behind them");
        let mut cut = Cut::new(wishes(Wanted::ADDRESSES), &mut notes);
        assert!(cut.admits(&nop) && cut.admits(&moves), "without values there is nothing to it");
    }

    #[test]
    fn marks_take_registers_that_stay_what_they_are() {
        // push rbx; ret
        let bytes = [0x53, 0xc3];
        let path: Vec<Instruction> = Decoder::with_ip(64, &bytes, 0x1000, DecoderOptions::NONE).into_iter().collect();
        let marks = MarkTable::from_iter([(0x1000, Mark::Entry), (0x1001, Mark::Exit)]);
        let quiet = QuietFunctions::default();
        let wishes = Wishes::new(Wanted::ADDRESSES, &marks, None, &quiet);
        let plan = plan_with(&path, wishes);
        assert_eq!(before(&plan, 0)[..5], [7, 6, 2, 1, 4].map(Word::Register));
        assert_eq!(plan.facts.sites[0].mark, Some((Mark::Entry, 1)));
        assert_eq!(before(&plan, 1)[..2], [0, 4].map(Word::Register));
        let scratch = [plan.scratch.0, plan.scratch.1];
        assert!([7, 6, 2, 1, 4, 0, 3].iter().all(|register| !scratch.contains(register)));
    }

    #[test]
    fn repeats_are_counted_before_and_after() {
        let plan = plan(&[0xf3, 0x48, 0xa5]); // rep movsq
        let repeat = plan.facts.sites[0].repeat.expect("it repeats");
        assert_eq!((repeat.before, repeat.after), (3, 4));
        assert_eq!(after(&plan, 0), [Word::Count, Word::Register(6)]);
    }
}
