//! Partial order sampling: every access that threads are about to make has a random priority, the highest is made, and
//! accesses that conflict with it get new ones.
//!
//! After: Yuan, Yang, Gu, CAV 2018. Accesses that do not conflict may be made in any order, so orders that differ only in
//! those are not tried again and again. Differs: what is about to happen between two points of a thread (system calls,
//! waits) counts as an event that conflicts with nothing. A thread that yields comes last, and if one is picked again and
//! again, all priorities are drawn anew: others would wait for ever behind a thread that spins.

use crate::pending::Pending;
use crate::{FAIR, Policy, Reason, Rng, SwitchPoint, ThreadId};
use std::collections::BTreeMap;

pub struct Pos {
    rng: Rng,
    pending: Pending,
    priorities: BTreeMap<ThreadId, u64>,
    /// Who was picked last, and how often in a row while others could run.
    streak: (ThreadId, u64),
}

/// So often a thread is picked in a row before all priorities are drawn anew.
const LONGEST_STREAK: u64 = 200;
/// Below all others.
const LOWEST: u64 = 0;

impl Pos {
    pub fn new(seed: u64) -> Pos {
        let streak = (ThreadId(0), 0);
        Pos { rng: Rng::new(seed), pending: Pending::new(), priorities: BTreeMap::new(), streak }
    }

    /// What `last` was about to do is done, and it is about to do something else.
    fn advance(&mut self, point: &SwitchPoint<'_>) {
        let done = self.pending.advance(point);
        let priority = if point.reason == Reason::Yielded { LOWEST } else { self.rng.draw() };
        self.priorities.insert(point.last, priority);
        let Some(done) = done else { return };
        for (thread, access) in self.pending.all() {
            if thread != point.last && access.conflicts(done) {
                self.priorities.insert(thread, self.rng.draw());
            }
        }
    }
}

impl Pos {
    /// Counts how often a thread was picked in a row.
    fn count(&mut self, picked: ThreadId, is_alone: bool) {
        self.streak = match self.streak {
            (thread, times) if thread == picked && !is_alone => (picked, times + 1),
            _ => (picked, 0),
        };
        if self.streak.1 >= LONGEST_STREAK {
            self.streak.1 = 0;
            self.priorities.clear();
        }
    }
}

impl Policy for Pos {
    fn pick(&mut self, point: SwitchPoint<'_>) -> ThreadId {
        self.advance(&point);
        for &thread in point.runnable {
            self.priorities.entry(thread).or_insert_with(|| self.rng.draw());
        }
        let highest = point.runnable.iter().copied().max_by_key(|thread| self.priorities.get(thread));
        let picked = highest.unwrap_or(point.last);
        self.count(picked, point.runnable.len() == 1);
        self.pending.pick(picked, point.runnable.len())
    }

    fn quantum(&mut self) -> u64 {
        FAIR
    }

    fn points(&mut self) -> u64 {
        self.pending.points()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;
    use crate::toy::{Toy, torn};

    #[test]
    fn tears_an_increment() {
        let lost = (0..200).filter(|&seed| torn(&mut Pos::new(seed)) == 1).count();
        assert!((40..=160).contains(&lost), "{lost} of 200");
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let order = |seed| Toy::new(&[6, 6, 6]).run(&mut Pos::new(seed));
        assert_eq!(order(5), order(5));
        assert_ne!(order(5), order(6));
    }

    #[test]
    fn a_thread_that_spins_does_not_keep_the_others_waiting() {
        let threads = [ThreadId(1), ThreadId(2)];
        for seed in 0..200 {
            let mut policy = Pos::new(seed);
            let spins = |picks: &usize| *picks < 4 * LONGEST_STREAK as usize;
            let picks = (0..)
                .take_while(spins)
                .position(|_| policy.pick(crate::tests::over(ThreadId(1), &threads)) == ThreadId(2));
            assert!(picks.is_some(), "seed {seed}");
            let point = SwitchPoint { reason: Reason::Yielded, ..crate::tests::over(ThreadId(1), &threads) };
            assert_eq!(policy.pick(point), ThreadId(2), "seed {seed}");
        }
    }

    #[test]
    fn a_conflict_draws_the_priority_of_the_other_access_anew() {
        let threads = [ThreadId(1), ThreadId(2)];
        let write = |site| Some(Access { site, address: 8, writes: true });
        let mut policy = Pos::new(3);
        for thread in threads {
            let point = crate::tests::over(thread, &threads);
            policy.pick(SwitchPoint { access: write(u64::from(thread.0)), ..point });
        }
        let before = policy.priorities[&ThreadId(2)];
        let mut point = crate::tests::over(ThreadId(1), &threads);
        point.passed.points = 1;
        policy.pick(point);
        assert_ne!(policy.priorities[&ThreadId(2)], before);
    }
}
