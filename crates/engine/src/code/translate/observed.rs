//! The part of translation that makes a unit write down what it does; see `observe.rs` for the records.

use super::{CX, Emitter};
use crate::code::assembler::{Assembler, Condition, Patch};
use crate::code::cache::{Disturbance, Exit, Observed, Step};
use crate::code::observe::{Operand, Plan, RecordFacts, Word};
use crate::context::Layout;
use guest::instruction::register_named;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

/// The observation of the unit under translation.
pub(super) struct Observer {
    plan: Plan,
    unit: u32,
    head: u64,
    /// Where a loop back to the head goes on, with the scratch registers in use.
    body: u64,
    /// Instructions emitted and words stored so far.
    executed: u16,
    words: u16,
    /// The record is complete; the last instruction follows.
    complete: bool,
    /// Side exits, whose records are completed behind the unit.
    side_exits: Vec<(Patch, u64, u16, u16)>,
}

impl Observer {
    /// How far the record is at this point of the unit.
    pub(super) fn state(&self) -> Observed {
        Observed { unit: self.unit, executed: self.executed, words: self.words, scratch: self.scratch() }
    }

    /// The registers in use, while the record is not complete.
    pub(super) fn scratch(&self) -> Option<(u8, u8)> {
        (!self.complete).then_some(self.plan.scratch)
    }
}

