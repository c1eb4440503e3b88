//! Which instructions a function has, and how control goes from one to the next.

use super::tables::{self, Step};
use super::{Block, BlockIdx, Code};
use crate::space::GuestAddress;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use std::collections::{BTreeMap, BTreeSet};

/// More instructions than any function has that is worth a graph; what lies beyond is a way out.
const MOST_INSTRUCTIONS: usize = 100_000;

/// The longest instruction of the processor.
const LONGEST_INSTRUCTION: usize = 15;

/// Where control can go after an instruction.
#[derive(Clone, Debug, Default)]
struct Ways {
    /// In the order in which they are named.
    targets: Vec<u64>,
    leaves: bool,
}

struct Reading {
    next: u64,
    ways: Ways,
    /// Whether it ends its block wherever control goes.
    ends_block: bool,
}

/// The instructions that control can come to.
#[derive(Default)]
pub(super) struct Reached {
    instructions: BTreeMap<u64, Reading>,
    /// Where branches lead.
    starts: BTreeSet<u64>,
    unread_jumps: BTreeSet<u64>,
}

/// A place to go on from, and the way by which it was come to.
struct Open {
    at: u64,
    trail: Vec<Step>,
}

impl Reached {
    pub(super) fn from(entry: GuestAddress, code: &impl Code) -> Reached {
        let mut reached = Reached::default();
        reached.starts.insert(entry.0);
        let mut open = vec![Open { at: entry.0, trail: Vec::new() }];
        while let Some(from) = open.pop() {
            reached.follow(from, code, &mut open);
        }
        reached
    }

    /// Straight on from a place, up to where control cannot, or has been before.
    fn follow(&mut self, from: Open, code: &impl Code, open: &mut Vec<Open>) {
        let Open { mut at, mut trail } = from;
        while self.instructions.len() < MOST_INSTRUCTIONS && !self.instructions.contains_key(&at) {
            let Some(instruction) = decode(code, at) else { return };
            let ways = self.ways(&instruction, code, &trail);
            let next = instruction.next_ip();
            let straight_on = ways.targets.contains(&next);
            for target in ways.targets.iter().copied().filter(|target| *target != next) {
                let mut trail = trail.clone();
                tables::step(&mut trail, &instruction, true);
                open.push(Open { at: target, trail });
            }
            tables::step(&mut trail, &instruction, false);
            let ends_block = instruction.flow_control() != FlowControl::Next && !goes_on(&ways, next);
            if ends_block {
                self.starts.extend(ways.targets.iter().copied());
            }
            self.instructions.insert(at, Reading { next, ways, ends_block });
            if !straight_on {
                return;
            }
            at = next;
        }
    }

    fn ways(&mut self, instruction: &Instruction, code: &impl Code, trail: &[Step]) -> Ways {
        let next = instruction.next_ip();
        let only = |target| Ways { targets: vec![target], leaves: false };
        let out = Ways { targets: Vec::new(), leaves: true };
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::IndirectCall => only(next),
            FlowControl::Call => match direct_target(instruction) {
                Some(callee) if !code.returns(GuestAddress(callee)) => out,
                _ => only(next),
            },
            FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => branch(instruction, code, Some(next)),
            FlowControl::UnconditionalBranch => branch(instruction, code, None),
            FlowControl::IndirectBranch => self.indirect(instruction, code, trail),
            FlowControl::Return | FlowControl::Interrupt | FlowControl::Exception => out,
        }
    }

    fn indirect(&mut self, instruction: &Instruction, code: &impl Code, trail: &[Step]) -> Ways {
        match tables::targets(instruction, trail, code) {
            Some(targets) => Ways { targets, leaves: false },
            None => {
                self.unread_jumps.insert(instruction.ip());
                Ways { targets: Vec::new(), leaves: true }
            }
        }
    }

    pub(super) fn unread_jumps(&self) -> Vec<GuestAddress> {
        self.unread_jumps.iter().copied().map(GuestAddress).collect()
    }

    /// The instructions as blocks, in order of address. Where branches lead into the middle of other instructions, blocks
    /// may overlap in memory; then the earlier one ends where the later one starts.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let starts: Vec<u64> =
            self.starts.iter().copied().filter(|start| self.instructions.contains_key(start)).collect();
        let number: BTreeMap<u64, BlockIdx> = starts.iter().copied().enumerate().map(|(idx, at)| (at, idx)).collect();
        let blocks = starts.iter().enumerate();
        blocks.map(|(idx, start)| self.block(*start, starts.get(idx + 1).copied(), &number)).collect()
    }

    fn block(&self, start: u64, following: Option<u64>, number: &BTreeMap<u64, BlockIdx>) -> Block {
        let mut ways = Ways { targets: Vec::new(), leaves: true };
        let (mut at, mut last, mut end) = (start, start, start);
        while let Some(reading) = self.instructions.get(&at) {
            (last, end, ways) = (at, reading.next, reading.ways.clone());
            if reading.ends_block || number.contains_key(&reading.next) || !ways.targets.contains(&reading.next) {
                break;
            }
            at = reading.next;
        }
        if let Some(following) = following {
            end = end.min(following);
        }
        let successors: BTreeSet<BlockIdx> = ways.targets.iter().filter_map(|to| number.get(to).copied()).collect();
        // A way to where nothing could be read leaves the function as far as anybody knows.
        let leaves = ways.leaves || ways.targets.iter().any(|to| !number.contains_key(to));
        let successors = successors.into_iter().collect();
        Block { start: GuestAddress(start), end: GuestAddress(end), last: GuestAddress(last), successors, leaves }
    }
}

/// Whether an instruction that is no plain one still goes on with the next and nowhere else.
fn goes_on(ways: &Ways, next: u64) -> bool {
    ways.targets == [next] && !ways.leaves
}

fn branch(instruction: &Instruction, code: &impl Code, otherwise: Option<u64>) -> Ways {
    let target = direct_target(instruction).filter(|target| code.is_inside(GuestAddress(*target)));
    let mut targets: Vec<u64> = otherwise.into_iter().collect();
    targets.extend(target.filter(|target| Some(*target) != otherwise));
    // `xend` and `xabort` have no target, and go on.
    let has_target = direct_target(instruction).is_some() || otherwise.is_none();
    Ways { targets, leaves: has_target && target.is_none() }
}

fn direct_target(instruction: &Instruction) -> Option<u64> {
    let is_near = instruction.op_count() > 0
        && matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
    is_near.then(|| instruction.near_branch_target())
}

fn decode(code: &impl Code, at: u64) -> Option<Instruction> {
    let mut bytes = [0; LONGEST_INSTRUCTION];
    let length = code.read(GuestAddress(at), &mut bytes).min(LONGEST_INSTRUCTION);
    let mut decoder = Decoder::with_ip(64, &bytes[..length], at, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (!instruction.is_invalid() && instruction.next_ip() > at).then_some(instruction)
}
