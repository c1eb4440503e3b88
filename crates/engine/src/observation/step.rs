//! One instruction seen from outside: where it accesses memory, what was there before and what is there afterwards.
//!
//! This is how a run goes by steps, and how instructions are observed whose accesses no code inside a unit can write down.
//! May miss: a scatter that stores twice to one place shows what is there in the end.

use super::events::{Access, Elements, EventKind, Value, span};
use super::vectors::{VectorState, lanes, save_area};
use crate::code::observe::irregular::tests_distant_bit;
use crate::code::observe::{AccessKind, SiteKind, Wanted, access_kind, access_size, add_accesses, site_kind};
use crate::context::{Context, RAX, RCX, RDX};
use crate::kernel;
use crate::signals::frame::{XState, state_area};
use guest::instruction::{register_number, repeats};
use iced_x86::{CodeSize, Instruction, InstructionInfoFactory, OpKind, Register, UsedMemory};
use std::ops::Range;

/// The first word of a record that the engine writes; the second is its length.
pub const STEPPED: u64 = u64::MAX;

const DIRECTION_FLAG: u64 = 0x400;
const PAGE: u64 = 4096;

/// How an instruction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Control goes on at this address.
    Ran(u64),
    Faulted,
}

/// An instruction that is about to run by itself.
pub struct Step {
    instruction: Instruction,
    wanted: Wanted,
    touched: Vec<Touched>,
    count: u64,
    is_backward: bool,
    is_narrow: bool,
}

/// Memory that the instruction is about to access: one place, or the first element of a repeated access.
struct Touched {
    address: u64,
    size: u64,
    kind: AccessKind,
    /// From the lowest address that could be read on; of a load that is not repeated, what it reads.
    before: Option<(u64, Vec<u8>)>,
}

impl Step {
    pub fn begin(instruction: Instruction, context: &mut Context, xstate: XState, wanted: Wanted) -> Step {
        let mut memory = Vec::new();
        add_accesses(&mut memory, InstructionInfoFactory::new().info(&instruction), &instruction);
        let is_narrow = memory.iter().any(|used| used.address_size() == CodeSize::Code32);
        let is_backward = context.rflags & DIRECTION_FLAG != 0;
        let count = if is_narrow { context.gpr[RCX] & 0xffff_ffff } else { context.gpr[RCX] };
        let mut touched = Vec::new();
        for used in memory.iter().filter(|_| wanted.any_address()) {
            let kind = access_kind(&instruction, used);
            for (address, size) in places(&instruction, used, context, xstate) {
                touched.push(Touched { address, size, kind, before: None });
            }
        }
        let mut step = Step { instruction, wanted, touched, count, is_backward, is_narrow };
        if wanted.values {
            step.look_before();
        }
        step
    }

    pub fn instruction(&self) -> &Instruction {
        &self.instruction
    }

    /// How far the repeat count went down.
    pub fn elements(&self, context: &Context) -> u64 {
        let moved = self.count.wrapping_sub(context.gpr[RCX]);
        if self.is_narrow { moved & 0xffff_ffff } else { moved }
    }

    /// Whether the instruction, which has run, has read from the range.
    pub fn reads(&self, range: &Range<u64>, context: &Context) -> bool {
        self.touches(range, context, |kind| kind != AccessKind::Store)
    }

    /// Whether it has written there.
    pub fn writes(&self, range: &Range<u64>, context: &Context) -> bool {
        self.touches(range, context, |kind| kind != AccessKind::Load)
    }

    fn touches(&self, range: &Range<u64>, context: &Context, matters: impl Fn(AccessKind) -> bool) -> bool {
        let mut spans = self.spans(context).filter(|(kind, _)| matters(*kind));
        spans.any(|(_, touched)| touched.start < range.end && range.start < touched.end)
    }

    /// The memory that it has accessed.
    pub fn spans(&self, context: &Context) -> impl Iterator<Item = (AccessKind, Range<u64>)> {
        let (count, is_backward) = match repeats(&self.instruction) {
            true => (self.elements(context), self.is_backward),
            false => (1, false),
        };
        self.touched.iter().filter_map(move |touched| {
            let (lowest, _) = span(touched.address, touched.size, count, is_backward)?;
            Some((touched.kind, lowest..lowest.saturating_add(touched.size.saturating_mul(count))))
        })
    }

