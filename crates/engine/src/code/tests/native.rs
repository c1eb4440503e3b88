//! Runs guest code on the bare processor, and catches what it raises.
//!
//! One run at a time: the machine's lock is held around every use of the frame and the handler's settings.
#![allow(unsafe_code)]

use crate::code::cache::CodeCache;
use crate::context;
use crate::signals::host;
use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU64, Ordering::SeqCst};

/// Registers on the way in and out; reached by RIP-relative addresses, since no register is free.
#[repr(C, align(64))]
pub struct Frame {
    pub gpr: [u64; 16],
    pub rflags: u64,
    pub xsave: u64,
    pub entry: u64,
    host_rsp: u64,
}

impl Frame {
    pub const fn new(gpr: [u64; 16], rflags: u64, xsave: u64, entry: u64) -> Frame {
        Frame { gpr, rflags, xsave, entry, host_rsp: 0 }
    }
}

struct FrameCell(UnsafeCell<Frame>);
// SAFETY: used only under the machine's lock.
unsafe impl Sync for FrameCell {}

static FRAME: FrameCell = FrameCell(UnsafeCell::new(Frame::new([0; 16], 0, 0, 0)));

std::arch::global_asm!(
    ".globl whodunit_test_enter",
    ".hidden whodunit_test_enter",
    "whodunit_test_enter:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rip + {frame} + {host_rsp}], rsp",
    "mov rcx, [rip + {frame} + {xsave}]",
    "mov eax, -1",
    "mov edx, -1",
    "xrstor64 [rcx]",
    "push qword ptr [rip + {frame} + {rflags}]",
    "popfq",
    "mov rax, [rip + {frame}]",
    "mov rcx, [rip + {frame} + 8]",
    "mov rdx, [rip + {frame} + 16]",
    "mov rbx, [rip + {frame} + 24]",
    "mov rsp, [rip + {frame} + 32]",
    "mov rbp, [rip + {frame} + 40]",
    "mov rsi, [rip + {frame} + 48]",
    "mov rdi, [rip + {frame} + 56]",
    "mov r8, [rip + {frame} + 64]",
    "mov r9, [rip + {frame} + 72]",
    "mov r10, [rip + {frame} + 80]",
    "mov r11, [rip + {frame} + 88]",
    "mov r12, [rip + {frame} + 96]",
    "mov r13, [rip + {frame} + 104]",
    "mov r14, [rip + {frame} + 112]",
    "mov r15, [rip + {frame} + 120]",
    "jmp [rip + {frame} + {entry}]",
    ".globl whodunit_test_exit",
    ".hidden whodunit_test_exit",
    "whodunit_test_exit:",
    "mov [rip + {frame}], rax",
    "mov [rip + {frame} + 8], rcx",
    "mov [rip + {frame} + 16], rdx",
    "mov [rip + {frame} + 24], rbx",
    "mov [rip + {frame} + 32], rsp",
    "mov [rip + {frame} + 40], rbp",
    "mov [rip + {frame} + 48], rsi",
    "mov [rip + {frame} + 56], rdi",
    "mov [rip + {frame} + 64], r8",
    "mov [rip + {frame} + 72], r9",
    "mov [rip + {frame} + 80], r10",
    "mov [rip + {frame} + 88], r11",
    "mov [rip + {frame} + 96], r12",
    "mov [rip + {frame} + 104], r13",
    "mov [rip + {frame} + 112], r14",
    "mov [rip + {frame} + 120], r15",
    "mov rsp, [rip + {frame} + {host_rsp}]",
    "pushfq",
    "pop qword ptr [rip + {frame} + {rflags}]",
    "push 0x202",
    "popfq",
    "mov rcx, [rip + {frame} + {xsave}]",
    "mov eax, -1",
    "mov edx, -1",
    "xsave64 [rcx]",
    "push 0x1f80",
    "ldmxcsr [rsp]",
    "pop rax",
    "fninit",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    frame = sym FRAME,
    rflags = const offset_of!(Frame, rflags),
    xsave = const offset_of!(Frame, xsave),
    entry = const offset_of!(Frame, entry),
    host_rsp = const offset_of!(Frame, host_rsp),
);

