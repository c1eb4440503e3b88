//! The guest's system calls: passed on where they concern only the kernel and the guest, answered or edited where
//! they concern the engine too.

mod beside;
mod clone;
mod exec;
mod faults;
mod files;
mod filter;
mod futex;
mod memory;
mod signals;
mod transfer;
mod waiting;

use crate::context::{Context, R8, R9, R10, R11, RAX, RCX, RDI, RDX, RSI, Standing};
use crate::engine::Engine;
use crate::journal::{Before, Writing, write_down};
use crate::kernel::{self, Arguments};
use crate::signals::deliver;
use guest::syscall::{self, Class, Restart, Syscall};
use trace::event::SignalPlace;

pub use exec::FILTER;
use faults::Struck;
pub use filter::Filters;
pub use memory::object_of;

/// What becomes of the thread after a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    Goes,
    Ends,
}

/// A negative result as the kernel gives it.
pub const fn error(number: i32) -> i64 {
    -(number as i64)
}

/// Carries out the system call in the guest's registers; the guest goes on at `next`.
pub fn dispatch(engine: &'static Engine, context: &mut Context, next: u64) -> Flow {
    context.recall_signal();
    if context.has_pending_signal() {
        // It came before the call, and is handled before it.
        context.pc = next;
        deliver::make_again(context);
        context.standing = Standing::AfterCall;
        return Flow::Goes;
    }
    engine.count_system_call();
    context.was_kept_out = false;
    let number = context.gpr[RAX];
    let arguments = arguments_of(context);
    engine.departures.look_at(number, &arguments);
    context.gpr[RCX] = next;
    context.gpr[R11] = context.rflags;
    context.pc = next;
    if let Some(flow) = filter::refuse(engine, context, number, arguments) {
        context.standing = Standing::AfterCall;
        return flow;
    }
    if engine.options.switching.calls && !is_own_business(number) {
        engine.turn.before_call(context);
    }
    let before = engine.writing().map(|writing| {
        if writing.stock.is_due(context) {
            writing.take_stock(engine, context, SignalPlace::InsideCall, false);
        }
        Before::new(engine, number, &arguments)
    });
    let flow = carry_out(engine, context, number, arguments, before);
    if engine.options.switching.calls && flow == Flow::Goes {
        engine.turn.after_call(context);
    }
    context.standing = Standing::AfterCall;
    flow
}

/// The arguments of the system call that the thread makes.
pub fn arguments_of(context: &Context) -> Arguments {
    [RDI, RSI, RDX, R10, R8, R9].map(|register| context.gpr[register])
}

fn carry_out(
    engine: &'static Engine,
    context: &mut Context,
    number: u64,
    arguments: Arguments,
    before: Option<Before>,
) -> Flow {
    let Some(call) = syscall::lookup(number) else {
        let result = waiting::anything(engine, context, number, arguments);
        // A call that the kernel does not know either is no news to anybody.
        if result != error(libc::ENOSYS) {
            mention(engine, &format!("system call {number} is newer than whodunit; it is passed on as it is"));
        }
        context.gpr[RAX] = result as u64;
        if let (Some(writing), Some(before)) = (engine.writing(), before) {
            writing.look_at_shared(engine, context);
            write_down_call(engine, writing, context, (number, arguments, result), before);
        }
        return Flow::Goes;
    };
    if !is_about_mappings(number) {
        engine.world().open_for_call(&arguments);
    }
    let answer = match faults::strike(engine, context, call, arguments) {
        None => perform(engine, context, call.class, number, arguments),
        Some(Struck::Result(result)) => result.into(),
        Some(Struck::Shorter(shorter)) => perform(engine, context, call.class, number, shorter.arguments()),
    };
    let result = match answer {
        Answer::Result(result) => result,
        Answer::Flow(flow) => return flow,
    };
    let result =
        if call.class == Class::Emulated { result } else { retry_if_guarded(engine, number, arguments, result) };
    if result == error(libc::EINTR) && context.has_pending_signal() {
        if context.was_kept_out && context.suspended_mask.is_none() {
            deliver::make_again(context);
            return Flow::Goes;
        }
        context.interrupted_call = Some((number, restarts(call, arguments)));
    }
    context.gpr[RAX] = result as u64;
    if let (Some(writing), Some(before)) = (engine.writing(), before) {
        if call.class != Class::Prompt || writing.is_stale() {
            writing.look_at_shared(engine, context);
        }
        write_down_call(engine, writing, context, (number, arguments, result), before);
    }
    Flow::Goes
}

