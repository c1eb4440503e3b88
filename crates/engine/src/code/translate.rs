//! Emits one unit: copies the guest's instructions, keeping their meaning at another address, and turns control
//! transfers into jumps inside the cache.
//!
//! Original return addresses stay on the guest's stack, and nothing of the engine's ever goes there.

mod branches;
mod leaving;
mod limiting;
mod moved;
mod observed;
mod operands;
mod points;
mod sparing;
mod watching;

pub use branches::{prefix_check, prefix_miss};
pub use sparing::CLOSED_GATE;

use crate::code::assembler::{Assembler, Condition, Patch};
use crate::code::cache::{CodeCache, Counting, Disturbance, Exit, NO_LINK, Step, Trap};
use crate::code::events::{self, Form, Placement};
use crate::code::hot::Guard;
use crate::code::observe::notes::Notes;
use crate::code::observe::plan::{Cut, Plan};
use crate::code::path::{End, GuestCode, Limits, Path, is_system_call};
use crate::context::{Layout, R11, RAX, RCX};
use iced_x86::{FlowControl, Instruction, Mnemonic};
use leaving::Departure;
use observed::Observer;

const AX: u8 = RAX as u8;
const CX: u8 = RCX as u8;
/// The second register of an indirect branch, besides RCX: hardly ever live there, so that nobody waits for its reload.
const SCRATCH: u8 = R11 as u8;
/// Entries are overwritten by a jump when their unit is dropped, so they must not lie closer together.
const MIN_ENTRY_DISTANCE: u64 = 5;
/// What the cache keeps of a unit besides its code.
pub struct Output {
    pub entries: Vec<(u64, u64)>,
    pub instructions: usize,
    pub guards: Vec<Guard>,
}

struct Emitter<'a> {
    cache: &'a mut CodeCache,
    asm: &'a mut Assembler,
    layout: Layout,
    output: Output,
    /// How many events that lie ahead are counted already.
    ahead: u8,
    observer: Option<Observer>,
    /// The start of a unit that only its own loop leads to.
    own_head: Option<(u64, u64)>,
    /// Ways out of a hot path that must be put in order first.
    departures: Vec<Departure>,
    /// The path's instruction that is being emitted.
    index: usize,
    /// Unexpected targets are counted.
    counts_surprises: bool,
    /// Whoever comes in passes a gate, which is at the head alone.
    is_gated: bool,
}

/// Translates the path at `head` into `asm`.
pub fn unit(cache: &mut CodeCache, asm: &mut Assembler, code: &dyn GuestCode, head: u64, limits: Limits) -> Output {
    if let Some(exit) = exit_at(cache, head) {
        let mut emitter = Emitter::new(cache, asm, 0);
        emitter.entry(head);
        emitter.leave_for(head, exit);
        return emitter.output;
    }
    let mut notes = cache.notes.take().unwrap_or_default();
    let path = follow(cache, code, head, limits, &mut notes);
    let is_free = cache.stop_at().is_none() && !cache.single_steps && !cache.is_anonymous();
    let may_repeat = is_free && notes.tell_something();
    let path = if may_repeat { path.into_loop() } else { path };
    notes.truncate(path.instructions.len());
    let left = if may_repeat { cache.tell_for_a_while(head, &path) } else { None };
    let path = if may_repeat { path.repeated() } else { path };
    if let (Some(beyond), Some(first)) = (&mut cache.beyond, path.instructions.first()) {
        beyond.meet(first);
    }
    let placements = events::place(code, &path.instructions, &cache.points);
    let wishes = cache.wishes().filter(|_| notes.tell_something());
    let plan = wishes.map(|wishes| Plan::new(&path.instructions, &notes, wishes));
    cache.notes = Some(notes);
    let mut emitter = Emitter::new(cache, asm, path.instructions.len());
    emitter.entry(head);
    if let Some(left) = left {
        emitter.count_run(head, left);
    }
    if let Some(plan) = plan {
        if plan.needs_engine {
            emitter.leave_to_engine(head);
            return emitter.output;
        }
        emitter.begin_observation(head, plan);
    }
    emitter.path(code, &path, &placements);
    emitter.output
}

/// How a unit leaves at once that begins where translated code is to be left.
fn exit_at(cache: &CodeCache, head: u64) -> Option<Exit> {
    if cache.is_place(head) && !cache.is_anonymous() {
        return Some(Exit::Place { pc: head });
    }
    cache.has_sequel(head).then_some(Exit::Sequel { pc: head })
}