// SAFETY: these are the two pieces of code above, which are entered by address only.
unsafe extern "C" {
    fn whodunit_test_enter();
    fn whodunit_test_exit();
}

/// What stopped a run before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Raised {
    pub signal: i32,
    pub pc: u64,
    pub address: u64,
}

const IDLE: u8 = 0;
const NATIVE: u8 = 1;
const STEPPING: u8 = 2;
const TRANSLATED: u8 = 3;
const STOPPING: u8 = 4;

static MODE: AtomicU8 = AtomicU8::new(IDLE);
static OWNER: AtomicI32 = AtomicI32::new(0);
static CACHE: AtomicPtr<CodeCache> = AtomicPtr::new(std::ptr::null_mut());
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static PC: AtomicU64 = AtomicU64::new(0);
static ADDRESS: AtomicU64 = AtomicU64::new(0);
/// While stepping: the code's start, which of its bytes start an event instruction, and how many were reached.
static CODE: AtomicU64 = AtomicU64::new(0);
static EVENTS: AtomicPtr<Vec<bool>> = AtomicPtr::new(std::ptr::null_mut());
static COUNT: AtomicU64 = AtomicU64::new(0);
/// While stopping: at which instruction in the cache a stop request comes, and whether it has come.
static STOP_AT: AtomicU64 = AtomicU64::new(0);
static STOPPED: AtomicU8 = AtomicU8::new(0);

const TRAP_FLAG: i64 = 0x100;

/// The jump that ends code which runs on the bare processor.
pub fn end_of_code() -> Vec<u8> {
    let mut bytes = vec![0xff, 0x25, 0, 0, 0, 0]; // jmp [rip]
    bytes.extend_from_slice(&(whodunit_test_exit as *const () as u64).to_le_bytes());
    bytes
}

/// Runs from `frame.entry` to the end or to the first fault, with GS at `gs`.
pub fn run(frame: &mut Frame, gs: u64) -> Option<Raised> {
    run_as(NATIVE, frame, gs)
}

/// Runs step by step and counts how often an instruction is passed that `events` marks by its offset from `code`.
pub fn count_steps(frame: &mut Frame, gs: u64, code: u64, events: &mut Vec<bool>) -> u64 {
    CODE.store(code, SeqCst);
    EVENTS.store(events, SeqCst);
    COUNT.store(0, SeqCst);
    frame.rflags |= TRAP_FLAG as u64;
    let raised = run_as(STEPPING, frame, gs);
    let stopped_at = raised.map(|raised| (raised.pc - code) as usize);
    let not_passed = stopped_at.is_some_and(|offset| events[offset]);
    COUNT.load(SeqCst) - u64::from(not_passed)
}

fn run_as(mode: u8, frame: &mut Frame, gs: u64) -> Option<Raised> {
    guarded(mode, || {
        // SAFETY: the machine's lock is held, so the static frame is ours. The code that runs keeps to its home's
        // memory, and a fault in it ends at the exit label.
        unsafe {
            std::ptr::swap(frame, FRAME.0.get());
            std::arch::asm!("wrgsbase {}", in(reg) gs);
            whodunit_test_enter();
            std::ptr::swap(frame, FRAME.0.get());
        }
    })
}

/// Runs `enter`, which goes into the cache, and tells what was raised there.
pub fn run_translated(cache: &mut CodeCache, enter: impl FnOnce()) -> Option<Raised> {
    CACHE.store(cache, SeqCst);
    guarded(TRANSLATED, enter)
}

/// Asks for a stop before the `instruction`th instruction that runs in the cache from now on.
pub fn stop_at(instruction: u64) {
    STOP_AT.store(instruction, SeqCst);
    COUNT.store(0, SeqCst);
    STOPPED.store(0, SeqCst);
}

/// Runs `enter` step by step, if the guest's flags say so; tells whether the stop request came meanwhile.
pub fn run_until_stop(cache: &mut CodeCache, enter: impl FnOnce()) -> bool {
    CACHE.store(cache, SeqCst);
    let raised = guarded(STOPPING, enter);
    assert_eq!(raised, None, "the tested code raises nothing");
    STOPPED.swap(0, SeqCst) != 0
}

