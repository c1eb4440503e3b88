//! What branches of the recorded program decide about, for runs that leave structures out.

mod bounds;

use engine::{Position, Region, Structures};
use iced_x86::{Code as Opcode, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use program::flow::{BlockIdx, Code, Graph};
use program::space::{AddressSpace, GuestAddress};
use program::unwind::{self, Memory, Registers};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Functions that never return.
const ENDS: [&str; 14] = [
    "abort",
    "exit",
    "_exit",
    "__assert_fail",
    "__assert_fail_base",
    "__stack_chk_fail",
    "__fortify_fail",
    "__chk_fail",
    "__libc_fatal",
    "__libc_message",
    "malloc_printerr",
    "__cxa_throw",
    "_Unwind_Resume",
    "longjmp",
];
/// The length of a call to a constant address.
const DIRECT_CALL: u64 = 5;
const LONGEST_INSTRUCTION: u64 = 15;
/// Functions are not longer.
const LONGEST: u64 = 1 << 20;

/// Executable memory that shows a file.
struct Piece {
    range: Range<u64>,
    path: PathBuf,
    offset: u64,
}

pub struct StructuresOf {
    space: AddressSpace,
    pieces: Vec<Piece>,
    /// Where functions are, by where they start.
    functions: BTreeMap<u64, u64>,
    ends: BTreeSet<u64>,
    graphs: BTreeMap<u64, Option<Graph>>,
}

impl StructuresOf {
    pub fn new(space: &AddressSpace) -> StructuresOf {
        let executable = space.mappings().iter().filter(|mapping| space.is_executable(GuestAddress(mapping.start)));
        let pieces = executable.filter_map(|mapping| {
            let path = mapping.path.clone()?;
            Some(Piece { range: mapping.start..mapping.end, path, offset: mapping.offset })
        });
        let ends = space.functions_meaning(|name| ENDS.contains(&name).then_some(()));
        StructuresOf {
            space: space.clone(),
            pieces: pieces.collect(),
            functions: space.code_of_functions().into_iter().map(|code| (code.start.0, code.end.0)).collect(),
            ends: ends.into_iter().map(|function| function.start.0).collect(),
            graphs: BTreeMap::new(),
        }
    }

    pub fn function_around(&self, pc: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.functions.range(..=pc).next_back()?;
        (pc < end && end - start <= LONGEST).then_some(start..end)
    }

    fn graph(&mut self, function: &Range<u64>) -> Option<&Graph> {
        if !self.graphs.contains_key(&function.start) {
            let graph = self.control_flow(function);
            self.graphs.insert(function.start, graph);
        }
        self.graphs.get(&function.start)?.as_ref()
    }

    fn control_flow(&self, function: &Range<u64>) -> Option<Graph> {
        let code = FunctionCode { all: self, range: function.clone(), bytes: self.bytes(function) };
        Graph::of(GuestAddress(function.start), &code)
    }

    fn bytes(&self, range: &Range<u64>) -> Vec<u8> {
        let read = || {
            let piece = self.pieces.iter().find(|piece| piece.range.contains(&range.start))?;
            let length = range.end.min(piece.range.end) - range.start;
            let mut bytes = vec![0; length as usize];
            let offset = piece.offset + (range.start - piece.range.start);
            let n_read = File::open(&piece.path).ok()?.read_at(&mut bytes, offset).ok()?;
            bytes.truncate(n_read);
            Some(bytes)
        };
        read().unwrap_or_default()
    }

    /// The jump by which the function that was called last before an address went on as another one; none if it did not, or
    /// could have done so in several places.
    pub fn tail_jump(&self, return_address: u64) -> Option<u64> {
        let call = self.instructions(return_address.checked_sub(DIRECT_CALL)?..return_address);
        let call = call.first().filter(|call| call.flow_control() == FlowControl::Call)?;
        let function = self.function_around(call.near_branch_target())?;
        let instructions = self.instructions(function.clone());
        let mut jumps = instructions.iter().filter(|instruction| is_tail_jump(instruction, &function));
        let jump = jumps.next()?;
        jumps.next().is_none().then(|| jump.ip())
    }

    /// Behind the instruction that gave a register its value before the call that returns to an address, if nothing branches
    /// in between.
    pub fn set_before_call(&self, return_address: u64, register: Register) -> Option<u64> {
        self.setting_before_call(return_address, register).map(|setting| setting.next_ip())
    }

    fn setting_before_call(&self, return_address: u64, register: Register) -> Option<Instruction> {
        let function = self.function_around(return_address.checked_sub(1)?)?;
        let instructions = self.instructions(function.start..return_address);
        let (_, before) = instructions.split_last()?;
        let straight = before.iter().rev().take_while(|instruction| instruction.flow_control() == FlowControl::Next);
        let mut setting = straight
            .filter(|instruction| instruction.op_count() > 1 && instruction.op0_register().full_register() == register);
        setting.next().copied()
    }

    /// Where the instruction behind another one is, if that is known.
    pub fn behind(&self, pc: u64) -> Option<u64> {
        self.instructions(pc..pc + LONGEST_INSTRUCTION).first().map(Instruction::next_ip)
    }

    /// Whether an instruction makes the pointer to the stack, or one to a frame.
    pub fn makes_stack_pointer(&self, pc: u64) -> bool {
        let instructions = self.instructions(pc..pc + LONGEST_INSTRUCTION);
        instructions.first().is_some_and(|instruction| {
            let registers = (0..instruction.op_count()).map(|operand| instruction.op_register(operand));
            instruction.is_stack_instruction() || registers.into_iter().any(|register| register == Register::RSP)
        })
    }

    fn instructions(&self, range: Range<u64>) -> Vec<Instruction> {
        let bytes = self.bytes(&range);
        let decoder = Decoder::with_ip(64, &bytes, range.start, DecoderOptions::NONE);
        decoder.into_iter().take_while(|instruction| !instruction.is_invalid()).collect()
    }
}

impl Structures for StructuresOf {
    fn decided_at(&mut self, pc: u64) -> Option<Region> {
        let function = self.function_around(pc)?;
        let graph = self.graph(&function)?.clone();
        let branch = graph.block_of(GuestAddress(pc))?;
        let end = graph.immediate_post_dominator(GuestAddress(pc)).and_then(|end| graph.block_of(end));
        let end = end.or_else(|| self.other_than_failing(&graph, branch));
        let inside = reached(&graph, branch, end);
        let code = inside.iter().map(|&block| &graph.blocks()[block]);
        let instructions = code.flat_map(|block| self.instructions(block.start.0..block.end.0));
        let instructions = instructions.map(|instruction| instruction.ip()).collect();
        let stack = end.and_then(|end| self.stack_change(&graph, branch, end)).unwrap_or(0);
        Some(Region { end: end.map(|end| graph.blocks()[end].start.0), instructions, stack })
    }

    fn caller(&mut self, position: Position, read: &dyn Fn(u64, &mut [u8]) -> bool) -> Option<Position> {
        let registers = Registers::full(position.pc, position.general);
        let caller = unwind::caller(&self.space, &Shown(read), registers)?;
        let known = std::array::from_fn(|number| caller.general[number].unwrap_or(position.general[number]));
        Some(Position { pc: caller.pc, general: known })
    }
}

/// Memory as somebody else shows it.
struct Shown<'a>(&'a dyn Fn(u64, &mut [u8]) -> bool);

