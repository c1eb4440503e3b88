//! The engine's own signal handler, and what it tells the kernel.
#![allow(unsafe_code)]

use crate::code::cache::{Counting, Observed, Step};
use crate::code::observe::RecordFacts;
use crate::context::{self, Context, R11, RCX, SPILL_SLOTS};
use crate::engine::Engine;
use crate::kernel;
use crate::observation;
use crate::signals::{Action, SYNCHRONOUS, bit, synchronous_mask};
use crate::world::World;
use std::cell::Cell;
use std::sync::atomic::Ordering;

const SA_RESTORER: u64 = 0x0400_0000;
const ALTERNATE_STACK: usize = 128 << 10;

/// Registers in the kernel's signal frame by encoding number.
const FRAME_REGISTERS: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Sets the kernel's disposition of a signal and returns the old one.
pub fn kernel_action(signal: i32, new: Option<Action>) -> Action {
    let new = new.map(Action::words);
    let new = new.as_ref().map_or(0, |words| words.as_ptr() as u64);
    let mut old = [0u64; 4];
    kernel::call(libc::SYS_rt_sigaction as u64, [signal as u64, new, old.as_mut_ptr() as u64, 8, 0, 0]);
    Action::from_words(old)
}

/// Lets the engine's handler catch a signal.
pub fn catch(signal: i32, extra_flags: u64) {
    let flags = (libc::SA_SIGINFO | libc::SA_ONSTACK) as u64 | SA_RESTORER | extra_flags;
    let handler = on_signal as *const () as u64;
    kernel_action(signal, Some(Action { handler, flags, restorer: kernel::restorer(), mask: !synchronous_mask() }));
}

/// Lets the engine's handler catch the faults of guest code.
pub fn catch_faults() {
    for signal in SYNCHRONOUS {
        catch(signal, 0);
    }
}

thread_local! {
    /// Synchronous signals that somebody sent while the guest blocks them: these the kernel must block and keep.
    static HELD: Cell<u64> = const { Cell::new(0) };
}

/// Lets the kernel keep a signal that was sent to this thread for as long as the guest blocks it.
pub fn hold(signal: i32) {
    HELD.set(HELD.get() | bit(signal) & synchronous_mask());
}

/// What the kernel's mask is while the guest's is `mask`: faults stay open.
pub fn kernel_form(mask: u64) -> u64 {
    mask & (!synchronous_mask() | HELD.get())
}

/// Sets the kernel's mask of this thread.
pub fn set_kernel_mask(mask: u64) {
    let mask = kernel_form(mask);
    HELD.set(HELD.get() & mask);
    let arguments = [libc::SIG_SETMASK as u64, (&raw const mask) as u64, 0, 8, 0, 0];
    kernel::call(libc::SYS_rt_sigprocmask as u64, arguments);
}

/// Blocks all signals, for a host thread that is none of the guest's; returns the kernel's mask before.
pub fn block_all() -> u64 {
    let (all, mut old) = (u64::MAX, 0u64);
    let arguments = [libc::SIG_SETMASK as u64, (&raw const all) as u64, (&raw mut old) as u64, 8, 0, 0];
    kernel::call(libc::SYS_rt_sigprocmask as u64, arguments);
    old
}

/// Goes back to the mask that [`block_all`] returned.
pub fn unblock(mask: u64) {
    let arguments = [libc::SIG_SETMASK as u64, (&raw const mask) as u64, 0, 8, 0, 0];
    kernel::call(libc::SYS_rt_sigprocmask as u64, arguments);
}

pub fn kernel_mask() -> u64 {
    let mut mask = 0u64;
    kernel::call(libc::SYS_rt_sigprocmask as u64, [0, 0, (&raw mut mask) as u64, 8, 0, 0]);
    mask
}

/// A stack for the engine's handler on the calling host thread; the guest's stack may be what is broken.
pub struct AlternateStack(*mut libc::c_void);

