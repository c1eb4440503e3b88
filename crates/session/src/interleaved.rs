//! Two orders made one: what an observer reads in batches on its own thread, and what the replay tells on the guest's.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// What the replay has told and the observer has not come to yet, each with the number of batches before it.
pub struct Interleaved<T> {
    waiting: Mutex<VecDeque<(u64, T)>>,
}

impl<T> Default for Interleaved<T> {
    fn default() -> Interleaved<T> {
        Interleaved { waiting: Mutex::default() }
    }
}

impl<T> Interleaved<T> {
    /// Something happened after so many batches.
    pub fn push(&self, batches: u64, item: T) {
        self.lock().push_back((batches, item));
    }

    /// The same, for what makes an earlier item needless if nothing happened between the two.
    pub fn push_instead(&self, batches: u64, item: T, is_needless: impl FnOnce(&T) -> bool) {
        let mut waiting = self.lock();
        if waiting.back().is_some_and(|(before, last)| *before == batches && is_needless(last)) {
            waiting.pop_back();
        }
        waiting.push_back((batches, item));
    }

    /// What follows at most so many batches, in order.
    pub fn up_to(&self, batches: u64) -> impl Iterator<Item = T> {
        let mut waiting = self.lock();
        let count = waiting.partition_point(|(before, _)| *before <= batches);
        let due: Vec<(u64, T)> = waiting.drain(..count).collect();
        due.into_iter().map(|(_, item)| item)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, T)>> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_once_and_behind_the_batches_before_it() {
        let told = Interleaved::default();
        for (batches, item) in [(0, 'a'), (2, 'b'), (2, 'c'), (5, 'd')] {
            told.push(batches, item);
        }
        assert_eq!(told.up_to(1).collect::<String>(), "a");
        assert_eq!(told.up_to(2).collect::<String>(), "bc");
        assert_eq!(told.up_to(4).collect::<String>(), "");
        assert_eq!(told.up_to(u64::MAX).collect::<String>(), "d");
    }

    #[test]
    fn what_is_needless_goes_unless_something_happened_in_between() {
        let told = Interleaved::default();
        let is_count = |item: &char| item.is_ascii_digit();
        for (batches, item) in [(1, '1'), (1, '2'), (1, 'a'), (1, '3'), (2, '4')] {
            match is_count(&item) {
                true => told.push_instead(batches, item, is_count),
                false => told.push(batches, item),
            }
        }
        assert_eq!(told.up_to(9).collect::<String>(), "2a34");
    }
}
