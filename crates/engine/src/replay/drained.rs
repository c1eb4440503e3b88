//! Input beyond the recording: what comes from outside ends where the recording does.
//!
//! A thread that no longer does as recorded still gets what it would have read, from whatever descriptor that came.

use super::answers::Answer;
use super::calls::store;
use super::descriptors::{Closed, Target};
use super::free::Run;
use super::kept::{MOST_MOVED, nanoseconds, sent};
use super::machine::Pending;
use crate::kernel;
use crate::syscalls::error;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What was recorded and not read yet, by descriptor.
#[derive(Default)]
pub struct Unread(BTreeMap<u64, VecDeque<u8>>);

impl Unread {
    /// Keeps what some calls would have read, as long as their descriptors lead to what they lead to now.
    pub fn keep(&mut self, answers: VecDeque<Answer>) {
        let mut others = BTreeSet::new();
        for answer in answers {
            let [descriptor, room, ..] = answer.arguments;
            match answer.number as i64 {
                libc::SYS_close => {
                    others.insert(descriptor);
                }
                libc::SYS_dup2 | libc::SYS_dup3 => {
                    others.insert(room);
                }
                libc::SYS_read | libc::SYS_recvfrom if !others.contains(&descriptor) && answer.result > 0 => {
                    let end = room.saturating_add(answer.result as u64);
                    let data = answer.memory.iter().filter(|(address, _)| (room..end).contains(address));
                    self.0.entry(descriptor).or_default().extend(data.flat_map(|(_, bytes)| bytes));
                }
                _ => {}
            }
        }
    }

    fn take(&mut self, descriptor: u64, most: u64) -> Vec<u8> {
        let Some(left) = self.0.get_mut(&descriptor) else { return Vec::new() };
        left.drain(..left.len().min(most as usize)).collect()
    }
}

/// More descriptors than this are not waited for at once.
const MOST_WAITED_FOR: u64 = 1024;
const IN: u16 = libc::POLLIN.cast_unsigned();
const OUT: u16 = libc::POLLOUT.cast_unsigned();
const INVALID: u16 = libc::POLLNVAL.cast_unsigned();

