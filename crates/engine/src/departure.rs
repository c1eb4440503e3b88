//! A run that stops right before the guest's second thread, so that copies of the process go on from there, each in its own
//! way: what comes before is the same for all of them, and is done once.
//!
//! Copies have only what `fork` gives them. A guest that has asked for anything else before (its own number, descriptors that are still
//! open, memory or files that others see, timers) cannot be copied, and neither can one whose threads do not know their
//! numbers by the word that the kernel clears: the run ends at once, before the call that stands in the way.

use crate::context::Context;
use crate::engine::Engine;
use crate::kernel::{self, Arguments};
use sched::Policy;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How a copy goes on.
pub struct Departure {
    pub policy: Box<dyn Policy>,
    /// As in [`crate::Switching`].
    pub patience: u64,
}

/// What the guest does up to the place where it is copied.
#[derive(Default)]
pub struct Departures {
    /// Copies are still to be made.
    is_due: AtomicBool,
    /// Which of the lowest descriptors are open from the start, a bit each.
    descriptors: AtomicU64,
}

impl Departures {
    /// Copies are to be made.
    pub fn expect(&self) {
        self.descriptors.store(lowest_descriptors(), Ordering::Relaxed);
        self.is_due.store(true, Ordering::Relaxed);
    }

    /// The guest is about to make a call. If copies cannot be made after it, the process ends.
    pub fn look_at(&self, number: u64, arguments: &Arguments) {
        if self.is_due.load(Ordering::Relaxed) && !is_harmless(number, arguments) {
            kernel::leave(0);
        }
    }

    /// The guest is about to have a second thread: copies go on from here, and the process itself does not.
    pub fn come(&self, engine: &Engine, context: &mut Context) {
        if !self.is_due.load(Ordering::Relaxed) {
            return;
        }
        let has_all = lowest_descriptors() == self.descriptors.load(Ordering::Relaxed);
        let knows_number = kernel::read::<i32>(context.clear_tid) == Ok(context.tid);
        let is_kept = engine.writing().is_none_or(|writing| writing.journal().can_depart());
        if !(has_all && knows_number && is_kept) {
            kernel::leave(0);
        }
        let departure = engine.depart();
        self.is_due.store(false, Ordering::Relaxed);
        begin(engine, context, departure);
    }
}

/// Where translations begin, in order.
pub fn translated() -> Vec<u64> {
    Engine::if_started().map_or(Vec::new(), |engine| engine.world().cache.beginnings())
}

/// Translates what begins there, so that copies need not.
pub fn translate(beginnings: &[u64]) {
    if let Some(engine) = Engine::if_started() {
        for &pc in beginnings {
            engine.world().host_for(pc);
        }
        engine.show_catalogue();
    }
}

/// In the copy: makes it a process of its own.
fn begin(engine: &Engine, context: &mut Context, departure: Departure) {
    engine.private.renew_after_fork();
    engine.turn.follow(departure.policy);
    engine.turn.set_patience(departure.patience);
    // The kernel keeps it by thread, and forgets it in a copy.
    kernel::call(libc::SYS_set_robust_list as u64, [context.robust_list, ROBUST_LIST_SIZE, 0, 0, 0, 0]);
    context.tid = kernel::call(libc::SYS_gettid as u64, [0; 6]) as i32;
    engine.world().open_guarded_in(context.clear_tid..context.clear_tid.saturating_add(4));
    let is_told = kernel::write(context.clear_tid, context.tid).is_ok();
    if let Some(writing) = engine.writing() {
        writing.journal().depart();
        if is_told {
            writing.memory(context, context.clear_tid, 4);
        }
    }
}

/// `sizeof(struct robust_list_head)`.
const ROBUST_LIST_SIZE: u64 = 24;

/// A bit for each of the first 64 descriptors that is open.
fn lowest_descriptors() -> u64 {
    let is_open =
        |descriptor: u64| kernel::call(libc::SYS_fcntl as u64, [descriptor, libc::F_GETFD as u64, 0, 0, 0, 0]) >= 0;
    (0..64).filter(|&descriptor| is_open(descriptor)).fold(0, |open, descriptor| open | 1 << descriptor)
}

/// Whether copies of a process that has made this call are what the process would have been.
fn is_harmless(number: u64, arguments: &Arguments) -> bool {
    let [first, second, third, fourth, ..] = *arguments;
    match number as i64 {
        // All copies would read on where the first one stopped.
        libc::SYS_read | libc::SYS_pread64 => first != 0,
        libc::SYS_write | libc::SYS_writev => matches!(first, 1 | 2),
        libc::SYS_open => opens_to_read(second),
        libc::SYS_openat => opens_to_read(third),
        libc::SYS_mmap => fourth & libc::MAP_TYPE as u64 == libc::MAP_PRIVATE as u64,
        libc::SYS_madvise => !matches!(third as i32, libc::MADV_DONTFORK | libc::MADV_WIPEONFORK | libc::MADV_REMOVE),
        libc::SYS_fcntl => matches!(second as i32, libc::F_GETFD | libc::F_GETFL),
        libc::SYS_ioctl => second == libc::TCGETS,
        libc::SYS_prctl => matches!(first as i32, libc::PR_SET_NAME | libc::PR_GET_NAME | libc::PR_SET_VMA),
        libc::SYS_clone => first & libc::CLONE_THREAD as u64 != 0,
        number => CONCERNS_ITSELF.contains(&number),
    }
}

fn opens_to_read(flags: u64) -> bool {
    let writes = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
    flags & writes as u64 == 0
}

/// Calls that change nothing but what `fork` copies, and tell nothing that differs between copies.
const CONCERNS_ITSELF: [i64; 48] = [
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getrandom,
    libc::SYS_getrlimit,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_lstat,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_poll,
    libc::SYS_prlimit64,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_stat,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_time,
    libc::SYS_uname,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_copies_may_share_is_harmless() {
        let check = |number: i64, arguments: [u64; 4], expected: bool| {
            let [a, b, c, d] = arguments;
            assert_eq!(is_harmless(number as u64, &[a, b, c, d, 0, 0]), expected, "{number} {arguments:?}");
        };
        check(libc::SYS_read, [3, 0, 0, 0], true);
        check(libc::SYS_read, [0, 0, 0, 0], false);
        check(libc::SYS_write, [1, 0, 0, 0], true);
        check(libc::SYS_write, [5, 0, 0, 0], false);
        check(libc::SYS_openat, [0, 0, libc::O_CLOEXEC as u64, 0], true);
        check(libc::SYS_openat, [0, 0, libc::O_CREAT as u64, 0], false);
        check(libc::SYS_mmap, [0, 0, 0, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64], true);
        check(libc::SYS_mmap, [0, 0, 0, (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64], false);
        check(libc::SYS_getpid, [0; 4], false);
        check(libc::SYS_fork, [0; 4], false);
        check(libc::SYS_brk, [0; 4], true);
    }
}