    fn look_before(&mut self) {
        let is_repeated = repeats(&self.instruction);
        for touched in &mut self.touched {
            touched.before = match (is_repeated, touched.kind) {
                (false, _) => read(touched.address, touched.size).map(|bytes| (touched.address, bytes)),
                // What loads read is still there afterwards.
                (true, AccessKind::Load) => None,
                (true, _) => Some(read_reachable(touched, self.count, self.is_backward)),
            };
        }
    }

    /// The record of what the instruction did; none if it did nothing.
    pub fn end(self, context: &Context, outcome: Outcome) -> Option<Vec<u64>> {
        let elements = repeats(&self.instruction).then(|| self.elements(context));
        let is_partial = outcome == Outcome::Faulted && self.wanted.values && elements.is_some_and(|count| count > 0);
        if outcome == Outcome::Faulted && !is_partial {
            return None;
        }
        let mut words = vec![STEPPED, 0, self.instruction.ip(), u64::from(!is_partial)];
        words.extend(self.transfer(outcome));
        let moved = elements.and_then(|count| self.moved(count));
        for touched in &self.touched {
            self.tell(&mut words, touched, elements, moved.as_deref());
        }
        words[1] = words.len() as u64;
        Some(words)
    }

    fn transfer(&self, outcome: Outcome) -> [u64; 3] {
        let Outcome::Ran(target) = outcome else { return [0; 3] };
        let instruction = &self.instruction;
        let is_constant = instruction.op0_kind() == OpKind::NearBranch64;
        let taken = !is_constant || instruction.near_branch_target() == target;
        match site_kind(instruction) {
            _ if !is_constant && !self.wanted.targets => [0; 3],
            SiteKind::Plain => [0; 3],
            SiteKind::Jump => [if taken { TAKEN } else { NOT_TAKEN }, target, 0],
            SiteKind::Call => [CALL, target, instruction.next_ip()],
            SiteKind::Return => [RETURN, target, 0],
        }
    }

    /// What repeated moves moved: each element is stored once, so that is where it can be seen, whatever overlaps.
    fn moved(&self, count: u64) -> Option<Vec<u8>> {
        if !self.wanted.values || !self.touched.iter().any(|touched| touched.kind == AccessKind::Load) {
            return None;
        }
        let stored = self.touched.iter().find(|touched| touched.kind == AccessKind::Store)?;
        let (lowest, _) = span(stored.address, stored.size, count, self.is_backward)?;
        read(lowest, stored.size * count)
    }

    fn tell(&self, words: &mut Vec<u64>, touched: &Touched, elements: Option<u64>, moved: Option<&[u8]>) {
        let (lowest, elements) = match elements {
            None => (touched.address, Elements::One),
            Some(count) => match span(touched.address, touched.size, count, self.is_backward) {
                Some(span) => span,
                None => return,
            },
        };
        let size = touched.size * elements.count();
        let before = match (&touched.before, elements, touched.kind) {
            _ if !self.wanted.values => None,
            (_, Elements::Upward(_) | Elements::Downward(_), AccessKind::Load) => {
                moved.map(<[u8]>::to_vec).or_else(|| read(lowest, size))
            }
            (Some((start, bytes)), ..) => part(*start, bytes, lowest, size),
            (None, ..) => None,
        };
        let stores = touched.kind != AccessKind::Load;
        let after = if stores && self.wanted.values { read(lowest, size) } else { None };
        let code = match elements {
            Elements::One => 0,
            Elements::Upward(_) => UPWARD,
            Elements::Downward(_) => DOWNWARD,
        };
        let flags = kind_number(touched.kind)
            | code
            | if before.is_some() { HAS_BEFORE } else { 0 }
            | if after.is_some() { HAS_AFTER } else { 0 };
        words.extend([lowest, size, flags, elements.count()]);
        for bytes in [before, after].iter().flatten() {
            words.extend(bytes.chunks(8).map(word_of));
        }
    }
}

