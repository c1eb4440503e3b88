//! The part of translation that makes a unit write down what it does; see `observe.rs` for the records.

use super::{CX, Emitter};
use crate::code::assembler::{Assembler, Condition, Patch};
use crate::code::cache::{Disturbance, Exit, Observed, Step};
use crate::code::observe::RecordFacts;
use crate::code::observe::plan::{Address, Operand, Place, Plan, Word};
use crate::code::observe::sparing::Allowance;
use crate::context::Layout;
use guest::instruction::register_named;
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use std::ops::Range;

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
    /// Values in memory are being copied, which is given up if it faults.
    capturing: bool,
    /// Side exits, whose records are completed behind the unit.
    side_exits: Vec<(Patch, u64, u16, u16)>,
    /// What the unit may do by being the first somewhere, if not everything is told.
    allowance: Option<Allowance>,
}

/// How far a record is that ends.
#[derive(Clone, Copy)]
pub(super) struct Ending {
    pub executed: u16,
    pub words: u16,
    pub scratch: (u8, u8),
}

impl Observer {
    /// How far the record is at this point of the unit.
    pub(super) fn state(&self) -> Observed {
        let Observer { unit, executed, words, capturing, .. } = *self;
        Observed { unit, executed, words, scratch: self.scratch(), capturing }
    }

    /// The registers in use, while the record is not complete.
    pub(super) fn scratch(&self) -> Option<(u8, u8)> {
        (!self.complete).then_some(self.plan.scratch)
    }
}

