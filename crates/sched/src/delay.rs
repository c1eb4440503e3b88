//! Delays: the first thread that is about to make an access at one chosen place is kept from it until another one has made
//! an access that conflicts, or nobody else can run. All else is a random walk.
//!
//! In the spirit of active testing of races (Sen, PLDI 2008) and of delay injection (TSVD, SOSP 2019): a delay that lasts
//! until the other side has come needs no luck to be long enough.

use crate::pending::Pending;
use crate::{Access, FAIR, Policy, Rng, SwitchPoint, ThreadId};

pub struct Delay {
    rng: Rng,
    site: u64,
    /// How many times threads may pass the site first.
    skip: u64,
    held: Option<Held>,
    /// The delay is over, however it ended.
    is_over: bool,
    pending: Pending,
}

struct Held {
    thread: ThreadId,
    access: Access,
    /// How often others were picked meanwhile.
    picks: u64,
}

/// A thread is held no longer than others have been picked so often.
const PATIENCE: u64 = 50_000;

impl Delay {
    pub fn new(seed: u64, site: u64, skip: u64) -> Delay {
        Delay { rng: Rng::new(seed), site, skip, held: None, is_over: false, pending: Pending::new() }
    }

    /// What `last` was about to do is done, and it is about to do something else.
    fn advance(&mut self, point: &SwitchPoint<'_>) -> Option<ThreadId> {
        let done = self.pending.advance(point);
        let ends = |held: &mut Held| {
            held.picks += 1;
            held.picks > PATIENCE || held.thread != point.last && done.is_some_and(|done| done.conflicts(held.access))
        };
        let released = self.held.take_if(ends).map(|held| held.thread);
        self.is_over |= released.is_some();
        if let Some(access) =
            point.access.filter(|access| access.site == self.site && self.held.is_none() && !self.is_over)
        {
            match self.skip.checked_sub(1) {
                Some(less) => self.skip = less,
                None => self.held = Some(Held { thread: point.last, access, picks: 0 }),
            }
        }
        released
    }

    fn choose(&mut self, point: &SwitchPoint<'_>) -> ThreadId {
        let released = self.advance(point);
        // It goes on right behind what it waited for.
        if let Some(thread) = released.filter(|thread| point.runnable.contains(thread)) {
            return thread;
        }
        let held = self.held.as_ref().map(|held| held.thread);
        let free: Vec<ThreadId> = point.runnable.iter().copied().filter(|&thread| Some(thread) != held).collect();
        if free.is_empty() {
            self.held = None;
            self.is_over = true;
            return point.runnable[0];
        }
        free[self.rng.below(free.len() as u64) as usize]
    }
}

impl Policy for Delay {
    fn pick(&mut self, point: SwitchPoint<'_>) -> ThreadId {
        let picked = self.choose(&point);
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
    use crate::Walk;
    use crate::toy::{Toy, torn};

    /// In the toy the accesses of a thread are all at the site of its number.
    #[test]
    fn a_thread_held_at_its_store_mostly_undoes_the_other() {
        let lost = |policy: fn(u64) -> Box<dyn Policy>| (0..200).filter(|&seed| torn(&mut *policy(seed)) == 1).count();
        let (delayed, walked) = (lost(|seed| Box::new(Delay::new(seed, 1, 1))), lost(|seed| Box::new(Walk::new(seed))));
        assert!(delayed > walked + 20, "{delayed} against {walked} of 200");
    }

    #[test]
    fn a_thread_that_nobody_relieves_goes_on() {
        let order = Toy::new(&[3]).run(&mut Delay::new(0, 1, 0));
        assert_eq!(order, [ThreadId(1); 3]);
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let order = |seed| Toy::new(&[6, 6, 6]).run(&mut Delay::new(seed, 2, 1));
        assert_eq!(order(5), order(5));
        assert_ne!(order(5), order(6));
    }
}
