//! System calls made as they are, past the engine's libc, and copies that survive bad guest addresses.
#![allow(unsafe_code)]

use crate::context;

/// Arguments of a system call in the order of the ABI.
pub type Arguments = [u64; 6];

std::arch::global_asm!(
    // copy(to: rdi, from: rsi, length: rdx) -> 0 done, 1 some address was bad
    ".globl whodunit_guarded_copy",
    ".hidden whodunit_guarded_copy",
    "whodunit_guarded_copy:",
    "mov rcx, rdx",
    ".globl whodunit_guarded_copy_move",
    ".hidden whodunit_guarded_copy_move",
    "whodunit_guarded_copy_move:",
    "rep movsb",
    "xor eax, eax",
    "ret",
    ".globl whodunit_guarded_copy_fault",
    ".hidden whodunit_guarded_copy_fault",
    "whodunit_guarded_copy_fault:",
    "mov eax, 1",
    "ret",
    // interruptible(number: rdi, arguments: rsi, pending: rdx) -> result, or KEPT_OUT if a signal is pending before
    // the kernel was entered. A handler that finds the thread between the labels sends it to the third.
    ".globl whodunit_interruptible",
    ".hidden whodunit_interruptible",
    "whodunit_interruptible:",
    "push rbx",
    "mov rax, rdi",
    "mov rbx, rdx",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    ".globl whodunit_interruptible_check",
    ".hidden whodunit_interruptible_check",
    "whodunit_interruptible_check:",
    "cmp dword ptr [rbx], 0",
    "jne whodunit_interruptible_out",
    ".globl whodunit_interruptible_enter",
    ".hidden whodunit_interruptible_enter",
    "whodunit_interruptible_enter:",
    "syscall",
    ".globl whodunit_interruptible_done",
    ".hidden whodunit_interruptible_done",
    "whodunit_interruptible_done:",
    "pop rbx",
    "ret",
    ".globl whodunit_interruptible_out",
    ".hidden whodunit_interruptible_out",
    "whodunit_interruptible_out:",
    "mov rax, {kept_out}",
    "pop rbx",
    "ret",
    ".globl whodunit_restorer",
    ".hidden whodunit_restorer",
    "whodunit_restorer:",
    "mov eax, 15",
    "syscall",
    kept_out = const KEPT_OUT,
);

/// No result of a call: the kernel keeps this number to itself (`ERESTARTSYS`).
const KEPT_OUT: i64 = -512;

// SAFETY: these are the functions and labels above, with the arguments that they take.
unsafe extern "C" {
    fn whodunit_guarded_copy(to: *mut u8, from: *const u8, length: usize) -> u32;
    fn whodunit_guarded_copy_move();
    fn whodunit_guarded_copy_fault();
    fn whodunit_interruptible(number: u64, arguments: *const u64, pending: *const u32) -> i64;
    fn whodunit_interruptible_check();
    fn whodunit_interruptible_enter();
    fn whodunit_interruptible_out();
    fn whodunit_restorer();
}

