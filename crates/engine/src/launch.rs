//! Puts a program into the address space, as the kernel's `execve` would, and starts it.

mod files;
mod image;
mod stack;

pub use files::LaunchError;

use crate::code::cache::CodeCache;
use crate::code::memory::{BranchTable, CodeMemory};
use crate::code::path::Limits;
use crate::code::points::Points;
use crate::context::{self, RSP};
use crate::debug::Debugger;
use crate::engine::{Engine, Host, Options, Tape};
use crate::faults::{self, Injector};
use crate::journal::{self, Journal, Writing};
use crate::kernel;
use crate::observation;
use crate::private::PrivateDescriptors;
use crate::processor::Shown;
use crate::processor::features::Beyond;
use crate::replay::{Files, Leg, Plans, Replay, Wishes};
use crate::signals::{Action, Actions, dispositions, frame, host};
use crate::space::{GuestSpace, Zones};
use crate::turn::Turn;
use crate::world::{Process, World};
use guest::elf::Placement;
use sched::Policy;
use std::ffi::OsString;

/// What to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file, found already: no search path is consulted.
    pub path: OsString,
    /// All arguments, the program's own name first.
    pub arguments: Vec<OsString>,
    pub environment: Vec<OsString>,
}

/// Whether [`launch`] could run the program.
pub fn can_run(program: &Program) -> bool {
    files::open(program).is_ok()
}

/// A unit's largest size. Longer units mean fewer jumps but more code translated in vain.
const LIMITS: Limits = Limits { instructions: 64, branches: 8 };

/// Runs the program in this process; returns only if it could not be started.
pub fn launch(
    program: Program,
    options: Options,
    policy: Box<dyn Policy>,
    host: Box<dyn Host>,
    journal: Option<Box<dyn Journal>>,
) -> Result<std::convert::Infallible, LaunchError> {
    if let Some(feature) = crate::startup::missing_feature() {
        return Err(LaunchError::machine(feature));
    }
    let files = files::open(&program)?;
    let fixed_span = match files.program.image.placement {
        Placement::Fixed => Some(files.program.image.span()),
        Placement::Relocatable => None,
    };
    let zones = Zones::for_program(fixed_span);
    let private = PrivateDescriptors::open().map_err(LaunchError::descriptors)?;
    let mut cache = make_cache(zones, options.cache_size.min(Zones::CACHE_SIZE))?;
    observe(&mut cache, &options);
    cache.intercepts = journal.is_some();
    cache.show(options.shown);
    cache.beyond = options.shown.and_then(|shown| shown.level).map(Beyond::new);
    cache.points = Points::new(options.switching.points.clone());
    let mut space = GuestSpace::new(zones);
    for range in cache.ranges() {
        space.reserve(range);
    }
    let loaded = image::load(&mut space, &files)?;
    let stack = stack::build(&mut space, &files, &loaded, &options)?;
    let process = Process {
        executable: files.real_path.clone(),
        command_line: files.command_line(),
        stack: stack.range.clone(),
        ..Process::default()
    };
    let mut world = World::new(cache, space, inherited_actions(), process);
    world.injector = options.faults.clone().map(|faults| Injector::new(faults, loader_range(&files, &loaded)));
    faults::look_at_program(&mut world, host.as_ref(), &loaded.mapped);
    files.name_thread();
    let tape = match journal {
        Some(journal) => {
            let writing = Writing::new(journal);
            writing.begin(fixed_span);
            writing.points(world.cache.points.addresses());
            write_image(&writing, &loaded, &stack);
            Tape::Writing(Box::new(writing))
        }
        None => Tape::None,
    };
    // The guest must not find them among its own descriptors.
    drop(files);
    start(world, (loaded.start, stack.pointer), options, policy, private, host, tape)
}

/// What a replay starts from.
pub struct Recorded {
    /// The log of the process, behind those of its parents up to where each was forked.
    pub first: Leg,
    pub others: Vec<Leg>,
    pub files: Box<dyn Files>,
    /// The real path of the program, and its arguments with their terminators.
    pub executable: Vec<u8>,
    pub command_line: Vec<u8>,
    /// Where the program was linked to, if at a fixed address: decides the layout.
    pub fixed_span: Option<(u64, u64)>,
    /// What the program was shown of the processor, if the recording tells.
    pub shown: Option<Shown>,
    pub wishes: Wishes,
    pub plans: Plans,
    /// Who decides where to stop on the way, if anybody.
    pub debugger: Option<Box<dyn Debugger>>,
}

