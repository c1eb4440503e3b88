//! Random priorities of threads that stay, for policies that let the highest run.

use crate::{Reason, Rng, SwitchPoint, ThreadId};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Ranks {
    ranks: BTreeMap<ThreadId, u64>,
    /// Who was picked last, and how often in a row while others could run.
    streak: Option<(ThreadId, u64)>,
}

/// A thread that is picked so often in a row is taken to wait for another one.
const LONGEST_STREAK: u64 = 200;
/// Below all others.
const LOWEST: u64 = 0;

impl Ranks {
    /// The highest of `free`. Who yields, or goes on for too long, falls below all others; if that has happened to all of
    /// them, they get new priorities.
    pub fn highest(&mut self, point: &SwitchPoint<'_>, free: &[ThreadId], rng: &mut Rng) -> ThreadId {
        let is_long = self.streak == Some((point.last, LONGEST_STREAK));
        if point.reason == Reason::Yielded || is_long {
            self.ranks.insert(point.last, LOWEST);
        }
        if free.iter().all(|thread| self.ranks.get(thread) == Some(&LOWEST)) {
            self.ranks.clear();
        }
        for &thread in free {
            self.ranks.entry(thread).or_insert_with(|| 1 + rng.draw() / 2);
        }
        let highest = free.iter().copied().max_by_key(|thread| self.ranks.get(thread));
        let picked = highest.unwrap_or(point.last);
        let times = self.streak.filter(|(thread, _)| *thread == picked && free.len() > 1 && !is_long);
        self.streak = Some((picked, times.map_or(0, |(_, times)| times + 1)));
        picked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_yields_or_goes_on_for_too_long_comes_last() {
        let threads = [ThreadId(1), ThreadId(2), ThreadId(3)];
        for seed in 0..50 {
            let (mut ranks, mut rng) = (Ranks::default(), Rng::new(seed));
            let first = ranks.highest(&crate::tests::over(ThreadId(1), &threads), &threads, &mut rng);
            let again = |ranks: &mut Ranks, rng: &mut Rng, reason| {
                let point = SwitchPoint { reason, ..crate::tests::over(first, &threads) };
                ranks.highest(&point, &threads, rng)
            };
            assert_eq!(again(&mut ranks, &mut rng, Reason::QuantumOver), first);
            let turns = (0..1000).position(|_| again(&mut ranks, &mut rng, Reason::QuantumOver) != first);
            assert!(turns.is_some_and(|turns| turns >= 100), "seed {seed}: {turns:?}");
            assert_ne!(again(&mut ranks, &mut rng, Reason::Yielded), first);
        }
    }
}
