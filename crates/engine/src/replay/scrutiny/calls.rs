//! System calls of a run whose data are followed: what goes into them, and what comes out.

use super::Scrutiny;
use super::shadow::Serial;
use crate::context::{Context, R11, RAX, RCX, RDI, RDX, RSI};
use crate::journal::GuestMemory;
use crate::kernel::Arguments;
use guest::effects::{self, Prepared};
use guest::flow::Span;
use trace::event::Event;

/// Registers of arguments, in order.
pub(super) const ARGUMENTS: [usize; 6] = [RDI, RSI, RDX, 10, 8, 9];

/// A call that a thread has begun.
pub struct Begun {
    serial: Serial,
    prepared: Prepared,
}

impl Begun {
    pub fn new(serial: Serial, number: u64, arguments: &Arguments) -> Begun {
        Begun { serial, prepared: effects::prepare(number, arguments, &GuestMemory) }
    }
}

/// How many arguments a call takes, as far as it matters: registers beyond them may hold anything.
fn arity(number: u64) -> usize {
    match number as i64 {
        libc::SYS_sched_yield
        | libc::SYS_getpid
        | libc::SYS_gettid
        | libc::SYS_getuid
        | libc::SYS_getgid
        | libc::SYS_geteuid
        | libc::SYS_getegid
        | libc::SYS_getppid
        | libc::SYS_fork
        | libc::SYS_vfork
        | libc::SYS_pause
        | libc::SYS_rt_sigreturn => 0,
        libc::SYS_close
        | libc::SYS_brk
        | libc::SYS_exit
        | libc::SYS_exit_group
        | libc::SYS_dup
        | libc::SYS_unlink
        | libc::SYS_set_tid_address
        | libc::SYS_uname
        | libc::SYS_chdir
        | libc::SYS_rmdir => 1,
        libc::SYS_stat
        | libc::SYS_fstat
        | libc::SYS_lstat
        | libc::SYS_munmap
        | libc::SYS_access
        | libc::SYS_kill
        | libc::SYS_tkill
        | libc::SYS_nanosleep
        | libc::SYS_clock_gettime
        | libc::SYS_gettimeofday
        | libc::SYS_sigaltstack
        | libc::SYS_arch_prctl
        | libc::SYS_getcwd
        | libc::SYS_dup2 => 2,
        libc::SYS_mmap | libc::SYS_sendto | libc::SYS_recvfrom | libc::SYS_splice => 6,
        libc::SYS_mremap | libc::SYS_select | libc::SYS_clone | libc::SYS_prctl => 5,
        libc::SYS_pread64
        | libc::SYS_pwrite64
        | libc::SYS_openat
        | libc::SYS_newfstatat
        | libc::SYS_rt_sigaction
        | libc::SYS_rt_sigprocmask
        | libc::SYS_wait4
        | libc::SYS_clock_nanosleep
        | libc::SYS_prlimit64
        | libc::SYS_sendfile => 4,
        _ => 3,
    }
}

/// Calls that are made whatever they are given: without them the program would go on where it must not.
fn is_always_made(number: u64) -> bool {
    matches!(number as i64, libc::SYS_exit | libc::SYS_exit_group | libc::SYS_rt_sigreturn)
}

impl Scrutiny {
    /// Whether a call gets something corrupt.
    pub(super) fn call_is_corrupt(&self, context: &Context) -> bool {
        let number = context.gpr[RAX];
        let Some(thread) = self.threads.get(&context.thread) else { return false };
        let corrupt = |register: usize| thread.registers.any_corrupt(Span::general(register as u8));
        let given = ARGUMENTS.iter().take(arity(number)).any(|register| corrupt(*register));
        let arguments = ARGUMENTS.map(|register| context.gpr[register]);
        !is_always_made(number) && (corrupt(RAX) || given || self.sends_corrupt(number, arguments))
    }

    fn sends_corrupt(&self, number: u64, arguments: Arguments) -> bool {
        if self.memory.is_clean() {
            return false;
        }
        let call = effects::Call { number, arguments, result: arguments[2] as i64 };
        let mut any = false;
        let _ = effects::sent(&call, &GuestMemory, &mut |span| {
            any |= self.memory.any_corrupt(&(span.address..span.address.saturating_add(span.length)));
        });
        any
    }

    /// Leaves a call out: nobody knows what it would have answered.
    pub(super) fn skip_call(&mut self, context: &mut Context, next: u64) {
        let number = context.gpr[RAX];
        let arguments = ARGUMENTS.map(|register| context.gpr[register]);
        let prepared = effects::prepare(number, &arguments, &GuestMemory);
        // As if it had done all that was asked.
        let call = effects::Call { number, arguments, result: arguments[2] as i32 as i64 };
        let is_known = (0..3).all(|argument| {
            let register = Span::general(ARGUMENTS[argument] as u8);
            !self.registers(context.thread).any_corrupt(register)
        });
        let mut spans = Vec::new();
        if is_known && !self.registers(context.thread).any_corrupt(Span::general(RAX as u8)) {
            let _ = effects::of(&call, &prepared, &GuestMemory, &mut |span| spans.push(span));
        }
        for span in spans {
            self.memory.mark_all(span.address..span.address.saturating_add(span.length), true);
        }
        let registers = self.registers(context.thread);
        registers.mark_all(Span::general(RAX as u8), true);
        registers.mark_all(Span::general(RCX as u8), false);
        registers.mark_all(Span::general(R11 as u8), false);
        context.gpr[RCX] = next;
        context.gpr[R11] = context.rflags;
        context.pc = next;
    }

    /// A call has been carried out: what it has written is new.
    pub fn called(&mut self, thread: u32, number: u64, arguments: Arguments, result: i64) {
        let Some(begun) = self.threads.get_mut(&thread).and_then(|thread| thread.call.take()) else { return };
        let call = effects::Call { number, arguments, result };
        let mut spans = Vec::new();
        let _ = effects::of(&call, &begun.prepared, &GuestMemory, &mut |span| spans.push(span));
        for span in spans {
            self.write_outside(span.address, span.length, begun.serial);
        }
    }

    /// An event of the recording has been carried out.
    pub fn passed(&mut self, thread: u32, event: &Event<'_>) {
        if !self.is_on() {
            return;
        }
        match event {
            Event::Call(call) => {
                let begun = self.threads.get_mut(&thread).and_then(|thread| thread.call.take());
                let serial = begun.map_or(0, |begun| begun.serial);
                for effect in call.effects.iter() {
                    self.write_outside(effect.address, effect.bytes.len() as u64, serial);
                }
            }
            Event::Memory(memory) => self.write_outside(memory.address, memory.bytes.len() as u64, 0),
            _ => {}
        }
    }

    /// Memory has been written by nobody that was looked at.
    fn write_outside(&mut self, address: u64, length: u64, serial: Serial) {
        let range = address..address.saturating_add(length);
        self.wrote(range.clone(), serial);
        self.memory.mark_all(range, false);
    }
}