/// Writes a finished call down, and says so if what it wrote cannot be.
fn write_down_call(
    engine: &Engine,
    writing: &Writing,
    context: &Context,
    (number, arguments, result): (u64, Arguments, i64),
    before: Before,
) {
    if !writing.call(context, number, arguments, result, before) {
        let name = syscall::lookup(number).map_or(String::new(), |call| format!(" ({})", call.name));
        let what = format!("nobody knows what memory system call {number}{name} writes; a replay may diverge after it");
        mention(engine, &what);
    }
}

/// Does what the call asks for. While it may wait, other processes that share memory can run.
fn perform(engine: &'static Engine, context: &mut Context, class: Class, number: u64, arguments: Arguments) -> Answer {
    let may_wait = class != Class::Prompt;
    if may_wait {
        write_down(engine, |writing| writing.leave_commons(engine));
    }
    let answer = answer(engine, context, class, number, arguments);
    // A thread that has ended has given the turn to another.
    if may_wait && !matches!(answer, Answer::Flow(Flow::Ends)) {
        write_down(engine, Writing::enter_commons);
    }
    answer
}

fn answer(engine: &'static Engine, context: &mut Context, class: Class, number: u64, arguments: Arguments) -> Answer {
    let result = match class {
        Class::Prompt => prompt(engine, number, arguments),
        Class::Absent => kernel::call(number, arguments),
        Class::WaitsRead { fd_arg } => {
            let fd = arguments[fd_arg as usize] as i32;
            transfer::transfer(engine, context, number, arguments, fd, libc::POLLIN)
        }
        Class::WaitsWrite { fd_arg } => {
            let fd = arguments[fd_arg as usize];
            memory::object_changes(engine, fd);
            if engine.options.switching.patience.is_some() {
                engine.turn.note_progress();
            }
            transfer::transfer(engine, context, number, arguments, fd as i32, libc::POLLOUT)
        }
        Class::WaitsMany => waiting::many(engine, context, number, arguments),
        Class::WaitsTime => waiting::time(engine, context, number, arguments),
        Class::Waits => waiting::anything(engine, context, number, arguments),
        Class::Emulated => return emulated(engine, context, number, arguments),
    };
    result.into()
}

/// Whether an interrupted call is made again where the handler asks for that. Those that have waited for a part of a
/// limited time are not.
fn restarts(call: &Syscall, arguments: Arguments) -> bool {
    let descriptor = arguments[0] as i32;
    let limited = match call.class {
        Class::WaitsRead { .. } => transfer::patience(descriptor, libc::POLLIN).is_some(),
        Class::WaitsWrite { .. } => transfer::patience(descriptor, libc::POLLOUT).is_some(),
        _ => match i64::from(call.number) {
            libc::SYS_connect => transfer::patience(descriptor, libc::POLLOUT).is_some(),
            libc::SYS_futex => futex::waits_limited(arguments),
            _ => false,
        },
    };
    call.restart == Restart::IfAsked && !limited
}

/// Makes a change of mappings again, for a replay.
pub fn redo_mapping(engine: &Engine, number: u64, arguments: Arguments) -> i64 {
    match number as i64 {
        libc::SYS_munmap => memory::unmap(engine, arguments),
        libc::SYS_mremap => memory::remap(engine, arguments),
        libc::SYS_brk => memory::program_break(engine, arguments[0]),
        libc::SYS_madvise => memory::advise(engine, number, arguments),
        libc::SYS_shmdt => memory::detach_copy(engine, arguments[0]),
        _ => memory::protect(engine, number, arguments),
    }
}

/// Maps memory that no recording tells of, in a replay that has left its own.
pub fn map_memory(engine: &Engine, context: &Context, arguments: Arguments) -> i64 {
    memory::map(engine, context, arguments)
}

