//! The loop of every guest thread: run translated code until it leaves, do what it left for, go on.

use crate::code::cache::{Exit, Trap};
use crate::code::hot::Follower;
use crate::code::observe::Wanted;
use crate::code::path::decode_at;
use crate::code::points::stores;
use crate::context::{Context, Fault, RAX, RCX, RDI, RSP, Standing};
use crate::debug::{Debugging, Next};
use crate::engine::Engine;
use crate::faults;
use crate::guest_code::LiveCode;
use crate::instructions;
use crate::journal::write_down;
use crate::kernel;
use crate::observation::{Outcome, Step, first_address};
use crate::processor::features::Beyond;
use crate::replay::{Closely, Replay};
use crate::saved_state;
use crate::signals::deliver::{self, Moment};
use crate::syscalls::{self, Flow};
use crate::x87;
use guest::instruction::repeats;
use iced_x86::Instruction;
use sched::Reason;
use std::collections::BTreeMap;
use trace::event::{Event, Note, SignalPlace};

/// Page-fault error code of an instruction fetch from user mode.
const FETCH_ERROR: u64 = 0x14;
const PAGE_FAULT: u64 = 14;
const INVALID_OPCODE: u64 = 6;
const BREAKPOINT: u64 = 3;
/// `SI_KERNEL`, `ILL_ILLOPN`, `SEGV_MAPERR` and `SEGV_ACCERR` as the kernel's headers have them.
const SI_KERNEL: i32 = 0x80;
const ILL_ILLOPN: i32 = 2;
const SEGV_MAPERR: i32 = 1;
const SEGV_ACCERR: i32 = 2;

/// A general protection fault carries no address.
const GENERAL_PROTECTION: Fault = Fault { signal: libc::SIGSEGV, code: SI_KERNEL, address: 0, error: 0, trap: 13 };

/// A sequel is so many units long.
const SEQUEL: u32 = 16;

/// Where to go on: translated code, or nowhere known yet.
type Host = u64;
const LOOK_UP: Host = 0;

/// Runs guest code on this host thread until the guest thread ends.
pub fn run(engine: &'static Engine, context: &mut Context) {
    let mut driver = Driver {
        engine,
        debugging: engine.debugging(),
        step: None,
        follower: None,
        passing: None,
        closely: false,
        asks: false,
        sequels: BTreeMap::new(),
        has_patience: engine.options.has_patience(),
        host: LOOK_UP,
    };
    loop {
        let alone = driver.prepare(context);
        let exit = driver.enter(context);
        driver.note(context, exit, alone);
        match driver.follow_up(context, exit) {
            Flow::Goes => driver.pass_place(context, exit),
            Flow::Ends => return,
        }
    }
}

/// What the loop keeps from one round to the next.
struct Driver {
    engine: &'static Engine,
    debugging: Option<&'static Debugging>,
    /// The instruction that runs by itself, to be observed.
    step: Option<Step>,
    follower: Option<Follower>,
    /// The thread that runs the instruction of a place.
    passing: Option<u32>,
    /// The next instruction was looked at, and runs by itself.
    closely: bool,
    /// Translated code left before it, so that it is looked at.
    asks: bool,
    /// Threads that tell all their accesses, and for how many units more.
    sequels: BTreeMap<u32, u32>,
    /// What is told may change, which is to be known by the clocks of threads.
    has_patience: bool,
    host: Host,
}

impl Driver {
    /// Finds out what to run; tells whether that is a single instruction, for a debugger.
    fn prepare(&mut self, context: &mut Context) -> bool {
        let engine = self.engine;
        if self.has_patience && engine.world().cache.tellings.is_torn(context.thread) {
            context.request_stop();
        }
        let next = self.debugging.map_or(Next::Planned, |debugging| debugging.before(engine, context));
        let alone = matches!(next, Next::Alone);
        if !matches!(next, Next::Planned) {
            self.follower = None;
            self.host = if alone { engine.world().host_for_step(context.pc) } else { LOOK_UP };
        }
        self.look_closely(context);
        if self.host == LOOK_UP {
            let manner = self.manner(context.thread);
            self.host = look_up(engine, context, manner);
        }
        if let Some(followed) = &mut self.follower {
            let mut world = engine.world();
            self.host = world.follow(followed, context.pc).unwrap_or_else(|| {
                self.follower = None;
                world.host_for(context.pc)
            });
        }
        if engine.steps_singly() || alone {
            self.step = begin_step(engine, context);
        }
        alone
    }

