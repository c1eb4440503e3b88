//! One instruction that is about to run: what it is, and which memory it is going to access.

use crate::code::path::decode_at;
use crate::context::{Context, RCX};
use crate::engine::Engine;
use crate::guest_code::LiveCode;
use crate::observation::places;
use guest::flow::{Flow, Kind};
use iced_x86::{CodeSize, Instruction, InstructionInfoFactory, Mnemonic};
use std::ops::Range;
use std::sync::Arc;

const DIRECTION_FLAG: u64 = 0x400;
/// More than this of a repeated access is not looked at.
const LONGEST: u64 = 16 << 20;
/// String comparisons end where they find something, which is mostly soon.
const LONGEST_SEARCH: u64 = 64;

/// An instruction and its flow.
pub struct Known {
    pub instruction: Instruction,
    pub flow: Flow,
}

impl Known {
    pub fn at(engine: &Engine, pc: u64) -> Option<Known> {
        let instruction = decode_at(&LiveCode(&engine.world().space), pc).ok()?;
        let flow = Flow::of(&mut InstructionInfoFactory::new(), &instruction);
        Some(Known { instruction, flow })
    }

    /// Whether it stores what a matching instruction takes from the stack again.
    pub fn saves(&self) -> bool {
        matches!(self.instruction.mnemonic(), Mnemonic::Push | Mnemonic::Call)
    }

    /// Whether every part that is not about pointers and counters copies.
    pub fn only_copies(&self) -> bool {
        let parts = &self.flow.parts;
        let copies = |kind: Kind| matches!(kind, Kind::Copies { .. } | Kind::CopiesIf(_));
        parts.iter().any(|part| copies(part.kind))
            && parts.iter().all(|part| copies(part.kind) || part.kind == Kind::Advances || part.targets.is_empty())
    }

    fn searches(&self) -> bool {
        matches!(
            self.instruction.mnemonic(),
            Mnemonic::Cmpsb
                | Mnemonic::Cmpsw
                | Mnemonic::Cmpsq
                | Mnemonic::Scasb
                | Mnemonic::Scasw
                | Mnemonic::Scasd
                | Mnemonic::Scasq
        ) || self.instruction.mnemonic() == Mnemonic::Cmpsd && self.instruction.is_string_instruction()
    }
}

/// An instruction where it stands.
pub struct Look {
    pub known: Arc<Known>,
    pub thread: u32,
    pub clock: u64,
    /// For each operand in memory.
    pub ranges: Vec<Vec<Range<u64>>>,
    /// Whether the condition of a conditional move holds; true for others.
    pub moves: bool,
    /// What is to be put back once it has run.
    pub restore: Vec<(u64, u8)>,
}

impl Look {
    pub fn at(known: Arc<Known>, engine: &Engine, context: &mut Context) -> Look {
        let instruction = &known.instruction;
        let mut ranges = Vec::with_capacity(known.flow.memory.len());
        for memory in &known.flow.memory {
            let accesses = places(instruction, &memory.used, context, engine.xstate());
            let range = |(address, size)| match known.flow.count {
                None => address..u64::saturating_add(address, size),
                Some(_) => repeated(&known, context, address, size),
            };
            ranges.push(accesses.into_iter().map(range).collect());
        }
        let condition = known.flow.parts.iter().find_map(|part| match part.kind {
            Kind::CopiesIf(condition) => Some(condition),
            _ => None,
        });
        let moves = condition.and_then(|condition| super::super::whatif::holds(condition, context.rflags));
        let (thread, clock) = (context.thread, context.clock());
        Look { known, thread, clock, ranges, moves: moves.unwrap_or(true), restore: Vec::new() }
    }

    pub fn pc(&self) -> u64 {
        self.known.instruction.ip()
    }

    /// The addresses of a place in memory, in order.
    pub fn addresses(&self, operand: usize) -> impl Iterator<Item = u64> + '_ {
        self.ranges[operand].iter().cloned().flatten()
    }
}

/// All that a repeated access comes to.
fn repeated(known: &Known, context: &Context, address: u64, size: u64) -> Range<u64> {
    let is_narrow = known.flow.memory.iter().any(|memory| memory.used.address_size() == CodeSize::Code32);
    let count = if is_narrow { context.gpr[RCX] & 0xffff_ffff } else { context.gpr[RCX] };
    let longest = if known.searches() { LONGEST_SEARCH } else { LONGEST };
    let length = count.saturating_mul(size).min(longest);
    if context.rflags & DIRECTION_FLAG == 0 {
        return address..address.saturating_add(length);
    }
    let end = address.saturating_add(size);
    end.saturating_sub(length)..end
}
