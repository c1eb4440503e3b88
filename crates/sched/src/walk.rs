//! A seeded random walk over points: before every access and call that counts, any runnable thread.

use crate::pending::Pending;
use crate::{FAIR, Policy, Rng, SwitchPoint, ThreadId};

pub struct Walk {
    rng: Rng,
    pending: Pending,
}

impl Walk {
    pub fn new(seed: u64) -> Walk {
        Walk { rng: Rng::new(seed), pending: Pending::new() }
    }
}

impl Policy for Walk {
    fn pick(&mut self, point: SwitchPoint<'_>) -> ThreadId {
        self.pending.advance(&point);
        let picked = point.runnable[self.rng.below(point.runnable.len() as u64) as usize];
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
    use crate::toy::{Toy, torn};

    #[test]
    fn tears_an_increment_about_every_second_time() {
        let lost = (0..200).filter(|&seed| torn(&mut Walk::new(seed)) == 1).count();
        assert!((60..=140).contains(&lost), "{lost} of 200");
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let order = |seed| Toy::new(&[6, 6, 6]).run(&mut Walk::new(seed));
        assert_eq!(order(5), order(5));
        assert_ne!(order(5), order(6));
    }
}
