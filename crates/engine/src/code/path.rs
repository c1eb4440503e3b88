//! Which guest instructions make up a translation unit.
//!
//! A path starts at its head and runs on through fall-through, unconditional jumps and calls, leaving by side exits at
//! conditional branches. Longer straight runs mean fewer jumps and better instruction fetch.

use iced_x86::{Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, Mnemonic};
use std::ops::Range;

/// Executable guest memory, as the translator reads it.
pub trait GuestCode {
    /// The executable bytes from `pc` on, as many as lie together (at least up to the end of the page); empty where
    /// nothing may be executed.
    fn fetch(&self, pc: u64) -> &[u8];

    /// The pointer that the guest has at an address, which code jumps through; nothing where it has no memory.
    fn pointer(&self, address: u64) -> Option<u64>;
}

/// How long a path may grow.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub instructions: usize,
    pub branches: usize,
}

/// How a path ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The last instruction transfers control to where only running it tells.
    Transfer,
    /// Control goes on at this guest address, outside the path.
    Continues(u64),
    /// The instruction here cannot be fetched; the fault is at `address`.
    Unfetchable { pc: u64, address: u64 },
    /// The bytes here are no instruction.
    Undefined { pc: u64 },
}

#[derive(Clone)]
pub struct Path {
    pub instructions: Vec<Instruction>,
    pub end: End,
}

/// One decoded instruction or why there is none.
pub fn decode_at(code: &dyn GuestCode, pc: u64) -> Result<Instruction, End> {
    Reader { code, decoder: None }.at(pc)
}

/// Decodes one instruction after the other. Beginning to decode takes as long as decoding, so it is done once for those that lie
/// behind each other.
struct Reader<'c> {
    code: &'c dyn GuestCode,
    decoder: Option<Decoder<'c>>,
}

impl Reader<'_> {
    fn at(&mut self, pc: u64) -> Result<Instruction, End> {
        if let Some(decoder) = self.decoder.as_mut().filter(|decoder| decoder.ip() == pc) {
            let instruction = decoder.decode();
            if !instruction.is_invalid() {
                return Ok(instruction);
            }
            // It may go on in bytes that have not been fetched.
        }
        let bytes = self.code.fetch(pc);
        if bytes.is_empty() {
            return Err(End::Unfetchable { pc, address: pc });
        }
        let decoder = self.decoder.insert(Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE));
        let instruction = decoder.decode();
        if !instruction.is_invalid() {
            return Ok(instruction);
        }
        Err(match decoder.last_error() {
            DecoderError::NoMoreBytes => End::Unfetchable { pc, address: pc + bytes.len() as u64 },
            _ => End::Undefined { pc },
        })
    }
}

/// Whether control may go on elsewhere than at the next instruction or a constant target.
fn ends_path(instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::Next | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => false,
        FlowControl::Call => !instruction.is_call_near(),
        _ => true,
    }
}

impl Path {
    /// Where control goes on along the path after the instruction at `index`.
    pub fn successor(&self, index: usize) -> Option<u64> {
        match (self.instructions.get(index + 1), self.end) {
            (Some(next), _) => Some(next.ip()),
            (None, End::Continues(pc)) => Some(pc),
            _ => None,
        }
    }

    /// Whether an instruction of the path lies in `range`, or reaches into it.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        self.instructions.iter().any(|instruction| instruction.ip() < range.end && range.start < instruction.next_ip())
    }

    /// Whether the path ends where it begins.
    pub fn is_loop(&self) -> bool {
        self.instructions.first().is_some_and(|first| self.end == End::Continues(first.ip()))
    }

    /// The path up to its last conditional branch that goes back to where it begins, as a loop; or as it is.
    pub fn into_loop(mut self) -> Path {
        let Some(head) = self.instructions.first().map(Instruction::ip) else { return self };
        let goes_back = |instruction: &Instruction| {
            instruction.flow_control() == FlowControl::ConditionalBranch && instruction.near_branch_target() == head
        };
        if let Some(last) = self.instructions.iter().rposition(goes_back) {
            self.instructions.truncate(last + 1);
            self.end = End::Continues(head);
        }
        self
    }

    /// A short loop several times over, so that what it costs to count or describe its rounds is shared between them.
    pub fn repeated(mut self) -> Path {
        const LENGTH: usize = 96;
        const MOST: usize = 8;
        let length = self.instructions.len();
        let times = if self.is_loop() { (LENGTH / length).clamp(1, MOST) } else { 1 };
        self.instructions.reserve(length * (times - 1));
        (1..times).for_each(|_| self.instructions.extend_from_within(..length));
        self
    }

    /// The path up to and with one of its instructions, which transfers control.
    pub fn cut_behind(&self, index: usize) -> Path {
        Path { instructions: self.instructions[..=index].to_vec(), end: End::Transfer }
    }

    /// The path from one of its instructions on; a loop goes round to that instruction.
    pub fn from(&self, index: usize) -> Path {
        let (before, after) = self.instructions.split_at(index);
        let mut instructions = after.to_vec();
        if !self.is_loop() {
            return Path { instructions, end: self.end };
        }
        instructions.extend_from_slice(before);
        Path { end: End::Continues(instructions[0].ip()), instructions }
    }

    /// Follows the code from `head`; stops where `is_known` says that a translation exists, and before an instruction
    /// that `admits` refuses, unless it is the first.
    pub fn follow(
        code: &dyn GuestCode,
        head: u64,
        limits: Limits,
        is_known: impl Fn(u64) -> bool,
        mut admits: impl FnMut(&Instruction) -> bool,
    ) -> Path {
        let mut path = Path { instructions: Vec::with_capacity(limits.instructions), end: End::Continues(head) };
        let mut starts = Vec::with_capacity(limits.branches);
        starts.push(head);
        let mut reader = Reader { code, decoder: None };
        let mut pc = head;
        loop {
            let instruction = match reader.at(pc) {
                Ok(instruction) => instruction,
                Err(end) => {
                    path.end = if path.instructions.is_empty() { end } else { End::Continues(pc) };
                    return path;
                }
            };
            if !admits(&instruction) && !path.instructions.is_empty() {
                path.end = End::Continues(pc);
                return path;
            }
            path.instructions.push(instruction);
            if ends_path(&instruction) || !is_simple_transfer(&instruction) {
                path.end = End::Transfer;
                return path;
            }
            let branches = instruction.flow_control() != FlowControl::Next;
            pc = match instruction.flow_control() {
                FlowControl::UnconditionalBranch | FlowControl::Call => instruction.near_branch_target(),
                _ => instruction.next_ip(),
            };
            let full = path.instructions.len() >= limits.instructions || branches && starts.len() >= limits.branches;
            if full || branches && (is_known(pc) || starts.contains(&pc)) {
                path.end = End::Continues(pc);
                return path;
            }
            if branches {
                starts.push(pc);
            }
        }
    }
}

/// Far jumps decode as unconditional branches too, but have no near target.
fn is_simple_transfer(instruction: &Instruction) -> bool {
    instruction.flow_control() != FlowControl::UnconditionalBranch || instruction.is_jmp_short_or_near()
}

/// Whether the instruction enters the kernel.
pub fn is_system_call(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Syscall
}
