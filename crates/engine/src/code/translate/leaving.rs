//! Leaving a hot path in the middle: events that it counted ahead are given back, out of the way behind the unit.

use super::branches::subtract_from_rcx;
use super::{CX, Emitter};
use crate::code::assembler::{Condition, Patch};
use crate::code::cache::{Counting, Disturbance};
use crate::code::events;
use crate::code::hot::Guard;
use crate::code::path::GuestCode;

/// A jump out of a hot path, and what it has to put in order.
pub(super) struct Departure {
    from: Patch,
    to: Destination,
    /// Events that were counted but not passed.
    ahead: u8,
}

enum Destination {
    /// A place of the guest.
    Guest(u64),
    /// An exit stub.
    Stub(u64),
    /// What RCX says, less what was expected; that is counted in `counter`.
    Unexpected { expected: u64, counter: Option<u64> },
}

impl Emitter<'_> {
    /// Goes to another place of the guest.
    pub(super) fn depart_to_guest(&mut self, condition: Option<Condition>, target: u64) {
        if self.ahead == 0 {
            self.link(condition, target);
            return;
        }
        self.depart_later(condition, Destination::Guest(target));
    }

    /// Goes to an exit stub.
    pub(super) fn depart(&mut self, condition: Option<Condition>, stub: u64) {
        if self.ahead == 0 {
            self.jump(condition, stub);
            return;
        }
        self.depart_later(condition, Destination::Stub(stub));
    }

    /// Goes to an address that differs from the expected one by what is in RCX.
    pub(super) fn depart_to_unexpected(&mut self, expected: u64) {
        let counter = self.counts_surprises.then(|| self.cache.emit_constant(0));
        self.output.guards.extend(counter.map(|counter| Guard { counter, index: self.index }));
        self.depart_later(None, Destination::Unexpected { expected, counter });
    }

    fn depart_later(&mut self, condition: Option<Condition>, to: Destination) {
        let from = self.jump(condition, 0);
        self.departures.push(Departure { from, to, ahead: self.ahead });
    }

    pub(super) fn jump(&mut self, condition: Option<Condition>, target: u64) -> Patch {
        match condition {
            Some(condition) => self.asm.jump_if(condition, target),
            None => self.asm.jump(target),
        }
    }

    pub(super) fn finish_departures(&mut self, code: &dyn GuestCode) {
        for Departure { from, to, ahead } in std::mem::take(&mut self.departures) {
            let here = self.asm.here();
            self.asm.aim(from, here);
            self.ahead = ahead;
            match to {
                Destination::Guest(target) => {
                    self.give_back(target, events::flags_dead_at(code, target));
                    self.link(None, target);
                }
                Destination::Stub(stub) => {
                    self.give_back(0, false);
                    self.asm.jump(stub);
                }
                Destination::Unexpected { expected, counter } => {
                    subtract_from_rcx(self.asm, expected.wrapping_neg());
                    if let Some(counter) = counter {
                        self.count_surprise(counter);
                    }
                    self.give_back(expected, false);
                    self.jump_through_table();
                }
            }
        }
    }

    /// Adds one to a counter, through R11, whose value is in its slot.
    fn count_surprise(&mut self, counter: u64) {
        self.asm.raw(&[0x4c, 0x8b, 0x1d]); // mov r11, [rip + …]
        self.asm.relative(counter);
        self.asm.raw(&[0x4d, 0x8d, 0x5b, 0x01]); // lea r11, [r11 + 1]
        self.asm.raw(&[0x4c, 0x89, 0x1d]); // mov [rip + …], r11
        self.asm.relative(counter);
    }

    /// Gives the events ahead back to the budget.
    fn give_back(&mut self, pc: u64, flags_dead: bool) {
        let ahead = std::mem::take(&mut self.ahead);
        if ahead == 0 {
            return;
        }
        self.step(pc, Disturbance::default());
        let budget = self.layout.budget();
        if flags_dead {
            return self.asm.add_to_slot(budget, ahead as i8);
        }
        let home = self.layout.spill(0);
        self.asm.store_slot(home, CX);
        self.asm.load_slot(CX, budget);
        self.step(pc, Disturbance { counting: Counting::Loaded, ..Disturbance::default() });
        self.asm.add_displacement(CX, i32::from(ahead));
        self.asm.store_slot(budget, CX);
        self.step(pc, Disturbance::default());
        self.asm.load_slot(CX, home);
    }
}
