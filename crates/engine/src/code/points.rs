//! Points: instructions that are events of the clock because somebody wants threads to change places there.
//!
//! A set of points belongs to a run, and to its recording: the clock counts them, from the first instruction of the run on,
//! or of the file that they are in. Only
//! instructions that run on to the next one can be points, so that a point is passed exactly when its instruction is; and direct
//! calls, which nothing stops but the end of the stack.

use guest::instruction::{memory_used, saved_form, x87_pointer_stored};
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, OpAccess};
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
pub struct Points(BTreeSet<u64>);

impl Points {
    pub fn new(addresses: BTreeSet<u64>) -> Points {
        Points(addresses)
    }

    pub fn addresses(&self) -> &BTreeSet<u64> {
        &self.0
    }

    /// Adds points in code that nobody has run.
    pub fn add(&mut self, addresses: impl Iterator<Item = u64>) {
        self.0.extend(addresses);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the instruction is a point.
    pub fn contains(&self, instruction: &Instruction) -> bool {
        !self.0.is_empty()
            && self.0.contains(&instruction.ip())
            && matches!(instruction.flow_control(), FlowControl::Next | FlowControl::Call)
            // Instructions that the engine itself runs pass no event.
            && x87_pointer_stored(instruction).is_none()
            && saved_form(instruction).is_none()
    }
}

/// Whether the instruction may store to memory.
pub fn stores(instruction: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    memory_used(factory.info(instruction), instruction)
        .any(|used| !matches!(used.access(), OpAccess::Read | OpAccess::CondRead))
}
