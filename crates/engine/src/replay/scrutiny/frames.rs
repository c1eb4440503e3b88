//! The calls that a thread is in, as far as they were seen: where each returns to, and what the caller's registers held.

use super::shadow::Registers;
use crate::context::{Context, RBP, RBX, RSP};
use guest::flow::Span;

/// Registers that a function gives back as it got them.
const KEPT: [usize; 6] = [RBX, RBP, 12, 13, 14, 15];

pub struct Frame {
    /// Where the return address is.
    slot: u64,
    pub target: u64,
    values: [u64; 6],
    corrupt: [bool; 6],
}

#[derive(Default)]
pub struct Frames(Vec<Frame>);

impl Frames {
    /// A call has pushed its return address.
    pub fn call(&mut self, context: &Context, registers: &Registers, slot: u64, target: u64) {
        self.returned(slot);
        let corrupt = KEPT.map(|number| registers.any_corrupt(Span::general(number as u8)));
        self.0.push(Frame { slot, target, values: KEPT.map(|number| context.gpr[number]), corrupt });
    }

    /// Calls are over whose return address lies below or at `slot`.
    pub fn returned(&mut self, slot: u64) {
        while self.0.last().is_some_and(|frame| frame.slot <= slot) {
            self.0.pop();
        }
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