fn guarded(mode: u8, run: impl FnOnce()) -> Option<Raised> {
    SIGNAL.store(0, SeqCst);
    // SAFETY: asks for a number.
    OWNER.store(unsafe { libc::gettid() }, SeqCst);
    MODE.store(mode, SeqCst);
    run();
    MODE.store(IDLE, SeqCst);
    let signal = SIGNAL.load(SeqCst);
    (signal != 0).then(|| Raised { signal, pc: PC.load(SeqCst), address: ADDRESS.load(SeqCst) })
}

/// Installs the handler for the process; threads bring their own alternate stack.
pub fn catch_faults() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP] {
            // SAFETY: the handler touches statics and its own frame only; what is not ours goes to the default action.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
    });
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, frame: *mut libc::ucontext_t) {
    // SAFETY: the kernel passes valid pointers to its own frame, which is ours to edit until we return.
    let (info, frame) = unsafe { (&*info, &mut *frame) };
    // SAFETY: asks for a number.
    let mode = if OWNER.load(SeqCst) == unsafe { libc::gettid() } { MODE.load(SeqCst) } else { IDLE };
    let rip = frame.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
    if mode == STEPPING && signal == libc::SIGTRAP {
        return count(rip);
    }
    if mode == STOPPING && signal == libc::SIGTRAP {
        return stop(rip, frame);
    }
    let (pc, exit) = match mode {
        NATIVE | STEPPING => (rip, whodunit_test_exit as *const () as u64),
        TRANSLATED => match undo(rip, frame) {
            Some(found) => found,
            None => return give_up(signal),
        },
        _ => return give_up(signal),
    };
    SIGNAL.store(signal, SeqCst);
    PC.store(pc, SeqCst);
    // SAFETY: synchronous signals carry an address.
    ADDRESS.store(if signal == libc::SIGSEGV { unsafe { info.si_addr() as u64 } } else { 0 }, SeqCst);
    let registers = &mut frame.uc_mcontext.gregs;
    registers[libc::REG_RIP as usize] = exit as i64;
    registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
}

fn count(rip: u64) {
    // SAFETY: `count_steps` borrows the table for as long as the mode is `STEPPING`.
    let events = unsafe { &*EVENTS.load(SeqCst) };
    let offset = rip.wrapping_sub(CODE.load(SeqCst)) as usize;
    if events.get(offset) == Some(&true) {
        COUNT.fetch_add(1, SeqCst);
    }
}

/// Takes the budget away when it is time to, as the engine's handler does for a signal.
fn stop(rip: u64, frame: &mut libc::ucontext_t) {
    // SAFETY: as in `undo`.
    let cache = unsafe { &*CACHE.load(SeqCst) };
    if !cache.contains(rip) || COUNT.fetch_add(1, SeqCst) + 1 != STOP_AT.load(SeqCst) {
        return;
    }
    STOPPED.store(1, SeqCst);
    // SAFETY: as in `undo`.
    let context = unsafe { &mut *context::pointer() };
    host::take_budget(context, cache.find(rip), frame);
    let registers = &mut frame.uc_mcontext.gregs;
    registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
}

/// Puts the guest's registers back as the step at `rip` says; gives the guest's place and where to go on.
fn undo(rip: u64, frame: &mut libc::ucontext_t) -> Option<(u64, u64)> {
    // SAFETY: `run_translated` borrows the cache for as long as the mode is `TRANSLATED`, and nobody changes it
    // while translated code runs.
    let cache = unsafe { &*CACHE.load(SeqCst) };
    let step = cache.find(rip)?;
    // SAFETY: the context is this thread's, whose run loop is suspended by this handler.
    let context = unsafe { &mut *context::pointer() };
    host::undo(context, &step, frame);
    Some((step.pc, cache.stubs().fault))
}

/// Not a fault of tested code: let it kill the process as usual when it is raised again.
fn give_up(signal: i32) {
    // SAFETY: sets the default action.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
