//! Running the guest's handlers, and ending the guest where it has none.

use crate::context::{Context, Fault, RAX, RDI, RDX, RSI, RSP, Standing};
use crate::engine::{Engine, ThreadFacts};
use crate::journal::write_down;
use crate::kernel;
use crate::replay::BETWEEN;
use crate::signals::frame::{self, Frame};
use crate::signals::{Action, DefaultAction, UNBLOCKABLE, bit, default_action, dispositions, host};
use crate::x87;
use std::sync::atomic::Ordering;
use trace::event::{Death, EndKind, SignalPlace};

const TRAP_FLAG: u64 = 0x100;
const DIRECTION_FLAG: u64 = 0x400;
const RESUME_FLAG: u64 = 0x1_0000;
const SYSCALL_LENGTH: u64 = 2;
/// The code of `int3` and of signals that the kernel sends by itself, as its headers have it.
const SI_KERNEL: i32 = 0x80;

/// Delivers the signal that the engine's handler has noted for this thread.
pub fn pending(engine: &Engine, context: &mut Context) {
    let signal = context.signal_pending.load(Ordering::SeqCst) as i32;
    let info = context.signal_info;
    let blocked = context.signal_mask & bit(signal) != 0 && context.suspended_mask.is_none();
    context.signal_pending.store(0, Ordering::SeqCst);
    context.release_deferred();
    if blocked {
        // The guest blocked it after it had come: give it back to the kernel, which keeps it until it is unblocked.
        host::hold(signal);
        host::set_kernel_mask(context.signal_mask);
        give_back(context, signal, &info);
        return;
    }
    let place = if context.standing == Standing::AtEvent { SignalPlace::AtClock } else { SignalPlace::AfterCall };
    deliver(engine, context, signal, &info, [0; 3], place);
}

/// A signal that was sent to the process may be taken by any of its threads.
fn give_back(context: &Context, signal: i32, info: &[u64; 16]) {
    let process = std::process::id() as u64;
    let (signal_word, info_at) = (signal as u64, info.as_ptr() as u64);
    let for_process = matches!(info[1] as i32, libc::SI_USER | SI_KERNEL) || signal == libc::SIGCHLD;
    if for_process {
        kernel::call(libc::SYS_rt_sigqueueinfo as u64, [process, signal_word, info_at, 0, 0, 0]);
    } else {
        let arguments = [process, context.tid as u64, signal_word, info_at, 0, 0];
        kernel::call(libc::SYS_rt_tgsigqueueinfo as u64, arguments);
    }
}

/// Keeps signals out of a call that copies or ends the thread. `false` if one has come already: it is delivered first,
/// and the call made again.
pub fn keep_out(context: &mut Context) -> bool {
    host::set_kernel_mask(u64::MAX);
    let quiet = !context.has_pending_signal();
    if !quiet {
        make_again(context);
    }
    quiet
}

/// Lets the thread make its system call again, after the signal that has come.
pub fn make_again(context: &mut Context) {
    context.pc -= SYSCALL_LENGTH;
}

/// Delivers a synchronous fault at the current instruction.
pub fn fault(engine: &Engine, context: &mut Context, fault: Fault) {
    let mut info = [0u64; 16];
    info[0] = fault.signal as u32 as u64;
    info[1] = fault.code as u32 as u64;
    info[2] = match fault.signal {
        libc::SIGSEGV | libc::SIGBUS => fault.address,
        libc::SIGTRAP if fault.code == SI_KERNEL => 0,
        // The kernel reports the instruction, and saw ours.
        _ => context.pc,
    };
    context.fault = fault;
    if engine.replaying().is_some_and(|replay| replay.fault(engine, context, fault)) {
        return;
    }
    let blocked = context.signal_mask & bit(fault.signal) != 0;
    let action = engine.world().actions(context).get(fault.signal);
    if blocked || !action.has_handler() {
        die(engine, context, fault.signal, Some(fault), Moment::AtInstruction);
    }
    deliver(engine, context, fault.signal, &info, [fault.error, fault.trap, fault.address], SignalPlace::AtInstruction);
}