/// The path at `head`, with notes on it if it may be observed.
fn follow(cache: &CodeCache, code: &dyn GuestCode, head: u64, limits: Limits, notes: &mut Notes) -> Path {
    notes.clear();
    let wishes = cache.wishes();
    let mut cut = wishes.map(|wishes| Cut::new(wishes, notes));
    let admits = |instruction: &Instruction| {
        wishes.into_iter().for_each(|wishes| wishes.meet(code, instruction));
        // Asked in any case, so that there is a note on each instruction.
        let fits = cut.as_mut().is_none_or(|cut| cut.admits(instruction));
        fits && cache.stop_at() != Some(instruction.ip())
            && !cache.is_place(instruction.ip())
            && !cache.has_sequel(instruction.ip())
            && cache.beyond.as_ref().is_none_or(|beyond| beyond.knows(instruction))
    };
    let path = Path::follow(code, head, limits, |pc| cache.entry(pc).is_some(), admits);
    notes.truncate(path.instructions.len());
    path
}

/// Translates a path as it is, with no entry and no observation.
pub fn given(cache: &mut CodeCache, asm: &mut Assembler, code: &dyn GuestCode, path: &Path) -> Output {
    let placements = events::place(code, &path.instructions, &cache.points);
    let mut emitter = Emitter::new(cache, asm, path.instructions.len());
    emitter.path(code, path, &placements);
    emitter.output
}

/// Translates a hot path and makes it what its head stands for.
pub fn hot(
    cache: &mut CodeCache,
    asm: &mut Assembler,
    code: &dyn GuestCode,
    path: &Path,
    placements: &[Placement],
    is_gated: bool,
) -> Output {
    let mut emitter = Emitter::new(cache, asm, path.instructions.len());
    emitter.counts_surprises = true;
    let head = path.instructions[0].ip();
    match is_gated {
        true => emitter.gated_entry(head),
        false => emitter.add_entry(head),
    }
    emitter.path(code, path, placements);
    emitter.output
}

/// Translates a path that counts one event at a time and that nothing but itself links to.
pub fn twin(cache: &mut CodeCache, asm: &mut Assembler, code: &dyn GuestCode, path: &Path) -> Output {
    let placements = events::place(code, &path.instructions, &cache.points);
    let mut emitter = Emitter::new(cache, asm, path.instructions.len());
    let head = (path.instructions[0].ip(), emitter.asm.here());
    emitter.own_head = Some(head);
    emitter.output.entries.push(head);
    emitter.path(code, path, &placements);
    emitter.output
}

