//! What a conditional branch decides about: where its structure ends, and what could have happened inside.

use super::look::{Known, Look};
use super::shadow::{Memory, Registers};
use crate::context::{Context, RSP};
use crate::engine::Engine;
use crate::kernel;
use guest::flow::{Control, Place, Span};
use iced_x86::Register;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The part of a function that runs or not as a branch decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// The first instruction that runs in any case; none if the function ends first.
    pub end: Option<u64>,
    /// Where its instructions are.
    pub instructions: Vec<u64>,
    /// How far the stack pointer moves from the branch to the end.
    pub stack: i64,
}

/// Where a thread stands: its next instruction and its general registers, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub pc: u64,
    pub general: [u64; 16],
}

impl Position {
    pub fn stack(&self) -> u64 {
        self.general[RSP]
    }
}

/// What is known of the guest's code without running it.
pub trait Structures: Send {
    /// The region that the branch at `pc` decides about; none if nobody knows.
    fn decided_at(&mut self, pc: u64) -> Option<Region>;

    /// Where a function returns to that is left as it stands, as `read` shows its memory; none if nobody knows.
    fn caller(&mut self, position: Position, read: &dyn Fn(u64, &mut [u8]) -> bool) -> Option<Position>;
}

/// Registers in which results are returned.
const RESULTS: [Register; 4] = [Register::RAX, Register::RDX, Register::XMM0, Register::XMM1];

/// What a region could write.
pub struct Effects {
    pub region: Region,
    spans: BTreeSet<Span>,
    stores: Vec<Arc<Known>>,
}

pub struct KnownStructures {
    source: Box<dyn Structures>,
    known: FxHashMap<u64, Option<Arc<Effects>>>,
}

impl KnownStructures {
    pub fn new(source: Box<dyn Structures>) -> KnownStructures {
        KnownStructures { source, known: FxHashMap::default() }
    }

    /// Where the function that the thread is in returns to.
    pub fn caller(&mut self, context: &Context) -> Option<Position> {
        let position = Position { pc: context.pc, general: context.gpr };
        self.source.caller(position, &|address, bytes| kernel::read_bytes(address, bytes).is_ok())
    }

    pub fn decided_at(&mut self, engine: &Engine, pc: u64) -> Option<Arc<Effects>> {
        if let Some(known) = self.known.get(&pc) {
            return known.clone();
        }
        let effects = self.source.decided_at(pc).map(|region| Arc::new(Effects::of(engine, region)));
        self.known.insert(pc, effects.clone());
        effects
    }
}

impl Effects {
    fn of(engine: &Engine, region: Region) -> Effects {
        let mut effects = Effects { region, spans: BTreeSet::new(), stores: Vec::new() };
        for known in effects.region.instructions.clone().into_iter().filter_map(|pc| Known::at(engine, pc)) {
            effects.add(known);
        }
        effects
    }

    fn add(&mut self, known: Known) {
        if matches!(known.flow.control, Control::Call | Control::IndirectCall) {
            self.spans.extend(results());
            return;
        }
        if known.flow.control == Control::Kernel {
            self.spans.insert(Span::general(0));
        }
        let stack = Span::general(4);
        let written = known.flow.targets().filter_map(|target| match target {
            Place::Register(span) if span != stack => Some(span),
            _ => None,
        });
        self.spans.extend(written);
        // What a stack instruction writes lies below what is in use at the end.
        if known.flow.memory.iter().any(|memory| memory.writes) && !known.instruction.is_stack_instruction() {
            self.stores.push(Arc::new(known));
        }
    }

    /// Marks what could have been written: registers, and memory whose address does not depend on the region itself.
    pub fn mark(&self, engine: &Engine, context: &mut Context, registers: &mut Registers, memory: &mut Memory) {
        for known in &self.stores {
            let is_known = known
                .flow
                .addressing()
                .all(|span| !registers.any_corrupt(span) && !self.spans.iter().any(|written| overlap(*written, span)));
            if is_known {
                let look = Look::at(Arc::clone(known), engine, context);
                let written = (0..look.ranges.len()).filter(|operand| known.flow.memory[*operand].writes);
                let addresses: Vec<u64> = written.flat_map(|operand| look.addresses(operand)).collect();
                addresses.into_iter().for_each(|address| memory.mark(address, true));
            }
        }
        self.spans.iter().for_each(|span| registers.mark_all(*span, true));
    }
}

/// Registers in which a function that did not run would have returned something.
pub fn results() -> impl Iterator<Item = Span> {
    RESULTS.into_iter().filter_map(Span::of)
}

fn overlap(one: Span, other: Span) -> bool {
    one.start < other.start + other.length && other.start < one.start + one.length
}
