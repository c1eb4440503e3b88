//! Stopping a replay where somebody wants to look: what can be asked of the run, and what can be seen of the guest.
//!
//! Who debugs is told of every place where the run may have to stop, on the replay's own thread and between two
//! instructions, and says how to go on. What such a place means (a hit to report, one to count, one to ignore) is not
//! known here.

mod watched;

use crate::code::cache::{Exit, Trap};
use crate::context::Context;
use crate::engine::Engine;
use crate::kernel;
use crate::observation::Step;
use crate::process;
use crate::replay::Stopped;
use crate::signals::frame;
use crate::ways::Ways;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard};
use watched::Watched;

pub use watched::{Watch, Watching};

/// Who decides where a replay stops.
pub trait Debugger: Send {
    /// The guest stands between two instructions; says how to go on.
    fn stopped(&mut self, why: &Why, guest: &mut Guest<'_>) -> Orders;
}

/// Why the debugger is asked.
#[derive(Clone, Debug)]
pub enum Why {
    /// The guest is about to run its first instruction.
    Began,
    /// The next instruction is at a breakpoint.
    Breakpoint,
    /// One instruction has run.
    Stepped,
    /// The next instruction may access watched memory.
    Accesses,
    /// The watched range of this number has changed, or the instruction that has run has accessed it.
    Watched(usize),
    /// The clock is what the orders asked for, and the next instruction would be its next event.
    Due,
    /// Some time has passed.
    Slice,
    /// Events of the recording have been carried out.
    Events,
    /// There is nothing more to run.
    Ended(Ended),
}

/// How a recording ends.
#[derive(Clone, Debug)]
pub enum Ended {
    Exited(i32),
    /// By this signal.
    Killed(i32),
    Stopped(Stopped),
}

/// How to go on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Orders {
    /// Run one instruction, then ask again.
    pub step: bool,
    /// Ask when this clock is reached with this many events carried out.
    pub until: Option<(u64, u64)>,
}

/// Where the guest is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Events carried out so far.
    pub event: u64,
    /// Of the thread that has the turn.
    pub clock: u64,
    pub thread: u32,
    pub pc: u64,
}

/// What runs between two events of the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    /// Events carried out before it.
    pub event: u64,
    /// The thread's clock where it begins, and where it ends if it has.
    pub first: u64,
    pub last: u64,
}

/// A guest thread's registers.
#[derive(Clone, Debug)]
pub struct ThreadRegisters {
    pub thread: u32,
    pub tid: i32,
    /// In encoding order.
    pub general: [u64; 16],
    pub pc: u64,
    pub rflags: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    /// The x87 and SSE registers as `fxsave` stores them.
    pub legacy: Vec<u8>,
    /// It waits in a system call.
    pub in_call: bool,
}

/// A replay under a debugger.
pub struct Debugging {
    state: Mutex<State>,
}

struct State {
    debugger: Box<dyn Debugger>,
    why: Option<Why>,
    ended: Option<Ended>,
    step: bool,
    /// The next instruction runs by itself, whatever stops before it.
    alone: bool,
    /// Where the instruction is that runs by itself.
    from: u64,
    /// Where events of the recording have put the thread, as long as a breakpoint there is still to be come by.
    put_at: Option<u64>,
    watched: Vec<Watched>,
    /// The instruction that runs by itself, if its accesses matter.
    running: Option<Step>,
    /// The watched range that the last one has accessed.
    accessed: Option<usize>,
    piece: Piece,
    previous: Option<Piece>,
    ways: Ways,
}

/// What is to run next.
pub enum Next {
    /// What was going to.
    Planned,
    /// Whatever is at the place where the guest now is.
    Anew,
    /// One instruction.
    Alone,
}