impl Emitter<'_> {
    /// Takes two registers for the unit's record.
    pub(super) fn begin_observation(&mut self, head: u64, plan: Plan) {
        let facts = plan.facts.clone();
        let unit = self.cache.catalogue_mut().map_or(0, |catalogue| catalogue.add_unit(facts));
        let (pointer, value) = plan.scratch;
        self.step(head, Disturbance::default());
        self.asm.store_slot(self.layout.spill(POINTER_HOME), pointer);
        self.asm.store_slot(self.layout.spill(VALUE_HOME), value);
        self.asm.load_slot(pointer, self.layout.trace_next());
        let body = self.asm.here();
        let side_exits = Vec::new();
        self.observer = Some(Observer { plan, unit, head, body, executed: 0, words: 1, complete: false, side_exits });
    }

    /// Stores the words that the instruction's accesses need; completes the record before a transfer.
    pub(super) fn observe_before(&mut self, index: usize, instruction: &Instruction, transfers: bool) {
        let Some(observer) = &self.observer else { return };
        let words = observer.plan.before[index].clone();
        self.step(instruction.ip(), Disturbance::default());
        self.store_words(&words);
        if transfers {
            if let Some(observer) = &mut self.observer {
                observer.executed += 1;
            }
            self.complete_record();
        }
    }

    pub(super) fn observe_after(&mut self, index: usize) {
        let Some(observer) = &mut self.observer else { return };
        if observer.complete {
            return;
        }
        let words = observer.plan.after[index].clone();
        observer.executed = index as u16 + 1;
        self.store_words(&words);
    }

    pub(super) fn store_words(&mut self, words: &[Word]) {
        for word in words {
            let Some(observer) = &mut self.observer else { return };
            let (pointer, value) = observer.plan.scratch;
            let at = 8 * i32::from(observer.words);
            observer.words += 1;
            let register = match *word {
                Word::Register(register) => register,
                Word::Count => CX,
                Word::Sum(operand) => {
                    self.load_sum(Code::Lea_r64_m, register_named(value), operand, 0);
                    value
                }
                Word::Narrow(operand, displacement) => {
                    let narrow = register_named(value).full_register32();
                    self.load_sum(Code::Lea_r32_m, narrow, operand, i64::from(displacement as i32));
                    value
                }
            };
            self.asm.store(pointer, at, register);
        }
    }

    pub(super) fn load_sum(&mut self, code: Code, to: Register, operand: Operand, displacement: i64) {
        let wide = if code == Code::Lea_r32_m { 4 } else { 8 };
        let size = if displacement == 0 { 0 } else { wide };
        let memory =
            MemoryOperand::new(operand.base, operand.index, operand.scale, displacement, size, false, Register::None);
        let lea = Instruction::with2(code, to, memory).expect("every operand can be computed");
        self.encode(&lea);
    }

    /// Writes the record's number, moves on in the buffer and gives the registers back.
    pub(super) fn complete_record(&mut self) {
        let Some(observer) = &mut self.observer else { return };
        observer.complete = true;
        let (unit, executed, words, scratch) =
            (observer.unit, observer.executed, observer.words, observer.plan.scratch);
        let record = self.new_record(unit, executed, words);
        let layout = self.layout;
        write_record(self.asm, layout, scratch, record, words);
        restore_scratch(self.asm, layout, scratch);
    }

    /// Ends an observed unit that goes back to its own head, with the scratch registers still in use.
    pub(super) fn loops_to_head(&mut self, pc: u64) -> bool {
        let Some(observer) = self.observer.as_ref().filter(|observer| observer.head == pc) else { return false };
        if self.cache.single_steps {
            return false;
        }
        let (unit, executed, words) = (observer.unit, observer.executed, observer.words);
        let (scratch, body) = (observer.plan.scratch, observer.body);
        let record = self.new_record(unit, executed, words);
        write_record(self.asm, self.layout, scratch, record, words);
        self.asm.jump(body);
        true
    }

    pub(super) fn new_record(&mut self, unit: u32, executed: u16, words: u16) -> u32 {
        let facts = RecordFacts { unit, executed, words, retracts: false };
        self.cache.catalogue_mut().map_or(0, |catalogue| catalogue.add_record(facts))
    }

    /// Side exits complete their records here, out of the way. A loop back to the head keeps the registers.
    pub(super) fn finish_side_exits(&mut self) {
        let Some(mut observer) = self.observer.take() else { return };
        let scratch = observer.plan.scratch;
        let unit = observer.unit;
        for (patch, target, executed, words) in std::mem::take(&mut observer.side_exits) {
            let here = self.asm.here();
            self.asm.aim(patch, here);
            // Only running over the end of the buffer can fault here.
            let observed = Some(Observed { unit, executed, words, scratch: Some(scratch) });
            let disturbance = Disturbance { observed, ..Disturbance::default() };
            self.output.steps.push(Step { host: here, pc: target, disturbance });
            let record = self.new_record(unit, executed, words);
            write_record(self.asm, self.layout, scratch, record, words);
            if target == observer.head && !self.cache.single_steps {
                self.asm.jump(observer.body);
            } else {
                restore_scratch(self.asm, self.layout, scratch);
                self.link(None, target);
            }
        }
    }

    /// The way out when the budget is used up; an observed unit's record ends just before the event.
    pub(super) fn budget_exit(&mut self, pc: u64, branch: u64, restore: impl FnOnce(&mut Assembler)) -> u64 {
        let layout = self.layout;
        let open = self.observer.as_ref().filter(|observer| !observer.complete);
        let Some((unit, executed, words, scratch)) =
            open.map(|observer| (observer.unit, observer.executed, observer.words, observer.plan.scratch))
        else {
            return self.cache.emit_exit(Exit::Budget { pc, branch, record: None }, restore);
        };
        let record = Some((self.new_record(unit, executed, words), words));
        self.cache.emit_exit(Exit::Budget { pc, branch, record }, |asm| {
            restore(asm);
            restore_scratch(asm, layout, scratch);
        })
    }

    /// Leaves the unit in the middle; an observed one completes its record on the way.
    pub(super) fn side_exit(&mut self, condition: Option<Condition>, target: u64) {
        let Some(observer) = &mut self.observer else {
            self.link(condition, target);
            return;
        };
        let patch = match condition {
            Some(condition) => self.asm.jump_if(condition, 0),
            None => self.asm.jump(0),
        };
        observer.side_exits.push((patch, target, observer.executed + 1, observer.words));
    }
}

/// Spill slots of the two registers that an observed unit takes.
const POINTER_HOME: usize = 1;
const VALUE_HOME: usize = 2;

fn write_record(asm: &mut Assembler, layout: Layout, scratch: (u8, u8), record: u32, words: u16) {
    let (pointer, _) = scratch;
    asm.store_constant(pointer, 0, record as i32);
    asm.add_displacement(pointer, 8 * i32::from(words));
    asm.store_slot(layout.trace_next(), pointer);
}

fn restore_scratch(asm: &mut Assembler, layout: Layout, scratch: (u8, u8)) {
    asm.load_slot(scratch.1, layout.spill(VALUE_HOME));
    asm.load_slot(scratch.0, layout.spill(POINTER_HOME));
}
