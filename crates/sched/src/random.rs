//! A seeded random walk: at every switch point any runnable thread, for a random part of the quantum.

use crate::{Policy, SwitchPoint, ThreadId};

/// SplitMix64: small, seedable, the same everywhere.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of a remainder is below 2^-32 for the small bounds used here.
        self.draw() % bound
    }
}

pub struct Random {
    rng: Rng,
    quantum: u64,
}

impl Random {
    pub fn new(seed: u64, quantum: u64) -> Random {
        Random { rng: Rng::new(seed), quantum: quantum.max(1) }
    }
}

impl Policy for Random {
    fn pick(&mut self, point: SwitchPoint<'_>) -> ThreadId {
        let index = self.rng.below(point.runnable.len() as u64);
        point.runnable[index as usize]
    }

    fn quantum(&mut self) -> u64 {
        1 + self.rng.below(self.quantum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(seed: u64) -> Vec<(ThreadId, u64)> {
        let runnable: Vec<ThreadId> = (1..=4).map(ThreadId).collect();
        let mut policy = Random::new(seed, 100);
        let mut last = ThreadId(1);
        (0..200)
            .map(|_| {
                last = policy.pick(crate::tests::over(last, &runnable));
                (last, policy.quantum())
            })
            .collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_walk() {
        assert_eq!(walk(7), walk(7));
        assert_ne!(walk(7), walk(8));
    }

    #[test]
    fn every_thread_gets_its_turn_and_quanta_stay_in_bounds() {
        let walk = walk(1);
        for id in 1..=4 {
            assert!(walk.iter().any(|&(thread, _)| thread == ThreadId(id)));
        }
        assert!(walk.iter().all(|&(_, quantum)| (1..=100).contains(&quantum)));
    }
}
