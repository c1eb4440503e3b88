//! Who waits for which futex, in the order of coming, while no recording tells who is woken.

use std::collections::{BTreeMap, VecDeque};

#[derive(Default)]
pub struct Futexes {
    waiters: BTreeMap<u64, VecDeque<(u32, u32)>>,
}

impl Futexes {
    pub fn wait(&mut self, address: u64, thread: u32, bitset: u32) {
        self.waiters.entry(address).or_default().push_back((thread, bitset));
    }

    /// Takes up to `count` waiters whose bitset meets `bitset`.
    pub fn wake(&mut self, address: u64, count: u32, bitset: u32) -> Vec<u32> {
        let Some(waiters) = self.waiters.get_mut(&address) else { return Vec::new() };
        let mut woken = Vec::new();
        waiters.retain(|&(thread, theirs)| {
            let wakes = woken.len() < count as usize && theirs & bitset != 0;
            if wakes {
                woken.push(thread);
            }
            !wakes
        });
        if waiters.is_empty() {
            self.waiters.remove(&address);
        }
        woken
    }

    /// Moves up to `count` waiters; tells who.
    pub fn requeue(&mut self, from: u64, to: u64, count: u32) -> Vec<u32> {
        let Some(waiters) = self.waiters.get_mut(&from) else { return Vec::new() };
        let moved: Vec<(u32, u32)> = waiters.drain(..waiters.len().min(count as usize)).collect();
        if waiters.is_empty() {
            self.waiters.remove(&from);
        }
        self.waiters.entry(to).or_default().extend(moved.iter().copied());
        moved.into_iter().map(|(thread, _)| thread).collect()
    }

    /// The thread no longer waits.
    pub fn forget(&mut self, thread: u32) {
        self.waiters.retain(|_, waiters| {
            waiters.retain(|&(waiter, _)| waiter != thread);
            !waiters.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_come_are_woken_first_if_their_bits_meet() {
        let mut futexes = Futexes::default();
        for (thread, bitset) in [(1, 1), (2, 2), (3, 3)] {
            futexes.wait(0x10, thread, bitset);
        }
        assert_eq!(futexes.wake(0x10, 1, 2), [2]);
        assert_eq!(futexes.wake(0x20, 9, u32::MAX), [0; 0]);
        assert_eq!(futexes.wake(0x10, 9, u32::MAX), [1, 3]);
    }

    #[test]
    fn those_who_are_moved_wait_elsewhere() {
        let mut futexes = Futexes::default();
        (1..=3).for_each(|thread| futexes.wait(0x10, thread, u32::MAX));
        assert_eq!(futexes.requeue(0x10, 0x20, 2), [1, 2]);
        futexes.forget(1);
        assert_eq!(futexes.wake(0x20, 9, u32::MAX), [2]);
        assert_eq!(futexes.wake(0x10, 9, u32::MAX), [3]);
    }
}