impl Emitter<'_> {
    fn new<'a>(cache: &'a mut CodeCache, asm: &'a mut Assembler, instructions: usize) -> Emitter<'a> {
        let output = Output { entries: Vec::new(), instructions, guards: Vec::new() };
        let layout = cache.layout;
        Emitter {
            cache,
            asm,
            layout,
            output,
            ahead: 0,
            observer: None,
            own_head: None,
            departures: Vec::new(),
            index: 0,
            counts_surprises: false,
            is_gated: false,
        }
    }

    fn path(&mut self, code: &dyn GuestCode, path: &Path, placements: &[Placement]) {
        let mut placements = placements.iter().peekable();
        for (index, instruction) in path.instructions.iter().enumerate() {
            self.index = index;
            let moved = self.moved(instruction);
            let instruction = moved.as_ref().unwrap_or(instruction);
            self.watch(instruction);
            let mut is_point = false;
            if let Some(placement) = placements.next_if(|placement| placement.before == index) {
                let branch = path.instructions[placement.branch].ip();
                is_point = placement.form == Form::Point;
                self.count_event(placement, instruction, branch);
            }
            let last = index + 1 == path.instructions.len();
            let transfers = last && path.end == End::Transfer;
            self.observe_before(index, instruction, transfers);
            // Where a call leads to, it has been passed.
            let is_call = instruction.flow_control() == FlowControl::Call;
            self.ahead -= u8::from(is_point && is_call);
            self.instruction(code, instruction, transfers, path.successor(index));
            self.ahead -= u8::from(is_point && !is_call);
            self.observe_after(index, instruction.ip());
            if instruction.flow_control() != FlowControl::Next && !last && self.is_open() {
                let next = path.instructions[index + 1].ip();
                self.entry(next);
            }
        }
        self.finish(code, path.end);
    }

    /// What follows the last instruction of the path.
    fn finish(&mut self, code: &dyn GuestCode, end: End) {
        if let End::Continues(pc) = end
            && self.loops_to_head(pc)
        {
            return self.finish_side_exits();
        }
        if let End::Continues(pc) | End::Unfetchable { pc, .. } | End::Undefined { pc } = end {
            self.complete_record(pc);
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
        self.finish_departures(code);
    }

    /// Whether others may come in at the next block.
    fn is_open(&self) -> bool {
        self.observer.is_none() && self.ahead == 0 && self.own_head.is_none() && !self.is_gated
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
        self.add_entry(pc);
    }

    fn add_entry(&mut self, pc: u64) {
        self.separate_from_last_entry();
        let host = self.asm.here();
        self.cache.add_entry(pc, host);
        self.output.entries.push((pc, host));
    }

    fn step(&mut self, pc: u64, disturbance: Disturbance) {
        let observed = self.observer.as_ref().map(Observer::state);
        let disturbance = Disturbance { ahead: self.ahead, observed, ..disturbance };
        self.cache.add_step(Step { host: self.asm.here(), pc, disturbance });
    }

    /// A jump to another place of the guest, linked now or when it is first taken.
    fn link(&mut self, condition: Option<Condition>, target: u64) -> Patch {
        let own = self.own_head.filter(|(pc, _)| *pc == target).map(|(_, host)| host);
        let comes_back = self.cache.single_steps || self.cache.is_detached();
        let known = own.or_else(|| self.cache.entry(target)).filter(|_| !comes_back);
        let patch = match condition {
            Some(condition) => self.asm.jump_if(condition, known.unwrap_or(0)),
            None => self.asm.jump(known.unwrap_or(0)),
        };
        if own.is_none() && known.is_some() {
            self.cache.add_link(patch.address(), target);
        }
        if known.is_none() {
            let link = if self.cache.is_detached() { NO_LINK } else { patch.address() };
            let stub = self.cache.emit_exit(Exit::Direct { target, link }, |_| {});
            self.asm.aim(patch, stub);
        }
        patch
    }

    fn count_event(&mut self, placement: &Placement, instruction: &Instruction, branch: u64) {
        let pc = instruction.ip();
        let budget = self.layout.budget();
        self.step(pc, Disturbance::default());
        let amount = placement.amount;
        match placement.form {
            Form::Subtract | Form::Decrement => {
                match placement.form {
                    Form::Subtract => self.asm.subtract_slot(budget, amount as i8),
                    _ => self.asm.decrement_slot(budget),
                }
                let stub = self.budget_exit(pc, branch, amount, |_| {});
                let used_up = if amount == 1 { Condition::NOT_ZERO.inverted() } else { Condition::NOT_POSITIVE };
                self.asm.jump_if(used_up, stub);
            }
            // Counted where RCX is spilled anyway.
            Form::KeepFlags if instruction.flow_control() == FlowControl::IndirectBranch && self.observer.is_none() => {
                return;
            }
            Form::Point => return self.count_point(pc),
            Form::KeepFlags => {
                let home = self.layout.spill(0);
                self.asm.store_slot(home, CX);
                self.count_in_rcx(pc, branch, |asm| asm.load_slot(CX, home));
                self.asm.load_slot(CX, home);
            }
        }
        self.ahead += amount;
    }

    /// Counts through RCX, whose value `restore` can bring back; `loop` decrements and tests without flags.
    fn count_in_rcx(&mut self, pc: u64, branch: u64, restore: impl Fn(&mut Assembler)) {
        let budget = self.layout.budget();
        self.asm.load_slot(CX, budget);
        self.step(pc, Disturbance { counting: Counting::Loaded, ..Disturbance::default() });
        self.asm.raw(&[0xe2, 5]); // loop over the jump
        let stub = self.budget_exit(pc, branch, 1, restore);
        self.asm.jump(stub);
        self.step(pc, Disturbance { counting: Counting::Taken, ..Disturbance::default() });
        self.asm.store_slot(budget, CX);
        self.step(pc, Disturbance::default());
    }

    /// The event of the instruction just emitted lies no longer ahead.
    fn pass_event(&mut self, instruction: &Instruction) {
        self.ahead -= u8::from(events::is_event(instruction));
    }

    /// One instruction of the path; `last` tells that it is the transfer that ends it, `successor` where the path goes on.
    fn instruction(&mut self, code: &dyn GuestCode, instruction: &Instruction, last: bool, successor: Option<u64>) {
        self.step(instruction.ip(), Disturbance::default());
        match instruction.flow_control() {
            FlowControl::Next => self.plain(code, instruction),
            FlowControl::UnconditionalBranch if !last => self.pass_event(instruction),
            FlowControl::ConditionalBranch => self.conditional(instruction, successor),
            FlowControl::Call if instruction.is_call_near() => self.push_return_address(instruction.next_ip()),
            FlowControl::Return => self.return_to_caller(instruction, successor),
            FlowControl::IndirectBranch | FlowControl::IndirectCall => self.indirect(instruction, successor),
            FlowControl::XbeginXabortXend => self.transaction(code, instruction),
            FlowControl::Interrupt if !is_breakpoint(instruction) && !is_legacy_system_call(instruction) => {
                self.raise(code, instruction);
            }
            _ => self.special(instruction),
        }
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
        if self.observer.as_ref().and_then(Observer::scratch).is_some() {
            let pc = self.cache.last_step().map_or(0, |step| step.pc);
            self.complete_record(pc);
        }
        let stub = self.cache.emit_exit(exit, |_| {});
        self.depart(None, stub);
    }
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
