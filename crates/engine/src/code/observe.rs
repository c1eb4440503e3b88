//! What an observed unit writes down while it runs, and what that stands for.
//!
//! A unit writes one record each time it is left: a number that names the unit and how far it came, followed by the words
//! that cannot be known beforehand: base addresses that cannot be derived from an earlier one, values, and targets of
//! indirect transfers, as far as they are wanted. Everything else about the instructions and their accesses is constant
//! and kept once, in the catalogue. Records of one thread are in program order, and buffers are emptied before the turn
//! changes hands, so batches are in program order across threads.
//!
//! May miss: accesses of system calls. Where only counts are wanted, gathers, scatters and `xlat` count as one access.

pub mod irregular;
mod moves;
pub mod notes;
pub mod plan;
pub mod quiet;
pub mod sparing;
pub mod wishes;

use guest::instruction::{self, memory_used, repeats};
use iced_x86::{FlowControl, Instruction, InstructionInfo, Mnemonic, OpAccess, UsedMemory};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What somebody wants to know of a run beyond which instructions were executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Where accesses go. Without them only the counts of repeated instructions are written down.
    pub addresses: bool,
    /// What loads read, and what was there before and after stores; means addresses too.
    pub values: bool,
    /// Where indirect jumps, calls and returns go.
    pub targets: bool,
}

impl Wanted {
    pub const COUNTS: Wanted = Wanted { addresses: false, values: false, targets: false };
    pub const ADDRESSES: Wanted = Wanted { addresses: true, values: false, targets: false };
    pub const EVERYTHING: Wanted = Wanted { addresses: true, values: true, targets: true };

    pub fn any_address(self) -> bool {
        self.addresses || self.values
    }
}

/// The instructions that what is wanted is wanted of, where these are not all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chosen {
    pub instructions: BTreeSet<u64>,
    /// What is wanted of the others.
    pub others: Wanted,
    /// Of this code, nothing is wanted but marks.
    pub unheard: Vec<Range<u64>>,
    /// Calls of [functions in which nothing is told](quiet) are not wanted.
    pub spares_calls: bool,
    /// Within each of these stretches of code, calls are not wanted, nor are returns: only those are that lead in or out.
    pub inner: Vec<Range<u64>>,
    /// Right behind these, where all accesses go is told [for a while](crate::code::cache::CodeCache::begin_sequel), the first times that they come.
    pub sequels: BTreeSet<u64>,
    /// Of a repeated instruction that comes to more bytes than these, no values are wanted.
    pub longest_value: Option<u64>,
    /// Those that come very often are told [now and then](crate::code::cache::CodeCache::review_tellings).
    pub patience: Option<Patience>,
}

/// How often an instruction is told before it is told now and then.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Patience {
    /// So often at first, and so often each time later.
    pub first: u32,
    pub later: u32,
    /// These are always told.
    pub steady: BTreeSet<u64>,
}

/// Where registers are written down too, before the instruction runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// The first instruction of a function: RDI, RSI, RDX, RCX, RSP and what is on top of the stack.
    Entry,
    /// A return: RAX and RSP.
    Exit,
    /// A jump that may leave the function for another: RDI, which is that one's first argument, and RSP.
    Tail,
    /// A store of the register `value` to where the register `base` points: both, and RSP.
    Store { value: u8, base: u8 },
    /// The first instruction of a loop: RSP.
    LoopHeader,
}

impl Mark {
    /// Which registers, by number.
    pub fn registers(self) -> impl Iterator<Item = u8> {
        let (registers, count) = match self {
            Mark::Entry => ([7, 6, 2, 1, 4], 5),
            Mark::Exit => ([0, 4, 0, 0, 0], 2),
            Mark::Tail => ([7, 4, 0, 0, 0], 2),
            Mark::LoopHeader => ([4, 0, 0, 0, 0], 1),
            Mark::Store { value, base } => ([value, base, 4, 0, 0], 3),
        };
        registers.into_iter().take(count)
    }

    /// How many words are written down.
    pub fn words(self) -> usize {
        match self {
            Mark::LoopHeader => 1,
            Mark::Entry => 6,
            Mark::Exit | Mark::Tail => 2,
            Mark::Store { .. } => 3,
        }
    }
}

/// Marks by the addresses of their instructions.
pub type Marks = BTreeMap<u64, Mark>;
/// The same for translation, which asks of every instruction whether it has one.
pub type MarkTable = FxHashMap<u64, Mark>;

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

/// Where a value is to be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    Nowhere,
    /// In the record, from this word on.
    Word(u16),
    Constant(u64),
}