/// Enters the kernel. The caller answers for what the call does to memory, which for the guest's own calls is the
/// guest's business: its memory is apart from the engine's.
#[inline]
pub fn call(number: u64, arguments: Arguments) -> i64 {
    let result: i64;
    // SAFETY: calls that could damage the engine itself (its mappings, its signal handlers, its descriptors) are
    // filtered or edited by `syscalls` before they get here.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as i64 => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// Like [`call`], for calls that may wait: gives `-EINTR` at once if a signal is pending for the guest, and never
/// starts to wait after one came. The context tells that from a wait that was interrupted.
pub fn call_interruptible(number: u64, arguments: Arguments) -> i64 {
    let context = context::pointer();
    // SAFETY: as for `call`; the pending flag lives in this thread's context.
    let result =
        unsafe { whodunit_interruptible(number, arguments.as_ptr(), (&raw const (*context).signal_pending).cast()) };
    if result != KEPT_OUT {
        return result;
    }
    // SAFETY: the context is this thread's, and no reference to this field is held while a call is made.
    unsafe { (*context).was_kept_out = true };
    -i64::from(libc::EINTR)
}

/// Where a thread interrupted at `rip` by a signal must go on instead, because of the two guarded places above.
pub fn redirect_interrupted(rip: u64) -> Option<u64> {
    let check = whodunit_interruptible_check as *const () as u64;
    let enter = whodunit_interruptible_enter as *const () as u64;
    (check..=enter).contains(&rip).then_some(whodunit_interruptible_out as *const () as u64)
}

/// Where a thread goes on whose memory access at `rip` faulted inside a guarded copy.
pub fn redirect_fault(rip: u64) -> Option<u64> {
    (rip == whodunit_guarded_copy_move as *const () as u64).then_some(whodunit_guarded_copy_fault as *const () as u64)
}

/// The return trampoline of the engine's own signal handlers.
pub fn restorer() -> u64 {
    whodunit_restorer as *const () as u64
}

/// The bits of MXCSR that the processor has, as it stores them beside the register.
pub fn mxcsr_mask() -> u32 {
    #[repr(align(16))]
    struct Area([u8; 512]);
    let mut area = Area([0; 512]);
    // SAFETY: the area is as large and as aligned as the instruction wants it, and nothing else is changed.
    unsafe { std::arch::x86_64::_fxsave64(area.0.as_mut_ptr()) };
    u32::from_le_bytes([area.0[28], area.0[29], area.0[30], area.0[31]])
}

/// A guest address could not be read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadAddress;

/// Copies guest memory into `buffer`.
pub fn read_bytes(address: u64, buffer: &mut [u8]) -> Result<(), BadAddress> {
    // SAFETY: the destination is a live slice; the source may be anything, faults are caught.
    match unsafe { whodunit_guarded_copy(buffer.as_mut_ptr(), address as *const u8, buffer.len()) } {
        0 => Ok(()),
        _ => Err(BadAddress),
    }
}

/// Copies `bytes` into guest memory.
pub fn write_bytes(address: u64, bytes: &[u8]) -> Result<(), BadAddress> {
    // SAFETY: the source is a live slice; the destination is an address that the guest named as its own, and faults
    // are caught.
    match unsafe { whodunit_guarded_copy(address as *mut u8, bytes.as_ptr(), bytes.len()) } {
        0 => Ok(()),
        _ => Err(BadAddress),
    }
}

/// Types that may be copied to and from guest memory: any bit pattern is a value.
pub trait Plain: Copy + Default {
    fn bytes(&mut self) -> &mut [u8];
}

macro_rules! plain {
    ($($type:ty),*) => {
        $(impl Plain for $type {
            fn bytes(&mut self) -> &mut [u8] {
                // SAFETY: an integer or array of integers has no padding and no invalid bit pattern.
                unsafe { std::slice::from_raw_parts_mut((self as *mut $type).cast(), std::mem::size_of::<$type>()) }
            }
        })*
    };
}
plain!(u8, u32, i32, u64, i64, [u64; 2], [u64; 3], [u64; 4], [u64; 8], [u64; 11], [u64; 16]);

pub fn read<T: Plain>(address: u64) -> Result<T, BadAddress> {
    let mut value = T::default();
    read_bytes(address, value.bytes())?;
    Ok(value)
}

pub fn write<T: Plain>(address: u64, mut value: T) -> Result<(), BadAddress> {
    write_bytes(address, value.bytes())
}

/// A NUL-terminated string of the guest's, without the NUL.
pub fn read_string(address: u64, limit: usize) -> Result<Vec<u8>, BadAddress> {
    let mut string = Vec::new();
    let mut at = address;
    while string.len() < limit {
        // Never read across a page that may not be there.
        let mut chunk = [0u8; 64];
        let room = (4096 - (at & 4095)).min(64) as usize;
        read_bytes(at, &mut chunk[..room])?;
        if let Some(end) = chunk[..room].iter().position(|&byte| byte == 0) {
            string.extend_from_slice(&chunk[..end]);
            return Ok(string);
        }
        string.extend_from_slice(&chunk[..room]);
        at += room as u64;
    }
    Ok(string)
}

/// Atomically replaces a futex word if it still holds `current`; the word must be readable and writable.
pub fn compare_exchange(address: u64, current: u32, new: u32) -> Result<u32, BadAddress> {
    read::<u32>(address)?;
    // SAFETY: the address was readable a moment ago and no other guest thread runs in between; alignment is checked by
    // the caller as the kernel does.
    let word = unsafe { &*(address as *const std::sync::atomic::AtomicU32) };
    use std::sync::atomic::Ordering::SeqCst;
    Ok(match word.compare_exchange(current, new, SeqCst, SeqCst) {
        Ok(old) | Err(old) => old,
    })
}

/// Waits until `word` is no longer `expected`, somebody wakes it, or the deadline passes.
pub fn wait_on(word: &std::sync::atomic::AtomicU32, expected: u32, timeout: Option<std::time::Duration>) {
    let timeout = timeout.map(|left| [left.as_secs(), u64::from(left.subsec_nanos())]);
    let timeout = timeout.as_ref().map_or(0, |pair| pair.as_ptr() as u64);
    let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
    call(libc::SYS_futex as u64, [word.as_ptr() as u64, operation, u64::from(expected), timeout, 0, 0]);
}

/// The same for a word that processes share.
pub fn wait_on_shared(word: &std::sync::atomic::AtomicU32, expected: u32, timeout: std::time::Duration) {
    let timeout = [timeout.as_secs(), u64::from(timeout.subsec_nanos())];
    let arguments = [word.as_ptr() as u64, libc::FUTEX_WAIT as u64, u64::from(expected), timeout.as_ptr() as u64, 0, 0];
    call(libc::SYS_futex as u64, arguments);
}

/// Wakes all who wait on a word that processes share.
pub fn wake_all_on_shared(word: &std::sync::atomic::AtomicU32) {
    call(libc::SYS_futex as u64, [word.as_ptr() as u64, libc::FUTEX_WAKE as u64, i32::MAX as u64, 0, 0, 0]);
}

/// Wakes who waits on the word there, which has changed. The thread may be gone already, and its word with it.
pub fn wake_sleeper(address: u64) {
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;
    call(libc::SYS_futex as u64, [address, operation, 1, 0, 0, 0]);
}

/// Runs translated code at `host` until it leaves; the context says why.
pub fn enter(stub: u64, host: u64) {
    debug_assert_ne!(host, 0);
    // SAFETY: `stub` is the enter stub of the cache, which keeps the C calling convention and saves all that the guest
    // can change; `host` is the entry of a live unit.
    let enter: extern "C" fn(u64) = unsafe { std::mem::transmute(stub as *const ()) };
    enter(host);
}

/// Reads one of the clocks that the C library reads without entering the kernel.
pub fn fast_clock(clock: i32) -> Option<[u64; 2]> {
    if !matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME) {
        return None;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills a structure of ours.
    (unsafe { libc::clock_gettime(clock, &mut time) } == 0).then_some([time.tv_sec as u64, time.tv_nsec as u64])
}

/// Reads the processor's time-stamp counter.
pub fn timestamp() -> u64 {
    // SAFETY: reads a register.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// What `rdtscp` and `rdpid` tell of the processor.
pub fn processor() -> u64 {
    let mut number = 0;
    // SAFETY: reads registers; every processor that the engine runs on has the instruction.
    unsafe { std::arch::x86_64::__rdtscp(&mut number) };
    u64::from(number)
}

/// A random number and whether the processor had one.
pub fn hardware_random() -> (u64, bool) {
    #[target_feature(enable = "rdrand")]
    fn draw(value: &mut u64) -> i32 {
        std::arch::x86_64::_rdrand64_step(value)
    }
    let mut value = 0;
    // SAFETY: the guest has just run the instruction on this processor.
    let success = std::arch::is_x86_feature_detected!("rdrand") && unsafe { draw(&mut value) } == 1;
    (value, success)
}

/// A new empty file that only exists in memory.
pub fn new_memory_file() -> std::io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::{FromRawFd, OwnedFd};
    let name = c"mapped";
    let result = call(libc::SYS_memfd_create as u64, [name.as_ptr() as u64, libc::MFD_CLOEXEC as u64, 0, 0, 0, 0]);
    if result < 0 {
        return Err(std::io::Error::from_raw_os_error(-result as i32));
    }
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

/// A file's pages as shared memory: what is written there outlives the process, however that ends.
pub struct SharedBytes {
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping belongs to its owner alone; no other thread holds a pointer into it.
unsafe impl Send for SharedBytes {}

impl SharedBytes {
    /// Maps the first `length` bytes of an open file.
    pub fn map(file: &std::fs::File, length: usize) -> std::io::Result<SharedBytes> {
        use std::os::fd::AsRawFd;
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let arguments = [0, length as u64, protection, libc::MAP_SHARED as u64, file.as_raw_fd() as u64, 0];
        let result = call(libc::SYS_mmap as u64, arguments);
        if result < 0 {
            return Err(std::io::Error::from_raw_os_error(-result as i32));
        }
        Ok(SharedBytes { start: result as *mut u8, length })
    }

    /// The same as words, for as long as the process lives.
    pub fn into_words(self) -> &'static [std::sync::atomic::AtomicU32] {
        let bytes = std::mem::ManuallyDrop::new(self);
        // SAFETY: the mapping is never unmapped from here on, begins at a page, and is only accessed by these words, which
        // may change at any time, as atomics may.
        unsafe { std::slice::from_raw_parts(bytes.start.cast(), bytes.length / 4) }
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        call(libc::SYS_munmap as u64, [self.start as u64, self.length as u64, 0, 0, 0, 0]);
    }
}

impl std::ops::Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as `self` and is `length` bytes long.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl std::ops::DerefMut for SharedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

/// Ends the process at once, with all its threads.
pub fn leave(status: u8) -> ! {
    call(libc::SYS_exit_group as u64, [u64::from(status), 0, 0, 0, 0, 0]);
    unreachable!("exit_group does not return")
}