impl Emitter<'_> {
    /// Takes two registers for the unit's record.
    pub(super) fn begin_observation(&mut self, head: u64, mut plan: Plan) {
        let facts = std::mem::take(&mut plan.facts);
        let unit = self.cache.catalogue_mut().map_or(0, |catalogue| catalogue.add_unit(facts));
        let (pointer, value) = plan.scratch;
        self.step(head, Disturbance::default());
        self.asm.store_slot(self.layout.spill(POINTER_HOME), pointer);
        self.asm.store_slot(self.layout.spill(VALUE_HOME), value);
        self.asm.load_slot(pointer, self.layout.trace_next());
        let body = self.asm.here();
        let side_exits = Vec::new();
        let allowance = self.cache.spared_mut().and_then(|spared| spared.allow(head));
        self.observer = Some(Observer {
            plan,
            unit,
            head,
            body,
            executed: 0,
            words: 1,
            complete: false,
            capturing: false,
            side_exits,
            allowance,
        });
    }

    /// Leaves at once: the engine runs the instruction by itself, to see what it accesses.
    pub(super) fn leave_to_engine(&mut self, pc: u64) {
        self.leave_for(pc, Exit::Step { pc });
    }

    /// Leaves at once, with the guest's state as it is at `pc`.
    pub(super) fn leave_for(&mut self, pc: u64, exit: Exit) {
        self.leave(pc, exit);
        self.separate_from_last_entry();
    }

    /// Stores the words that the instruction's accesses need; completes the record before a transfer.
    pub(super) fn observe_before(&mut self, index: usize, instruction: &Instruction, transfers: bool) {
        let Some(observer) = &self.observer else { return };
        let words = observer.plan.before(index);
        self.step(instruction.ip(), Disturbance::default());
        self.store_words(instruction.ip(), words);
        if transfers {
            if let Some(observer) = &mut self.observer {
                observer.executed += 1;
            }
            self.complete_record(0);
        }
    }

    pub(super) fn observe_after(&mut self, index: usize, pc: u64) {
        let Some(observer) = &mut self.observer else { return };
        if observer.complete {
            return;
        }
        let words = observer.plan.after(index);
        observer.executed = index as u16 + 1;
        self.store_words(pc, words);
    }

    /// Stores these of the plan's words.
    fn store_words(&mut self, pc: u64, words: Range<usize>) {
        for word in words {
            let Some(observer) = &self.observer else { return };
            let (pointer, value) = observer.plan.scratch;
            let at = 8 * i32::from(observer.words);
            let word = observer.plan.words[word];
            let register = match word {
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
                Word::ThroughGs(operand, displacement) => {
                    self.load_address_through_gs(operand, displacement);
                    value
                }
                Word::Memory(place) => {
                    self.copy_value(pc, place, at);
                    self.count_words(word.length());
                    continue;
                }
            };
            self.asm.store(pointer, at, register);
            self.count_words(1);
        }
    }

    fn count_words(&mut self, count: u16) {
        if let Some(observer) = &mut self.observer {
            observer.words += count;
        }
    }

    /// Computes an address with the guest's GS base; the pointer into the buffer serves as a second register.
    fn load_address_through_gs(&mut self, operand: Operand, displacement: i64) {
        let Some((pointer, value)) = self.observer.as_ref().map(|observer| observer.plan.scratch) else { return };
        let (base, index) = (operand.base, operand.index);
        if matches!(base, Register::RIP | Register::EIP) || base == Register::None && index == Register::None {
            self.asm.load_constant(value, displacement as u64);
        } else if base.is_gpr32() || index.is_gpr32() {
            let narrow = register_named(value).full_register32();
            self.load_sum(Code::Lea_r32_m, narrow, operand, i64::from(displacement as i32));
        } else {
            self.load_sum(Code::Lea_r64_m, register_named(value), operand, displacement);
        }
        self.asm.load_slot(pointer, self.layout.guest_gs());
        let both = Operand { base: register_named(value), index: register_named(pointer), scale: 1 };
        self.load_sum(Code::Lea_r64_m, register_named(value), both, 0);
        self.asm.load_slot(pointer, self.layout.trace_next());
    }

    /// Copies bytes from memory into the record at `at`. Where they cannot be read, the handler goes on behind the copy:
    /// the instruction itself is about to fault, and does so as it would natively.
    fn copy_value(&mut self, pc: u64, place: Place, at: i32) {
        self.set_capturing(pc, true);
        for (offset, width) in pieces(place.size) {
            self.load_piece(place, i64::from(offset), width);
            self.store_piece(at + offset as i32, width);
        }
        self.set_capturing(pc, false);
    }

    fn set_capturing(&mut self, pc: u64, capturing: bool) {
        if let Some(observer) = &mut self.observer {
            observer.capturing = capturing;
        }
        self.step(pc, Disturbance::default());
    }

    fn load_piece(&mut self, place: Place, offset: i64, width: u32) {
        let Some((pointer, value)) = self.observer.as_ref().map(|observer| observer.plan.scratch) else { return };
        let named = register_named(value);
        let alone = Operand { base: named, index: Register::None, scale: 1 };
        let (operand, displacement) = match place.address {
            Address::Constant(address) => {
                self.asm.load_constant(value, address.wrapping_add_signed(offset));
                (alone, 0)
            }
            Address::Derived(word, distance) => {
                self.asm.load(value, pointer, 8 * i32::from(word));
                (alone, distance + offset)
            }
            Address::Operand(operand, displacement) => (operand, displacement + offset),
        };
        let segment = if place.through_fs { Register::GS } else { Register::None };
        let (code, to) = match width {
            8 => (Code::Mov_r64_rm64, named),
            4 => (Code::Mov_r32_rm32, named.full_register32()),
            2 => (Code::Movzx_r32_rm16, named.full_register32()),
            _ => (Code::Movzx_r32_rm8, named.full_register32()),
        };
        let Operand { base, index, scale } = operand;
        let size = u32::from(displacement != 0);
        let memory = MemoryOperand::new(base, index, scale, displacement, size, false, segment);
        self.encode(&Instruction::with2(code, to, memory).expect("a plain load"));
    }

    fn store_piece(&mut self, at: i32, width: u32) {
        let Some((pointer, value)) = self.observer.as_ref().map(|observer| observer.plan.scratch) else { return };
        if width == 8 {
            return self.asm.store(pointer, at, value);
        }
        let (code, from) = match width {
            4 => (Code::Mov_rm32_r32, NARROW[value as usize].0),
            2 => (Code::Mov_rm16_r16, NARROW[value as usize].1),
            _ => (Code::Mov_rm8_r8, NARROW[value as usize].2),
        };
        let memory = MemoryOperand::with_base_displ(register_named(pointer), i64::from(at));
        self.encode(&Instruction::with2(code, memory, from).expect("a plain store"));
    }

    fn load_sum(&mut self, code: Code, to: Register, operand: Operand, displacement: i64) {
        let wide = if code == Code::Lea_r32_m { 4 } else { 8 };
        let size = if displacement == 0 { 0 } else { wide };
        let memory =
            MemoryOperand::new(operand.base, operand.index, operand.scale, displacement, size, false, Register::None);
        let lea = Instruction::with2(code, to, memory).expect("every operand can be computed");
        self.encode(&lea);
    }

    /// Writes the record's number, moves on in the buffer and gives the registers back. Control goes on at `next`.
    pub(super) fn complete_record(&mut self, next: u64) {
        let Some(observer) = &mut self.observer else { return };
        observer.complete = true;
        let scratch = observer.plan.scratch;
        self.end_record(next);
        restore_scratch(self.asm, self.layout, scratch);
    }

    /// Writes the record as far as it is.
    fn end_record(&mut self, next: u64) {
        let Some(observer) = self.observer.take() else { return };
        let Observer { unit, executed, words, allowance, .. } = observer;
        let record = self.new_record(unit, executed, words, next);
        let ending = Ending { executed, words, scratch: observer.plan.scratch };
        let leaving = observer.plan.leaving.as_ref().filter(|leaving| leaving.instruction < executed);
        match leaving {
            Some(leaving) => self.write_record_if_leaving(leaving, ending, record),
            None => self.write_record(unit, allowance, ending, record),
        }
        self.observer = Some(observer);
    }

    /// Ends an observed unit that goes back to its own head, with the scratch registers still in use.
    pub(super) fn loops_to_head(&mut self, pc: u64) -> bool {
        let Some(observer) = self.observer.as_ref().filter(|observer| observer.head == pc) else { return false };
        if !self.may_loop() {
            return false;
        }
        let body = observer.body;
        self.end_record(pc);
        self.asm.jump(body);
        true
    }

    /// Whether an observed unit may go back to its own head by itself. One that is not to be found again is run through once.
    fn may_loop(&self) -> bool {
        !self.cache.single_steps && !self.cache.is_anonymous()
    }

    fn new_record(&mut self, unit: u32, executed: u16, words: u16, next: u64) -> u32 {
        let facts = RecordFacts { unit, executed, words, next, retracts: false };
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
            let observed = Some(Observed { unit, executed, words, scratch: Some(scratch), capturing: false });
            let disturbance = Disturbance { observed, ..Disturbance::default() };
            self.cache.add_step(Step { host: here, pc: target, disturbance });
            let record = self.new_record(unit, executed, words, target);
            self.write_record(unit, observer.allowance, Ending { executed, words, scratch }, record);
            if target == observer.head && self.may_loop() {
                self.asm.jump(observer.body);
            } else {
                restore_scratch(self.asm, self.layout, scratch);
                self.link(None, target);
            }
        }
    }

    /// The way out when the budget is used up; an observed unit's record ends just before the event.
    pub(super) fn budget_exit(
        &mut self,
        pc: u64,
        branch: u64,
        amount: u8,
        restore: impl FnOnce(&mut Assembler),
    ) -> u64 {
        self.exit_before_event(pc, |record| Exit::Budget { pc, branch, amount, record }, restore)
    }

    /// The way out for a thread that may pass no further point.
    pub(super) fn point_exit(&mut self, pc: u64, restore: impl FnOnce(&mut Assembler)) -> u64 {
        self.exit_before_event(pc, |record| Exit::Point { pc, record }, restore)
    }

    fn exit_before_event(
        &mut self,
        pc: u64,
        exit: impl FnOnce(Option<(u32, u16)>) -> Exit,
        restore: impl FnOnce(&mut Assembler),
    ) -> u64 {
        let layout = self.layout;
        let open = self.observer.as_ref().filter(|observer| !observer.complete);
        let Some((unit, executed, words, scratch)) =
            open.map(|observer| (observer.unit, observer.executed, observer.words, observer.plan.scratch))
        else {
            return self.cache.emit_exit(exit(None), restore);
        };
        let record = Some((self.new_record(unit, executed, words, pc), words));
        self.cache.emit_exit(exit(record), |asm| {
            restore(asm);
            restore_scratch(asm, layout, scratch);
        })
    }

    /// Leaves the unit in the middle; an observed one completes its record on the way.
    pub(super) fn side_exit(&mut self, condition: Option<Condition>, target: u64) {
        let Some(observer) = &mut self.observer else {
            return self.depart_to_guest(condition, target);
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

/// The narrower names of the general registers, by number.
const NARROW: [(Register, Register, Register); 16] = [
    (Register::EAX, Register::AX, Register::AL),
    (Register::ECX, Register::CX, Register::CL),
    (Register::EDX, Register::DX, Register::DL),
    (Register::EBX, Register::BX, Register::BL),
    (Register::ESP, Register::SP, Register::SPL),
    (Register::EBP, Register::BP, Register::BPL),
    (Register::ESI, Register::SI, Register::SIL),
    (Register::EDI, Register::DI, Register::DIL),
    (Register::R8D, Register::R8W, Register::R8L),
    (Register::R9D, Register::R9W, Register::R9L),
    (Register::R10D, Register::R10W, Register::R10L),
    (Register::R11D, Register::R11W, Register::R11L),
    (Register::R12D, Register::R12W, Register::R12L),
    (Register::R13D, Register::R13W, Register::R13L),
    (Register::R14D, Register::R14W, Register::R14L),
    (Register::R15D, Register::R15W, Register::R15L),
];

/// Cuts `size` bytes into what single moves can copy: offset and width of each.
fn pieces(size: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let width = [8, 4, 2, 1].into_iter().find(|&width| width <= size - offset)?;
        offset += width;
        Some((offset - width, width))
    })
}

fn restore_scratch(asm: &mut Assembler, layout: Layout, scratch: (u8, u8)) {
    asm.load_slot(scratch.1, layout.spill(VALUE_HOME));
    asm.load_slot(scratch.0, layout.spill(POINTER_HOME));
}
