//! Probabilistic concurrency testing: threads have random priorities, the highest runs, and at a few random steps the
//! running thread becomes the lowest.
//!
//! After: Burckhardt, Kothari, Musuvathi, Nagarakatte, ASPLOS 2010. A bug that needs `depth` ordered steps is found with a
//! chance of at least 1 / (threads * steps^(depth - 1)). Differs: a step is an access to shared memory or a system call, and
//! a thread that yields or goes on for too long while others could run becomes the lowest, or spinning threads would hang.

use crate::{FAIR, Passed, Policy, Reason, Rng, SwitchPoint, ThreadId};
use std::collections::BTreeMap;

pub struct Pct {
    rng: Rng,
    priorities: BTreeMap<ThreadId, u64>,
    /// Steps at which the running thread falls, the next one last.
    changes: Vec<u64>,
    step: u64,
    /// Below all priorities that were given so far.
    lowest: u64,
    /// Who ran last, and what it has passed since others had to wait for it.
    running: Option<(ThreadId, Passed)>,
    /// How many points a thread may pass that has come to wait at this place, where that is fewer than elsewhere.
    spins: BTreeMap<u64, u64>,
    /// Where threads stood when they were last asked for.
    places: BTreeMap<ThreadId, u64>,
}

/// A thread that passes so many points while others could run is taken to wait for one of them; where that happens, half as many
/// will do the next time.
const FAIR_POINTS: u64 = 1000;
const LEAST_FAIR_POINTS: u64 = 16;
/// Threads begin above this, and fall below.
const HIGH: u64 = 1 << 62;

impl Pct {
    /// `steps` is about how many a run has.
    pub fn new(seed: u64, depth: u32, steps: u64) -> Pct {
        let mut rng = Rng::new(seed);
        let mut changes: Vec<u64> = (1..depth).map(|_| 1 + rng.below(steps.max(1))).collect();
        changes.sort_unstable_by(|first, second| second.cmp(first));
        Pct {
            rng,
            priorities: BTreeMap::new(),
            changes,
            step: 0,
            lowest: HIGH,
            running: None,
            spins: BTreeMap::new(),
            places: BTreeMap::new(),
        }
    }

    /// How many points a thread may pass from where it stands.
    fn fair_points(&self, thread: ThreadId) -> u64 {
        let spin = self.places.get(&thread).and_then(|place| self.spins.get(place));
        spin.copied().unwrap_or(FAIR_POINTS)
    }

    /// A thread stands where it has passed too many points.
    fn note_spin(&mut self, place: Option<u64>) {
        if let Some(place) = place {
            let points = self.spins.entry(place).or_insert(FAIR_POINTS);
            *points = (*points / 2).max(LEAST_FAIR_POINTS);
        }
    }

    fn lower(&mut self, thread: ThreadId) {
        self.lowest -= 1;
        self.priorities.insert(thread, self.lowest);
    }

    /// Counts what the last thread has done, and lets it fall where that is due.
    fn count(&mut self, point: &SwitchPoint<'_>) {
        self.step += point.passed.points + u64::from(point.reason == Reason::Called);
        while self.changes.last().is_some_and(|change| *change <= self.step) {
            self.changes.pop();
            self.lower(point.last);
        }
        let mut passed = Passed::default();
        if let Some((_, before)) = self.running.filter(|(thread, _)| *thread == point.last && point.runnable.len() > 1)
        {
            passed.events = before.events + point.passed.events;
            passed.points = before.points + point.passed.points;
        }
        let spins = passed.points >= self.fair_points(point.last);
        let place = point.access.map(|access| access.site);
        if spins {
            self.note_spin(place);
        }
        match place {
            Some(place) => self.places.insert(point.last, place),
            None => self.places.remove(&point.last),
        };
        if point.reason == Reason::Yielded || passed.events >= FAIR || spins {
            self.lower(point.last);
            passed = Passed::default();
        }
        self.running = Some((point.last, passed));
    }
}

impl Policy for Pct {
    fn pick(&mut self, point: SwitchPoint<'_>) -> ThreadId {
        for &thread in point.runnable {
            self.priorities.entry(thread).or_insert_with(|| HIGH + self.rng.below(HIGH));
        }
        self.count(&point);
        let highest = point.runnable.iter().copied().max_by_key(|thread| self.priorities.get(thread));
        let picked = highest.unwrap_or(point.last);
        if picked != point.last {
            self.running = Some((picked, Passed::default()));
        }
        picked
    }

    fn quantum(&mut self) -> u64 {
        FAIR
    }

    fn points(&mut self) -> u64 {
        let fair = self.running.map_or(FAIR_POINTS, |(thread, _)| self.fair_points(thread));
        self.changes.last().map_or(fair, |change| change.saturating_sub(self.step).clamp(1, fair))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{Toy, torn};

    #[test]
    fn depth_one_never_tears_and_depth_two_does() {
        assert!((0..200).all(|seed| torn(&mut Pct::new(seed, 1, 4)) == 2));
        let lost = (0..200).filter(|&seed| torn(&mut Pct::new(seed, 2, 4)) == 1).count();
        assert!(lost >= 50, "{lost} of 200");
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let order = |seed| Toy::new(&[6, 6, 6]).run(&mut Pct::new(seed, 3, 18));
        assert_eq!(order(5), order(5));
        assert!((0..20).any(|seed| order(seed) != order(5)));
    }

    #[test]
    fn a_thread_that_spins_gets_less_and_less_time() {
        let mut policy = Pct::new(1, 1, 10);
        let threads: Vec<ThreadId> = (1..=2).map(ThreadId).collect();
        let access = Some(crate::Access { site: 7, address: 8, writes: false });
        let first = policy.pick(crate::tests::over(ThreadId(1), &threads));
        let mut granted = Vec::new();
        for _ in 0..8 {
            let points = policy.points();
            granted.push(points);
            let point = SwitchPoint {
                access,
                passed: Passed { events: points, points },
                ..crate::tests::over(first, &threads)
            };
            assert_ne!(policy.pick(point), first);
            let back = SwitchPoint { reason: Reason::Yielded, ..crate::tests::over(point.runnable[0], &threads) };
            let other = threads.iter().copied().find(|&thread| thread != first).unwrap_or(first);
            assert_eq!(policy.pick(SwitchPoint { last: other, ..back }), first);
        }
        assert_eq!(granted, [1000, 500, 250, 125, 62, 31, 16, 16]);
    }

    #[test]
    fn a_thread_that_yields_lets_all_others_run_first() {
        let mut policy = Pct::new(1, 1, 10);
        let threads: Vec<ThreadId> = (1..=3).map(ThreadId).collect();
        let first = policy.pick(crate::tests::over(ThreadId(1), &threads));
        let mut next = first;
        for _ in 0..2 {
            let point = crate::tests::over(next, &threads);
            next = policy.pick(SwitchPoint { reason: Reason::Yielded, ..point });
            assert_ne!(next, first);
        }
    }
}