    /// How what comes next is run. Of a thread that tells all its accesses, one unit more has been.
    fn manner(&mut self, thread: u32) -> Manner {
        if self.closely {
            return Manner::Closely;
        }
        let Some(left) = self.sequels.get_mut(&thread) else { return Manner::Plainly };
        *left -= 1;
        if *left == 0 {
            self.sequels.remove(&thread);
        }
        self.follower = None;
        Manner::Telling
    }

    /// Whether translated code is not to be linked to what comes next, which is looked at first.
    fn comes_back(&self, thread: u32) -> bool {
        self.closely || self.sequels.contains_key(&thread)
    }

    /// Lets a replay that follows data look at what is to run.
    fn look_closely(&mut self, context: &mut Context) {
        // A write that is let through is the same instruction still.
        let Some(replay) = self.engine.replaying().filter(|_| !self.closely) else { return };
        let closely = replay.look(self.engine, context, std::mem::take(&mut self.asks));
        self.closely = closely != Closely::No;
        if self.closely {
            self.follower = None;
            self.host = LOOK_UP;
            self.passing = (closely == Closely::Place).then_some(context.thread);
        }
    }

    /// Runs translated code until it leaves.
    fn enter(&self, context: &mut Context) -> Exit {
        kernel::enter(self.engine.stubs().enter, self.host);
        self.engine.count_exit();
        let mut world = self.engine.world();
        let exit = world.cache.exit(context.exit);
        if let Some(text) = world.cache.beyond.as_mut().filter(|beyond| beyond.has_news()).and_then(Beyond::news)
            && let Some(writing) = self.engine.writing()
        {
            writing.note(&Event::Note(Note { thread: Some(context.thread), text: &text }));
        }
        if self.engine.writes_records() {
            self.engine.drain_after(&mut world, context, exit);
        }
        exit
    }

    /// Tells those who watch.
    fn note(&mut self, context: &mut Context, exit: Exit, alone: bool) {
        if let (Some(step), Some(outcome)) = (self.step.take(), outcome_of(context, exit)) {
            if outcome != Outcome::Faulted {
                x87::mend_stored(self.engine, context, step.instruction());
                saved_state::settle(self.engine, context, step.instruction());
            }
            self.engine.tell_step(context, step, outcome);
        }
        if !matches!(exit, Exit::Indirect | Exit::Direct { .. }) {
            self.follower = None;
        }
        if exit != Exit::Interrupted {
            context.standing = Standing::Anywhere;
        }
        if let Some(debugging) = self.debugging {
            debugging.after(context, exit, alone);
        }
        if let Some(replay) = self.engine.replaying().filter(|_| self.closely && has_passed(exit)) {
            replay.looked(self.engine, context);
        }
    }

    /// Does what translated code left for.
    fn follow_up(&mut self, context: &mut Context, exit: Exit) -> Flow {
        let engine = self.engine;
        self.host = match exit {
            // What comes next is looked at first.
            Exit::Indirect if self.comes_back(context.thread) => {
                context.pc = context.branch_target;
                LOOK_UP
            }
            Exit::Direct { target, .. } if self.comes_back(context.thread) => {
                context.pc = target;
                LOOK_UP
            }
            Exit::Place { pc } | Exit::Watch { pc } if engine.replaying().is_some_and(Replay::is_attentive) => {
                context.pc = pc;
                self.asks = true;
                LOOK_UP
            }
            Exit::SystemCall { next } => match system_call(engine, context, next) {
                Flow::Goes => LOOK_UP,
                Flow::Ends => return Flow::Ends,
            },
            Exit::Step { pc } => {
                context.pc = pc;
                self.step = begin_step(engine, context);
                engine.world().host_for_step(pc)
            }
            Exit::Sequel { pc } => {
                context.pc = pc;
                engine.world().cache.begin_sequel(pc);
                self.sequels.insert(context.thread, SEQUEL);
                LOOK_UP
            }
            Exit::Place { pc } if self.debugging.is_none() => {
                context.pc = pc;
                let passes = match engine.replaying() {
                    Some(replay) => replay.place(engine, context),
                    None => faults::at_function(engine, context),
                };
                self.passing = passes.then_some(context.thread);
                self.passing.map_or(LOOK_UP, |_| engine.world().host_past(pc))
            }
            Exit::Watch { pc } if self.debugging.is_none() => {
                context.pc = pc;
                if let Some(replay) = engine.replaying() {
                    replay.watched(context);
                }
                self.passing = Some(context.thread);
                engine.world().host_past(pc)
            }
            Exit::Point { pc, .. } => {
                context.pc = pc;
                out_of_points(engine, context);
                LOOK_UP
            }
            Exit::Budget { .. } | Exit::Arrived { .. } => match short_of_budget(engine, context, exit) {
                Some(host) => host,
                None => {
                    self.follower = out_of_budget(engine, context);
                    LOOK_UP
                }
            },
            _ => go_on(engine, context, exit),
        };
        Flow::Goes
    }

