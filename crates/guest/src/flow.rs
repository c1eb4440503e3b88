//! Where an instruction's results come from: which bytes of registers and memory go into which, and which are mere copies.
//!
//! An instruction is told as parts, each with sources and targets: most have one, `push`, string instructions and
//! exchanges have several that do not depend on each other. The registers that make up an address are kept apart from data.
//! Where a write may not happen (`cmov`, shifts by a register, masks), the old value is a source too. Every instruction
//! has a flow; where little is known of one, all that it reads goes into all that it writes.
//!
//! May miss: control and status words of the floating-point units, segment bases, and what system instructions do.

mod parts;
mod registers;

pub use registers::{REGISTER_BYTES, Span};

use crate::instruction::memory_used;
use iced_x86::{
    ConditionCode, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory, UsedRegister,
};

/// What a part reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Register(Span),
    /// The operand of this number in [`Flow::memory`].
    Memory(usize),
}

/// How targets come from sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Something new is made of all sources; nothing but constants if there are none.
    Computes,
    /// The only target gets the bytes of the only source. Where it has more, they repeat its sign or are zero: `extends`
    /// tells that they belong to the value.
    Copies { extends: bool },
    /// The same under a condition on flags, which are not among the sources; otherwise the target stays as it is.
    CopiesIf(ConditionCode),
    /// A pointer or counter moves on to the next element.
    Advances,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    pub kind: Kind,
    pub sources: Vec<Place>,
    pub targets: Vec<Place>,
}

/// Memory that an instruction accesses.
#[derive(Clone, Debug)]
pub struct Memory {
    pub used: UsedMemory,
    pub reads: bool,
    pub writes: bool,
    /// The registers that make up its address.
    pub address: Vec<Span>,
}

/// What an instruction does to control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// The next instruction follows, or a constant one.
    Straight,
    /// One of two follows, as the sources say.
    Conditional,
    IndirectJump,
    Call,
    IndirectCall,
    Return,
    Kernel,
}

#[derive(Clone, Debug)]
pub struct Flow {
    pub parts: Vec<Part>,
    pub memory: Vec<Memory>,
    pub control: Control,
    /// The register that tells how often a string instruction repeats itself.
    pub count: Option<Span>,
}

impl Flow {
    pub fn of(factory: &mut InstructionInfoFactory, instruction: &Instruction) -> Flow {
        let memory: Vec<Memory> = memory_used(factory.info(instruction), instruction).map(Memory::new).collect();
        let control = control_of(instruction);
        let count = crate::instruction::repeats(instruction).then(|| Span::general(1));
        let parts = parts::of(factory, instruction, &memory);
        Flow { parts, memory, control, count }
    }

    /// All registers whose values say where the instruction accesses memory, or how often.
    pub fn addressing(&self) -> impl Iterator<Item = Span> {
        self.memory.iter().flat_map(|memory| memory.address.iter().copied()).chain(self.count)
    }

    pub fn sources(&self) -> impl Iterator<Item = Place> {
        self.parts.iter().flat_map(|part| part.sources.iter().copied())
    }

    pub fn targets(&self) -> impl Iterator<Item = Place> {
        self.parts.iter().flat_map(|part| part.targets.iter().copied())
    }
}

impl Memory {
    fn new(used: &UsedMemory) -> Memory {
        let access = used.access();
        let registers = [used.base(), used.index()];
        Memory {
            used: *used,
            reads: reads(access),
            writes: writes(access),
            address: registers.into_iter().filter_map(Span::of).collect(),
        }
    }

    /// Whether a register takes part in the address.
    fn is_reached_by(&self, register: Register) -> bool {
        Span::of(register).is_some_and(|span| self.address.iter().any(|address| address.start == span.start))
    }
}

fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// Whether the old value may still be there afterwards.
fn may_keep(access: OpAccess) -> bool {
    matches!(access, OpAccess::CondWrite | OpAccess::ReadCondWrite)
}

fn is_read(used: &UsedRegister) -> bool {
    reads(used.access()) || may_keep(used.access())
}

fn control_of(instruction: &Instruction) -> Control {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => Control::Conditional,
        FlowControl::IndirectBranch => Control::IndirectJump,
        // The flow of `syscall` is a call's as well.
        _ if crate::instruction::enters_kernel(instruction) => Control::Kernel,
        FlowControl::Call => Control::Call,
        FlowControl::IndirectCall => Control::IndirectCall,
        FlowControl::Return => Control::Return,
        _ => Control::Straight,
    }
}

#[cfg(test)]
mod tests;