impl Memory for Shown<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        (self.0)(address, buffer)
    }
}

impl StructuresOf {
    /// Of a branch that decides between going on and giving up, where it goes on: checks that fail never come back.
    fn other_than_failing(&self, graph: &Graph, branch: BlockIdx) -> Option<BlockIdx> {
        let successors = &graph.blocks()[branch].successors;
        let (failing, going): (Vec<BlockIdx>, Vec<BlockIdx>) =
            successors.iter().partition(|&&block| !self.comes_back(graph, block));
        match (failing.len(), going.as_slice()) {
            (1.., [one]) => Some(*one),
            _ => None,
        }
    }

    /// Whether a way from the block leads out of the function other than by ending the program.
    fn comes_back(&self, graph: &Graph, block: BlockIdx) -> bool {
        let blocks = reached(graph, block, None).into_iter().chain([block]);
        blocks.into_iter().map(|block| &graph.blocks()[block]).any(|block| {
            let last = self.instructions(block.last.0..block.end.0).into_iter().next();
            block.leaves && last.is_none_or(|last| last.flow_control() != FlowControl::Call)
        })
    }

    /// How far the stack pointer moves on one way from behind the branch to the end; they all must agree.
    fn stack_change(&self, graph: &Graph, branch: BlockIdx, end: BlockIdx) -> Option<i64> {
        let mut seen = BTreeSet::from([branch]);
        let mut open: Vec<(BlockIdx, i64)> = graph.blocks()[branch].successors.iter().map(|next| (*next, 0)).collect();
        while let Some((block, before)) = open.pop() {
            if block == end {
                return Some(before);
            }
            if seen.insert(block) {
                let block = &graph.blocks()[block];
                let change: i64 = self.instructions(block.start.0..block.end.0).iter().map(stack_change).sum();
                open.extend(block.successors.iter().map(|next| (*next, before + change)));
            }
        }
        None
    }
}

