//! What is made to go wrong in a run, and when: a few times, at places that the seed chooses.
//!
//! How often differs from seed to seed, by powers of four: a fault that is likely at every call never comes late in a long
//! run, and one that is rare hardly ever comes in a short one.

use crate::Rng;

/// What can be made to go wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultKind {
    /// A call moves fewer bytes than it was asked to.
    Short,
    /// A call that may wait is interrupted.
    Interruption,
    /// A wait ends though nobody has ended it.
    Wakeup,
    /// There is no memory left.
    Memory,
    /// Of several who wait, another one is woken than who came first.
    Order,
}

impl FaultKind {
    pub const ALL: [FaultKind; 5] =
        [FaultKind::Short, FaultKind::Interruption, FaultKind::Wakeup, FaultKind::Memory, FaultKind::Order];
}

/// A set of kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultKinds(u8);

impl FaultKinds {
    pub fn contains(self, kind: FaultKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = FaultKind> {
        FaultKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl FromIterator<FaultKind> for FaultKinds {
    fn from_iter<I: IntoIterator<Item = FaultKind>>(kinds: I) -> FaultKinds {
        FaultKinds(kinds.into_iter().fold(0, |bits, kind| bits | (1 << kind as u8)))
    }
}

/// A run has at most so many faults.
const MOST: u64 = 8;
/// Of so many candidates one is struck, on average: one of these for a whole run.
const ODDS: [u64; 6] = [4, 16, 64, 256, 1024, 4096];
/// Makes the numbers others than those that a policy draws from the same seed.
const APART: u64 = 0x6661_756c_7473_2121;

/// The faults of a run.
#[derive(Clone, Debug)]
pub struct Faults {
    kinds: FaultKinds,
    rng: Rng,
    odds: u64,
    left: u64,
}

impl Faults {
    pub fn new(kinds: FaultKinds, seed: u64) -> Faults {
        let mut rng = Rng::new(seed ^ APART);
        let odds = ODDS[rng.below(ODDS.len() as u64) as usize];
        let left = 1 + rng.below(MOST);
        Faults { kinds, rng, odds, left }
    }

    /// Whether faults of this kind may still come.
    pub fn may_strike(&self, kind: FaultKind) -> bool {
        self.left > 0 && self.kinds.contains(kind)
    }

    /// Whether something goes wrong here, where it could.
    pub fn strikes(&mut self, kind: FaultKind) -> bool {
        let strikes = self.may_strike(kind) && self.rng.below(self.odds) == 0;
        self.left -= u64::from(strikes);
        strikes
    }

    /// How much gets through of an amount of two or more: something, and not all.
    pub fn part_of(&mut self, amount: u64) -> u64 {
        1 + self.rng.below(amount - 1)
    }

    /// Which of so many who wait is woken first, if that is the seed's choice. No order is promised to anybody, so this is
    /// none of the few faults.
    pub fn first_of(&mut self, waiters: usize) -> usize {
        if waiters < 2 || !self.kinds.contains(FaultKind::Order) {
            return 0;
        }
        self.rng.below(waiters as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> FaultKinds {
        FaultKind::ALL.into_iter().collect()
    }

    /// The candidates that are struck among so many.
    fn struck(seed: u64, candidates: usize) -> Vec<usize> {
        let mut faults = Faults::new(all(), seed);
        (0..candidates).filter(|_| faults.strikes(FaultKind::Short)).collect()
    }

    #[test]
    fn the_same_seed_strikes_at_the_same_places() {
        let different: std::collections::BTreeSet<Vec<usize>> = (0..50).map(|seed| struck(seed, 1000)).collect();
        assert!(different.len() > 25, "{} of 50 differ", different.len());
        assert_eq!(struck(7, 1000), struck(7, 1000));
    }

    #[test]
    fn faults_are_few_and_come_early_and_late() {
        let runs: Vec<Vec<usize>> = (0..200).map(|seed| struck(seed, 5000)).collect();
        assert!(runs.iter().all(|run| run.len() as u64 <= MOST));
        assert!(runs.iter().any(|run| run.first().is_some_and(|&first| first < 4)));
        assert!(runs.iter().any(|run| run.first().is_some_and(|&first| first > 1000)));
    }

    #[test]
    fn only_what_is_wanted_goes_wrong() {
        let wanted: FaultKinds = [FaultKind::Memory].into_iter().collect();
        assert_eq!(wanted.iter().collect::<Vec<_>>(), [FaultKind::Memory]);
        for seed in 0..50 {
            let mut faults = Faults::new(wanted, seed);
            assert!((0..100).all(|_| !faults.strikes(FaultKind::Short)));
            assert!((0..100).all(|_| faults.first_of(5) == 0));
        }
    }

    #[test]
    fn parts_are_neither_nothing_nor_all() {
        let mut faults = Faults::new(all(), 1);
        assert!((2..200).all(|amount| (1..amount).contains(&faults.part_of(amount))));
        assert!((0..50).any(|_| faults.first_of(3) == 2));
        assert_eq!(faults.first_of(0), 0);
    }
}
