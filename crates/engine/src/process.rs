//! Forking the host process.
#![allow(unsafe_code)]

use crate::context::Context;

/// Forks with the C library, which keeps its own locks sane in the child.
pub fn fork() -> i64 {
    // SAFETY: the caller holds the scheduler and the world, so the child finds both consistent; all other host threads
    // are parked or in the kernel.
    match unsafe { libc::fork() } {
        -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN)),
        pid => i64::from(pid),
    }
}

/// Makes a copy of a process that has a single thread; tells the copy's id, or nothing in the copy itself.
pub fn copy() -> std::io::Result<Option<u32>> {
    if !is_alone()? {
        return Err(std::io::Error::other("the process has several threads"));
    }
    // SAFETY: there is no other thread whose locks or half-done work the copy could find.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(pid.cast_unsigned())),
    }
}

/// Whether the process has no other thread. One that was waited for takes a moment until it is gone.
fn is_alone() -> std::io::Result<bool> {
    const MOST_LOOKS: usize = 10_000;
    for _ in 0..MOST_LOOKS {
        if std::fs::read_dir("/proc/self/task")?.count() == 1 {
            return Ok(true);
        }
        std::thread::yield_now();
    }
    Ok(false)
}

const STACK_SIZE: usize = 256 << 10;

std::arch::global_asm!(
    // vfork(flags: rdi, stack: rsi, function: rdx, argument: rcx) -> pid; the child calls function(argument)
    ".globl whodunit_vfork",
    ".hidden whodunit_vfork",
    "whodunit_vfork:",
    "push r12",
    "push r13",
    "mov r12, rdx",
    "mov r13, rcx",
    "mov eax, 56",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "syscall",
    "test rax, rax",
    "jz 1f",
    "pop r13",
    "pop r12",
    "ret",
    "1:",
    "xor ebp, ebp",
    "mov rdi, r13",
    "call r12",
    "ud2",
);

// SAFETY: this is the function above, with the arguments that it takes.
unsafe extern "C" {
    fn whodunit_vfork(flags: u64, stack: u64, function: extern "C" fn(*mut ()), argument: *mut ()) -> i64;
}

type Body = Box<dyn FnOnce(&mut Context)>;

struct Child {
    context: *mut Context,
    body: Option<Body>,
}

extern "C" fn child_main(child: *mut ()) {
    let child: *mut Child = child.cast();
    // SAFETY: the parent, suspended until we are gone, keeps both alive; we are the only user meanwhile.
    let (child, context) = unsafe { (&mut *child, &mut *(*child).context) };
    if let Some(body) = child.body.take() {
        body(context);
    }
    std::process::abort();
}

/// Runs `body`, which must not return, in a child that shares this process's memory; returns the child's id when it
/// has executed another program or ended. The context is as it was.
pub fn vfork(context: &mut Context, flags: u64, body: impl FnOnce(&mut Context) + 'static) -> i64 {
    // SAFETY: a bitwise copy to put back later; `Context` owns nothing, and only the child touches it in between.
    let saved = unsafe { std::ptr::read(context) };
    let pid = lend(context, flags, body);
    let wake = context.wake.load(std::sync::atomic::Ordering::SeqCst);
    // SAFETY: as above.
    unsafe { std::ptr::write(context, saved) };
    context.wake.store(wake, std::sync::atomic::Ordering::SeqCst);
    pid
}

/// The same with the context left as the child left it.
pub fn lend(context: &mut Context, flags: u64, body: impl FnOnce(&mut Context) + 'static) -> i64 {
    let mut child = Child { context, body: Some(Box::new(body)) };
    let mut stack = vec![0u8; STACK_SIZE];
    let top = (stack.as_mut_ptr() as u64 + STACK_SIZE as u64) & !15;
    // SAFETY: the child has its own stack and never returns into ours; the kernel suspends us until it is done, and
    // shared state changes only as if this thread had changed it.
    unsafe { whodunit_vfork(flags, top, child_main, (&raw mut child).cast()) }
}
