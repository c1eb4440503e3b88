//! Every system call of x86-64 Linux: whether it may wait, who carries it out, and what an interrupting signal does.
//!
//! One guest thread runs at a time, so a thread that waits inside the kernel while it holds the turn stops all
//! others, and for good if one of them is what it waits for. The table therefore has a row for each call and no
//! rule for the rest: [`lookup`] answers `None` to a number it does not know, and the caller decides.
//!
//! Two ways to wait are outside the table, for they are a matter of memory and of paths and can happen to any call:
//! a buffer under `userfaultfd`, and a file system (FUSE, autofs) that the guest itself serves.

mod table;

use table::TABLE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syscall {
    pub number: u32,
    /// As the kernel's headers have it.
    pub name: &'static str,
    pub class: Class,
    pub restart: Restart,
}

/// How a call goes together with taking turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Finishes without waiting for any other thread or process; the turn is kept. Calls that work on files alone
    /// (`pread64`, `getdents64`) are here as well: the time a disk takes depends on no guest thread.
    Prompt,
    /// May wait until the descriptor in argument `fd_arg` (counted from 0) can be read.
    WaitsRead { fd_arg: u8 },
    /// May wait until the descriptor in argument `fd_arg` (counted from 0) can be written.
    WaitsWrite { fd_arg: u8 },
    /// Waits for one of several descriptors, or for a time to pass.
    WaitsMany,
    /// Waits for a time to pass.
    WaitsTime,
    /// May wait for something else: a child, a lock, a signal, a disk, the other end of a FIFO.
    Waits,
    /// The engine answers it, edits it, or has something to do before or after it. Some of these may wait as well.
    Emulated,
    /// A number that was reserved and never used, or whose call has left the kernel. The kernel answers ENOSYS.
    Absent,
}

/// What becomes of a call that waits when a signal with a handler arrives, as signal(7) tells it.
///
/// The table speaks of the usual case. Two cases differ and are for the caller to know: a socket call under
/// `SO_RCVTIMEO` or `SO_SNDTIMEO` and a `futex` wait with a timeout fail with EINTR even if asked to restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Starts again after a handler that was installed with `SA_RESTART`, and fails with EINTR after any other.
    IfAsked,
    /// Fails with EINTR after any handler.
    Never,
    /// Goes on to its end; the handler runs afterwards.
    NotInterruptible,
}

/// Last number of the lower block; the upper block starts at [`UPPER_FIRST`].
const LOWER_LAST: u32 = 336;
const UPPER_FIRST: u32 = 424;
const UPPER_LAST: u32 = 471;
const N_LOWER: u32 = LOWER_LAST + 1;

/// Calls that work on the descriptor in their first argument and never wait for it.
const ON_DESCRIPTORS: [&str; 28] = [
    "fstat",
    "lseek",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "ioctl",
    "fcntl",
    "fsync",
    "fdatasync",
    "ftruncate",
    "fallocate",
    "getdents",
    "getdents64",
    "fchmod",
    "fchown",
    "flock",
    "shutdown",
    "bind",
    "listen",
    "getsockname",
    "getpeername",
    "setsockopt",
    "getsockopt",
    "dup",
    "fadvise64",
];

/// Whether a call fails if the descriptor in its first argument is not open.
pub fn uses_descriptor(number: u64) -> bool {
    lookup(number).is_some_and(|call| {
        let waits = matches!(call.class, Class::WaitsRead { fd_arg: 0 } | Class::WaitsWrite { fd_arg: 0 });
        waits || ON_DESCRIPTORS.contains(&call.name)
    })
}

/// The row of system call `number`. Like the kernel, looks at the lower 32 bits alone.
pub fn lookup(number: u64) -> Option<&'static Syscall> {
    match number as u32 {
        number @ 0..=LOWER_LAST => TABLE.get(number as usize),
        number @ UPPER_FIRST..=UPPER_LAST => TABLE.get((number - UPPER_FIRST + N_LOWER) as usize),
        _ => None,
    }
}

