//! What becomes of an instruction that corruption reaches.

use super::frames::KEPT;
use super::look::Look;
use super::structures::results;
use super::{Scrutiny, Verdict};
use crate::context::{Context, RAX, RBP, RDI, RSP};
use crate::engine::Engine;
use crate::kernel;
use guest::flow::{Control, Kind, Place, Span};
use iced_x86::{Instruction, Mnemonic, Register};

impl Scrutiny {
    /// The plan wants the instruction that the thread stands at left out, with all that depends on it.
    pub fn suppress(&mut self, engine: &Engine, context: &mut Context) {
        self.attend(engine);
        let look = self.look(engine, context).filter(|look| !keeps_stack(&look.known.instruction));
        let verdict = look.map(|look| self.leave_out(engine, context, look));
        if verdict != Some(Verdict::Skipped) {
            self.remark(format!("the instruction at {:#x} cannot be left out", context.pc));
        }
    }

    pub(super) fn remark(&mut self, text: String) {
        if !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }

    pub(super) fn decide(&mut self, engine: &Engine, context: &mut Context, mut look: Look) -> Verdict {
        self.trust_saved(&look);
        let flow = &look.known.flow;
        let addressing = flow.addressing().any(|span| self.is_corrupt(&look, Place::Register(span)));
        let data = flow.sources().any(|source| self.is_corrupt(&look, source));
        let is_corrupt = match flow.control {
            Control::Kernel => {
                self.remark_on_status(context);
                self.call_is_corrupt(context)
            }
            _ => addressing || data,
        };
        if is_corrupt && (addressing || !self.can_run(&look)) {
            return self.leave_out(engine, context, look);
        }
        if is_corrupt {
            look.restore = self.bytes_to_keep(&look);
        }
        self.looking = Some(look);
        Verdict::Runs
    }

    fn remark_on_status(&mut self, context: &Context) {
        let is_exit = matches!(context.gpr[RAX] as i64, libc::SYS_exit_group | libc::SYS_exit);
        if is_exit && self.registers(context.thread).any_corrupt(Span::general(RDI as u8)) {
            self.remark("the exit status depends on what was left out".to_owned());
        }
    }

    /// What a call or `push` has stored is still there if all that came to the place since was suppressed.
    fn trust_saved(&mut self, look: &Look) {
        let takes_saved = look.known.flow.control == Control::Return
            || matches!(look.known.instruction.mnemonic(), Mnemonic::Pop | Mnemonic::Leave);
        let Some(operand) = look.known.flow.memory.iter().position(|memory| memory.reads).filter(|_| takes_saved)
        else {
            return;
        };
        let slots: Vec<u64> = look.addresses(operand).collect();
        let writer = slots.first().map_or(0, |slot| self.memory.writer(*slot));
        let is_whole = slots.iter().all(|slot| self.memory.writer(*slot) == writer);
        let is_stored = slots.first().is_none_or(|slot| !self.saved_corrupt.contains(slot));
        let is_saved = writer == 0 && is_stored || self.history.node(writer).is_some_and(|node| node.saves);
        if is_whole && is_saved {
            slots.into_iter().for_each(|slot| self.memory.mark(slot, false));
        }
    }

    /// Whether an instruction may run though it moves corrupt bytes: if that is all it does.
    fn can_run(&self, look: &Look) -> bool {
        let decided = |part: &guest::flow::Part| part.targets.is_empty() || part.kind == Kind::Advances;
        let decisions = look.known.flow.parts.iter().filter(|part| decided(part));
        let mut deciding = decisions.flat_map(|part| &part.sources);
        look.known.flow.control == Control::Straight
            && look.known.only_copies()
            && !deciding.any(|source| self.is_corrupt(look, *source))
    }

    /// What memory holds where corrupt bytes are about to be stored.
    fn bytes_to_keep(&self, look: &Look) -> Vec<(u64, u8)> {
        let mut kept = Vec::new();
        for part in look.known.flow.parts.iter().filter(|_| look.moves) {
            let change = self.change(look, part);
            let operands = part.targets.iter().filter_map(|target| match target {
                Place::Memory(operand) => Some(*operand),
                Place::Register(_) => None,
            });
            for operand in operands {
                let corrupt =
                    look.addresses(operand).enumerate().filter(|(position, _)| change.corrupts(*position, true));
                kept.extend(corrupt.filter_map(|(_, address)| Some((address, kernel::read::<u8>(address).ok()?))));
            }
        }
        kept
    }

    /// Lets an instruction have no effect but to corrupt its targets, and goes on behind it.
    fn leave_out(&mut self, engine: &Engine, context: &mut Context, look: Look) -> Verdict {
        let is_left_out = self.go_around(engine, context, &look);
        if is_left_out {
            self.suppressed += 1;
            self.note(&look, || 0);
            return Verdict::Skipped;
        }
        self.looking = Some(look);
        Verdict::Runs
    }

    fn go_around(&mut self, engine: &Engine, context: &mut Context, look: &Look) -> bool {
        let next = look.known.instruction.next_ip();
        match look.known.flow.control {
            Control::Conditional | Control::IndirectJump => return self.leave_structure_out(engine, context, look),
            Control::Return => return self.return_as_called(context, look),
            Control::Kernel => self.skip_call(context, next),
            Control::IndirectCall => {
                let registers = self.registers(look.thread);
                results().for_each(|span| registers.mark_all(span, true));
            }
            // There is nothing to leave out of a direct call.
            Control::Call => return false,
            Control::Straight if look.known.instruction.mnemonic() == Mnemonic::Leave => {
                self.leave_frame(context, look)
            }
            Control::Straight if takes_stack_from_frame(&look.known.instruction) => self.find_stack(context, look),
            Control::Straight => {
                self.corrupt_targets(look);
                if look.known.instruction.is_stack_instruction() {
                    let change = look.known.instruction.stack_pointer_increment();
                    context.gpr[RSP] = context.gpr[RSP].wrapping_add_signed(i64::from(change));
                }
            }
        }
        context.pc = next;
        true
    }