/// The blocks that can be reached from behind a block without passing the end.
fn reached(graph: &Graph, from: BlockIdx, end: Option<BlockIdx>) -> Vec<BlockIdx> {
    let mut seen = BTreeSet::new();
    let mut open = graph.blocks()[from].successors.clone();
    while let Some(block) = open.pop() {
        if Some(block) != end && seen.insert(block) {
            open.extend(&graph.blocks()[block].successors);
        }
    }
    seen.into_iter().collect()
}

/// Whether the first operand is the stack pointer, as where room is made for a frame.
fn changes_stack_pointer(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::RSP
}

fn stack_change(instruction: &Instruction) -> i64 {
    let is_about_stack = changes_stack_pointer(instruction);
    match instruction.code() {
        Opcode::Sub_rm64_imm8 | Opcode::Sub_rm64_imm32 if is_about_stack => -(instruction.immediate(1) as i64),
        Opcode::Add_rm64_imm8 | Opcode::Add_rm64_imm32 if is_about_stack => instruction.immediate(1) as i64,
        // A call is over when it has returned.
        _ if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) => 0,
        _ => i64::from(instruction.stack_pointer_increment()),
    }
}

fn is_tail_jump(instruction: &Instruction, function: &Range<u64>) -> bool {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch => !function.contains(&instruction.near_branch_target()),
        // Through the table of what is linked.
        FlowControl::IndirectBranch => instruction.is_ip_rel_memory_operand(),
        _ => false,
    }
}

/// One function, for its graph.
struct FunctionCode<'a> {
    all: &'a StructuresOf,
    range: Range<u64>,
    bytes: Vec<u8>,
}

impl Code for FunctionCode<'_> {
    fn read(&self, address: GuestAddress, into: &mut [u8]) -> usize {
        let from = address.0.checked_sub(self.range.start).and_then(|offset| self.bytes.get(offset as usize..));
        let outside;
        let bytes = match from {
            Some(bytes) => bytes,
            // A table.
            None => {
                outside = self.all.bytes(&(address.0..address.0.saturating_add(into.len() as u64)));
                &outside
            }
        };
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        length
    }

    fn returns(&self, callee: GuestAddress) -> bool {
        !self.all.ends.contains(&callee.0)
    }

    fn is_inside(&self, target: GuestAddress) -> bool {
        self.range.contains(&target.0)
    }
}