impl Debugging {
    pub fn new(debugger: Box<dyn Debugger>) -> Debugging {
        Debugging {
            state: Mutex::new(State {
                debugger,
                why: None,
                ended: None,
                step: false,
                alone: false,
                from: 0,
                put_at: None,
                watched: Vec::new(),
                running: None,
                accessed: None,
                piece: Piece::default(),
                previous: None,
                ways: Ways::default(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The debugger is to be asked before the next instruction.
    pub fn note(&self, why: Why) {
        self.state().why = Some(why);
    }

    /// There is nothing more to run.
    pub fn end(&self, ended: Ended) {
        self.state().ended = Some(ended);
    }

    pub fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }

    /// Events have been carried out; `last` is the clock of the thread that came to them.
    pub fn passed(&self, last: u64, event: u64, first: u64) {
        let mut state = self.state();
        if state.piece.event > 0 {
            state.previous = Some(Piece { last, ..state.piece });
        }
        state.piece = Piece { event, first, last: first };
        let why = if state.previous.is_none() { Why::Began } else { Why::Events };
        state.why.get_or_insert(why);
    }

    /// To be called between two instructions: asks the debugger if there is something to ask.
    pub fn before(&self, engine: &Engine, context: &mut Context) -> Next {
        let mut state = self.state();
        let mut asked = false;
        while let Some(why) = state.reason() {
            asked = true;
            state.ask(engine, context, &why);
        }
        state.ways.runs(engine);
        if state.step || state.alone {
            state.from = context.pc;
            state.running = watched::begin(&state.watched, engine, context);
            return Next::Alone;
        }
        if asked { Next::Anew } else { Next::Planned }
    }

    /// Translated code was left; `alone` tells that it was to run one instruction.
    pub fn after(&self, context: &Context, exit: Exit, alone: bool) {
        let mut state = self.state();
        let running = state.running.take();
        match exit {
            Exit::Place { .. } => state.why = Some(Why::Breakpoint),
            Exit::Watch { .. } => state.why = Some(Why::Accesses),
            _ if alone && runs_instruction(exit) => {
                state.accessed = running.and_then(|step| watched::accessed(&state.watched, &step, context));
                state.ran();
            }
            _ => {}
        }
    }

    /// Events of the recording have put the thread elsewhere (a signal, a wait that was made to end). That ends the step
    /// that led to them, and the thread comes to what is there.
    pub fn put_at(&self, pc: u64) {
        let mut state = self.state();
        if state.step || state.alone {
            state.ran();
        }
        state.put_at = Some(pc);
    }
}

/// Whether the one instruction that was to run has run.
fn runs_instruction(exit: Exit) -> bool {
    match exit {
        Exit::Indirect | Exit::Direct { .. } | Exit::SystemCall { .. } | Exit::Instruction { .. } => true,
        Exit::Trap { kind, .. } => kind == Trap::Breakpoint,
        _ => false,
    }
}

impl State {
    fn ran(&mut self) {
        self.alone = false;
        if self.step {
            self.why = Some(Why::Stepped);
        }
    }

    /// What the debugger is to be asked, if anything. What happened to memory comes first: it belongs to what has run.
    fn reason(&mut self) -> Option<Why> {
        let changed = self.watched.iter_mut().position(Watched::has_changed);
        let accessed = self.accessed.take();
        if let Some(index) = changed.or(accessed) {
            // The step that did it is told with what it did.
            self.why.take_if(|why| matches!(why, Why::Stepped));
            return Some(Why::Watched(index));
        }
        match &self.ended {
            Some(ended) => Some(Why::Ended(ended.clone())),
            None => self.why.take(),
        }
    }

    fn ask(&mut self, engine: &Engine, context: &mut Context, why: &Why) {
        self.put_at.take_if(|pc| *pc != context.pc || matches!(why, Why::Breakpoint | Why::Stepped));
        let State { debugger, watched, piece, previous, ways, put_at, .. } = self;
        let mut guest = Guest { engine, context, watched, piece: *piece, previous: *previous, ways, put_at };
        let orders = debugger.stopped(why, &mut guest);
        self.step = orders.step;
        let stands_there = self.put_at.is_none() && engine.world().cache.is_place(context.pc);
        self.alone = matches!(why, Why::Accesses) || stands_there;
        if let Some(replay) = engine.replaying() {
            replay.set_due(context, orders.until);
        }
    }
}

/// The guest, for a debugger that was asked.
pub struct Guest<'a> {
    engine: &'a Engine,
    context: &'a mut Context,
    watched: &'a mut Vec<Watched>,
    piece: Piece,
    previous: Option<Piece>,
    ways: &'a mut Ways,
    put_at: &'a mut Option<u64>,
}

impl Guest<'_> {
    /// The breakpoint at which the guest stands counts as come by.
    pub fn has_come_by(&mut self) {
        *self.put_at = None;
    }

    pub fn place(&self) -> Place {
        let event = self.engine.replaying().map_or(0, |replay| replay.events_passed());
        Place { event, clock: self.context.clock(), thread: self.context.thread, pc: self.context.pc }
    }

    /// What lies between the last event and the next, and what lay between the last and the one before.
    pub fn pieces(&self) -> (Piece, Option<Piece>) {
        (self.piece, self.previous)
    }

    /// General-purpose registers of the thread that has the turn, in encoding order.
    pub fn general(&self) -> [u64; 16] {
        self.context.gpr
    }

    /// All threads, the one that has the turn among them.
    pub fn threads(&mut self) -> Vec<ThreadRegisters> {
        let xstate = self.engine.xstate();
        let legacy = frame::shown_state(frame::state_area(self.context, xstate), xstate);
        let Some(replay) = self.engine.replaying() else { return Vec::new() };
        let mut threads = replay.others(xstate);
        threads.push(ThreadRegisters {
            thread: self.context.thread,
            tid: replay.tid_of(self.context.thread),
            general: self.context.gpr,
            pc: self.context.pc,
            rflags: self.context.rflags,
            fs_base: self.context.guest_fs(),
            gs_base: self.context.guest_gs,
            legacy,
            in_call: false,
        });
        threads.sort_by_key(|registers| registers.thread);
        threads
    }

    /// Fills the buffer; `false` if it cannot be filled.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let known = self.engine.world().space.find(address).is_some();
        known && kernel::read_bytes(address, buffer).is_ok()
    }

    /// From now on, asks before the instructions at these addresses.
    pub fn stop_at(&mut self, breakpoints: &BTreeSet<u64>) {
        self.engine.world().cache.set_places(breakpoints.clone());
    }

    /// From now on, asks before instructions that may do what is watched for, and when it has been done.
    pub fn watch(&mut self, watches: &[Watch]) {
        let same =
            self.watched.len() == watches.len() && self.watched.iter().zip(watches).all(|(old, new)| old.is(new));
        if !same {
            self.engine.world().cache.set_watched(watches);
        }
        *self.watched = watches.iter().map(Watched::new).collect();
    }

    /// The guest's output is written out from this event on.
    pub fn show_output_from(&mut self, event: u64) {
        if let Some(replay) = self.engine.replaying() {
            replay.show_output_from(event);
        }
    }

    /// Whether what is watched for may have been done since the place of these events, clock and pc, which this process
    /// came by or one that it is a copy of. Surely not if it says so.
    pub fn may_have_accessed(&self, watches: &[Watch], since: (u64, u64, u64)) -> bool {
        let world = self.engine.world();
        // Nobody keeps who has read what.
        watches
            .iter()
            .any(|watch| watch.what.sees_reads() || self.ways.may_have_written(&watch.range, since, &world.space))
    }

    /// The same of the instructions at these addresses.
    pub fn may_have_run(&self, breakpoints: &BTreeSet<u64>, since: (u64, u64, u64)) -> bool {
        self.ways.may_have_run(breakpoints, since, &self.engine.world().cache)
    }

    /// Makes a copy of this process that stands where this one does; tells whether it is the copy.
    pub fn fork(&mut self) -> io::Result<bool> {
        // Copies that have gone need not be remembered.
        while kernel::call(libc::SYS_wait4 as u64, [u64::MAX, 0, libc::WNOHANG as u64, 0, 0, 0]) > 0 {}
        let place = self.place();
        self.ways.end(place, &mut self.engine.world());
        let pid = process::fork();
        if pid < 0 {
            return Err(io::Error::from_raw_os_error(-pid as i32));
        }
        if pid == 0 {
            self.ways.is_copy();
            if let Some(replay) = self.engine.replaying() {
                replay.unshare(self.engine).map_err(io::Error::other)?;
            }
        }
        Ok(pid == 0)
    }
}