    fn corrupt_targets(&mut self, look: &Look) {
        let stack = Span::general(RSP as u8);
        let counted = look.known.flow.count.is_none_or(|count| !self.is_corrupt(look, Place::Register(count)));
        for target in look.known.flow.targets() {
            match target {
                // Without a stack nothing could go on.
                Place::Register(span) if span == stack => {}
                Place::Register(span) => self.registers(look.thread).mark_all(span, true),
                Place::Memory(operand) => {
                    let mut address = look.known.flow.memory[operand].address.iter();
                    let is_known = counted && !address.any(|span| self.is_corrupt(look, Place::Register(*span)));
                    if is_known {
                        look.ranges[operand].iter().cloned().for_each(|range| self.memory.mark_all(range, true));
                    }
                }
            }
        }
    }

    /// A function whose frame pointer is corrupt gives its frame up: both pointers are those of its call.
    fn leave_frame(&mut self, context: &mut Context, look: &Look) {
        let caller = self.structures.caller(context);
        let thread = self.threads.entry(look.thread).or_default();
        let known = thread.frames.slot_above(context.gpr[RSP]);
        let known = known.map(|frame| (frame.slot(), frame.frame_pointer()));
        let found = || caller.map(|caller| (caller.stack() - 8, (caller.general[RBP], false)));
        let Some((slot, (pointer, is_corrupt))) = known.or_else(found) else {
            return self.remark(format!("the frame pointer is corrupt at {:#x}", look.pc()));
        };
        context.gpr[RSP] = slot;
        context.gpr[RBP] = pointer;
        thread.registers.mark_all(Span::general(RBP as u8), is_corrupt);
    }

    /// The stack pointer is made of a frame pointer that is corrupt: the call tells what that was.
    fn find_stack(&mut self, context: &mut Context, look: &Look) {
        let thread = self.threads.entry(look.thread).or_default();
        let slot = thread.frames.slot_above(context.gpr[RSP]).map(|frame| frame.slot());
        // What is not known is still in the register, as far as all that came to it was left out.
        let pointer = slot.map_or(context.gpr[RBP], |slot| slot - 8);
        context.gpr[RSP] = pointer.wrapping_add(look.known.instruction.memory_displacement64());
    }

    /// A return whose address is corrupt goes where its call came from.
    fn return_as_called(&mut self, context: &mut Context, look: &Look) -> bool {
        let slot = context.gpr[RSP];
        let caller = self.structures.caller(context).filter(|caller| caller.stack() == slot + 8);
        let thread = self.threads.entry(look.thread).or_default();
        let known = thread.frames.at(slot).map(|frame| frame.target);
        let Some(target) = known.or(caller.map(|caller| caller.pc)) else {
            self.remark(format!("where the return at {:#x} goes is corrupt", look.pc()));
            return false;
        };
        thread.frames.returned(slot);
        context.gpr[RSP] = slot + 8;
        context.pc = target;
        true
    }

    /// Lets the innermost function return, though its call was not seen: what it has saved is on the stack.
    fn leave_as_called(&mut self, context: &mut Context, look: &Look) -> bool {
        let Some(caller) = self.structures.caller(context) else { return false };
        let registers = self.registers(look.thread);
        for number in KEPT {
            if context.gpr[number] != caller.general[number] {
                context.gpr[number] = caller.general[number];
                registers.mark_all(Span::general(number as u8), false);
            }
        }
        context.gpr[RSP] = caller.stack();
        context.pc = caller.pc;
        true
    }

    /// Goes on at the end of the structure that the branch decides about; what it could have written is corrupt.
    fn leave_structure_out(&mut self, engine: &Engine, context: &mut Context, look: &Look) -> bool {
        let effects = self.structures.decided_at(engine, look.pc());
        let thread = self.threads.entry(look.thread).or_default();
        if let Some(effects) = &effects {
            effects.mark(engine, context, &mut thread.registers, &mut self.memory);
            if let Some(end) = effects.region.end {
                context.gpr[RSP] = context.gpr[RSP].wrapping_add_signed(effects.region.stack);
                context.pc = end;
                return true;
            }
        }
        // The structure ends with the function.
        let is_left = thread.frames.leave(context, &mut thread.registers) || self.leave_as_called(context, look);
        let thread = self.threads.entry(look.thread).or_default();
        if is_left {
            results().for_each(|span| thread.registers.mark_all(span, true));
            return true;
        }
        self.remark(format!("the structure of the branch at {:#x} has no known end", look.pc()));
        false
    }
}

/// Whether an instruction keeps the stack, or a register for the caller: nothing could go on without it.
fn keeps_stack(instruction: &Instruction) -> bool {
    let is_kept = |register: Register| register.is_gpr64() && KEPT.contains(&register.number());
    match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Pop => is_kept(instruction.op0_register()),
        Mnemonic::Leave => true,
        Mnemonic::Mov if instruction.op1_register() == Register::RSP => instruction.op0_register() == Register::RBP,
        _ => instruction.op0_register() == Register::RSP,
    }
}

/// Whether an instruction makes the stack pointer of the frame pointer.
fn takes_stack_from_frame(instruction: &Instruction) -> bool {
    let is_copy = instruction.mnemonic() == Mnemonic::Mov && instruction.op1_register() == Register::RBP;
    let is_sum = instruction.mnemonic() == Mnemonic::Lea && instruction.memory_base() == Register::RBP;
    instruction.op0_register() == Register::RSP && (is_copy || is_sum && instruction.memory_index() == Register::None)
}