    /// Tells when the instruction of a place has run.
    fn pass_place(&mut self, context: &mut Context, exit: Exit) {
        let engine = self.engine;
        self.closely &= stays_at_place(exit, self.host);
        let Some(thread) = self.passing.filter(|_| !stays_at_place(exit, self.host)) else { return };
        self.passing = None;
        if has_passed(exit) && engine.replaying().is_some_and(|replay| replay.passed_place(engine, context, thread)) {
            self.host = LOOK_UP;
        }
    }
}

/// Whether the instruction of a place is still to run, from the translation that comes next.
fn stays_at_place(exit: Exit, next: Host) -> bool {
    match exit {
        Exit::Place { .. } | Exit::Watch { .. } | Exit::Step { .. } => true,
        // The write is let through.
        Exit::Fault => next != LOOK_UP,
        _ => false,
    }
}

/// Whether the instruction that ran by itself was completed.
fn has_passed(exit: Exit) -> bool {
    matches!(exit, Exit::Indirect | Exit::Direct { .. } | Exit::SystemCall { .. } | Exit::Instruction { .. })
}

/// How the code where a thread stands is run.
enum Manner {
    Plainly,
    /// One instruction, which is looked at.
    Closely,
    /// Where all accesses go is told.
    Telling,
}

/// The translation of where the thread stands, after what has to come first.
fn look_up(engine: &Engine, context: &mut Context, manner: Manner) -> Host {
    loop {
        if context.has_pending_signal() {
            if context.standing == Standing::Anywhere && engine.writing().is_some() {
                context.put_signal_off();
            } else {
                deliver::pending(engine, context);
            }
        }
        if !is_vsyscall(context.pc) {
            let mut world = engine.world();
            return match manner {
                Manner::Plainly => world.host_for(context.pc),
                Manner::Closely => world.host_for_kept_step(context.pc),
                Manner::Telling => world.host_for_sequel(context.pc),
            };
        }
        vsyscall(context);
    }
}

/// Threads stop right at the branch, wherever its event was counted, so that the place is the same however the code was
/// cut into units. Tells how to get there, if the thread is not there.
fn short_of_budget(engine: &Engine, context: &mut Context, exit: Exit) -> Option<Host> {
    match exit {
        Exit::Budget { pc, branch, amount, .. } => {
            context.pc = pc;
            context.take_back(amount);
            if context.budget > 1 {
                Some(engine.world().host_for_last_events(pc))
            } else {
                (pc != branch).then(|| engine.world().host_up_to(pc, branch))
            }
        }
        Exit::Arrived { pc } => {
            context.pc = pc;
            None
        }
        _ => None,
    }
}

/// Does what the translated code cannot do itself.
fn go_on(engine: &Engine, context: &mut Context, exit: Exit) -> Host {
    match exit {
        Exit::Indirect => {
            context.pc = context.branch_target;
            return if is_vsyscall(context.pc) { LOOK_UP } else { engine.world().host_for_indirect(context.pc) };
        }
        Exit::Direct { target, link } => {
            context.pc = target;
            return engine.world().link(target, link);
        }
        Exit::Fault => return fault(engine, context),
        Exit::Instruction { pc } => {
            context.pc = pc;
            ask_machine(engine, context);
        }
        Exit::Unfetchable { pc, address } => {
            context.pc = pc;
            unfetchable(engine, context, address);
        }
        Exit::Trap { pc, kind } => {
            context.pc = pc;
            trap(engine, context, kind);
        }
        Exit::Place { pc } | Exit::Watch { pc } => context.pc = pc,
        Exit::Interrupted
        | Exit::SystemCall { .. }
        | Exit::Step { .. }
        | Exit::Sequel { .. }
        | Exit::Point { .. }
        | Exit::Budget { .. }
        | Exit::Arrived { .. } => {}
    }
    LOOK_UP
}

