//! Dispositions, masks, alternate stacks, and signals that the guest sends.

use super::{Answer, Flow, error, store};
use crate::context::Context;
use crate::engine::Engine;
use crate::kernel::{self, Arguments, BadAddress};
use crate::signals::deliver::Moment;
use crate::signals::{Action, UNBLOCKABLE, deliver, dispositions, host};

const SMALLEST_STACK: u64 = 2048;
/// `SS_AUTODISARM` and the mode bits of an alternate stack.
const STACK_MODES: u64 = 0x8000_0000;

pub fn action(engine: &Engine, context: &Context, arguments: Arguments) -> i64 {
    let [signal, new, old, size, ..] = arguments;
    if size != 8 || !(1..=64).contains(&signal) {
        return error(libc::EINVAL);
    }
    let signal = signal as i32;
    let mut world = engine.world();
    let current = world.actions(context).get(signal);
    if new != 0 {
        let Ok(words) = kernel::read::<[u64; 4]>(new) else { return error(libc::EFAULT) };
        if signal == libc::SIGKILL || signal == libc::SIGSTOP {
            return error(libc::EINVAL);
        }
        let mut action = Action::from_words(words);
        action.mask &= !UNBLOCKABLE;
        world.actions_mut(context).set(signal, action);
        drop(world);
        dispositions::tell_kernel(engine, signal, action);
    }
    if old != 0 { store(old, current.words()) } else { 0 }
}

pub fn mask(context: &mut Context, arguments: Arguments) -> i64 {
    let [how, new, old, size, ..] = arguments;
    if size != 8 {
        return error(libc::EINVAL);
    }
    let current = context.signal_mask;
    if new != 0 {
        let Ok(set) = kernel::read::<u64>(new) else { return error(libc::EFAULT) };
        let mask = match how as i32 {
            libc::SIG_BLOCK => current | set,
            libc::SIG_UNBLOCK => current & !set,
            libc::SIG_SETMASK => set,
            _ => return error(libc::EINVAL),
        };
        context.signal_mask = mask & !UNBLOCKABLE;
        if !context.has_pending_signal() {
            host::set_kernel_mask(context.signal_mask);
        }
    }
    if old != 0 { store(old, current) } else { 0 }
}

pub fn return_from_handler(engine: &Engine, context: &mut Context) -> Answer {
    deliver::return_from_handler(engine, context);
    Answer::Flow(Flow::Goes)
}

pub fn alternate_stack(context: &mut Context, arguments: Arguments) -> i64 {
    let [new, old, ..] = arguments;
    let [start, flags, size] = context.alternate_stack;
    let disabled = flags & libc::SS_DISABLE as u64 != 0;
    let on_it = !disabled && context.gpr[crate::context::RSP].wrapping_sub(start) <= size;
    let shown = if on_it { flags | libc::SS_ONSTACK as u64 } else { flags };
    if new != 0 {
        let Ok([new_start, new_flags, new_size]) = kernel::read::<[u64; 3]>(new) else { return error(libc::EFAULT) };
        let new_flags = new_flags & 0xffff_ffff;
        if on_it {
            return error(libc::EPERM);
        }
        let mode = new_flags & !STACK_MODES;
        if mode == libc::SS_DISABLE as u64 {
            context.alternate_stack = [0, new_flags, 0];
        } else if mode != 0 && mode != libc::SS_ONSTACK as u64 {
            return error(libc::EINVAL);
        } else if new_size < SMALLEST_STACK {
            return error(libc::ENOMEM);
        } else {
            context.alternate_stack = [new_start, new_flags & STACK_MODES, new_size];
        }
    }
    if old != 0 { store(old, [start, shown, size]) } else { 0 }
}

pub fn suspend(engine: &Engine, context: &mut Context, arguments: Arguments) -> i64 {
    let [address, size, ..] = arguments;
    if size != 8 {
        return error(libc::EINVAL);
    }
    let Ok(mask) = kernel::read::<u64>(address) else { return error(libc::EFAULT) };
    wait_with_mask(engine, context, mask, |kernel_mask| {
        let arguments = [(&raw const *kernel_mask) as u64, 8, 0, 0, 0, 0];
        kernel::call_interruptible(libc::SYS_rt_sigsuspend as u64, arguments)
    })
}

/// Makes a call that waits under another signal mask; a handler that runs because of it sees that mask and returns to
/// the old one.
pub fn wait_with_mask(engine: &Engine, context: &mut Context, mask: u64, call: impl FnOnce(&u64) -> i64) -> i64 {
    let kernel_mask = host::kernel_form(mask);
    engine.turn.go_outside(context);
    let result = call(&kernel_mask);
    engine.turn.come_back(context);
    if context.has_pending_signal() {
        context.suspended_mask = Some(context.signal_mask);
        context.signal_mask = mask & !UNBLOCKABLE;
    }
    result
}

/// Signals that the guest sends; one that ends this very process is reported first.
pub fn kill(engine: &Engine, context: &mut Context, number: u64, arguments: Arguments) -> i64 {
    let (target_is_own, signal) = match number as i64 {
        libc::SYS_kill => (arguments[0] as i32 == std::process::id() as i32, arguments[1] as i32),
        libc::SYS_tkill => (arguments[0] as i32 == context.tid, arguments[1] as i32),
        _ => (arguments[1] as i32 == context.tid, arguments[2] as i32),
    };
    if target_is_own && (1..=64).contains(&signal) {
        let action = engine.world().actions(context).get(signal);
        let blocked = context.signal_mask & crate::signals::bit(signal) != 0;
        if action.ends_by(signal) && !blocked {
            context.gpr[crate::context::RAX] = 0;
            deliver::die(engine, context, signal, None, Moment::InCall);
        }
    }
    kernel::call(number, arguments)
}

impl From<BadAddress> for i64 {
    fn from(_: BadAddress) -> i64 {
        error(libc::EFAULT)
    }
}