impl AlternateStack {
    pub fn install() -> AlternateStack {
        // SAFETY: a fresh mapping of our own, which stays until it is dropped.
        unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                ALTERNATE_STACK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            );
            assert!(start != libc::MAP_FAILED, "no memory is left for a signal stack");
            let stack = libc::stack_t { ss_sp: start, ss_flags: 0, ss_size: ALTERNATE_STACK };
            libc::sigaltstack(&stack, std::ptr::null_mut());
            AlternateStack(start)
        }
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        // SAFETY: the caller has blocked all signals that could still use it.
        unsafe {
            let none = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            libc::sigaltstack(&none, std::ptr::null_mut());
            libc::munmap(self.0, ALTERNATE_STACK);
        }
    }
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, frame: *mut libc::ucontext_t) {
    // SAFETY: the kernel passes valid pointers to its own frame, which is ours to edit until we return.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    let context = context::pointer();
    // SAFETY: the context is this thread's; a handler touches only the fields that its doc names.
    let context = unsafe { &mut *context };
    if SYNCHRONOUS.contains(&signal) && info.si_code > 0 {
        on_fault(context, signal, info, frame);
    } else {
        on_asynchronous(context, signal, info, frame);
    }
}

fn on_fault(context: &mut Context, signal: i32, info: &libc::siginfo_t, frame: &mut libc::ucontext_t) {
    let rip = frame.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
    if let Some(target) = kernel::redirect_fault(rip) {
        frame.uc_mcontext.gregs[libc::REG_RIP as usize] = target as i64;
        return;
    }
    let engine = Engine::get();
    // The thread was in translated code, so nobody holds the world.
    let Some(mut world) = engine.try_world() else { internal_fault(signal, rip, info) };
    let Some(step) = world.cache.find(rip) else {
        drop(world);
        internal_fault(signal, rip, info);
    };
    if let Some(observed) = step.disturbance.observed {
        // SAFETY: all synchronous signals carry an address.
        let address = unsafe { info.si_addr() } as u64;
        if observation::is_overrun(context, address) {
            return make_room(engine, &mut world, context, step, frame);
        }
        if let Some(next) = world.cache.find_next(rip).filter(|_| observed.capturing) {
            frame.uc_mcontext.gregs[libc::REG_RIP as usize] = next as i64;
            return;
        }
        end_record(engine, &mut world, context, observed, step.pc);
    }
    drop(world);
    undo(context, &step, frame);
    let registers = &mut frame.uc_mcontext.gregs;
    context.pc = step.pc;
    context.fault.signal = signal;
    context.fault.code = info.si_code;
    // SAFETY: all synchronous signals carry an address.
    context.fault.address = unsafe { info.si_addr() } as u64;
    context.fault.error = registers[libc::REG_ERR as usize] as u64;
    context.fault.trap = registers[libc::REG_TRAPNO as usize] as u64;
    registers[libc::REG_RIP as usize] = engine.stubs().fault as i64;
    registers[libc::REG_EFL as usize] &= !0x100;
}

/// A record ran over the end of the buffer: empties it and lets the unit go on at its start. If that tells so much that some of it may be told enough, the thread
/// stops at its next event.
fn make_room(engine: &Engine, world: &mut World, context: &mut Context, step: Step, frame: &mut libc::ucontext_t) {
    let Some((pointer, _)) = step.disturbance.observed.and_then(|observed| observed.scratch) else { return };
    let register = &mut frame.uc_mcontext.gregs[FRAME_REGISTERS[pointer as usize] as usize];
    engine.drain(world, context);
    observation::move_to_start(context, *register as u64);
    *register = context.trace_start as i64;
    if world.cache.tellings.are_due() {
        take_budget(context, Some(step), frame);
    }
}

/// A fault in an observed unit: its record ends before the instruction that faulted.
fn end_record(engine: &Engine, world: &mut World, context: &mut Context, observed: Observed, pc: u64) {
    let Observed { unit, executed, words, scratch, .. } = observed;
    if scratch.is_none() && world.cache.spared().is_some() {
        // The record may not have been told.
        return;
    }
    let facts = match scratch {
        Some(_) => RecordFacts { unit, executed, words, next: pc, retracts: false },
        None => RecordFacts { unit, executed, words: 1, next: pc, retracts: true },
    };
    if let Some(number) = world.cache.catalogue_mut().map(|catalogue| catalogue.add_record(facts)) {
        engine.end_record(world, context, number, facts);
    }
}