/// Delivers a signal that the thread's last system call has raised, with the first words of its `siginfo_t`. It can be
/// neither blocked nor ignored.
pub fn force(engine: &Engine, context: &mut Context, words: [u64; 4]) {
    let signal = words[0] as i32;
    let mut info = [0u64; 16];
    info[..4].copy_from_slice(&words);
    let action = engine.world().actions(context).get(signal);
    if context.signal_mask & bit(signal) != 0 || !action.has_handler() {
        die(engine, context, signal, None, Moment::Between);
    }
    deliver(engine, context, signal, &info, [0; 3], SignalPlace::AfterCall);
}

/// Runs the guest's handler of a signal, or does what is to be done where there is none.
pub fn deliver(
    engine: &Engine,
    context: &mut Context,
    signal: i32,
    info: &[u64; 16],
    fault: [u64; 3],
    place: SignalPlace,
) {
    let pc = context.pc;
    let action = engine.world().actions(context).get(signal);
    let old_mask = context.suspended_mask.take().unwrap_or(context.signal_mask);
    if !action.has_handler() {
        context.signal_mask = old_mask;
        host::set_kernel_mask(old_mask);
        restart_call(context, true);
        if action.ends_by(signal) {
            die(engine, context, signal, None, place.into());
        }
        if context.pc != pc {
            write_down(engine, |writing| writing.registers(context));
        }
        return;
    }
    restart_call(context, action.has(libc::SA_RESTART));
    x87::mend_saved(engine, context);
    let frame = Frame { info, mask: old_mask, restorer: action.restorer, fault };
    let top = alternate_stack_top(context, action);
    let mut pushed = frame::push(context, engine.xstate(), &frame, top);
    if pushed.is_err() && engine.world().open_guarded() {
        pushed = frame::push(context, engine.xstate(), &frame, top);
    }
    let Ok(pushed) = pushed else {
        // As the kernel does when the stack is gone.
        let fault = Fault { signal: libc::SIGSEGV, ..context.fault };
        die(engine, context, libc::SIGSEGV, Some(fault), place.into());
    };
    enter_handler(engine, context, signal, action, &pushed);
    write_down(engine, |writing| writing.signal(context, place, pc, info, Some((pushed.stack, pushed.end))));
    context.standing = Standing::AfterCall;
}

fn enter_handler(engine: &Engine, context: &mut Context, signal: i32, action: Action, pushed: &frame::Pushed) {
    context.gpr[RSP] = pushed.stack;
    context.gpr[RDI] = signal as u64;
    context.gpr[RSI] = pushed.info;
    context.gpr[RDX] = pushed.ucontext;
    context.gpr[RAX] = 0;
    context.pc = action.handler;
    context.rflags &= !(TRAP_FLAG | DIRECTION_FLAG | RESUME_FLAG);
    let mut mask = context.signal_mask | action.mask;
    if !action.has(libc::SA_NODEFER) {
        mask |= bit(signal);
    }
    context.signal_mask = mask & !UNBLOCKABLE;
    host::set_kernel_mask(context.signal_mask);
    if action.has(libc::SA_RESETHAND) {
        engine.world().actions_mut(context).set(signal, Action::default());
        if !super::SYNCHRONOUS.contains(&signal) {
            dispositions::tell_kernel(engine, signal, Action::default());
        }
    }
    engine.count_signal();
}

/// Makes an interrupted system call run again after the handler, or leaves its EINTR.
fn restart_call(context: &mut Context, asked: bool) {
    if let Some((number, restarts)) = context.interrupted_call.take()
        && asked
        && restarts
    {
        context.gpr[RAX] = number;
        context.pc -= SYSCALL_LENGTH;
    }
}

