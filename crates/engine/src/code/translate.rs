//! Emits one unit: copies the guest's instructions, keeping their meaning at another address, and turns control
//! transfers into jumps inside the cache.
//!
//! Original return addresses stay on the guest's stack, and nothing of the engine's ever goes there.

use crate::code::assembler::{Assembler, Condition, Patch};
use crate::code::cache::{CodeCache, Counting, Disturbance, Exit, Observed, Step, Trap};
use crate::code::events::{self, Form, Placement};
use crate::code::memory::BranchTable;
use crate::code::observe::{Operand, Plan, RecordFacts, Word, leaves_scratch};
use crate::code::path::{End, GuestCode, Limits, Path, is_system_call};
use crate::context::{Layout, R11, RAX, RCX, RSP, SPILL_SLOTS};
use guest::instruction::{
    RegisterSet, branches_on_count, loads_segment_register, memory_used, register_named, register_number,
    registers_used,
};
use iced_x86::{
    Code, ConditionCode, Decoder, FlowControl, Instruction, InstructionInfoFactory, MemoryOperand, Mnemonic, OpKind,
    Register,
};

const AX: u8 = RAX as u8;
const CX: u8 = RCX as u8;
/// The second register of an indirect branch, besides RCX: hardly ever live there, so that nobody waits for its reload.
const SCRATCH: u8 = R11 as u8;
/// Entries are overwritten by a jump when their unit is dropped, so they must not lie closer together.
const MIN_ENTRY_DISTANCE: u64 = 5;
/// Displacements are kept a little below two gigabytes, so that the final address need not be known exactly.
const REACH: i64 = 0x7fff_0000;

/// What the cache keeps of a unit besides its code.
pub struct Output {
    pub steps: Vec<Step>,
    pub entries: Vec<(u64, u64)>,
    pub instructions: usize,
}

struct Emitter<'a> {
    cache: &'a mut CodeCache,
    asm: &'a mut Assembler,
    layout: Layout,
    output: Output,
    counted: bool,
    observer: Option<Observer>,
}

/// The observation of the unit under translation.
struct Observer {
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

/// Translates the path at `head` into `asm`.
pub fn unit(cache: &mut CodeCache, asm: &mut Assembler, code: &dyn GuestCode, head: u64, limits: Limits) -> Output {
    let mut factory = cache.catalogue().is_some().then(InstructionInfoFactory::new);
    let mut used = RegisterSet::default();
    let stop_at = cache.stop_at();
    let admits = |instruction: &Instruction| match &mut factory {
        _ if stop_at == Some(instruction.ip()) => false,
        Some(factory) => {
            used = used.union(registers_used(factory, instruction));
            leaves_scratch(used)
        }
        None => true,
    };
    let path = Path::follow(code, head, limits, |pc| cache.entry(pc).is_some(), admits);
    let placements = events::place(code, &path.instructions);
    let plan = factory.map(|mut factory| Plan::new(&mut factory, &path.instructions));
    let layout = cache.layout;
    let steps = Vec::with_capacity(path.instructions.len() + 8);
    let output = Output { steps, entries: Vec::new(), instructions: path.instructions.len() };
    let mut emitter = Emitter { cache, asm, layout, output, counted: false, observer: None };
    emitter.path(code, head, &path, &placements, plan);
    emitter.output
}

impl Emitter<'_> {
    fn path(&mut self, code: &dyn GuestCode, head: u64, path: &Path, placements: &[Placement], plan: Option<Plan>) {
        self.entry(head);
        if let Some(plan) = plan {
            self.begin_observation(head, plan);
        }
        let mut placements = placements.iter().peekable();
        for (index, instruction) in path.instructions.iter().enumerate() {
            if let Some(placement) = placements.next_if(|placement| placement.before == index) {
                let branch = path.instructions[placement.branch].ip();
                self.count_event(placement, instruction, branch);
            }
            let last = index + 1 == path.instructions.len();
            let transfers = last && path.end == End::Transfer;
            self.observe_before(index, instruction, transfers);
            self.instruction(code, instruction, transfers);
            self.observe_after(index);
            if instruction.flow_control() != FlowControl::Next {
                self.counted = false;
                if !last && self.observer.is_none() {
                    let next = path.instructions[index + 1].ip();
                    self.entry(next);
                }
            }
        }
        self.finish(path.end);
    }

