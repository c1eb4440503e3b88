//! Schedules that are to contain given pairs of accesses: a store at one place, and right behind it an access to the same
//! memory at another place, by another thread. All else is partial order sampling.
//!
//! In the spirit of RFF (Wolff, Shi, Duck, Mathur, Roychoudhury, ASPLOS 2024), whose abstract schedules are such pairs.
//! Whoever comes to one side of a pair first waits for the other. Differs: pairs are only asked for, never forbidden, and come from what an observed run showed to be possible; no corpus
//! is kept, since feedback added nothing in that study.

use crate::pending::Pending;
use crate::{Access, Policy, Pos, SwitchPoint, ThreadId};

/// A store, and an access that is to come right behind it, by their instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pair {
    pub store: u64,
    pub access: u64,
}

pub struct ReadsFrom {
    pos: Pos,
    /// What is still wanted.
    pairs: Vec<Pair>,
    pending: Pending,
    /// How often a thread was picked while others were held.
    picks: u64,
}

/// Threads are held no longer than others have been picked so often.
const PATIENCE: u64 = 3_000;

impl ReadsFrom {
    pub fn new(seed: u64, pairs: &[Pair]) -> ReadsFrom {
        ReadsFrom { pos: Pos::new(seed), pairs: pairs.to_vec(), pending: Pending::new(), picks: 0 }
    }

    /// Whether the thread stands at one side of a pair, and nobody at the other.
    fn is_held(&self, thread: ThreadId) -> bool {
        let Some(own) = self.pending.of(thread) else { return false };
        let is_met = |site: u64| {
            let mut others = self.pending.all();
            others.any(|(other, access)| other != thread && access.site == site && access.address == own.address)
        };
        self.pairs.iter().any(|pair| pair.access == own.site || pair.store == own.site && !is_met(pair.access))
    }

    /// A store was made: tells who is to go on right behind it.
    fn meet(&mut self, done: Access, by: ThreadId) -> Option<ThreadId> {
        let waits = |pair: &Pair, thread: ThreadId, access: Access| {
            pair.store == done.site && pair.access == access.site && access.address == done.address && thread != by
        };
        let (at, thread) = self.pairs.iter().enumerate().find_map(|(at, pair)| {
            self.pending.all().find(|&(thread, access)| waits(pair, thread, access)).map(|(thread, _)| (at, thread))
        })?;
        self.pairs.remove(at);
        Some(thread)
    }
}

impl Policy for ReadsFrom {
    fn pick(&mut self, point: SwitchPoint<'_>) -> ThreadId {
        let done = self.pending.advance(&point);
        let met = done.and_then(|done| self.meet(done, point.last));
        let free: Vec<ThreadId> = point.runnable.iter().copied().filter(|&thread| !self.is_held(thread)).collect();
        self.picks += u64::from(free.len() < point.runnable.len());
        if free.is_empty() || self.picks > PATIENCE {
            // What is wanted cannot be had any more.
            self.pairs.clear();
            self.picks = 0;
        }
        let runnable = if free.is_empty() { point.runnable } else { &free };
        let picked = self.pos.pick(SwitchPoint { runnable, ..point });
        let picked = met.filter(|thread| point.runnable.contains(thread)).unwrap_or(picked);
        self.pending.pick(picked, point.runnable.len())
    }

    fn quantum(&mut self) -> u64 {
        self.pos.quantum()
    }

    fn points(&mut self) -> u64 {
        self.pending.points()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{Toy, torn};

    /// In the toy the accesses of a thread are all at the site of its number.
    #[test]
    fn the_pair_comes_about() {
        for seed in 0..50 {
            let order = Toy::new(&[2, 2]).run(&mut ReadsFrom::new(seed, &[Pair { store: 2, access: 1 }]));
            assert!(order.starts_with(&[ThreadId(2), ThreadId(1)]), "{order:?}");
        }
    }

    #[test]
    fn without_pairs_it_is_partial_order_sampling() {
        let lost = |policy: &mut dyn Policy| torn(policy);
        assert!((0..20).all(|seed| lost(&mut ReadsFrom::new(seed, &[])) == lost(&mut Pos::new(seed))));
    }

    #[test]
    fn a_pair_that_cannot_be_had_holds_nobody_for_good() {
        let order = Toy::new(&[2, 2]).run(&mut ReadsFrom::new(0, &[Pair { store: 9, access: 1 }]));
        assert_eq!(order.len(), 4);
        assert!(order.starts_with(&[ThreadId(2), ThreadId(2)]));
    }
}