/// Puts the guest's registers back that the translation had moved.
pub(crate) fn undo(context: &mut Context, step: &Step, frame: &mut libc::ucontext_t) {
    let registers = &mut frame.uc_mcontext.gregs;
    if step.disturbance.branching {
        registers[libc::REG_RCX as usize] = context.gpr[RCX] as i64;
        registers[libc::REG_R11 as usize] = context.gpr[R11] as i64;
    }
    if let Some(register) = step.disturbance.spilled {
        registers[FRAME_REGISTERS[register as usize] as usize] = context.spill[SPILL_SLOTS - 1] as i64;
    }
    if step.disturbance.components {
        registers[libc::REG_RAX as usize] = context.spill[0] as i64;
        registers[libc::REG_RDX as usize] = context.spill[1] as i64;
    }
    if step.disturbance.own_gs {
        // A handler runs with the base that it found, and so does what comes after it.
        context.set_guest_fs(context.branch_target);
    }
    if let Some((pointer, value)) = step.disturbance.observed.and_then(|observed| observed.scratch) {
        registers[FRAME_REGISTERS[pointer as usize] as usize] = context.spill[1] as i64;
        registers[FRAME_REGISTERS[value as usize] as usize] = context.spill[2] as i64;
    }
    context.budget += i64::from(step.disturbance.ahead);
}

fn on_asynchronous(context: &mut Context, signal: i32, info: &libc::siginfo_t, frame: &mut libc::ucontext_t) {
    // SAFETY: a siginfo_t is 128 bytes of plain data.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const *info).cast::<u64>(), context.signal_info.as_mut_ptr(), 16);
    }
    context.signal_pending.store(signal as u32, Ordering::SeqCst);
    context.wake.fetch_add(1, Ordering::SeqCst);
    // One at a time: the kernel keeps the rest until this one has been delivered.
    let mask = (&raw mut frame.uc_sigmask).cast::<u64>();
    // SAFETY: the frame's mask is at least eight bytes of plain data.
    unsafe { *mask = !synchronous_mask() };

    let rip = frame.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
    if let Some(target) = kernel::redirect_interrupted(rip) {
        frame.uc_mcontext.gregs[libc::REG_RIP as usize] = target as i64;
    } else if let Some(engine) = Engine::if_started()
        && engine.code_range().contains(&rip)
    {
        let step = engine.try_world().and_then(|world| world.cache.find(rip));
        take_budget(context, step, frame);
    }
}

/// Takes the thread's budget away, also where translated code holds it in a register just now.
pub(crate) fn take_budget(context: &mut Context, step: Option<Step>, frame: &mut libc::ucontext_t) {
    let disturbance = step.map(|step| step.disturbance).unwrap_or_default();
    let registers = &mut frame.uc_mcontext.gregs;
    match disturbance.counting {
        Counting::No => context.request_stop(),
        Counting::Loaded | Counting::Taken => {
            context.request_stop_in_register(&mut registers[libc::REG_RCX as usize]);
        }
    }
}

/// The engine itself faulted: say so with what we need to know, and stop.
fn internal_fault(signal: i32, rip: u64, info: &libc::siginfo_t) -> ! {
    // SAFETY: synchronous signals carry an address.
    let address = unsafe { info.si_addr() } as u64;
    let text = format!(
        "whodunit: internal error: signal {signal} at {rip:#x}, address {address:#x}, code {}; please report it\n",
        info.si_code
    );
    kernel::call(libc::SYS_write as u64, [2, text.as_ptr() as u64, text.len() as u64, 0, 0, 0]);
    kernel::call(libc::SYS_exit_group as u64, [70, 0, 0, 0, 0, 0]);
    unreachable!("exit_group does not return")
}
