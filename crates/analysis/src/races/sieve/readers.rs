//! Epochs of several threads that have read the same memory. Neighbours in memory have mostly been read by the same ones,
//! so equal lists are one.

use super::epoch::{Epoch, LAST_TICK, Sight};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;

/// How many additions are remembered, so that the next cell's is found without comparing lists.
const REMEMBERED: usize = 256;
/// With fewer lists than these nobody looks for those that are no longer in use.
const FEW: usize = 1 << 14;

/// What a reader makes of a list.
#[derive(Clone, Copy, Default)]
struct Added {
    to: Epoch,
    by: Epoch,
    result: Epoch,
}

pub struct Readers {
    /// Each in ascending order; empty if its number is free.
    lists: Vec<Box<[Epoch]>>,
    free: Vec<u32>,
    numbers: FxHashMap<Box<[Epoch]>, u32>,
    remembered: Vec<Added>,
    /// When to look for lists that are no longer in use.
    limit: usize,
}

impl Readers {
    pub fn new() -> Readers {
        Readers {
            lists: Vec::new(),
            free: Vec::new(),
            numbers: FxHashMap::default(),
            remembered: vec![Added::default(); REMEMBERED],
            limit: FEW,
        }
    }

    /// Whether the thread has seen all that have read.
    #[inline]
    pub fn are_seen(&self, readers: Epoch, sight: &Sight<'_>) -> bool {
        match readers.list() {
            None => sight.covers(readers),
            Some(list) => self.lists[list as usize].iter().all(|reader| sight.covers(*reader)),
        }
    }

    /// Those that have read, and the thread as well. Readers that it has seen need not be kept: who has seen it has seen
    /// them. Nothing if there is no number for so many different lists.
    #[inline]
    pub fn add(&mut self, readers: Epoch, sight: &Sight<'_>) -> Option<Epoch> {
        if readers.list().is_none() && sight.covers(readers) {
            return Some(sight.now);
        }
        let place = FxBuildHasher.hash_one((readers, sight.now)) as usize % REMEMBERED;
        let known = self.remembered[place];
        if (known.to, known.by) == (readers, sight.now) {
            return Some(known.result);
        }
        let result = self.make(readers, sight)?;
        self.remembered[place] = Added { to: readers, by: sight.now, result };
        Some(result)
    }

    fn make(&mut self, readers: Epoch, sight: &Sight<'_>) -> Option<Epoch> {
        let single = [readers];
        let old = readers.list().map_or(&single[..], |list| &self.lists[list as usize]);
        let mut new: Vec<Epoch> = old.iter().copied().filter(|reader| !sight.covers(*reader)).collect();
        new.push(sight.now);
        new.sort_unstable();
        if new.len() == 1 {
            return Some(sight.now);
        }
        if let Some(number) = self.numbers.get(new.as_slice()) {
            return Some(Epoch::of_list(*number));
        }
        let number = self.free.pop().or_else(|| {
            self.lists.push(Box::default());
            u32::try_from(self.lists.len() - 1).ok().filter(|number| u64::from(*number) < LAST_TICK)
        })?;
        let new = new.into_boxed_slice();
        self.lists[number as usize] = new.clone();
        self.numbers.insert(new, number);
        Some(Epoch::of_list(number))
    }

    /// Whether it is time to say which lists are in use.
    pub fn are_many(&self) -> bool {
        self.lists.len() - self.free.len() >= self.limit
    }

    /// Forgets all lists but these. The next time is not before there are `enough` of them.
    pub fn keep(&mut self, used: impl Iterator<Item = u32>, enough: usize) {
        let mut is_used = vec![false; self.lists.len()];
        used.for_each(|list| is_used[list as usize] = true);
        for (number, list) in (0..).zip(&mut self.lists) {
            if !is_used[number as usize] && !list.is_empty() {
                self.numbers.remove(&std::mem::take(list));
                self.free.push(number);
            }
        }
        self.remembered.fill(Added::default());
        self.limit = enough.max(2 * (self.lists.len() - self.free.len())).clamp(FEW, LAST_TICK as usize);
    }
}
