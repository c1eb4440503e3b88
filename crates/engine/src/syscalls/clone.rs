//! New threads and processes, and the end of both.

use super::{Answer, Flow, beside, error, futex};
use crate::context::{self, Context, ContextRef, RAX, RSP};
use crate::engine::Engine;
use crate::journal::{Before, Writing, write_down};
use crate::kernel::{self, Arguments};
use crate::observation;
use crate::process;
use crate::signals::{deliver, frame, host};
use sched::ThreadId;
use std::sync::mpsc;
use trace::event::{EndKind, Event, Fork, SignalPlace, Thread, ThreadEnd};

/// What a `clone`, `fork` or `vfork` asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub(super) flags: u64,
    stack: u64,
    parent_tid: u64,
    child_tid: u64,
    thread_pointer: u64,
}

pub(super) const VM: u64 = libc::CLONE_VM as u64;
pub(super) const VFORK: u64 = libc::CLONE_VFORK as u64;
const THREAD: u64 = libc::CLONE_THREAD as u64;
const SET_TLS: u64 = libc::CLONE_SETTLS as u64;
const PARENT_SETTID: u64 = libc::CLONE_PARENT_SETTID as u64;
const CHILD_SETTID: u64 = libc::CLONE_CHILD_SETTID as u64;
const CHILD_CLEARTID: u64 = libc::CLONE_CHILD_CLEARTID as u64;
pub(super) const SIGHAND: u64 = libc::CLONE_SIGHAND as u64;
/// What a plain `fork` of the C library comes with.
const ORDINARY: u64 = 0xff | PARENT_SETTID | CHILD_SETTID | CHILD_CLEARTID | SET_TLS;
/// Enough for the run loop and translation; the guest has its own stack.
pub(super) const HOST_STACK: usize = 256 << 10;

impl Request {
    pub fn from_clone(arguments: Arguments) -> Request {
        let [flags, stack, parent_tid, child_tid, thread_pointer, _] = arguments;
        Request { flags: flags & 0xffff_ffff, stack, parent_tid, child_tid, thread_pointer }
    }

    pub fn fork() -> Request {
        Request { flags: libc::SIGCHLD as u64, stack: 0, parent_tid: 0, child_tid: 0, thread_pointer: 0 }
    }

    pub fn vfork() -> Request {
        Request { flags: libc::SIGCHLD as u64 | VM | VFORK, ..Request::fork() }
    }

    pub(super) fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

/// No signal may be noted for a thread while it is copied: both copies would get it, or neither.
pub fn clone(engine: &'static Engine, context: &mut Context, request: Request) -> Answer {
    if !deliver::keep_out(context) {
        return Answer::Flow(Flow::Goes);
    }
    let result = make(engine, context, request);
    host::set_kernel_mask(context.signal_mask);
    if request.has(VFORK) && request.has(VM) && engine.writing().is_some() {
        context.gpr[RAX] = result as u64;
        write_down(engine, |writing| writing.vfork_ended(context));
        return Answer::Flow(Flow::Goes);
    }
    result.into()
}

fn make(engine: &'static Engine, context: &mut Context, request: Request) -> i64 {
    if !request.has(THREAD) {
        engine.note_shared_descriptors();
    }
    engine.departures.come(engine, context);
    if request.has(THREAD) && request.has(VM) {
        new_thread(engine, context, request)
    } else if request.has(VM) && request.has(VFORK) {
        vfork(engine, context, request)
    } else if request.has(VM) {
        beside::new_process(engine, context, request)
    } else {
        fork(engine, context, request)
    }
}

/// All that a new guest thread starts with.
pub(super) struct Seed {
    gpr: [u64; 16],
    rflags: u64,
    pc: u64,
    fs: u64,
    gs: u64,
    signal_mask: u64,
    state: Vec<u8>,
    request: Request,
}

impl Seed {
    pub fn of(engine: &Engine, parent: &mut Context, request: Request) -> Seed {
        let mut gpr = parent.gpr;
        gpr[RAX] = 0;
        if request.stack != 0 {
            gpr[RSP] = request.stack;
        }
        Seed {
            gpr,
            rflags: parent.rflags,
            pc: parent.pc,
            fs: if request.has(SET_TLS) { request.thread_pointer } else { parent.guest_fs() },
            gs: parent.guest_gs,
            signal_mask: parent.signal_mask,
            state: frame::state_area(parent, engine.xstate()).to_vec(),
            request,
        }
    }

