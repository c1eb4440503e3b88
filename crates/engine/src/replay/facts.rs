//! Facts that a free run is asked for: what the recording tells of them, and what is made up where it does not.

use super::answers::Answer;
use super::calls::{store, timespec};
use super::free::Run;
use super::kept::nanoseconds;
use super::machine::Pending;
use crate::kernel;
use crate::syscalls::error;

/// The usual room for the first thread's stack.
const STACK_LIMIT: u64 = 8 << 20;
/// How long each of the names is that `uname` gives, with its NUL.
const SYSTEM_NAME: usize = 65;

impl Run<'_> {
    /// What a clock showed, unless the run's own time has gone beyond that: clocks never go back.
    pub(super) fn recorded_time(&mut self, thread: u32, clock: u64) -> Option<Answer> {
        let answer = self.kept.answers.own_fact(thread, (libc::SYS_clock_gettime as u64, clock, 0))?;
        let shown = answer.memory.first().and_then(|(_, bytes)| nanoseconds(bytes));
        shown.is_none_or(|shown| shown >= self.clock(clock)).then_some(answer)
    }

    /// Facts that the recording does not have.
    pub(super) fn make_up(&mut self, pending: Pending) -> i64 {
        let Pending { number, arguments } = pending;
        let [first, second, ..] = arguments;
        match number as i64 {
            libc::SYS_clock_gettime => {
                let now = self.clock(first);
                self.free.time += 1000;
                store(self.engine, second, &timespec(now))
            }
            libc::SYS_gettimeofday | libc::SYS_time => {
                let now = self.clock(libc::CLOCK_REALTIME as u64);
                self.free.time += 1000;
                let [seconds, nanoseconds] = [now / 1_000_000_000, now % 1_000_000_000];
                let parts = [seconds.to_le_bytes(), (nanoseconds / 1000).to_le_bytes()].concat();
                let is_time = number as i64 == libc::SYS_time;
                let bytes = if is_time { &parts[..8] } else { &parts[..] };
                let stored = if first == 0 { 0 } else { store(self.engine, first, bytes) };
                if is_time { seconds as i64 } else { stored }
            }
            libc::SYS_getrandom => {
                let bytes: Vec<u8> =
                    (0..second.min(4096).div_ceil(8)).flat_map(|_| self.free.random.draw().to_le_bytes()).collect();
                let length = bytes.len().min(second as usize);
                let stored = store(self.engine, first, &bytes[..length]);
                if stored == 0 { length as i64 } else { stored }
            }
            libc::SYS_ioctl => error(libc::ENOTTY),
            libc::SYS_fcntl if second as i32 == libc::F_GETFD => 0,
            libc::SYS_fcntl => i64::from(libc::O_RDWR),
            libc::SYS_fstat => self.read_on(pending).unwrap_or_else(|| self.store_pipe(second)),
            libc::SYS_newfstatat if kernel::read::<u8>(second) == Ok(0) => {
                self.read_on(pending).unwrap_or_else(|| self.store_pipe(arguments[2]))
            }
            libc::SYS_getcpu => {
                let stored = if first == 0 { 0 } else { store(self.engine, first, &[0; 4]) };
                if second == 0 { stored } else { store(self.engine, second, &[0; 4]) }
            }
            _ => self.identity(number).or_else(|| self.limits(pending)).unwrap_or_else(|| self.needs(pending)),
        }
    }

    /// Who asks.
    fn identity(&self, number: u64) -> Option<i64> {
        let identity = &self.kept.identity;
        let pid = || self.machine.tids.get(&1).copied().unwrap_or(1);
        Some(match number as i64 {
            libc::SYS_getpid => i64::from(pid()),
            libc::SYS_getppid => i64::from(identity.parent_pid),
            libc::SYS_getuid => i64::from(identity.uid),
            libc::SYS_geteuid => i64::from(identity.effective_uid),
            libc::SYS_getgid => i64::from(identity.gid),
            libc::SYS_getegid => i64::from(identity.effective_gid),
            _ => return None,
        })
    }

    /// What the system is, and how much of it the program may have: not less than any other one.
    fn limits(&mut self, pending: Pending) -> Option<i64> {
        let Pending { number, arguments: [first, second, third, fourth, ..] } = pending;
        let limit = |resource: u64| {
            let most = if resource == u64::from(libc::RLIMIT_STACK) { STACK_LIMIT } else { libc::RLIM_INFINITY };
            [most.to_le_bytes(), libc::RLIM_INFINITY.to_le_bytes()].concat()
        };
        Some(match number as i64 {
            libc::SYS_getrlimit => store(self.engine, second, &limit(first)),
            libc::SYS_prlimit64 if third == 0 && fourth != 0 => store(self.engine, fourth, &limit(second)),
            libc::SYS_sched_getaffinity if second >= 8 => {
                let stored = store(self.engine, third, &1_u64.to_le_bytes());
                if stored == 0 { 8 } else { stored }
            }
            libc::SYS_clock_getres if second == 0 => 0,
            libc::SYS_clock_getres => store(self.engine, second, &timespec(1)),
            libc::SYS_uname => {
                let names = ["Linux", "localhost", &self.kept.kernel, "", "x86_64", ""];
                let text: Vec<u8> = names.iter().flat_map(|name| system_name(name)).collect();
                store(self.engine, first, &text)
            }
            _ => return None,
        })
    }

    /// A descriptor of which nothing is known counts as a pipe.
    fn store_pipe(&mut self, address: u64) -> i64 {
        const MODE: usize = 24;
        let mut status = [0; 144];
        status[MODE..MODE + 4].copy_from_slice(&(libc::S_IFIFO | 0o600).to_le_bytes());
        store(self.engine, address, &status)
    }
}

fn system_name(name: &str) -> [u8; SYSTEM_NAME] {
    let mut field = [0; SYSTEM_NAME];
    field.iter_mut().zip(name.bytes().take(SYSTEM_NAME - 1)).for_each(|(to, from)| *to = from);
    field
}