const TAKEN: u64 = 1;
const NOT_TAKEN: u64 = 2;
const CALL: u64 = 3;
const RETURN: u64 = 4;

const KIND: u64 = 0xff;
const HAS_BEFORE: u64 = 0x100;
const HAS_AFTER: u64 = 0x200;
const UPWARD: u64 = 0x400;
const DOWNWARD: u64 = 0x800;

const KINDS: [AccessKind; 4] = [AccessKind::Load, AccessKind::Store, AccessKind::Update, AccessKind::Atomic];

fn kind_number(kind: AccessKind) -> u64 {
    KINDS.iter().position(|&known| known == kind).unwrap_or_default() as u64
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Address and size of each place that an operand stands for.
pub fn places(instruction: &Instruction, used: &UsedMemory, context: &mut Context, xstate: XState) -> Vec<(u64, u64)> {
    let size = access_size(instruction, used) as usize;
    let (gpr, fs, gs) = (context.gpr, context.guest_fs(), context.guest_gs);
    let vectors = VectorState(state_area(context, xstate));
    let address = |lane: usize| {
        used.virtual_address(lane, |register, lane, size| match register {
            Register::FS => Some(fs),
            Register::GS => Some(gs),
            Register::RIP | Register::EIP => Some(0),
            register if register.is_vector_register() => Some(vectors.lane(register, lane, size)),
            register => Some(general(&gpr, register)),
        })
        .unwrap_or(0)
    };
    if instruction.is_vsib() {
        let lanes = 0..lanes(instruction, size.max(1), used.vsib_size().max(1) as usize);
        let wanted = lanes.filter(|&lane| vectors.is_wanted(instruction, lane, size));
        return wanted.map(|lane| (address(lane), size as u64)).collect();
    }
    let mut address = address(0);
    if tests_distant_bit(instruction) {
        address = address.wrapping_add_signed(distance(&gpr, instruction, size as i64));
    }
    let mut size = size as u64;
    if size == 0 {
        let requested = gpr[RDX] << 32 | gpr[RAX] & 0xffff_ffff;
        let header = kernel::read::<[u64; 2]>(address.wrapping_add(512)).unwrap_or_default();
        size = save_area(instruction, requested, xstate, header).unwrap_or(0);
    }
    vec![(address, size)]
}

/// The address of the first operand in memory, if it has an ordinary one.
pub fn first_address(instruction: &Instruction, context: &Context) -> Option<u64> {
    let is_in_memory = |operand: &u32| is_memory(instruction.op_kind(*operand));
    let operand = (0..instruction.op_count()).find(is_in_memory)?;
    instruction.virtual_address(operand, 0, |register, _, _| match register {
        Register::FS => Some(context.guest_fs()),
        Register::GS => Some(context.guest_gs),
        register => Some(general(&context.gpr, register)),
    })
}

fn is_memory(kind: OpKind) -> bool {
    use OpKind::{
        Memory, MemoryESDI, MemoryESEDI, MemoryESRDI, MemorySegDI, MemorySegEDI, MemorySegESI, MemorySegRDI,
        MemorySegRSI, MemorySegSI,
    };
    let implied = [
        MemoryESDI,
        MemoryESEDI,
        MemoryESRDI,
        MemorySegDI,
        MemorySegEDI,
        MemorySegESI,
        MemorySegRDI,
        MemorySegRSI,
        MemorySegSI,
    ];
    kind == Memory || implied.contains(&kind)
}

/// The value of a general register of any width; zero for segments without a base.
fn general(gpr: &[u64; 16], register: Register) -> u64 {
    let Some(number) = register_number(register) else { return 0 };
    let value = gpr[usize::from(number)];
    match register.size() {
        8 => value,
        4 => value & 0xffff_ffff,
        2 => value & 0xffff,
        _ => value & 0xff,
    }
}

/// How far from its operand a bit test reaches, in bytes: whole operands up or down.
fn distance(gpr: &[u64; 16], instruction: &Instruction, size: i64) -> i64 {
    let bit = general(gpr, instruction.op1_register());
    let bit = match size {
        2 => i64::from(bit as i16),
        4 => i64::from(bit as i32),
        _ => bit as i64,
    };
    bit.div_euclid(8 * size) * size
}

fn read(address: u64, size: u64) -> Option<Vec<u8>> {
    if size == 0 {
        return None;
    }
    let mut bytes = vec![0; size as usize];
    kernel::read_bytes(address, &mut bytes).ok().map(|()| bytes)
}

/// What can be read of the memory that a repeated store may come to, and where it starts.
fn read_reachable(touched: &Touched, count: u64, is_backward: bool) -> (u64, Vec<u8>) {
    let length = count.saturating_mul(touched.size);
    if !is_backward {
        let end = touched.address.saturating_add(length);
        let mut bytes = Vec::new();
        let mut at = touched.address;
        while at < end {
            let next = end.min((at / PAGE + 1) * PAGE);
            let Some(mut piece) = read(at, next - at) else { break };
            bytes.append(&mut piece);
            at = next;
        }
        return (touched.address, bytes);
    }
    let top = touched.address.saturating_add(touched.size);
    let end = top.saturating_sub(length);
    let mut pieces = Vec::new();
    let mut at = top;
    while at > end {
        let next = end.max((at - 1) / PAGE * PAGE);
        let Some(piece) = read(next, at - next) else { break };
        pieces.push(piece);
        at = next;
    }
    pieces.reverse();
    (at, pieces.concat())
}

/// The part of `bytes`, which lie at `start`, that is at `address`.
fn part(start: u64, bytes: &[u8], address: u64, size: u64) -> Option<Vec<u8>> {
    let from = address.checked_sub(start)? as usize;
    bytes.get(from..from.checked_add(size as usize)?).map(<[u8]>::to_vec)
}

/// A record that the engine wrote, on its way to events.
pub struct Stepped<'a> {
    pc: u64,
    ran: bool,
    is_entered: bool,
    transfer: Option<EventKind<'a>>,
    rest: &'a [u64],
}