/// All rows, by number.
pub fn all() -> &'static [Syscall] {
    TABLE
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn named(name: &str) -> Syscall {
        *all().iter().find(|syscall| syscall.name == name).unwrap_or_else(|| panic!("no row for {name}"))
    }

    #[test]
    fn numbers_are_sorted_and_names_unique() {
        assert_eq!(all().len(), 385);
        assert!(all().windows(2).all(|pair| pair[0].number < pair[1].number));
        let names: BTreeSet<_> = all().iter().map(|syscall| syscall.name).collect();
        assert_eq!(names.len(), all().len());
    }

    #[test]
    fn every_row_is_found_and_nothing_else() {
        let known: BTreeSet<_> = all().iter().map(|syscall| syscall.number).collect();
        for number in 0..2000 {
            let found = lookup(number).map(|syscall| u64::from(syscall.number));
            assert_eq!(found, known.contains(&(number as u32)).then_some(number));
        }
        assert_eq!(lookup(0x4000_0000), None);
        assert_eq!(lookup(u64::from(u32::MAX)), None);
        assert_eq!(lookup(0xdead_beef_0000_0027).map(|syscall| syscall.name), Some("getpid"));
    }

    /// The calls that the installed kernel headers know, where there are headers.
    #[test]
    fn agrees_with_the_kernel_headers() {
        let Ok(header) = std::fs::read_to_string("/usr/include/x86_64-linux-gnu/asm/unistd_64.h") else {
            return;
        };
        let mut n_checked = 0;
        for line in header.lines().filter_map(|line| line.strip_prefix("#define __NR_")) {
            let (name, number) = line.split_once(' ').unwrap();
            let number: u64 = number.trim().parse().unwrap();
            if number <= u64::from(UPPER_LAST) {
                assert_eq!(lookup(number).map(|syscall| syscall.name), Some(name));
                n_checked += 1;
            }
        }
        assert!(n_checked > 300, "{n_checked} lines understood");
    }

    #[test]
    fn only_calls_that_may_wait_can_be_interrupted() {
        for syscall in all() {
            let may_wait = match syscall.class {
                // `fallocate` on shared memory gives up when a signal is pending.
                Class::Prompt => syscall.name == "fallocate",
                Class::Absent => false,
                Class::WaitsRead { .. } | Class::WaitsWrite { .. } => true,
                Class::WaitsMany | Class::WaitsTime => true,
                Class::Waits | Class::Emulated => continue,
            };
            assert_eq!(syscall.restart != Restart::NotInterruptible, may_wait, "{}", syscall.name);
        }
    }

    #[test]
    fn restarts_as_signal_7_says() {
        let check = |restart, names: &[&str]| {
            for name in names {
                assert_eq!(named(name).restart, restart, "{name}");
            }
        };
        check(
            Restart::IfAsked,
            &[
                "read",
                "readv",
                "write",
                "writev",
                "ioctl",
                "open",
                "wait4",
                "waitid",
                "accept",
                "connect",
                "recvfrom",
                "recvmmsg",
                "recvmsg",
                "sendto",
                "sendmsg",
                "flock",
                "fcntl",
                "mq_timedreceive",
                "mq_timedsend",
                "futex",
                "getrandom",
            ],
        );
        check(
            Restart::Never,
            &[
                "pause",
                "rt_sigsuspend",
                "rt_sigtimedwait",
                "epoll_wait",
                "epoll_pwait",
                "poll",
                "ppoll",
                "select",
                "pselect6",
                "msgrcv",
                "msgsnd",
                "semop",
                "semtimedop",
                "clock_nanosleep",
                "nanosleep",
                "io_getevents",
            ],
        );
    }

    #[test]
    fn classes_of_well_known_calls() {
        assert_eq!(named("read").class, Class::WaitsRead { fd_arg: 0 });
        assert_eq!(named("sendmmsg").class, Class::WaitsWrite { fd_arg: 0 });
        assert_eq!(named("epoll_pwait2").class, Class::WaitsMany);
        assert_eq!(named("nanosleep").class, Class::WaitsTime);
        assert_eq!(named("wait4").class, Class::Waits);
        assert_eq!(named("pread64").class, Class::Prompt);
        // Position -1 makes these work on pipes and sockets.
        assert_eq!(named("preadv2").class, Class::WaitsRead { fd_arg: 0 });
        assert_eq!(named("pwritev2").class, Class::WaitsWrite { fd_arg: 0 });
        assert_eq!(named("tuxcall").class, Class::Absent);
        for name in ["futex", "futex_waitv", "futex_wait", "futex_wake", "futex_requeue"] {
            assert_eq!(named(name).class, Class::Emulated, "{name}");
        }
    }
}