    /// What follows the last instruction of the path.
    fn finish(&mut self, end: End) {
        if let End::Continues(pc) = end
            && self.loops_to_head(pc)
        {
            return self.finish_side_exits();
        }
        if end != End::Transfer {
            self.complete_record();
        }
        match end {
            End::Transfer => {}
            End::Continues(pc) if self.cache.stop_at() == Some(pc) => self.leave(pc, Exit::Arrived { pc }),
            End::Continues(pc) => {
                self.link(None, pc);
            }
            End::Unfetchable { pc, address } => self.leave(pc, Exit::Unfetchable { pc, address }),
            End::Undefined { pc } => self.leave(pc, Exit::Trap { pc, kind: Trap::Undefined }),
        }
        // The last entry, too, must have room for a jump.
        self.separate_from_last_entry();
        self.finish_side_exits();
    }

    /// Takes two registers for the unit's record.
    fn begin_observation(&mut self, head: u64, plan: Plan) {
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
    fn observe_before(&mut self, index: usize, instruction: &Instruction, transfers: bool) {
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

    fn observe_after(&mut self, index: usize) {
        let Some(observer) = &mut self.observer else { return };
        if observer.complete {
            return;
        }
        let words = observer.plan.after[index].clone();
        observer.executed = index as u16 + 1;
        self.store_words(&words);
    }

    fn store_words(&mut self, words: &[Word]) {
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

    fn load_sum(&mut self, code: Code, to: Register, operand: Operand, displacement: i64) {
        let wide = if code == Code::Lea_r32_m { 4 } else { 8 };
        let size = if displacement == 0 { 0 } else { wide };
        let memory =
            MemoryOperand::new(operand.base, operand.index, operand.scale, displacement, size, false, Register::None);
        let lea = Instruction::with2(code, to, memory).expect("every operand can be computed");
        self.encode(&lea);
    }

    /// Writes the record's number, moves on in the buffer and gives the registers back.
    fn complete_record(&mut self) {
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
    fn loops_to_head(&mut self, pc: u64) -> bool {
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

    fn new_record(&mut self, unit: u32, executed: u16, words: u16) -> u32 {
        let facts = RecordFacts { unit, executed, words, retracts: false };
        self.cache.catalogue_mut().map_or(0, |catalogue| catalogue.add_record(facts))
    }

    /// Side exits complete their records here, out of the way. A loop back to the head keeps the registers.
    fn finish_side_exits(&mut self) {
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

    fn leave(&mut self, pc: u64, exit: Exit) {
        self.step(pc, Disturbance::default());
        let stub = self.cache.emit_exit(exit, |_| {});
        self.asm.jump(stub);
    }

    fn separate_from_last_entry(&mut self) {
        if let Some(&(_, host)) = self.output.entries.last() {
            let distance = self.asm.here() - host;
            self.asm.pad(MIN_ENTRY_DISTANCE.saturating_sub(distance) as usize);
        }
    }

    /// Lets branches from elsewhere come in here, where the state is the guest's own.
    fn entry(&mut self, pc: u64) {
        if self.cache.is_anonymous() || self.cache.entry(pc).is_some() {
            return;
        }
        self.separate_from_last_entry();
        let host = self.asm.here();
        self.cache.add_entry(pc, host);
        self.output.entries.push((pc, host));
    }

    fn step(&mut self, pc: u64, disturbance: Disturbance) {
        let observed = self.observer.as_ref().map(|observer| Observed {
            unit: observer.unit,
            executed: observer.executed,
            words: observer.words,
            scratch: (!observer.complete).then_some(observer.plan.scratch),
        });
        let disturbance = Disturbance { counted: self.counted, observed, ..disturbance };
        self.output.steps.push(Step { host: self.asm.here(), pc, disturbance });
    }

    /// A jump to another place of the guest, linked now or when it is first taken.
    fn link(&mut self, condition: Option<Condition>, target: u64) -> Patch {
        let known = self.cache.entry(target).filter(|_| !self.cache.single_steps);
        let patch = match condition {
            Some(condition) => self.asm.jump_if(condition, known.unwrap_or(0)),
            None => self.asm.jump(known.unwrap_or(0)),
        };
        if known.is_none() {
            let stub = self.cache.emit_exit(Exit::Direct { target, link: patch.address() }, |_| {});
            self.asm.aim(patch, stub);
        }
        patch
    }

    fn count_event(&mut self, placement: &Placement, instruction: &Instruction, branch: u64) {
        let pc = instruction.ip();
        let budget = self.layout.budget();
        self.step(pc, Disturbance::default());
        match placement.form {
            Form::Subtract | Form::Decrement => {
                match placement.form {
                    Form::Subtract => self.asm.subtract_slot(budget, 1),
                    _ => self.asm.decrement_slot(budget),
                }
                let stub = self.budget_exit(pc, branch, |_| {});
                self.asm.jump_if(Condition::NOT_ZERO.inverted(), stub);
            }
            // Counted where RCX is spilled anyway.
            Form::KeepFlags if instruction.flow_control() == FlowControl::IndirectBranch && self.observer.is_none() => {
                return;
            }
            Form::KeepFlags => {
                let home = self.layout.spill(0);
                self.asm.store_slot(home, CX);
                self.count_in_rcx(pc, branch, |asm| asm.load_slot(CX, home));
                self.asm.load_slot(CX, home);
            }
        }
        self.counted = true;
    }

    /// Counts through RCX, whose value `restore` can bring back; `loop` decrements and tests without flags.
    fn count_in_rcx(&mut self, pc: u64, branch: u64, restore: impl Fn(&mut Assembler)) {
        let budget = self.layout.budget();
        self.asm.load_slot(CX, budget);
        self.step(pc, Disturbance { counting: Counting::Loaded, ..Disturbance::default() });
        self.asm.raw(&[0xe2, 5]); // loop over the jump
        let stub = self.budget_exit(pc, branch, restore);
        self.asm.jump(stub);
        self.step(pc, Disturbance { counting: Counting::Taken, ..Disturbance::default() });
        self.asm.store_slot(budget, CX);
        self.step(pc, Disturbance::default());
    }

    /// The way out when the budget is used up; an observed unit's record ends just before the event.
    fn budget_exit(&mut self, pc: u64, branch: u64, restore: impl FnOnce(&mut Assembler)) -> u64 {
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

    /// One instruction of the path; `last` tells that it is the transfer that ends it.
    fn instruction(&mut self, code: &dyn GuestCode, instruction: &Instruction, last: bool) {
        self.step(instruction.ip(), Disturbance::default());
        match instruction.flow_control() {
            FlowControl::Next => self.plain(code, instruction),
            FlowControl::UnconditionalBranch if !last => {}
            FlowControl::ConditionalBranch => self.conditional(instruction),
            FlowControl::Call if instruction.is_call_near() => self.push_return_address(instruction.next_ip()),
            FlowControl::Return => self.return_to_caller(instruction),
            FlowControl::IndirectBranch | FlowControl::IndirectCall => self.indirect(instruction),
            FlowControl::XbeginXabortXend => self.transaction(code, instruction),
            FlowControl::Interrupt if !is_breakpoint(instruction) && !is_legacy_system_call(instruction) => {
                self.raise(code, instruction);
            }
            _ => self.special(instruction),
        }
    }

    fn conditional(&mut self, instruction: &Instruction) {
        let target = instruction.near_branch_target();
        if !branches_on_count(instruction) {
            self.side_exit(Some(condition_of(instruction)), target);
            return;
        }
        if matches!(
            instruction.code(),
            Code::Loop_rel8_64_ECX | Code::Loope_rel8_64_ECX | Code::Loopne_rel8_64_ECX | Code::Jecxz_rel8_64
        ) {
            self.asm.raw(&[0x67]);
        }
        let opcode = match instruction.mnemonic() {
            Mnemonic::Loopne => 0xe0,
            Mnemonic::Loope => 0xe1,
            Mnemonic::Loop => 0xe2,
            _ => 0xe3,
        };
        // Taken: over the short jump into the long one.
        self.asm.raw(&[opcode, 2, 0xeb, 5]);
        self.side_exit(None, target);
    }

    /// Leaves the unit in the middle; an observed one completes its record on the way.
    fn side_exit(&mut self, condition: Option<Condition>, target: u64) {
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

    fn push_return_address(&mut self, address: u64) {
        if let Ok(small) = i32::try_from(address) {
            self.asm.raw(&[0x68]);
            self.asm.raw(&small.to_le_bytes());
            return;
        }
        let constant = self.cache.emit_constant(address);
        self.asm.raw(&[0xff, 0x35]); // push [rip + …]
        let displacement = constant.wrapping_sub(self.asm.here() + 4) as i32;
        self.asm.raw(&displacement.to_le_bytes());
    }

    fn spill_for_branch(&mut self, pc: u64) {
        self.asm.store_slot(self.layout.gpr(RCX), CX);
        self.asm.store_slot(self.layout.gpr(R11), SCRATCH);
        self.step(pc, Disturbance { branching: true, ..Disturbance::default() });
    }

    /// Looks the address in RCX up and goes there.
    fn jump_through_table(&mut self) {
        self.asm.raw(&[0xc4, 0x63, 0x7b, 0xf0, 0xd9, BranchTable::SHIFT as u8]); // rorx r11d, ecx, SHIFT
        self.asm.raw(&[0x45, 0x0f, 0xb7, 0xdb]); // movzx r11d, r11w
        self.asm.raw(&[0x42, 0xff, 0x24, 0xdd]); // jmp [table + r11*8]
        self.asm.raw(&self.cache.table.displacement().to_le_bytes());
    }

    fn return_to_caller(&mut self, instruction: &Instruction) {
        if !matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16) {
            return self.special(instruction);
        }
        self.spill_for_branch(instruction.ip());
        self.asm.raw(&[0x59]); // pop rcx
        if instruction.code() == Code::Retnq_imm16 {
            self.asm.add_displacement(RSP as u8, i32::from(instruction.immediate16()));
        }
        self.jump_through_table();
    }

    fn indirect(&mut self, instruction: &Instruction) {
        if !matches!(instruction.code(), Code::Jmp_rm64 | Code::Call_rm64) {
            return self.special(instruction);
        }
        self.asm.store_slot(self.layout.gpr(RCX), CX);
        let uncounted = instruction.flow_control() == FlowControl::IndirectBranch && !self.counted;
        if uncounted {
            let home = self.layout.gpr(RCX);
            self.count_in_rcx(instruction.ip(), instruction.ip(), |asm| asm.load_slot(CX, home));
            if reads_rcx(instruction) {
                self.asm.load_slot(CX, home);
            }
            self.counted = true;
        }
        self.asm.store_slot(self.layout.gpr(R11), SCRATCH);
        self.step(instruction.ip(), Disturbance { branching: true, ..Disturbance::default() });
        self.load_target(instruction);
        if instruction.flow_control() == FlowControl::IndirectCall {
            self.push_return_address(instruction.next_ip());
        }
        self.jump_through_table();
    }

    /// Loads the target of an indirect branch into RCX; RCX and R11 still hold the guest's values.
    fn load_target(&mut self, instruction: &Instruction) {
        if instruction.op0_kind() == OpKind::Register {
            let register =
                register_number(instruction.op0_register()).expect("a branch target is in a general register");
            if register != CX {
                self.asm.copy(CX, register);
            }
            return;
        }
        let mut load = *instruction;
        load.set_code(Code::Mov_r64_rm64);
        load.set_op1_kind(OpKind::Memory);
        load.set_op0_kind(OpKind::Register);
        load.set_op0_register(Register::RCX);
        if load.segment_prefix() == Register::DS {
            load.set_segment_prefix(Register::None); // the no-track prefix
        }
        match load.segment_prefix() {
            Register::FS => load.set_segment_prefix(Register::GS),
            Register::GS => {
                self.materialise(&mut load, CX);
            }
            _ => {}
        }
        if load.is_ip_rel_memory_operand() && !self.reaches(load.ip_rel_memory_address()) {
            self.materialise(&mut load, CX);
        }
        self.encode(&load);
    }

    /// Transactions always abort: `xbegin` goes to its fallback with a zero status.
    fn transaction(&mut self, code: &dyn GuestCode, instruction: &Instruction) {
        if instruction.mnemonic() != Mnemonic::Xbegin {
            self.plain(code, instruction);
            self.link(None, instruction.next_ip());
            return;
        }
        self.asm.load_constant(AX, 0);
        self.link(None, instruction.near_branch_target());
    }

    /// Interrupts fault in the cache as they would natively; a trap is reported behind the instruction.
    fn raise(&mut self, code: &dyn GuestCode, instruction: &Instruction) {
        self.plain(code, instruction);
        self.step(instruction.next_ip(), Disturbance::default());
        self.link(None, instruction.next_ip());
    }

    /// System calls and instructions that need the engine.
    fn special(&mut self, instruction: &Instruction) {
        let pc = instruction.ip();
        let exit = if is_system_call(instruction) {
            Exit::SystemCall { next: instruction.next_ip() }
        } else {
            let kind = match instruction.mnemonic() {
                Mnemonic::Int3 | Mnemonic::Int if is_breakpoint(instruction) => Trap::Breakpoint,
                Mnemonic::Ud0 | Mnemonic::Ud1 | Mnemonic::Ud2 => Trap::Undefined,
                _ => Trap::Unsupported,
            };
            // A breakpoint is reported behind the instruction.
            Exit::Trap { pc: if kind == Trap::Breakpoint { instruction.next_ip() } else { pc }, kind }
        };
        self.leave_by(exit);
    }

    /// Leaves for good at this point; an observed unit's record ends here.
    fn leave_by(&mut self, exit: Exit) {
        if self.observer.as_ref().is_some_and(|observer| !observer.complete) {
            self.complete_record();
        }
        let stub = self.cache.emit_exit(exit, |_| {});
        self.asm.jump(stub);
    }

    fn reaches(&self, target: u64) -> bool {
        (target.wrapping_sub(self.asm.here()) as i64).abs() < REACH
    }

    /// An instruction that goes on to the next one.
    fn plain(&mut self, code: &dyn GuestCode, instruction: &Instruction) {
        if names_fs_or_gs(instruction) {
            return self.special(instruction);
        }
        let bytes = &code.fetch(instruction.ip())[..instruction.len()];
        match instruction.mnemonic() {
            Mnemonic::Rdfsbase | Mnemonic::Wrfsbase => {
                // The guest's FS base lives in GS: the neighbouring opcode extension.
                let (modrm, head) = bytes.split_last().expect("an instruction has bytes");
                self.asm.raw(head);
                return self.asm.raw(&[modrm + 8]);
            }
            Mnemonic::Rdgsbase | Mnemonic::Wrgsbase => return self.gs_base(instruction),
            _ => {}
        }
        let far_rip = instruction.is_ip_rel_memory_operand()
            && (instruction.memory_base() == Register::EIP || !self.reaches(instruction.ip_rel_memory_address()));
        // `lea` computes an address without its segment.
        let through_gs = instruction.segment_prefix() == Register::GS
            && instruction.mnemonic() != Mnemonic::Lea
            && memory_used(&mut self.cache.factory, instruction).any(|used| used.segment() == Register::GS);
        if through_gs && !has_ordinary_operand(instruction) {
            return self.special(instruction);
        }
        if far_rip || through_gs {
            return self.at_materialised_address(instruction);
        }
        self.copy(instruction, bytes);
    }

    /// Copies the instruction's bytes, adjusting a RIP-relative displacement and an FS prefix.
    fn copy(&mut self, instruction: &Instruction, bytes: &[u8]) {
        let mut copy = [0u8; 16];
        let copy = &mut copy[..bytes.len()];
        copy.copy_from_slice(bytes);
        if instruction.segment_prefix() == Register::FS {
            for byte in copy.iter_mut().take_while(|byte| is_legacy_prefix(**byte)) {
                if *byte == 0x64 {
                    *byte = 0x65;
                }
            }
        }
        if instruction.is_ip_rel_memory_operand() {
            let at = displacement_offset(instruction, bytes);
            let next = self.asm.here() + bytes.len() as u64;
            let displacement = instruction.ip_rel_memory_address().wrapping_sub(next) as i32;
            copy[at..at + 4].copy_from_slice(&displacement.to_le_bytes());
        }
        self.asm.raw(copy);
    }

    fn gs_base(&mut self, instruction: &Instruction) {
        let register = register_number(instruction.op0_register()).expect("rdgsbase names a general register");
        let slot = self.layout.guest_gs();
        if instruction.mnemonic() == Mnemonic::Rdgsbase {
            self.asm.load_slot(register, slot);
            if instruction.op0_register().is_gpr32() {
                self.narrow(instruction);
            }
        } else if instruction.op0_register().is_gpr32() {
            // Only the lower half counts: zero the slot, then store that.
            let home = self.layout.branch_target();
            self.asm.store_slot(home, register);
            self.narrow(instruction);
            self.asm.store_slot(slot, register);
            self.asm.load_slot(register, home);
        } else {
            self.asm.store_slot(slot, register);
        }
    }

    /// `mov r32, r32` on the instruction's operand: clears the upper half.
    fn narrow(&mut self, instruction: &Instruction) {
        let register = instruction.op0_register();
        let mut narrow = Instruction::with2(Code::Mov_r32_rm32, register, register).expect("a plain register move");
        narrow.set_ip(instruction.ip());
        self.encode(&narrow);
    }

    /// Runs the instruction with its address in a spilled register.
    fn at_materialised_address(&mut self, instruction: &Instruction) {
        let mut used = registers_used(&mut self.cache.factory, instruction);
        if let Some(observer) = self.observer.as_ref().filter(|observer| !observer.complete) {
            used.insert(observer.plan.scratch.0);
            used.insert(observer.plan.scratch.1);
        }
        // AH and its kin cannot be encoded beside a register that needs a REX prefix.
        let highest = if names_high_byte(instruction) { 8 } else { 16 };
        let register = (0..highest)
            .rev()
            .find(|&register| register != RSP as u8 && !used.contains(register))
            .expect("no instruction uses all registers");
        let home = self.layout.spill(SPILL_SLOTS - 1);
        self.asm.store_slot(home, register);
        let spilled = Disturbance { spilled: Some(register), ..Disturbance::default() };
        self.step(instruction.ip(), spilled);
        let mut moved = *instruction;
        self.materialise(&mut moved, register);
        self.encode(&moved);
        self.asm.load_slot(register, home);
    }

    /// Computes the memory operand's address into `register` and makes it the operand's base.
    fn materialise(&mut self, instruction: &mut Instruction, register: u8) {
        let named = register_named(register);
        let displacement = instruction.memory_displacement64();
        if instruction.is_ip_rel_memory_operand() {
            let mut address = instruction.ip_rel_memory_address();
            if instruction.memory_base() == Register::EIP {
                address = u64::from(address as u32);
            }
            self.asm.load_constant(register, address);
            if instruction.segment_prefix() == Register::GS {
                self.add_guest_gs(register);
            }
        } else {
            let mut lea = Instruction::with2(
                Code::Lea_r64_m,
                named,
                MemoryOperand::new(
                    instruction.memory_base(),
                    instruction.memory_index(),
                    instruction.memory_index_scale(),
                    displacement as i64,
                    instruction.memory_displ_size().max(u32::from(displacement != 0)),
                    false,
                    Register::None,
                ),
            )
            .expect("every memory operand can be computed");
            lea.set_ip(instruction.ip());
            self.encode(&lea);
            self.add_guest_gs(register);
        }
        instruction.set_segment_prefix(Register::None);
        instruction.set_memory_base(named);
        instruction.set_memory_index(Register::None);
        instruction.set_memory_index_scale(1);
        instruction.set_memory_displacement64(0);
        instruction.set_memory_displ_size(0);
    }

    /// Adds the guest's GS base without touching flags or another register.
    fn add_guest_gs(&mut self, register: u8) {
        // xchg keeps flags: park the sum's one half in the branch slot, which is free between branches.
        let other = if register == AX { CX } else { AX };
        let home = self.layout.branch_target();
        self.asm.store_slot(home, other);
        self.asm.load_slot(other, self.layout.guest_gs());
        let sum = Instruction::with2(
            Code::Lea_r64_m,
            register_named(register),
            MemoryOperand::with_base_index(register_named(register), register_named(other)),
        )
        .expect("a sum of two registers");
        self.encode(&sum);
        self.asm.load_slot(other, home);
    }

    fn encode(&mut self, instruction: &Instruction) {
        let here = self.asm.here();
        match self.cache.encoder.encode(instruction, here) {
            Ok(_) => {
                let mut buffer = self.cache.encoder.take_buffer();
                self.asm.raw(&buffer);
                buffer.clear();
                self.cache.encoder.set_buffer(buffer);
            }
            Err(_) => {
                let _ = self.cache.encoder.take_buffer();
                self.leave_by(Exit::Trap { pc: instruction.ip(), kind: Trap::Unsupported });
            }
        }
    }
}

/// Whether the target of an indirect branch depends on RCX.
fn reads_rcx(instruction: &Instruction) -> bool {
    let names = |register: Register| register_number(register) == Some(CX);
    match instruction.op0_kind() {
        OpKind::Register => names(instruction.op0_register()),
        _ => names(instruction.memory_base()) || names(instruction.memory_index()),
    }
}

fn names_high_byte(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|operand| {
        instruction.op_kind(operand) == OpKind::Register
            && matches!(instruction.op_register(operand), Register::AH | Register::CH | Register::DH | Register::BH)
    })
}

fn is_breakpoint(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Int3 => true,
        Mnemonic::Int => instruction.immediate8() == 3,
        _ => false,
    }
}

/// `int 0x80` enters the kernel with 32-bit registers, which the engine does not model.
fn is_legacy_system_call(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Int && instruction.immediate8() == 0x80
}

/// Whether the address is a sum that an instruction of its own can compute.
fn has_ordinary_operand(instruction: &Instruction) -> bool {
    let ordinary = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    let constant = matches!(
        instruction.code(),
        Code::Mov_AL_moffs8
            | Code::Mov_AX_moffs16
            | Code::Mov_EAX_moffs32
            | Code::Mov_RAX_moffs64
            | Code::Mov_moffs8_AL
            | Code::Mov_moffs16_AX
            | Code::Mov_moffs32_EAX
            | Code::Mov_moffs64_RAX
    );
    ordinary && !constant && !instruction.is_vsib()
}

/// Loads of FS or GS would take them from the engine.
fn names_fs_or_gs(instruction: &Instruction) -> bool {
    loads_segment_register(instruction) && matches!(instruction.op0_register(), Register::FS | Register::GS)
}

fn is_legacy_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3)
}

fn displacement_offset(instruction: &Instruction, bytes: &[u8]) -> usize {
    // The decoder tells offsets only of what it has just decoded.
    let mut decoder = Decoder::with_ip(64, bytes, instruction.ip(), 0);
    let _ = decoder.decode();
    decoder.get_constant_offsets(instruction).displacement_offset()
}

fn condition_of(instruction: &Instruction) -> Condition {
    Condition(match instruction.condition_code() {
        ConditionCode::o => 0,
        ConditionCode::no => 1,
        ConditionCode::b => 2,
        ConditionCode::ae => 3,
        ConditionCode::e => 4,
        ConditionCode::ne => 5,
        ConditionCode::be => 6,
        ConditionCode::a => 7,
        ConditionCode::s => 8,
        ConditionCode::ns => 9,
        ConditionCode::p => 10,
        ConditionCode::np => 11,
        ConditionCode::l => 12,
        ConditionCode::ge => 13,
        ConditionCode::le => 14,
        ConditionCode::g => 15,
        ConditionCode::None => unreachable!("a conditional branch has a condition"),
    })
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

/// Emits the check that RCX is `pc`, which falls into what follows with the guest's RCX and R11 restored, and returns
/// the address that the branch table is to hold. The jump to `miss` lies in front of it, in reach of a short branch.
pub fn prefix_check(asm: &mut Assembler, layout: Layout, pc: u64, miss: u64) -> u64 {
    let to_miss = asm.here();
    asm.jump(miss);
    let prefix = asm.here();
    // RCX becomes one on a match, which `loop` takes to zero and falls through.
    subtract_from_rcx(asm, pc.wrapping_sub(1));
    let back = to_miss.wrapping_sub(asm.here() + 2) as i8;
    asm.raw(&[0xe2, back as u8]);
    asm.load_slot(SCRATCH, layout.gpr(R11));
    asm.load_slot(CX, layout.gpr(RCX));
    prefix
}

/// Undoes the check's arithmetic (RCX holds the wanted address less `pc`) and tries the next unit of the chain.
pub fn prefix_miss(asm: &mut Assembler, pc: u64, next_in_chain: u64) {
    subtract_from_rcx(asm, pc.wrapping_neg());
    asm.jump(next_in_chain);
}

/// RCX -= value, through R11 where the value is large; leaves flags alone.
fn subtract_from_rcx(asm: &mut Assembler, value: u64) {
    let negated = value.wrapping_neg();
    match i32::try_from(negated as i64) {
        Ok(small) => asm.add_displacement(CX, small),
        Err(_) => {
            asm.load_constant(SCRATCH, negated);
            asm.raw(&[0x4a, 0x8d, 0x0c, 0x19]); // lea rcx, [rcx + r11]
        }
    }
}
