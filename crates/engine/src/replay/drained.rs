//! Input beyond the recording: what comes from outside ends where the recording does.
//!
//! A thread that no longer does as recorded still gets what it would have read, from whatever descriptor that came.

use super::answers::Answer;
use super::calls::store;
use super::descriptors::{Closed, Target};
use super::free::Run;
use super::kept::{MOST_MOVED, sent};
use super::machine::Pending;
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

    pub fn has(&self, descriptor: u64) -> bool {
        self.0.get(&descriptor).is_some_and(|left| !left.is_empty())
    }

    fn take(&mut self, descriptor: u64, most: u64) -> Vec<u8> {
        let Some(left) = self.0.get_mut(&descriptor) else { return Vec::new() };
        left.drain(..left.len().min(most as usize)).collect()
    }
}

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
        let is_known = matches!(target, Target::Named { .. });
        if is_known || self.kept.descriptors.is_fed_from_inside(&target) {
            return None;
        }
        let name = if descriptor == 0 { "standard input".to_owned() } else { format!("descriptor {descriptor}") };
        self.remark(format!("{name} ends where the recording does"));
        Some(0)
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