/// Looks at the instruction that is to run by itself.
fn begin_step(engine: &Engine, context: &mut Context) -> Option<Step> {
    let instruction = decode_at(&LiveCode(&engine.world().space), context.pc).ok()?;
    let wanted = engine.options.observation.seen_by_steps();
    let longest_value = engine.options.chosen.as_ref().and_then(|chosen| chosen.longest_value);
    let is_long = longest_value.is_some_and(|longest| repeated_bytes(&instruction, context) > longest);
    let wanted = if is_long { Wanted { addresses: true, values: false, ..wanted } } else { wanted };
    Some(Step::begin(instruction, context, engine.xstate(), wanted))
}

/// To how many bytes a repeated instruction may come.
fn repeated_bytes(instruction: &Instruction, context: &Context) -> u64 {
    if !repeats(instruction) {
        return 0;
    }
    context.gpr[RCX].saturating_mul(instruction.memory_size().size() as u64)
}

/// What became of an instruction that ran by itself; none if it was not reached.
fn outcome_of(context: &Context, exit: Exit) -> Option<Outcome> {
    match exit {
        Exit::Indirect => Some(Outcome::Ran(context.branch_target)),
        Exit::Direct { target, .. } => Some(Outcome::Ran(target)),
        Exit::SystemCall { next } => Some(Outcome::Ran(next)),
        Exit::Trap { pc, .. } => Some(Outcome::Ran(pc)),
        Exit::Fault => Some(Outcome::Faulted),
        _ => None,
    }
}

fn system_call(engine: &'static Engine, context: &mut Context, next: u64) -> Flow {
    match engine.replaying() {
        Some(replay) => {
            engine.count_system_call();
            replay.system_call(engine, context, next);
            Flow::Goes
        }
        None => syscalls::dispatch(engine, context, next),
    }
}

/// Carries out an instruction whose outcome the machine decides, or the recording.
fn ask_machine(engine: &Engine, context: &mut Context) {
    let Ok(instruction) = decode_at(&LiveCode(&engine.world().space), context.pc) else { return };
    if instructions::is_refused(&instruction, context) {
        return deliver::fault(engine, context, GENERAL_PROTECTION);
    }
    let values = match engine.replaying() {
        Some(replay) => replay.instruction(engine, context),
        None => instructions::ask(&instruction, engine, context),
    };
    if let (Some(writing), Some(kind)) = (engine.writing(), instructions::kind(&instruction)) {
        writing.instruction(context, kind, &values);
    }
    instructions::answer(&instruction, context, &values);
    context.pc = instruction.next_ip();
    context.standing = Standing::Anywhere;
}

/// The budget is used up, or a stop request took it. Where slices keep ending, the thread is to be followed.
fn out_of_budget(engine: &Engine, context: &mut Context) -> Option<Follower> {
    context.budget = 1;
    context.standing = Standing::AtEvent;
    context.recall_signal();
    if let Some(replay) = engine.replaying() {
        let hot = sample(engine, context);
        let thread = context.thread;
        replay.stop(engine, context);
        return hot.filter(|_| thread == context.thread);
    }
    if context.has_pending_signal() {
        return None; // delivered before anything else runs, which gives the budget back
    }
    let hot = sample(engine, context);
    if let Some(writing) = engine.writing().filter(|writing| writing.stock.is_due(context)) {
        writing.take_stock(engine, context, SignalPlace::AtClock, false);
    }
    if context.deferred > 0 {
        context.release_deferred();
    } else {
        give_turn_up(engine, context);
    }
    hot
}

/// A slice of the clock has ended.
fn sample(engine: &Engine, context: &Context) -> Option<Follower> {
    let mut world = engine.world();
    let hot = world.sample(context.pc);
    world.cache.tellings.arrive(context.thread, context.clock() + 1);
    hot
}

