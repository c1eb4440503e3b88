//! What the kernel is told to do with the guest's signals.
//!
//! Without a handler of the guest's, a signal is the kernel's business. Two kinds are not: faults, which the engine must
//! see; and in a recorded run whatever ends the process, since the end has to be written down first.

use crate::context::Context;
use crate::engine::Engine;
use crate::signals::{Action, SYNCHRONOUS, host};

/// Flags whose effect is the kernel's: stopped and zombie children.
const KERNEL_FLAGS: u64 = (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;

pub fn tell_kernel(engine: &Engine, signal: i32, action: Action) {
    let flags = action.flags & KERNEL_FLAGS;
    if action.has_handler() {
        host::catch(signal, flags);
    } else if SYNCHRONOUS.contains(&signal) {
        // A default or ignored one is looked up when it comes.
        host::catch(signal, 0);
    } else if engine.writing().is_some() && action.ends_by(signal) {
        host::catch(signal, flags);
    } else {
        host::kernel_action(signal, Some(Action { handler: action.handler, flags, ..Action::default() }));
    }
}

/// Begins to catch what is to be caught from the start.
pub fn catch_first(engine: &Engine, context: &Context) {
    host::catch_faults();
    if engine.writing().is_none() {
        return;
    }
    let actions = engine.world().actions(context).clone();
    for signal in (1..=64).filter(|signal| *signal != libc::SIGKILL && actions.get(*signal).ends_by(*signal)) {
        tell_kernel(engine, signal, actions.get(signal));
    }
}
