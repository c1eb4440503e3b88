//! A child process that shares its parent's memory and runs beside it: `clone` with `CLONE_VM` alone.
//!
//! To the kernel it is a process of its own; to the engine it is one more thread of the same memory, which takes turns
//! with the others. LeakSanitizer makes such a child to trace its parent. Tracing for real would stop host threads
//! wherever they are, with the turn or without, so it is the turn that stops them, and registers come from contexts.

use super::clone::{self, HOST_STACK, Request, SIGHAND, Seed, VFORK, VM};
use super::{error, store};
use crate::context::{self, Context, ContextRef, RSP};
use crate::engine::Engine;
use crate::kernel::{self, Arguments};
use crate::process;
use crate::signals::host;
use std::sync::mpsc;

/// What of the request the kernel carries out: the signal at the end, and what parent and child share.
const KERNEL_FLAGS: u64 = 0xff
    | (libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SYSVSEM | libc::CLONE_UNTRACED | libc::CLONE_PARENT) as u64
    | SIGHAND;

/// What the new process is called by the kernel and by the scheduler, or the error.
type Made = Result<(i32, u32), i64>;

pub fn new_process(engine: &'static Engine, context: &mut Context, request: Request) -> i64 {
    let seed = Seed::of(engine, context, request);
    let (tell, hear) = mpsc::channel();
    let spawned = std::thread::Builder::new()
        .stack_size(HOST_STACK)
        .spawn(move || lend_host_thread(engine, seed, request, &tell));
    let Some(made) = spawned.ok().and_then(|_| hear.recv().ok()) else { return error(libc::EAGAIN) };
    match made {
        Ok((tid, child)) => {
            if !request.has(SIGHAND) {
                engine.world().begin_child(context, child);
            }
            clone::announce(engine, context, request, tid, child)
        }
        Err(code) => code,
    }
}

/// The new process needs thread-local storage of the engine's own: it uses that of a host thread, which the kernel
/// suspends meanwhile, as for `vfork`.
fn lend_host_thread(engine: &'static Engine, seed: Seed, request: Request, tell: &mpsc::Sender<Made>) {
    host::set_kernel_mask(u64::MAX);
    let context = context::of_this_thread();
    seed.grow(engine, context);
    let stack = host::AlternateStack::install();
    context.thread = engine.turn.add(ContextRef::of(context)).0;
    let (flags, announce) = (request.flags & KERNEL_FLAGS | VM | VFORK, tell.clone());
    let pid = process::lend(context, flags, move |context| {
        context.tid = kernel::call(libc::SYS_gettid as u64, [0; 6]) as i32;
        context.is_process_beside = true;
        clone::store_child_tid(context, request);
        let _ = announce.send(Ok((context.tid, context.thread)));
        engine.turn.start(context);
        host::set_kernel_mask(context.signal_mask);
        crate::run::run(engine, context);
    });
    // It may have been killed, or have become another program.
    engine.turn.forget(context);
    if pid < 0 {
        let _ = tell.send(Err(pid));
    }
    clone::clean_up(engine, context);
    drop(stack);
}

const PEEK_TEXT: u64 = libc::PTRACE_PEEKTEXT as u64;
const PEEK_DATA: u64 = libc::PTRACE_PEEKDATA as u64;
const CONTINUE: u64 = libc::PTRACE_CONT as u64;
const GET_REGISTERS: u64 = libc::PTRACE_GETREGS as u64;
const ATTACH: u64 = libc::PTRACE_ATTACH as u64;
const DETACH: u64 = libc::PTRACE_DETACH as u64;
const GET_REGISTER_SET: u64 = libc::PTRACE_GETREGSET as u64;
const GENERAL_REGISTERS: u64 = libc::NT_PRSTATUS as u64;
const STOPPED_BY_SIGSTOP: i32 = (libc::SIGSTOP << 8) | 0x7f;

/// `ptrace`, which is the kernel's unless the traced thread runs in this very memory.
pub fn trace(engine: &Engine, context: &Context, arguments: Arguments) -> i64 {
    let [request, tid, address, data, ..] = arguments;
    let tid = tid as i32;
    if !context.is_process_beside {
        return kernel::call(libc::SYS_ptrace as u64, arguments);
    }
    if request == ATTACH {
        return match engine.turn.stop(context, tid) {
            Some(()) => 0,
            None if is_host_thread(tid) => error(libc::ESRCH),
            None => kernel::call(libc::SYS_ptrace as u64, arguments),
        };
    }
    let Some(registers) = engine.turn.look_at_stopped(context, tid, general_registers) else {
        return kernel::call(libc::SYS_ptrace as u64, arguments);
    };
    match request {
        CONTINUE | DETACH => engine.turn.resume(context, tid).map_or(error(libc::ESRCH), |()| 0),
        PEEK_TEXT | PEEK_DATA => kernel::read::<u64>(address).map_or(error(libc::EIO), |word| store(data, word)),
        GET_REGISTERS => store_words(data, &registers),
        GET_REGISTER_SET if address == GENERAL_REGISTERS => store_set(data, &registers),
        _ => error(libc::EIO),
    }
}

/// Whether the parent has a thread of this number: one of the engine's, since it is none of the guest's.
fn is_host_thread(tid: i32) -> bool {
    let parent = kernel::call(libc::SYS_getppid as u64, [0; 6]) as u64;
    kernel::call(libc::SYS_tgkill as u64, [parent, tid as u64, 0, 0, 0, 0]) == 0
}

/// `wait4` for a thread that the caller has stopped; `None` if there is nothing to tell of it.
pub fn report_stop(engine: &Engine, context: &Context, arguments: Arguments) -> Option<i64> {
    let [tid, status, ..] = arguments;
    let told = context.is_process_beside && engine.turn.report_stop(context, tid as i32);
    told.then(|| {
        let stored = if status == 0 { 0 } else { store(status, STOPPED_BY_SIGSTOP) };
        if stored == 0 { i64::from(tid as i32) } else { stored }
    })
}

/// The kernel's `struct user_regs_struct` of a stopped thread.
fn general_registers(context: &Context) -> [u64; 27] {
    const CODE_SEGMENT: u64 = 0x33;
    const STACK_SEGMENT: u64 = 0x2b;
    let gpr = &context.gpr;
    let mut words = [0; 27];
    for (word, register) in words.iter_mut().zip([15, 14, 13, 12, 5, 3, 11, 10, 9, 8, 0, 1, 2, 6, 7]) {
        *word = gpr[register];
    }
    // No system call is under way that could be made again.
    words[15] = u64::MAX;
    words[16..23].copy_from_slice(&[
        context.pc,
        CODE_SEGMENT,
        context.rflags,
        gpr[RSP],
        STACK_SEGMENT,
        context.trace_fs,
        context.guest_gs,
    ]);
    words
}

fn store_words(address: u64, words: &[u64]) -> i64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    kernel::write_bytes(address, &bytes).map_or(error(libc::EFAULT), |()| 0)
}

/// Fills the `struct iovec` at `vector` as far as it reaches.
fn store_set(vector: u64, words: &[u64]) -> i64 {
    let Ok([base, room]) = kernel::read::<[u64; 2]>(vector) else { return error(libc::EFAULT) };
    let fitting = words.len().min(room as usize / 8);
    match store_words(base, &words[..fitting]) {
        0 => store(vector, [base, 8 * fitting as u64]),
        code => code,
    }
}