/// The policy wants to be asked before the thread passes the point at which it stands.
fn out_of_points(engine: &Engine, context: &mut Context) {
    context.standing = Standing::AtEvent;
    context.recall_signal();
    if !context.has_pending_signal() {
        give_turn_up(engine, context);
    }
}

/// Lets the policy choose, unless the run has gone on for too long.
fn give_turn_up(engine: &Engine, context: &mut Context) {
    if engine.turn.is_exhausted() {
        deliver::die(engine, context, libc::SIGXCPU, None, Moment::AtEvent);
    }
    write_down(engine, |writing| writing.pass_commons(engine));
    let access = access_ahead(engine, context);
    engine.turn.switch(context, Reason::QuantumOver, access);
    write_down(engine, |writing| {
        if writing.is_stale() {
            engine.turn.mark(context);
            writing.look_at_shared(engine, context);
            writing.registers(context);
        }
    });
}

/// What the next instruction is about to do, if it is a point.
fn access_ahead(engine: &Engine, context: &Context) -> Option<sched::Access> {
    let world = engine.world();
    if world.cache.points.is_empty() {
        return None;
    }
    let instruction = decode_at(&LiveCode(&world.space), context.pc).ok()?;
    if !world.cache.points.contains(&instruction) {
        return None;
    }
    // Operands that are only implied are on the stack. A point without an access would never be passed.
    let address = first_address(&instruction, context).unwrap_or(context.gpr[RSP]);
    Some(sched::Access { site: context.pc, address, writes: stores(&instruction) })
}

/// Delivers a fault, unless it is the engine's own write protection: then the write is let through. The writing
/// instruction may be on the very page, which would be protected again at once, so it runs from a translation of its own.
fn fault(engine: &Engine, context: &mut Context) -> Host {
    let fault = context.fault;
    if fault.signal == libc::SIGSEGV && fault.code == SEGV_ACCERR {
        let mut world = engine.world();
        if world.write_to_guarded(fault.address) {
            return world.host_for_once(context.pc);
        }
    }
    deliver::fault(engine, context, fault);
    LOOK_UP
}

fn unfetchable(engine: &Engine, context: &mut Context, address: u64) {
    let mapped = engine.world().space.find(address).is_some();
    let canonical = address < 1 << 47;
    let fault = if canonical {
        let code = if mapped { SEGV_ACCERR } else { SEGV_MAPERR };
        let error = FETCH_ERROR | u64::from(mapped);
        Fault { signal: libc::SIGSEGV, code, address, error, trap: PAGE_FAULT }
    } else {
        GENERAL_PROTECTION
    };
    deliver::fault(engine, context, fault);
}

fn trap(engine: &Engine, context: &mut Context, kind: Trap) {
    let fault = match kind {
        Trap::Undefined | Trap::Unsupported => {
            if kind == Trap::Unsupported {
                let what = format!("the instruction at {:#x} is not supported; it raises SIGILL", context.pc);
                if engine.world().mention_once(&what) {
                    engine.notice(&what);
                }
            }
            Fault { signal: libc::SIGILL, code: ILL_ILLOPN, address: context.pc, error: 0, trap: INVALID_OPCODE }
        }
        Trap::Breakpoint => Fault { signal: libc::SIGTRAP, code: SI_KERNEL, address: 0, error: 0, trap: BREAKPOINT },
    };
    deliver::fault(engine, context, fault);
}

/// The fixed page with three old entry points, which old static programs still call.
const VSYSCALL: u64 = 0xffff_ffff_ff60_0000;

fn is_vsyscall(pc: u64) -> bool {
    matches!(pc.wrapping_sub(VSYSCALL), 0 | 0x400 | 0x800)
}

fn vsyscall(context: &mut Context) {
    let number = match context.pc.wrapping_sub(VSYSCALL) {
        0 => libc::SYS_gettimeofday,
        0x400 => libc::SYS_time,
        _ => libc::SYS_getcpu,
    };
    let arguments = [context.gpr[RDI], context.gpr[6], context.gpr[2], 0, 0, 0];
    context.gpr[RAX] = kernel::call(number as u64, arguments) as u64;
    context.pc = kernel::read(context.gpr[RSP]).unwrap_or(0);
    context.gpr[RSP] += 8;
}
