//! Puts a program into the address space, as the kernel's `execve` would, and starts it.

mod files;
mod image;
mod stack;

pub use files::LaunchError;

use crate::code::cache::CodeCache;
use crate::code::memory::{BranchTable, CodeMemory};
use crate::code::path::Limits;
use crate::context::{self, RSP};
use crate::engine::{Engine, Host, Options};
use crate::kernel;
use crate::observation;
use crate::private::PrivateDescriptors;
use crate::signals::{Action, Actions, frame, host};
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
) -> Result<std::convert::Infallible, LaunchError> {
    if let Some(feature) = crate::startup::missing_feature() {
        return Err(LaunchError::machine(feature));
    }
    let files = files::open(&program)?;
    let zones = Zones::for_program(match files.program.image.placement {
        Placement::Fixed => Some(files.program.image.span()),
        Placement::Relocatable => None,
    });
    let private = PrivateDescriptors::open().map_err(LaunchError::descriptors)?;
    let mut cache = make_cache(zones, options.cache_size.min(Zones::CACHE_SIZE))?;
    if let Some(wanted) = options.observation.written() {
        cache.observe(wanted);
    }
    if options.observation.goes_by_steps() {
        cache.step_singly();
    }
    let mut space = GuestSpace::new(zones);
    for range in cache.ranges() {
        space.reserve(range);
    }
    let loaded = image::load(&mut space, &files)?;
    let stack = stack::build(&mut space, &files, &loaded, options.seed)?;
    let process = Process {
        executable: files.real_path.clone(),
        command_line: files.command_line(),
        stack: stack.range.clone(),
        ..Process::default()
    };
    let world = World::new(cache, space, inherited_actions(), process);
    files.name_thread();
    // The guest must not find them among its own descriptors.
    drop(files);
    start(world, loaded.start, stack.pointer, options, policy, private, host)
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
    entry: u64,
    stack_pointer: u64,
    options: Options,
    policy: Box<dyn Policy>,
    private: PrivateDescriptors,
    host: Box<dyn Host>,
) -> Result<std::convert::Infallible, LaunchError> {
    let context = context::of_this_thread();
    context.xsave = frame::new_state_area(frame::XState::find());
    context.gpr[RSP] = stack_pointer;
    context.pc = entry;
    context.tid = kernel::call(libc::SYS_gettid as u64, [0; 6]) as i32;
    context.signal_mask = host::kernel_mask();
    context.set_guest_fs(0);
    if options.observation.written().is_some() {
        observation::open_buffer(context);
    }
    let turn = Turn::new(policy, context);
    turn.set_kick(private.kick);
    let engine = Engine::start(world, turn, options, private, host);
    engine.turn.set_watcher(engine);
    // The main thread's lasts as long as the process.
    std::mem::forget(host::AlternateStack::install());
    host::catch_faults();
    host::set_kernel_mask(context.signal_mask);
    crate::run::run(engine, context);
    unreachable!("the last thread ends the process")
}
