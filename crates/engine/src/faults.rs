//! Faults: what may go wrong in any run and is made to go wrong in this one, a few times, as `sched::Faults` says.
//!
//! Owns who may be struck and how it is told: each fault is a notice, and a note in the recording with the calls that led
//! to it. What becomes of a struck system call is in `syscalls/faults`. Functions are struck where they begin: there
//! translated code leaves (a place), and the clock counts (a point), so that a recording tells each passage from all
//! others. A replay knows nothing of faults: it finds results of calls, or a thread that is switched to itself and goes
//! on with other registers.
//!
//! The dynamic loader is left alone, since a program that does not even start tells nobody anything. So are children that
//! run in their parent's memory.

use crate::context::{Context, RAX, RDI, RDX, RSI, RSP};
use crate::engine::{Engine, Host, ThreadFacts};
use crate::journal::{Mapped, write_down};
use crate::kernel;
use crate::replay::facts_of;
use crate::world::World;
use sched::{FaultKind, Faults};
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use trace::event::{Event, Note};

/// A function that faults can happen to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Faultable {
    /// It allocates memory and fails if it is asked for more than there can be; which argument says how much, from 0.
    Allocates { size_argument: usize },
    /// It waits with nothing promised, and says by 0 that the wait is over.
    Waits,
}

/// What a mapping shows of a file.
#[derive(Clone, Debug)]
pub struct MappedCode {
    pub path: Vec<u8>,
    pub addresses: Range<u64>,
    /// From where on.
    pub offset: u64,
}

/// What a note of a fault begins with.
pub const INJECTED: &str = "injected: ";

/// No allocator has so much.
const TOO_MUCH: u64 = 1 << 63;
/// Of the calls that led to a fault, a note has so many.
const MOST_CALLERS: usize = 24;

/// The faults of a run, and where they may happen.
pub struct Injector {
    faults: Faults,
    loader: Range<u64>,
    functions: BTreeMap<u64, Faultable>,
}

impl Injector {
    pub fn new(faults: Faults, loader: Range<u64>) -> Injector {
        Injector { faults, loader, functions: BTreeMap::new() }
    }

    fn wants_functions(&self) -> bool {
        self.faults.may_strike(FaultKind::Memory) || self.faults.may_strike(FaultKind::Wakeup)
    }

    /// Whether the mapping may have functions that can be struck.
    fn looks_at(&self, mapped: &Mapped) -> bool {
        let is_code = mapped.protection & libc::PROT_EXEC as u32 != 0 && mapped.file.is_some();
        is_code && self.wants_functions() && !self.loader.contains(&mapped.address)
    }
}

impl World {
    /// The faults that may strike what the thread does now, if there are any.
    pub fn faults_for(&mut self, context: &Context) -> Option<&mut Faults> {
        let injector = self.injector.as_mut()?;
        let is_spared = context.is_other_process() || injector.loader.contains(&context.pc);
        (!is_spared).then_some(&mut injector.faults)
    }

    /// From now on, the code leaves and the clock counts where these functions begin.
    fn learn(&mut self, functions: Vec<(u64, Faultable)>) {
        let Some(injector) = &mut self.injector else { return };
        injector.functions.extend(functions);
        self.cache.points.add(injector.functions.keys().copied());
        self.cache.set_places(injector.functions.keys().copied().collect());
    }
}

/// Finds functions in what is mapped from the start.
pub fn look_at_program(world: &mut World, host: &dyn Host, mappings: &[Mapped]) {
    for mapped in mappings {
        if world.injector.as_ref().is_some_and(|injector| injector.looks_at(mapped)) {
            world.learn(functions_in(host, mapped));
        }
    }
}

/// The same in a mapping that was just made; no code has run from there.
pub fn look_at_mapping(engine: &Engine, mapped: &Mapped) {
    if !engine.world().injector.as_ref().is_some_and(|injector| injector.looks_at(mapped)) {
        return;
    }
    let functions = functions_in(engine.host(), mapped);
    if functions.is_empty() {
        return;
    }
    let mut world = engine.world();
    world.learn(functions);
    write_down(engine, |writing| writing.points(world.cache.points.addresses()));
}

fn functions_in(host: &dyn Host, mapped: &Mapped) -> Vec<(u64, Faultable)> {
    let Some((descriptor, offset)) = mapped.file else { return Vec::new() };
    let Ok(path) = std::fs::read_link(format!("/proc/self/fd/{descriptor}")) else { return Vec::new() };
    let addresses = mapped.address..mapped.address + mapped.length;
    host.faultable(&MappedCode { path: path.into_os_string().into_vec(), addresses, offset })
}

/// The thread is about to run the first instruction of a function. Tells whether it still is.
pub fn at_function(engine: &Engine, context: &mut Context) -> bool {
    let Some(function) = strike_function(engine, context) else { return true };
    engine.turn.mark(context);
    match function {
        Faultable::Allocates { size_argument } => {
            tell(engine, context, "an allocation fails");
            context.gpr[register_of(size_argument)] = TOO_MUCH;
        }
        Faultable::Waits => {
            tell(engine, context, "a wait for a condition ends for no reason");
            context.gpr[RAX] = 0;
            context.pc = kernel::read(context.gpr[RSP]).unwrap_or(context.pc);
            context.gpr[RSP] = context.gpr[RSP].wrapping_add(8);
        }
    }
    write_down(engine, |writing| writing.registers(context));
    function != Faultable::Waits
}

fn strike_function(engine: &Engine, context: &Context) -> Option<Faultable> {
    let mut world = engine.world();
    let function = *world.injector.as_ref()?.functions.get(&context.pc)?;
    let kind = match function {
        // Nothing is nothing, however little there is.
        Faultable::Allocates { size_argument } if context.gpr[register_of(size_argument)] == 0 => return None,
        Faultable::Allocates { .. } => FaultKind::Memory,
        Faultable::Waits => FaultKind::Wakeup,
    };
    world.faults_for(context)?.strikes(kind).then_some(function)
}

/// The register that holds an argument.
fn register_of(argument: usize) -> usize {
    [RDI, RSI, RDX][argument.min(2)]
}

/// Tells what goes wrong where the thread stands.
pub fn tell(engine: &Engine, context: &Context, what: &str) {
    let facts = facts_of(context, context.tid);
    let text = format!("{INJECTED}{what}");
    engine.notice(&format!("{text} (thread {})", facts.id));
    write_down(engine, |writing| {
        let text = format!("{text} [{}]", callers(engine, &facts));
        writing.note(&Event::Note(Note { thread: Some(context.thread), text: &text }));
    });
}

fn callers(engine: &Engine, facts: &ThreadFacts) -> String {
    let callers = engine.host().callers(facts);
    let callers: Vec<String> = callers.iter().take(MOST_CALLERS).map(|pc| format!("{pc:#x}")).collect();
    callers.join(" ")
}

/// A thread is about to wake some of those who wait for the futex: which one comes first may be the seed's choice.
pub fn reorder_waiters(engine: &Engine, context: &Context, address: u64) {
    let waiters = engine.turn.waiters(address);
    let first = engine.world().faults_for(context).map_or(0, |faults| faults.first_of(waiters.len()));
    if first == 0 {
        return;
    }
    engine.turn.put_first(address, waiters[first]);
    tell(engine, context, &format!("thread {} is woken before thread {}", waiters[first], waiters[0]));
}
