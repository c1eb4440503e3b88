//! Waiting in a free run: futexes and time.

use super::calls::store;
use super::free::{Reply, Run, Status};
use super::kept::nanoseconds;
use super::machine::Pending;
use crate::kernel;
use crate::syscalls::error;
use std::collections::BTreeMap;

const FUTEX_LOCK_PI2: i32 = 13;
const ANY: u32 = u32::MAX;
const OWNER: u32 = libc::FUTEX_TID_MASK;
/// What clocks show that the recorded part did not look at.
const UNKNOWN_TIME: u64 = 1_000_000_000_000;
/// A robust list is no longer than this, as for the kernel.
const LONGEST_LIST: usize = 2048;

/// A wait that is to begin: futex, bitset and deadline; or the result of one that does not.
type Wait = Result<(u64, u32, Option<u64>), i64>;

/// What a clock showed when the recording was left.
pub fn shown(clocks: &BTreeMap<u64, u64>, clock: u64) -> u64 {
    clocks.get(&clock).copied().unwrap_or(UNKNOWN_TIME)
}

impl Run<'_> {
    /// What a clock shows.
    pub fn clock(&self, clock: u64) -> u64 {
        shown(&self.kept.clocks, clock).saturating_add(self.free.time)
    }

    /// A recorded answer tells the time; clocks never go back.
    pub fn set_clock(&mut self, clock: u64, bytes: &[u8]) {
        if let Some(now) = nanoseconds(bytes) {
            let start = self.kept.clocks.entry(clock).or_insert(0);
            *start = (*start).max(now.saturating_sub(self.free.time));
        }
    }

    /// When the wait ends that a `timespec` tells, in the run's own time.
    pub fn deadline(&self, clock: u64, address: u64, absolute: bool) -> Result<u64, i64> {
        let words = kernel::read::<[u64; 2]>(address).map_err(|_| error(libc::EFAULT))?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let given = nanoseconds(&bytes).filter(|_| words[1] < 1_000_000_000).ok_or(error(libc::EINVAL))?;
        let start = if absolute { self.clock(clock) } else { 0 };
        Ok(self.free.time.saturating_add(given.saturating_sub(start)))
    }

    pub fn sleep(&mut self, until: Result<u64, i64>) -> Reply {
        match until {
            Ok(until) => Reply::Waits(Status::Sleeping { until }),
            Err(failure) => Reply::Result(failure),
        }
    }

    /// The wait that a call asks for; none if it is about something else.
    pub fn futex_wait(&self, pending: &Pending) -> Option<Wait> {
        let [address, operation, value, timeout, _, last] = pending.arguments;
        let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
        let command = operation as i32 & !flags;
        if pending.number as i64 != libc::SYS_futex || !matches!(command, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET) {
            return None;
        }
        let absolute = command == libc::FUTEX_WAIT_BITSET;
        let realtime = operation as i32 & libc::FUTEX_CLOCK_REALTIME != 0;
        let clock = if realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
        let bitset = if absolute { last as u32 } else { ANY };
        Some(match kernel::read::<u32>(address) {
            _ if address % 4 != 0 || bitset == 0 => Err(error(libc::EINVAL)),
            Err(_) => Err(error(libc::EFAULT)),
            Ok(now) if now != value as u32 => Err(error(libc::EAGAIN)),
            Ok(_) if timeout == 0 => Ok((address, bitset, None)),
            Ok(_) => self.deadline(clock as u64, timeout, absolute).map(|until| (address, bitset, Some(until))),
        })
    }

    pub fn futex(&mut self, pending: Pending) -> Reply {
        let [address, operation, value, extra, second, last] = pending.arguments;
        if let Some(wait) = self.futex_wait(&pending) {
            return match wait {
                Err(result) => Reply::Result(result),
                Ok((address, bitset, deadline)) => {
                    self.free.futexes.wait(address, self.machine.current, bitset);
                    Reply::Waits(Status::Futex { address, deadline })
                }
            };
        }
        let command = operation as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
        let realtime = operation as i32 & libc::FUTEX_CLOCK_REALTIME != 0;
        let count = value as u32;
        Reply::Result(match command {
            libc::FUTEX_WAKE => self.wake(address, count, ANY),
            libc::FUTEX_WAKE_BITSET => self.wake(address, count, last as u32),
            libc::FUTEX_CMP_REQUEUE if kernel::read::<u32>(address) != Ok(last as u32) => error(libc::EAGAIN),
            libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE => {
                let woken = self.wake(address, count, ANY);
                let moved = self.free.futexes.requeue(address, second, extra as u32);
                for thread in &moved {
                    if let Some(Status::Futex { address, .. }) = self.free.statuses.get_mut(thread) {
                        *address = second;
                    }
                }
                woken + moved.len() as i64
            }
            libc::FUTEX_WAKE_OP => self.wake_and_operate(pending),
            libc::FUTEX_LOCK_PI => return self.lock(pending, true),
            FUTEX_LOCK_PI2 => return self.lock(pending, realtime),
            libc::FUTEX_TRYLOCK_PI => self.try_lock(address).unwrap_or(error(libc::EAGAIN)),
            libc::FUTEX_UNLOCK_PI => self.unlock(address),
            // As for recorded programs.
            _ => error(libc::ENOSYS),
        })
    }

    /// Takes a lock that is kept in a futex, or waits and tries again. One thread runs at a time, so there is nothing to
    /// inherit.
    fn lock(&mut self, pending: Pending, realtime: bool) -> Reply {
        let [address, _, _, timeout, ..] = pending.arguments;
        if let Some(result) = self.try_lock(address) {
            return Reply::Result(result);
        }
        let clock = if realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
        let deadline = match (timeout != 0).then(|| self.deadline(clock as u64, timeout, true)).transpose() {
            Ok(deadline) => deadline,
            Err(failure) => return Reply::Result(failure),
        };
        let word = kernel::read::<u32>(address).unwrap_or(0) | libc::FUTEX_WAITERS;
        if self.store_word(address, word) != 0 {
            return Reply::Result(error(libc::EFAULT));
        }
        self.free.futexes.wait(address, self.machine.current, ANY);
        self.machine.pending = Some(pending);
        Reply::Waits(Status::Futex { address, deadline })
    }

    /// The result if there is one at once; none if another thread has the lock.
    fn try_lock(&mut self, address: u64) -> Option<i64> {
        let tid = self.tid() as u32;
        match kernel::read::<u32>(address) {
            Err(_) => Some(error(libc::EFAULT)),
            Ok(word) if word & OWNER == tid => Some(error(libc::EDEADLK)),
            Ok(word) if word & OWNER != 0 => None,
            Ok(word) => Some(self.store_word(address, tid | word & libc::FUTEX_OWNER_DIED)),
        }
    }

    /// Changes a futex for the current thread's call.
    fn store_word(&mut self, address: u64, word: u32) -> i64 {
        let stored = store(self.engine, address, &word.to_le_bytes());
        self.tell_memory(address, 4);
        stored
    }

    fn unlock(&mut self, address: u64) -> i64 {
        match kernel::read::<u32>(address) {
            Ok(word) if word & OWNER == self.tid() as u32 => {
                let stored = self.store_word(address, 0);
                self.wake(address, u32::MAX, ANY);
                stored
            }
            Ok(_) => error(libc::EPERM),
            Err(_) => error(libc::EFAULT),
        }
    }

    pub fn wake(&mut self, address: u64, count: u32, bitset: u32) -> i64 {
        let woken = self.free.futexes.wake(address, count, bitset);
        for &thread in &woken {
            self.free.statuses.insert(thread, Status::Runnable { result: Some(0) });
        }
        woken.len() as i64
    }

    /// Changes the second futex, wakes waiters of the first, and if the old value compares, of the second.
    fn wake_and_operate(&mut self, pending: Pending) -> i64 {
        let [address, _, count, second_count, second, encoded] = pending.arguments;
        let Ok(old) = kernel::read::<u32>(second) else { return error(libc::EFAULT) };
        let field = |shift: u32, bits: u32| (encoded as u32 >> shift) & ((1 << bits) - 1);
        let (operand, compared) = (field(12, 12), field(0, 12));
        let operand = if field(31, 1) != 0 { 1 << (operand & 31) } else { operand };
        let new = match field(28, 3) {
            0 => operand,
            1 => old.wrapping_add(operand),
            2 => old | operand,
            3 => old & !operand,
            _ => old ^ operand,
        };
        if self.store_word(second, new) != 0 {
            return error(libc::EFAULT);
        }
        let (signed, other) = (old.cast_signed(), compared.cast_signed());
        let compares = match field(24, 4) {
            0 => signed == other,
            1 => signed != other,
            2 => signed < other,
            3 => signed <= other,
            4 => signed > other,
            _ => signed >= other,
        };
        let woken = self.wake(address, count as u32, ANY);
        woken + if compares { self.wake(second, second_count as u32, ANY) } else { 0 }
    }

    /// Marks the locks of the thread that ends as orphaned, as the kernel does.
    pub fn release_robust_list(&mut self) {
        let head = self.context.robust_list;
        let Ok([first, offset, pending]) = kernel::read::<[u64; 3]>(head) else { return };
        let mut entry = first;
        for _ in 0..LONGEST_LIST {
            let Ok(next) = kernel::read::<u64>(entry & !1) else { break };
            if entry & !1 == head {
                break;
            }
            self.orphan((entry & !1).wrapping_add(offset));
            entry = next;
        }
        if pending != 0 {
            self.orphan((pending & !1).wrapping_add(offset));
        }
    }

    fn orphan(&mut self, address: u64) {
        let Ok(now) = kernel::read::<u32>(address) else { return };
        if now & OWNER != self.tid() as u32 {
            return;
        }
        let left = (now & libc::FUTEX_WAITERS) | libc::FUTEX_OWNER_DIED;
        if self.store_word(address, left) == 0 && now & libc::FUTEX_WAITERS != 0 {
            self.wake(address, 1, ANY);
        }
    }
}