impl<'a> Stepped<'a> {
    /// Takes the record at the start of `words`.
    pub fn split(words: &'a [u64]) -> (Stepped<'a>, &'a [u64]) {
        let (record, rest) = words.split_at(words[1] as usize);
        let target = record[5];
        let transfer = match record[4] {
            TAKEN => Some(EventKind::Branch { target, taken: true }),
            NOT_TAKEN => Some(EventKind::Branch { target, taken: false }),
            CALL => Some(EventKind::Call { target, return_address: record[6] }),
            RETURN => Some(EventKind::Return { target }),
            _ => None,
        };
        (Stepped { pc: record[2], ran: record[3] != 0, is_entered: false, transfer, rest: &record[7..] }, rest)
    }

    pub fn next(&mut self) -> Option<(u64, EventKind<'a>)> {
        let kind = if self.ran && !self.is_entered {
            self.is_entered = true;
            EventKind::Entry { instructions: 1 }
        } else if !self.rest.is_empty() {
            EventKind::Access(self.access())
        } else {
            self.transfer.take()?
        };
        Some((self.pc, kind))
    }

    fn access(&mut self) -> Access<'a> {
        let [address, size, flags, count] = self.rest[..4].try_into().expect("four words begin an access");
        self.rest = &self.rest[4..];
        let elements = match flags & (UPWARD | DOWNWARD) {
            UPWARD => Elements::Upward(count),
            DOWNWARD => Elements::Downward(count),
            _ => Elements::One,
        };
        let before = self.value(flags & HAS_BEFORE != 0, size);
        let after = self.value(flags & HAS_AFTER != 0, size);
        let kind = KINDS[(flags & KIND) as usize];
        Access { address, size, kind, is_push_or_pop: false, elements, before, after }
    }

    fn value(&mut self, is_there: bool, size: u64) -> Option<Value<'a>> {
        if !is_there {
            return None;
        }
        let (words, rest) = self.rest.split_at(size.div_ceil(8) as usize);
        self.rest = rest;
        Some(Value::new(words, size))
    }
}