/// One access of an instruction, as far as it is known beforehand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessFacts {
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
    /// A push or pop, also of a call or return.
    pub is_push_or_pop: bool,
    /// What is there before, which is what a load reads.
    pub before: Held,
    /// What a store leaves there.
    pub after: Held,
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
    /// The next instruction in memory.
    pub next: u64,
    pub kind: SiteKind,
    pub target: Target,
    pub repeat: Option<Repeat>,
    /// The word that holds a new FS base.
    pub fs_base: Option<u16>,
    /// The word from which on the mark's registers stand.
    pub mark: Option<(Mark, u16)>,
}

impl Site {
    /// What is known of an instruction by itself.
    pub fn plain(instruction: &Instruction) -> Site {
        Site {
            pc: instruction.ip(),
            next: instruction.next_ip(),
            kind: site_kind(instruction),
            target: Target::Unknown,
            repeat: None,
            fs_base: None,
            mark: None,
        }
    }
}

/// Where a jump, call or return may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Unknown,
    Constant(u64),
    Word(u16),
}

/// The words that tell how far a repeated instruction came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repeat {
    /// The count before and after.
    pub before: u16,
    pub after: u16,
    /// A pointer before and after, if addresses are wanted.
    pub pointer: Option<(u16, u16)>,
    /// Only the lower halves of the registers count.
    pub is_narrow: bool,
}

impl Repeat {
    pub fn elements(&self, words: &[u64]) -> u64 {
        self.moved(words[usize::from(self.after)], words[usize::from(self.before)])
    }

    pub fn is_backward(&self, words: &[u64]) -> bool {
        let Some((before, after)) = self.pointer else { return false };
        let moved = self.moved(words[usize::from(before)], words[usize::from(after)]);
        if self.is_narrow { (moved as i32) < 0 } else { (moved as i64) < 0 }
    }

    fn moved(&self, from: u64, to: u64) -> u64 {
        let moved = to.wrapping_sub(from);
        if self.is_narrow { moved & 0xffff_ffff } else { moved }
    }
}

/// The constant part of what a unit writes down.
#[derive(Clone, Debug, Default)]
pub struct UnitFacts {
    pub sites: Vec<Site>,
    /// The indices of those that something is told of.
    pub telling: Vec<u16>,
    /// In program order.
    pub accesses: Vec<AccessFacts>,
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
    /// Where control goes, unless the last instruction's target tells.
    pub next: u64,
    /// Takes the last instruction of the record before back: it faulted.
    pub retracts: bool,
}

/// All units and records of a run. Numbers are never used twice.
#[derive(Default)]
pub struct Catalogue {
    pub wanted: Wanted,
    units: Vec<UnitFacts>,
    records: Vec<RecordFacts>,
}

impl Catalogue {
    pub fn new(wanted: Wanted) -> Catalogue {
        Catalogue { wanted, ..Catalogue::default() }
    }

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

    pub fn units(&self) -> &[UnitFacts] {
        &self.units
    }

    pub fn records(&self) -> &[RecordFacts] {
        &self.records
    }

    /// Takes in what another catalogue has more.
    pub fn extend(&mut self, units: &mut Vec<UnitFacts>, records: &[RecordFacts]) {
        self.units.append(units);
        self.records.extend_from_slice(records);
    }
}

/// Adds the memory that an instruction accesses, reads before writes, as the processor does it.
pub fn add_accesses(memory: &mut Vec<UsedMemory>, info: &InstructionInfo, instruction: &Instruction) {
    let first = memory.len();
    memory.extend(memory_used(info, instruction));
    memory[first..].sort_by_key(|used| match access_kind(instruction, used) {
        AccessKind::Load => 0,
        AccessKind::Update | AccessKind::Atomic => 1,
        AccessKind::Store => 2,
    });
}

/// How many bytes one element of an access has; zero if only the processor's state tells.
pub fn access_size(instruction: &Instruction, used: &UsedMemory) -> u32 {
    let size = if repeats(instruction) { instruction.memory_size() } else { used.memory_size() };
    size.size() as u32
}

pub fn access_kind(instruction: &Instruction, used: &UsedMemory) -> AccessKind {
    match used.access() {
        OpAccess::Read | OpAccess::CondRead => AccessKind::Load,
        OpAccess::Write | OpAccess::CondWrite => AccessKind::Store,
        _ if may_be_atomic(instruction) => AccessKind::Atomic,
        _ => AccessKind::Update,
    }
}

/// Whether the instruction is atomic if it reads and writes memory.
pub fn may_be_atomic(instruction: &Instruction) -> bool {
    instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg
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