impl Run<'_> {
    /// Calls on what has no more to give; none if somebody may still give something.
    pub fn drained(&mut self, pending: Pending) -> Option<i64> {
        let Pending { number, arguments } = pending;
        let [first, second, third, ..] = arguments;
        match number as i64 {
            libc::SYS_read | libc::SYS_recvfrom => self.read_drained(first, second, third),
            libc::SYS_readv | libc::SYS_pread64 | libc::SYS_preadv => self.read_drained(first, 0, 0),
            libc::SYS_lseek => Some(error(libc::ESPIPE)),
            libc::SYS_sendto | libc::SYS_sendmsg => {
                let bytes = sent(number, arguments, MOST_MOVED);
                self.kept.keep(first as i32, &bytes);
                Some(bytes.len() as i64)
            }
            libc::SYS_shutdown | libc::SYS_setsockopt => Some(0),
            libc::SYS_ioctl if second == libc::FIONREAD => Some(store(self.engine, third, &[0; 4])),
            libc::SYS_ioctl => Some(error(libc::ENOTTY)),
            libc::SYS_poll => {
                let timeout = u64::try_from(third as i32).ok().map(|milliseconds| milliseconds * 1_000_000);
                self.poll(first, second, timeout)
            }
            libc::SYS_ppoll => self.poll(first, second, self.timeout(third, 1)),
            libc::SYS_select => self.select(arguments, self.timeout(arguments[4], 1000)),
            libc::SYS_pselect6 => self.select(arguments, self.timeout(arguments[4], 1)),
            _ => None,
        }
    }

    fn read_drained(&mut self, descriptor: u64, room: u64, most: u64) -> Option<i64> {
        let target = match self.kept.descriptors.target(descriptor) {
            Ok(target) => target.clone(),
            Err(Closed) => return Some(error(libc::EBADF)),
        };
        let left = self.kept.answers.unread.take(descriptor, most);
        if !left.is_empty() {
            let stored = store(self.engine, room, &left);
            return Some(if stored == 0 { left.len() as i64 } else { stored });
        }
        let is_known = matches!(target, Target::Named { .. } | Target::Listener);
        if is_known || self.kept.descriptors.is_fed_from_inside(&target) {
            return None;
        }
        let name = if descriptor == 0 { "standard input".to_owned() } else { format!("descriptor {descriptor}") };
        self.remark(format!("{name} ends where the recording does"));
        Some(0)
    }

    /// A wait for descriptors: those that have ended are ready, as those are that are written to.
    fn poll(&mut self, list: u64, count: u64, timeout: Option<u64>) -> Option<i64> {
        let mut n_ready = 0;
        for at in (0..count.min(MOST_WAITED_FOR)).map(|index| list.wrapping_add(8 * index)) {
            let Ok(entry) = kernel::read::<u64>(at) else { return Some(error(libc::EFAULT)) };
            let (descriptor, wanted) = (entry as i32, (entry >> 32) as u16);
            let ready = u64::try_from(descriptor).map_or(0, |descriptor| self.ready(descriptor, wanted));
            store(self.engine, at.wrapping_add(6), &ready.to_le_bytes());
            n_ready += i64::from(ready != 0);
        }
        self.waited(n_ready, timeout)
    }

    fn select(&mut self, arguments: kernel::Arguments, timeout: Option<u64>) -> Option<i64> {
        let [count, reading, writing, excepted, ..] = arguments;
        let count = count.min(MOST_WAITED_FOR);
        let mut n_ready = 0;
        for (set, wanted) in [(reading, IN), (writing, OUT), (excepted, 0)] {
            for word in (0..count.div_ceil(64)).filter(|_| set != 0) {
                let at = set.wrapping_add(8 * word);
                let Ok(asked) = kernel::read::<u64>(at) else { return Some(error(libc::EFAULT)) };
                let is_ready = |bit: &u64| asked >> bit & 1 != 0 && self.ready(64 * word + bit, wanted) & wanted != 0;
                let ready = (0..64).filter(is_ready).fold(0_u64, |ready, bit| ready | 1 << bit);
                store(self.engine, at, &ready.to_le_bytes());
                n_ready += i64::from(ready.count_ones());
            }
        }
        self.waited(n_ready, timeout)
    }

    /// Nothing will ever be ready that is not: the wait takes all of its time.
    fn waited(&mut self, n_ready: i64, timeout: Option<u64>) -> Option<i64> {
        if n_ready == 0 {
            self.free.time = self.free.time.saturating_add(timeout?);
        }
        Some(n_ready)
    }

    fn ready(&self, descriptor: u64, wanted: u16) -> u16 {
        match self.kept.descriptors.target(descriptor) {
            Err(Closed) => INVALID,
            Ok(Target::Listener) => 0,
            Ok(target) if self.kept.descriptors.is_fed_from_inside(target) => wanted & OUT,
            Ok(_) => wanted & (IN | OUT),
        }
    }

    /// A limit in seconds and a fraction of so many nanoseconds each.
    fn timeout(&self, address: u64, unit: u64) -> Option<u64> {
        let [seconds, fraction] = kernel::read::<[u64; 2]>(address).ok()?;
        let bytes = [seconds.to_le_bytes(), fraction.saturating_mul(unit).to_le_bytes()].concat();
        nanoseconds(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(descriptor: u64, bytes: &[u8]) -> Answer {
        let arguments = [descriptor, 0x1_0000, 100, 0, 0, 0];
        let memory = vec![(0x1_0000, bytes.to_vec())];
        Answer { number: libc::SYS_read as u64, arguments, result: bytes.len() as i64, memory, maps: Vec::new() }
    }

    #[test]
    fn what_is_left_comes_in_the_pieces_that_are_asked_for() {
        let mut unread = Unread::default();
        let closed = Answer { number: libc::SYS_close as u64, result: 0, memory: Vec::new(), ..reads(0, b"") };
        unread.keep([reads(0, b"one "), reads(3, b"x"), reads(0, b"two"), closed, reads(0, b"of another")].into());
        assert_eq!(unread.take(0, 6), b"one tw");
        assert_eq!(unread.take(0, 100), b"o");
        assert!(unread.take(0, 100).is_empty());
        assert!(unread.take(7, 100).is_empty());
    }
}
