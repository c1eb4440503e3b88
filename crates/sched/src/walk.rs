//! A seeded random walk over points: before every access and call that counts, any runnable thread.

use crate::{FAIR, Policy, Rng, SwitchPoint, ThreadId};

pub struct Walk {
    rng: Rng,
    /// Nobody else could run when the policy was last asked.
    is_alone: bool,
}

impl Walk {
    pub fn new(seed: u64) -> Walk {
        Walk { rng: Rng::new(seed), is_alone: true }
    }
}

impl Policy for Walk {
    fn pick(&mut self, point: SwitchPoint<'_>) -> ThreadId {
        self.is_alone = point.runnable.len() == 1;
        point.runnable[self.rng.below(point.runnable.len() as u64) as usize]
    }

    fn quantum(&mut self) -> u64 {
        FAIR
    }

    fn points(&mut self) -> u64 {
        if self.is_alone { u64::MAX } else { 1 }
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