/// The top of the alternate stack if the handler wants it and is not on it already.
fn alternate_stack_top(context: &Context, action: Action) -> Option<u64> {
    let [start, flags, size] = context.alternate_stack;
    let usable = action.has(libc::SA_ONSTACK) && flags & libc::SS_DISABLE as u64 == 0 && size != 0;
    let on_it = context.gpr[RSP].wrapping_sub(start) <= size;
    (usable && !on_it).then(|| start + size)
}

/// Goes back to where the signal found the guest.
pub fn return_from_handler(engine: &Engine, context: &mut Context) {
    match frame::pop(context, engine.xstate()) {
        Ok(mask) => {
            context.signal_mask = mask & !UNBLOCKABLE;
            if !context.has_pending_signal() {
                host::set_kernel_mask(context.signal_mask);
            }
        }
        Err(_) => die(engine, context, libc::SIGSEGV, None, Moment::Between),
    }
}

/// Where a signal ends the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    AtInstruction,
    /// Before an event of the clock.
    AtEvent,
    /// In a system call, which has no outcome.
    InCall,
    /// After a system call, before the next instruction.
    Between,
}

impl From<SignalPlace> for Moment {
    fn from(place: SignalPlace) -> Moment {
        match place {
            SignalPlace::AtClock => Moment::AtEvent,
            SignalPlace::AtInstruction => Moment::AtInstruction,
            _ => Moment::Between,
        }
    }
}

impl Moment {
    fn place(self) -> SignalPlace {
        match self {
            Moment::AtInstruction => SignalPlace::AtInstruction,
            Moment::AtEvent => SignalPlace::AtClock,
            Moment::InCall => SignalPlace::InsideCall,
            Moment::Between => SignalPlace::AfterCall,
        }
    }
}

/// Ends the process by a signal, as the kernel would have, after the report.
pub fn die(engine: &Engine, context: &mut Context, signal: i32, fault: Option<Fault>, moment: Moment) -> ! {
    let threads = engine.threads();
    // A child in `vfork` ends alone, and has no log of its own. The end of a process beside this one is the end of a
    // thread, which is written down when it is gone.
    let writing = engine.writing().filter(|_| !context.is_other_process());
    if let Some(writing) = writing {
        let (code, address) = fault.map_or((0, 0), |fault| (fault.code, fault.address));
        let between = if moment == Moment::Between { [BETWEEN].as_slice() } else { &[] };
        let backtrace = engine.backtrace(context.thread, &threads);
        let kind = EndKind::Killed(Death { signal: signal as u32, code, address });
        writing.take_stock(engine, context, moment.place(), true);
        writing.end(context, kind, &backtrace, between);
    }
    die_with(engine, context, signal, fault, threads)
}

/// The same, with the threads that the report shows.
pub fn die_with(
    engine: &Engine,
    context: &mut Context,
    signal: i32,
    fault: Option<Fault>,
    threads: Vec<ThreadFacts>,
) -> ! {
    if default_action(signal) == DefaultAction::Crash {
        engine.report_crash(context, signal, fault, threads);
    }
    if !context.is_other_process() {
        engine.finish();
    }
    leave_by(signal)
}

/// Ends the process by a signal, under its default disposition.
pub fn leave_by(signal: i32) -> ! {
    host::kernel_action(signal, Some(Action::default()));
    let only_this = !bit(signal);
    kernel::call(libc::SYS_rt_sigprocmask as u64, [2, (&raw const only_this) as u64, 0, 8, 0, 0]);
    let tid = kernel::call(libc::SYS_gettid as u64, [0; 6]) as u64;
    kernel::call(libc::SYS_tgkill as u64, [std::process::id() as u64, tid, signal as u64, 0, 0, 0]);
    kernel::call(libc::SYS_exit_group as u64, [128 + signal as u64, 0, 0, 0, 0, 0]);
    unreachable!("exit_group does not return")
}