    /// Makes the context of this host thread that of the new guest thread.
    pub fn grow(self, engine: &Engine, context: &mut Context) {
        let xstate = engine.xstate();
        context.xsave = frame::new_state_area(xstate);
        frame::state_area(context, xstate).copy_from_slice(&self.state);
        context.gpr = self.gpr;
        context.rflags = self.rflags;
        context.pc = self.pc;
        context.set_guest_fs(self.fs);
        context.guest_gs = self.gs;
        context.signal_mask = self.signal_mask;
        if self.request.has(CHILD_CLEARTID) {
            context.clear_tid = self.request.child_tid;
        }
        if engine.writes_records() {
            observation::open_buffer(context, engine.options.room());
        }
    }
}

/// Gives back what a guest thread had, when it is gone.
pub(super) fn clean_up(engine: &Engine, context: &mut Context) {
    observation::close_buffer(context);
    frame::free_state_area(context, engine.xstate());
}

/// Tells the thread's number where the guest wants it.
pub(super) fn store_child_tid(context: &Context, request: Request) {
    if request.has(CHILD_SETTID) {
        // A bad address is the guest's own loss, as with the kernel.
        let _ = kernel::write(request.child_tid, context.tid);
    }
}

fn new_thread(engine: &'static Engine, context: &mut Context, request: Request) -> i64 {
    let seed = Seed::of(engine, context, request);
    let (tell, hear) = mpsc::channel();
    // The new host thread inherits the mask: it must not be interrupted before it is a guest thread.
    let spawned = std::thread::Builder::new().stack_size(HOST_STACK).spawn(move || host_thread(engine, seed, &tell));
    let made: Option<(i32, u32)> = spawned.ok().and_then(|_| hear.recv().ok());
    let Some((tid, child)) = made else { return error(libc::EAGAIN) };
    announce(engine, context, request, tid, child)
}

/// The new thread is there: writes it down, and gives the parent its number.
pub(super) fn announce(engine: &Engine, context: &Context, request: Request, tid: i32, child: u32) -> i64 {
    engine.filters.inherit(context, child);
    write_down(engine, |writing| {
        let (parent, clock) = (context.thread, context.clock());
        writing.note(&Event::Thread(Thread { parent, clock, child, tid: tid as u32 }));
    });
    if request.has(PARENT_SETTID) && kernel::write(request.parent_tid, tid).is_err() {
        return error(libc::EFAULT);
    }
    i64::from(tid)
}

/// The life of a host thread: become the guest thread, run it, clean up.
fn host_thread(engine: &'static Engine, seed: Seed, tell: &mpsc::Sender<(i32, u32)>) {
    // The C library starts threads with its cancellation signal open, whatever they inherit. The guest's library may
    // have told the kernel to send that very signal (for timers) before this thread first has the turn.
    host::set_kernel_mask(u64::MAX);
    let context = context::of_this_thread();
    let request = seed.request;
    seed.grow(engine, context);
    context.tid = kernel::call(libc::SYS_gettid as u64, [0; 6]) as i32;
    store_child_tid(context, request);
    let stack = host::AlternateStack::install();
    context.thread = engine.turn.add(ContextRef::of(context)).0;
    let _ = tell.send((context.tid, context.thread));
    engine.turn.start(context);
    host::set_kernel_mask(context.signal_mask);
    crate::run::run(engine, context);
    host::set_kernel_mask(u64::MAX);
    clean_up(engine, context);
    drop(stack);
}

fn fork(engine: &'static Engine, context: &mut Context, request: Request) -> i64 {
    engine.settle_observer();
    let child_log = engine.writing().map(|writing| writing.journal().before_fork());
    // The child may get what a call of another thread has written that a replay does not know of yet.
    let is_blurred = !engine.turn.reach_of_others(context).is_empty();
    let held = engine.turn.hold();
    let world = engine.world();
    let pid = if request.flags & !ORDINARY == 0 && request.flags & 0xff == libc::SIGCHLD as u64 {
        process::fork()
    } else {
        let flags = request.flags & !(VM | VFORK | SET_TLS | SIGHAND | CHILD_SETTID | CHILD_CLEARTID);
        kernel::call(libc::SYS_clone as u64, [flags, 0, request.parent_tid, 0, 0, 0])
    };
    drop(world);
    drop(held);
    if let (Some(writing), Some(child_log)) = (engine.writing(), child_log) {
        if pid > 0 {
            let (thread, clock) = (context.thread, context.clock());
            writing.note(&Event::Fork(Fork { thread, clock, child_pid: pid as u32, child_log }));
        }
        writing.journal().after_fork(pid == 0);
        writing.forked();
        if pid == 0 && is_blurred {
            writing.stock.blur();
        }
    }
    if pid == 0 {
        become_child(engine, context, request);
    } else if pid > 0 && request.has(PARENT_SETTID) {
        let _ = kernel::write(request.parent_tid, pid as i32);
    }
    pid
}

fn become_child(engine: &'static Engine, context: &mut Context, request: Request) {
    context.tid = kernel::call(libc::SYS_gettid as u64, [0; 6]) as i32;
    context.robust_list = 0;
    context.clear_tid = if request.has(CHILD_CLEARTID) { request.child_tid } else { 0 };
    if request.has(CHILD_SETTID) {
        let _ = kernel::write(request.child_tid, context.tid);
    }
    if request.has(SET_TLS) {
        context.set_guest_fs(request.thread_pointer);
    }
    if request.stack != 0 {
        context.gpr[RSP] = request.stack;
    }
    engine.private.renew_after_fork();
    engine.silence_after_fork();
    engine.turn.after_fork(context);
}

/// A real `vfork`: the child runs in the parent's memory, on another host stack, as the same thread of the scheduler,
/// while the parent's host thread is suspended by the kernel. Other threads may run meanwhile.
fn vfork(engine: &'static Engine, context: &mut Context, request: Request) -> i64 {
    engine.world().begin_child(context, context.thread);
    // What follows until the parent's registers come back is the child's doing.
    write_down(engine, |writing| {
        let arguments = super::arguments_of(context);
        writing.call(context, context.gpr[RAX], arguments, 0, Before::default());
    });
    let state = frame::state_area(context, engine.xstate()).to_vec();
    let filters = engine.filters.keep(context);
    let fs = context.guest_fs();
    let flags = VM | VFORK | request.flags & 0xff;
    let pid = process::vfork(context, flags, move |context| {
        context.tid = kernel::call(libc::SYS_gettid as u64, [0; 6]) as i32;
        context.is_vfork_child = true;
        context.gpr[RAX] = 0;
        if request.stack != 0 {
            context.gpr[RSP] = request.stack;
        }
        if request.has(SET_TLS) {
            context.set_guest_fs(request.thread_pointer);
        }
        host::set_kernel_mask(context.signal_mask);
        write_down(engine, Writing::enter_commons);
        crate::run::run(engine, context);
    });
    context.set_guest_fs(fs);
    frame::state_area(context, engine.xstate()).copy_from_slice(&state);
    engine.filters.put_back(context, filters);
    engine.world().end_child(context.thread);
    // The child may have been killed while it did not have the turn.
    engine.turn.come_back(context);
    pid
}

pub fn exit_thread(engine: &Engine, context: &mut Context, status: u64) -> Answer {
    if context.is_vfork_child {
        kernel::call(libc::SYS_exit as u64, [status, 0, 0, 0, 0, 0]);
    }
    if !deliver::keep_out(context) {
        return Answer::Flow(Flow::Goes);
    }
    futex::release_robust_list(engine, context);
    if engine.turn.is_alone() {
        return exit_process(engine, context, status);
    }
    engine.world().open_guarded_in(context.clear_tid..context.clear_tid.saturating_add(4));
    if context.clear_tid != 0 && kernel::write(context.clear_tid, 0u32).is_ok() {
        write_down(engine, |writing| writing.memory(context, context.clear_tid, 4));
        futex::wake_everywhere(engine, context.clear_tid, 1);
    }
    if context.is_process_beside {
        engine.world().end_child(context.thread);
    }
    let is_first = ThreadId(context.thread) == ThreadId(1);
    write_down(engine, |writing| {
        let (thread, clock) = (context.thread, context.clock());
        writing.note(&Event::ThreadEnd(ThreadEnd { thread, clock, status: status as i32 }));
    });
    engine.turn.leave(context);
    if is_first || context.is_process_beside {
        // The process's first host thread cannot return; like the guest's, it stays as a zombie.
        kernel::call(libc::SYS_exit as u64, [status, 0, 0, 0, 0, 0]);
    }
    Answer::Flow(Flow::Ends)
}

pub fn exit_process(engine: &Engine, context: &mut Context, status: u64) -> Answer {
    if context.is_process_beside && !engine.turn.is_alone() {
        return exit_thread(engine, context, status);
    }
    if !context.is_vfork_child {
        write_down(engine, |writing| {
            writing.take_stock(engine, context, SignalPlace::InsideCall, true);
            writing.end(context, EndKind::Exited(status as i32 & 0xff), &[], &[]);
        });
        engine.finish();
    }
    kernel::call(libc::SYS_exit_group as u64, [status, 0, 0, 0, 0, 0]);
    unreachable!("exit_group does not return")
}