/// Runs a recording in this process; returns only if it could not be started.
pub fn replay(
    recorded: Recorded,
    options: Options,
    policy: Box<dyn Policy>,
    host: Box<dyn Host>,
) -> Result<std::convert::Infallible, LaunchError> {
    if let Some(feature) = crate::startup::missing_feature() {
        return Err(LaunchError::machine(feature));
    }
    let zones = Zones::for_program(recorded.fixed_span);
    let private = PrivateDescriptors::open().map_err(LaunchError::descriptors)?;
    let mut cache = make_cache(zones, options.cache_size.min(Zones::CACHE_SIZE))?;
    observe(&mut cache, &options);
    cache.intercepts = true;
    cache.show(recorded.shown);
    cache.set_places(recorded.plans.places());
    let mut space = GuestSpace::new(zones);
    for range in cache.ranges() {
        space.reserve(range);
    }
    let process =
        Process { executable: recorded.executable, command_line: recorded.command_line, ..Process::default() };
    let world = World::new(cache, space, Actions::default(), process);
    let Recorded { first, others, files, wishes, plans, debugger, shown, .. } = recorded;
    let options = Options { shown, ..options };
    let replay = Replay::new(first, others, files, wishes, plans).under(debugger);
    // The recording says where it begins.
    start(world, (0, 0), options, policy, private, host, Tape::Replay(Box::new(replay)))
}

/// Where the dynamic loader lies; empty if there is none.
fn loader_range(files: &files::Files, loaded: &image::Loaded) -> std::ops::Range<u64> {
    let (low, high) = files.interpreter.as_ref().map_or((0, 0), |loader| loader.image.span());
    loaded.loader_base.wrapping_add(low)..loaded.loader_base.wrapping_add(high)
}

fn observe(cache: &mut CodeCache, options: &Options) {
    if let Some(wanted) = options.observation.written() {
        cache.observe(wanted);
        cache.set_marks(options.marks.clone());
        cache.set_chosen(options.chosen.clone());
        cache.set_sparing(options.sparing.clone());
    }
    if options.observation.goes_by_steps() {
        cache.step_singly();
    }
}

/// Writes down what memory holds at the start.
fn write_image(writing: &Writing, loaded: &image::Loaded, stack: &stack::Stack) {
    let context = context::of_this_thread();
    context.thread = 1;
    for mapped in &loaded.mapped {
        writing.journal().map(mapped);
    }
    for &(address, length) in &loaded.zeroed {
        writing.memory(context, address, length);
    }
    let executable = if stack.executable { libc::PROT_EXEC } else { 0 };
    let protection = (libc::PROT_READ | libc::PROT_WRITE | executable) as u64;
    let anonymous = [0, 0, protection, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64, 0, 0];
    let length = stack.range.end - stack.range.start;
    writing.journal().map(&journal::mapped(context, stack.range.start, length, anonymous));
    writing.memory(context, stack.pointer, stack.range.end - stack.pointer);
}

fn make_cache(zones: Zones, size: u64) -> Result<CodeCache, LaunchError> {
    let memory = CodeMemory::reserve(zones.cache, size).map_err(LaunchError::memory)?;
    let candidates = (0..64).map(|index| 0x7800_0000 - index * 0x100_0000);
    let table = BranchTable::reserve(candidates).map_err(LaunchError::memory)?;
    Ok(CodeCache::new(memory, table, LIMITS))
}

/// Signals that the parent ignored stay ignored.
fn inherited_actions() -> Actions {
    crate::startup::restore();
    let mut actions = Actions::default();
    for signal in 1..=64 {
        if host::kernel_action(signal, None).handler == Action::IGNORE {
            actions.set(signal, Action { handler: Action::IGNORE, ..Action::default() });
        }
    }
    actions
}

fn start(
    world: World,
    (entry, stack_pointer): (u64, u64),
    options: Options,
    policy: Box<dyn Policy>,
    private: PrivateDescriptors,
    host: Box<dyn Host>,
    tape: Tape,
) -> Result<std::convert::Infallible, LaunchError> {
    let context = context::of_this_thread();
    context.xsave = frame::new_state_area(frame::XState::find());
    context.gpr[RSP] = stack_pointer;
    context.pc = entry;
    context.tid = kernel::call(libc::SYS_gettid as u64, [0; 6]) as i32;
    context.signal_mask = host::kernel_mask();
    context.set_guest_fs(0);
    if options.observation.written().is_some() {
        observation::open_buffer(context, options.room());
    }
    let turn = Turn::new(policy, context);
    turn.set_kick(private.kick);
    turn.set_patience(options.switching.patience.unwrap_or(u64::MAX));
    let engine = Engine::start(world, turn, options, private, host, tape);
    if let Some(writing) = engine.writing() {
        writing.registers(context);
    }
    if let Some(replay) = engine.replaying() {
        replay.begin(engine, context);
    }
    engine.turn.set_watcher(engine);
    if engine.options.switching.departs {
        engine.departures.expect();
    }
    // The main thread's lasts as long as the process.
    std::mem::forget(host::AlternateStack::install());
    dispositions::catch_first(engine, context);
    host::set_kernel_mask(context.signal_mask);
    crate::run::run(engine, context);
    unreachable!("the last thread ends the process")
}