/// Sets a segment base again, for a replay.
pub fn redo_arch_prctl(context: &mut Context, arguments: Arguments) {
    if matches!(arguments[0], ARCH_SET_FS | ARCH_SET_GS) {
        arch_prctl(context, arguments);
    }
}

/// The descriptor that the path there names, if it is one of the names of a descriptor.
pub fn descriptor_named_at(path_at: u64) -> Option<i32> {
    const LONGEST_NAME: usize = 64;
    files::descriptor_named(&kernel::read_string(path_at, LONGEST_NAME).ok()?)
}

/// Whether the call makes a child that runs in its parent's memory, while the parent waits.
pub fn is_vfork(number: u64, arguments: Arguments) -> bool {
    const BOTH: u64 = (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    match number as i64 {
        libc::SYS_vfork => true,
        libc::SYS_clone => arguments[0] & (BOTH | libc::CLONE_THREAD as u64) == BOTH,
        _ => false,
    }
}

/// Clock reads are frequent, and the engine's own C library reads clocks without entering the kernel.
fn prompt(engine: &Engine, number: u64, arguments: Arguments) -> i64 {
    match number as i64 {
        libc::SYS_clock_gettime => waiting::clock(arguments),
        libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_ftruncate => {
            memory::object_changes(engine, arguments[0]);
            kernel::call(number, arguments)
        }
        _ => kernel::call(number, arguments),
    }
}

/// Calls in whose outcome other threads of the process have no part: it does not matter who runs before them.
fn is_own_business(number: u64) -> bool {
    matches!(
        number as i64,
        libc::SYS_mmap
            | libc::SYS_mprotect
            | libc::SYS_madvise
            | libc::SYS_brk
            | libc::SYS_clone
            | libc::SYS_clone3
            | libc::SYS_rt_sigprocmask
            | libc::SYS_sigaltstack
            | libc::SYS_set_robust_list
            | libc::SYS_rseq
            | libc::SYS_getpid
            | libc::SYS_gettid
            | libc::SYS_clock_gettime
            | libc::SYS_gettimeofday
            | libc::SYS_getrandom
            | libc::SYS_sched_getaffinity
            | libc::SYS_prlimit64
    )
}

/// Calls whose addresses are not buffers.
fn is_about_mappings(number: u64) -> bool {
    matches!(
        number as i64,
        libc::SYS_mmap | libc::SYS_mprotect | libc::SYS_munmap | libc::SYS_brk | libc::SYS_mremap | libc::SYS_madvise
    )
}

/// A buffer on a page that the engine write-protects is no fault of the guest's, also if it is named indirectly.
fn retry_if_guarded(engine: &Engine, number: u64, arguments: Arguments, result: i64) -> i64 {
    if result == error(libc::EFAULT) && engine.world().open_guarded() {
        return kernel::call(number, arguments);
    }
    result
}

/// Says something at most once.
fn mention(engine: &Engine, what: &str) {
    let first = engine.world().mention_once(what);
    if first {
        engine.notice(what);
    }
}

/// Most emulated calls give a result; some change where the thread goes on.
pub enum Answer {
    Result(i64),
    Flow(Flow),
}

impl From<i64> for Answer {
    fn from(result: i64) -> Answer {
        Answer::Result(result)
    }
}

fn emulated(engine: &'static Engine, context: &mut Context, number: u64, arguments: Arguments) -> Answer {
    let a = arguments;
    match number as i64 {
        libc::SYS_mmap => memory::map(engine, context, a).into(),
        libc::SYS_munmap => memory::unmap(engine, a).into(),
        libc::SYS_mprotect | libc::SYS_pkey_mprotect => memory::protect(engine, number, a).into(),
        libc::SYS_mremap => memory::remap(engine, a).into(),
        libc::SYS_brk => memory::program_break(engine, a[0]).into(),
        libc::SYS_shmat => memory::attach(engine, context, a).into(),
        libc::SYS_shmdt => memory::detach(engine, a).into(),
        libc::SYS_madvise => memory::advise(engine, number, a).into(),

        libc::SYS_rt_sigaction => signals::action(engine, context, a).into(),
        libc::SYS_rt_sigprocmask => signals::mask(context, a).into(),
        libc::SYS_rt_sigreturn => {
            write_down(engine, |writing| {
                writing.call(context, number, a, 0, Before::default());
            });
            signals::return_from_handler(engine, context)
        }
        libc::SYS_sigaltstack => signals::alternate_stack(context, a).into(),
        libc::SYS_rt_sigsuspend => signals::suspend(engine, context, a).into(),
        libc::SYS_kill | libc::SYS_tkill | libc::SYS_tgkill => signals::kill(engine, context, number, a).into(),

        libc::SYS_futex => futex::futex(engine, context, a).into(),
        // The C library falls back on `futex`.
        SYS_FUTEX_WAITV | SYS_FUTEX_WAKE | SYS_FUTEX_WAIT | SYS_FUTEX_REQUEUE => error(libc::ENOSYS).into(),
        libc::SYS_sched_yield => waiting::yield_turn(engine, context).into(),

        libc::SYS_clone => clone::clone(engine, context, clone::Request::from_clone(a)),
        libc::SYS_fork => clone::clone(engine, context, clone::Request::fork()),
        libc::SYS_vfork => clone::clone(engine, context, clone::Request::vfork()),
        libc::SYS_clone3 => error(libc::ENOSYS).into(),
        libc::SYS_exit => clone::exit_thread(engine, context, a[0]),
        libc::SYS_exit_group => clone::exit_process(engine, context, a[0]),
        libc::SYS_set_tid_address => {
            context.clear_tid = a[0];
            i64::from(context.tid).into()
        }
        libc::SYS_set_robust_list => {
            // The kernel needs it too, for when the whole process dies.
            let result = kernel::call(number, a);
            if result == 0 {
                context.robust_list = a[0];
            }
            result.into()
        }
        libc::SYS_get_robust_list => kernel::call(number, a).into(),
        libc::SYS_rseq => error(libc::ENOSYS).into(),
        libc::SYS_execve | libc::SYS_execveat => exec::execute(engine, context, number, a),

        libc::SYS_ptrace => beside::trace(engine, context, a).into(),
        libc::SYS_arch_prctl => arch_prctl(context, a).into(),
        libc::SYS_prctl => files::process_control(engine, context, a).into(),
        libc::SYS_seccomp => filter::seccomp(engine, context, a).into(),
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 => files::open(engine, context, number, a).into(),
        libc::SYS_readlink | libc::SYS_readlinkat => files::read_link(engine, number, a).into(),
        libc::SYS_close => files::close(engine, a).into(),
        libc::SYS_close_range => files::close_range(engine, a).into(),
        libc::SYS_dup2 | libc::SYS_dup3 => files::duplicate(engine, number, a).into(),
        libc::SYS_getdents | libc::SYS_getdents64 => files::list_directory(engine, number, a).into(),
        // Everything else that is marked so needs no care yet beyond letting the kernel do it.
        _ => waiting::anything(engine, context, number, a).into(),
    }
}

const SYS_FUTEX_WAITV: i64 = 449;
const SYS_FUTEX_WAKE: i64 = 454;
const SYS_FUTEX_WAIT: i64 = 455;
const SYS_FUTEX_REQUEUE: i64 = 456;

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;

/// The guest's FS and GS bases are the engine's to keep.
fn arch_prctl(context: &mut Context, arguments: Arguments) -> i64 {
    let [code, address, ..] = arguments;
    match code {
        ARCH_SET_FS | ARCH_SET_GS if address >= 1 << 47 => error(libc::EPERM),
        ARCH_SET_FS => {
            context.set_guest_fs(address);
            0
        }
        ARCH_SET_GS => {
            context.guest_gs = address;
            0
        }
        ARCH_GET_FS => store(address, context.guest_fs()),
        ARCH_GET_GS => store(address, context.guest_gs),
        // Shadow stacks would fight with translated returns.
        0x5001..=0x5005 => error(libc::EOPNOTSUPP),
        _ => kernel::call(libc::SYS_arch_prctl as u64, arguments),
    }
}

/// Writes a result where the guest wants it.
fn store<T: kernel::Plain>(address: u64, value: T) -> i64 {
    match kernel::write(address, value) {
        Ok(()) => 0,
        Err(kernel::BadAddress) => error(libc::EFAULT),
    }
}
