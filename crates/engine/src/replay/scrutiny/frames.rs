//! The calls that a thread is in, as far as they were seen: where each returns to, and what the caller's registers held.

use super::shadow::{Registers, Serial};
use crate::context::{Context, RBP, RBX, RSP};
use guest::flow::Span;

/// Registers that a function gives back as it got them.
pub const KEPT: [usize; 6] = [RBX, RBP, 12, 13, 14, 15];

pub struct Frame {
    /// Where the return address is.
    slot: u64,
    pub target: u64,
    values: [u64; 6],
    corrupt: [bool; 6],
    /// The last conditional branch of the function itself; zero if there was none.
    branch: Serial,
}

/// The calls, the outermost first, and the last conditional branch outside of them.
#[derive(Default)]
pub struct Frames(Vec<Frame>, Serial);

impl Frames {
    /// A call has pushed its return address.
    pub fn call(&mut self, context: &Context, registers: &Registers, slot: u64, target: u64) {
        self.returned(slot);
        let corrupt = KEPT.map(|number| registers.any_corrupt(Span::general(number as u8)));
        self.0.push(Frame { slot, target, values: KEPT.map(|number| context.gpr[number]), corrupt, branch: 0 });
    }

    /// Calls and returns go unseen from here on.
    pub fn forget(&mut self) {
        self.0.clear();
        self.1 = 0;
    }

    /// Calls are over whose return address lies below or at `slot`.
    pub fn returned(&mut self, slot: u64) {
        while self.0.last().is_some_and(|frame| frame.slot <= slot) {
            self.0.pop();
        }
    }

    /// The innermost function has come to a conditional branch.
    pub fn branched(&mut self, branch: Serial) {
        *self.0.last_mut().map_or(&mut self.1, |frame| &mut frame.branch) = branch;
    }

    /// The last conditional branch of the innermost function; zero if there was none.
    pub fn branch(&self) -> Serial {
        self.0.last().map_or(self.1, |frame| frame.branch)
    }

    /// The last conditional branch of each function, the innermost first.
    pub fn branches(&self) -> impl Iterator<Item = Serial> {
        let known = self.0.iter().rev().map(|frame| frame.branch).chain([self.1]);
        known.filter(|branch| *branch != 0)
    }

    /// The return address that lies next at or below an address.
    pub fn slot_below(&self, address: u64) -> Option<u64> {
        let position = self.0.partition_point(|frame| frame.slot > address);
        self.0.get(position).map(|frame| frame.slot)
    }

    /// The call whose return address lies there.
    pub fn at(&self, slot: u64) -> Option<&Frame> {
        self.0.iter().rev().find(|frame| frame.slot == slot)
    }

    /// Ends the innermost call: the caller goes on as if the function had returned. False if no call is known.
    pub fn leave(&mut self, context: &mut Context, registers: &mut Registers) -> bool {
        let stack = context.gpr[RSP];
        let Some(frame) = self.0.iter().rposition(|frame| frame.slot >= stack).map(|position| {
            self.0.truncate(position + 1);
            self.0.pop()
        }) else {
            return false;
        };
        let Some(frame) = frame else { return false };
        for (position, &number) in KEPT.iter().enumerate() {
            context.gpr[number] = frame.values[position];
            registers.mark_all(Span::general(number as u8), frame.corrupt[position]);
        }
        context.gpr[RSP] = frame.slot + 8;
        context.pc = frame.target;
        true
    }

    /// The stack pointer of a function that gives its frame up.
    pub fn slot_above(&self, stack: u64) -> Option<&Frame> {
        self.0.iter().rev().find(|frame| frame.slot >= stack)
    }
}

impl Frame {
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// The caller's frame pointer, and whether it is corrupt.
    pub fn frame_pointer(&self) -> (u64, bool) {
        (self.values[1], self.corrupt[1])
    }
}
