//! System calls in words: names, arguments, results.

use guest::syscall;
use nix::errno::Errno;
use trace::event::Call;

/// The names of common calls, by how many arguments they take. Of other calls the first argument is shown.
const BY_ARGUMENTS: [&str; 7] = [
    "fork vfork getpid gettid getppid getuid geteuid getgid getegid getpgrp pause setsid sched_yield sync munlockall \
     rt_sigreturn inotify_init",
    "close brk exit exit_group pipe alarm times time umask chdir fchdir rmdir unlink chroot dup fsync fdatasync uname \
     sysinfo epoll_create eventfd set_tid_address getpgid getsid setuid setgid unshare mlockall syncfs \
     swapoff acct timer_delete timer_getoverrun io_destroy",
    "stat fstat lstat access dup2 munmap mkdir rename link symlink creat chmod fchmod truncate ftruncate statfs fstatfs \
     gettimeofday settimeofday clock_gettime clock_settime clock_getres nanosleep getrlimit setrlimit getrusage kill tkill \
     listen shutdown pipe2 eventfd2 utime utimes set_robust_list arch_prctl getpriority getcwd getitimer mlock munlock \
     getgroups setgroups setpgid sigaltstack memfd_create timerfd_create timerfd_gettime sched_getparam setns setreuid \
     setregid rt_sigpending rt_sigsuspend epoll_create1 clone3 inotify_init1 inotify_rm_watch capget capset userfaultfd",
    "read write open lseek mprotect poll ioctl readv writev dup3 execve connect accept socket bind getsockname getpeername \
     sendmsg recvmsg mknod chown lchown fchown fcntl readlink readlinkat mkdirat unlinkat faccessat madvise getdents \
     getdents64 sched_setscheduler sched_setaffinity sched_getaffinity msync mincore getrandom tgkill setitimer setpriority \
     seccomp getcpu rt_tgsigqueueinfo rt_sigqueueinfo inotify_add_watch symlinkat membarrier setresuid setresgid getresuid \
     getresgid timer_create mlock2 close_range finit_module syslog flock",
    "rt_sigaction rt_sigprocmask rt_sigtimedwait pread64 pwrite64 openat newfstatat fchmodat socketpair wait4 epoll_wait \
     epoll_ctl sendfile accept4 clock_nanosleep prlimit64 utimensat renameat rseq get_robust_list timerfd_settime \
     timer_settime getxattr fallocate mknodat faccessat2 readahead sync_file_range preadv pwritev futimesat fadvise64 \
     name_to_handle_at sendmmsg vmsplice tee fgetxattr lgetxattr signalfd4 pidfd_send_signal",
    "clone mremap select waitid linkat fchownat setsockopt getsockopt prctl setxattr statx renameat2 mount ppoll recvmmsg \
     execveat perf_event_open",
    "mmap futex sendto recvfrom pselect6 epoll_pwait splice copy_file_range mbind process_vm_readv process_vm_writev \
     preadv2 pwritev2 epoll_pwait2",
];

/// Arguments at or above are addresses more often than not.
const FIRST_HEXADECIMAL: u64 = 1 << 16;
/// The kernel's range of error numbers.
const ERRORS: std::ops::RangeInclusive<i64> = -4095..=-1;

pub fn name(number: u32) -> String {
    match syscall::lookup(u64::from(number)) {
        Some(call) => call.name.to_owned(),
        None => format!("call_{number}"),
    }
}

/// `read(3, 0x7f0000001000, 4096) = 42, 42 bytes`.
pub fn describe(call: &Call<'_>) -> String {
    let name = name(call.number);
    let arguments = match (arity(&name), call.arguments) {
        (Some(0), _) => String::new(),
        (_, None) => "…".to_owned(),
        (Some(arity), Some(arguments)) => {
            arguments[..arity].iter().map(|&value| argument(value)).collect::<Vec<_>>().join(", ")
        }
        (None, Some([first, ..])) => format!("{}, …", argument(first)),
    };
    let bytes: usize = call.effects.iter().map(|effect| effect.bytes.len()).sum();
    let effects = match bytes {
        0 => String::new(),
        1 => ", 1 byte".to_owned(),
        bytes => format!(", {bytes} bytes"),
    };
    format!("{name}({arguments}) = {}{effects}", result(call.result))
}

fn arity(name: &str) -> Option<usize> {
    BY_ARGUMENTS.iter().position(|names| names.split_whitespace().any(|known| known == name))
}

/// Registers have no type: small numbers of either sign are shown as such.
fn argument(value: u64) -> String {
    match value as i64 {
        signed @ -4096..0 => signed.to_string(),
        // An `int` in a wide register.
        _ if (0xffff_f000..=0xffff_ffff).contains(&value) => (value as u32 as i32).to_string(),
        _ if value < FIRST_HEXADECIMAL => value.to_string(),
        _ => format!("{value:#x}"),
    }
}

fn result(value: i64) -> String {
    if !ERRORS.contains(&value) {
        return if value >= 1 << 32 { format!("{value:#x}") } else { value.to_string() };
    }
    match Errno::from_raw(-(value as i32)) {
        Errno::UnknownErrno => value.to_string(),
        error => format!("{value} {error:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::List;
    use trace::event::Effect;

    fn call(number: u32, arguments: Option<[u64; 6]>, result: i64) -> Call<'static> {
        Call { thread: 1, clock: 0, number, result, arguments, effects: List::EMPTY }
    }

    #[test]
    fn calls_in_words() {
        let read = [3, 0x7f00_0000_1000, 4096, 77, 78, 79];
        let effects = [Effect { address: 0x7f00_0000_1000, bytes: b"hello" }];
        let with_effects = Call { effects: List::of(&effects), ..call(0, Some(read), 5) };
        assert_eq!(describe(&with_effects), "read(3, 0x7f0000001000, 4096) = 5, 5 bytes");
        assert_eq!(describe(&call(0, None, -11)), "read(…) = -11 EAGAIN");
        assert_eq!(describe(&call(39, Some([9; 6]), 4711)), "getpid() = 4711");
        assert_eq!(
            describe(&call(257, Some([0xffff_ff9c, 0x40_1000, 0, 0, 1, 1]), -2)),
            "openat(-100, 0x401000, 0, 0) = -2 ENOENT"
        );
        assert_eq!(describe(&call(9, None, 0x7f00_0000_0000)), "mmap(…) = 0x7f0000000000");
        assert_eq!(describe(&call(250, Some([5; 6]), -512)), "keyctl(5, …) = -512");
        assert_eq!(describe(&call(9999, Some([5; 6]), 0)), "call_9999(5, …) = 0");
    }

    /// A name that is no system call's would never be found.
    #[test]
    fn every_name_is_a_call() {
        for name in BY_ARGUMENTS.iter().flat_map(|names| names.split_whitespace()) {
            assert!(syscall::all().iter().any(|call| call.name == name), "{name}");
        }
    }
}
