//! Delays: a thread that is about to make an access at one chosen place is kept from it until another one has made an
//! access that conflicts. If nobody else can run before that, it goes on, and the next thread that comes there is kept.
//! All else is a random walk, or goes by priorities that stay: then threads of low ones come late, and find others far ahead.
//! Without a chosen place, threads are kept now and then wherever they stand: many short delays for orders that take several.
//!
//! In the spirit of active testing of races (Sen, PLDI 2008) and of delay injection (TSVD, SOSP 2019): a delay that lasts
//! until the other side has come needs no luck to be long enough.

use crate::pending::Pending;
use crate::ranks::Ranks;
use crate::{Access, FAIR, Policy, Rng, SwitchPoint, ThreadId};

/// Which threads are kept from the access, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delays {
    /// How many times threads may pass the site first.
    pub skip: u64,
    /// How many times one is to be kept until others have made accesses that conflict.
    pub wanted: u64,
    /// How many stores others are to make meanwhile; with a single one, any access that conflicts will do.
    pub stores: u64,
    /// Whether threads have priorities.
    pub ranked: bool,
}

pub struct Delay {
    rng: Rng,
    place: Place,
    /// How many times threads may pass the site first.
    skip: u64,
    held: Option<Held>,
    /// How many delays are still wanted that end by a conflict.
    wanted: u64,
    /// How many stores it takes to end one; with a single one, any access that conflicts will do.
    stores: u64,
    /// How often others were picked while one was held; anywhere, since the last one was held.
    picks: u64,
    /// Where threads have priorities.
    ranks: Option<Ranks>,
    pending: Pending,
}

/// Where threads are held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Site(u64),
    /// At about every so many-th point.
    Anywhere {
        spacing: u64,
    },
}

struct Held {
    thread: ThreadId,
    access: Access,
    /// Accesses that others have still to make.
    left: u64,
}

/// Threads are held no longer than others have been picked so often meanwhile.
const PATIENCE: u64 = 3_000;
/// The same for one of the delays anywhere, and how many of those a run has at most.
const SHORT_PATIENCE: u64 = 200;
const MOST_ANYWHERE: u64 = 300;

impl Delay {
    pub fn new(seed: u64, site: u64, delays: Delays) -> Delay {
        Delay::at(seed, Place::Site(site), delays)
    }

    /// Holds threads at about every `spacing`-th point, until others have made one access that conflicts, or as the seed
    /// says more.
    pub fn anywhere(seed: u64, spacing: u64, ranked: bool) -> Delay {
        let delays = Delays { skip: 0, wanted: MOST_ANYWHERE, stores: 1, ranked };
        let mut delay = Delay::at(seed, Place::Anywhere { spacing: spacing.max(1) }, delays);
        delay.space();
        delay
    }

    fn at(seed: u64, place: Place, delays: Delays) -> Delay {
        let Delays { skip, wanted, stores, ranked } = delays;
        let ranks = ranked.then(Ranks::default);
        Delay { rng: Rng::new(seed), place, skip, held: None, wanted, stores, picks: 0, ranks, pending: Pending::new() }
    }

    /// Where threads are held anywhere, draws how many stores end this delay, and how many points they pass before the next.
    fn space(&mut self) {
        if let Place::Anywhere { spacing } = self.place {
            self.skip = self.rng.below(2 * spacing);
            self.stores = 1 + u64::from(self.rng.draw().trailing_zeros().min(4));
            self.picks = 0;
        }
    }

    /// Nobody is held any longer than this.
    fn give_up(&mut self) {
        match self.place {
            Place::Site(_) if self.picks > PATIENCE => self.wanted = 0,
            Place::Anywhere { .. } if self.picks > SHORT_PATIENCE => {
                self.held = None;
                self.picks = 0;
            }
            _ => {}
        }
    }

    /// What `last` was about to do is done, and it is about to do something else.
    fn advance(&mut self, point: &SwitchPoint<'_>) -> Option<ThreadId> {
        let done = self.pending.advance(point);
        self.picks += u64::from(self.held.is_some());
        self.give_up();
        let is_over = self.wanted == 0;
        let any = self.stores == 1;
        let ends = |held: &mut Held| {
            let counts = |done: Access| done.conflicts(held.access) && (any || done.writes);
            held.left -= u64::from(held.thread != point.last && done.is_some_and(counts));
            is_over || held.left == 0
        };
        let released = self.held.take_if(ends).map(|held| held.thread);
        if released.is_some() {
            self.wanted = self.wanted.saturating_sub(1);
        } else if let Some(access) = point.access.filter(|access| self.counts(access.site)) {
            match self.skip.checked_sub(1) {
                Some(less) => self.skip = less,
                None => {
                    self.space();
                    self.held = Some(Held { thread: point.last, access, left: self.stores.max(1) });
                }
            }
        }
        released
    }

    /// Whether the next thread that comes there is to be held.
    fn counts(&self, site: u64) -> bool {
        let is_there = match self.place {
            Place::Site(chosen) => chosen == site,
            Place::Anywhere { .. } => true,
        };
        is_there && self.held.is_none() && self.wanted > 0
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
            return point.runnable[0];
        }
        match &mut self.ranks {
            Some(ranks) => ranks.highest(point, &free, &mut self.rng),
            None => free[self.rng.below(free.len() as u64) as usize],
        }
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

    const FIRST: Delays = Delays { skip: 0, wanted: 1, stores: 1, ranked: false };
    const ONCE: Delays = Delays { skip: 1, ..FIRST };

    /// In the toy the accesses of a thread are all at the site of its number.
    #[test]
    fn a_thread_held_at_its_store_mostly_undoes_the_other() {
        let lost = |policy: fn(u64) -> Box<dyn Policy>| (0..200).filter(|&seed| torn(&mut *policy(seed)) == 1).count();
        let (delayed, walked) =
            (lost(|seed| Box::new(Delay::new(seed, 1, ONCE))), lost(|seed| Box::new(Walk::new(seed))));
        assert!(delayed > walked + 20, "{delayed} against {walked} of 200");
    }

    #[test]
    fn a_thread_that_nobody_relieves_goes_on() {
        let order = Toy::new(&[3]).run(&mut Delay::new(0, 1, FIRST));
        assert_eq!(order, [ThreadId(1); 3]);
    }

    /// The first thread comes to its store while the other one cannot run yet, and again when it can.
    #[test]
    fn the_next_one_is_held_if_nobody_could_relieve_the_first() {
        let access = |site| Some(Access { site, address: 8, writes: true });
        let mut policy = Delay::new(0, 1, FIRST);
        let alone = [ThreadId(1)];
        let at_store = SwitchPoint { access: access(1), ..crate::tests::over(ThreadId(1), &alone) };
        assert_eq!(policy.pick(at_store), ThreadId(1));
        let both = [ThreadId(1), ThreadId(2)];
        let again = SwitchPoint { access: access(1), runnable: &both, ..at_store };
        assert_eq!(policy.pick(again), ThreadId(2));
        let mut done = SwitchPoint { access: access(2), ..crate::tests::over(ThreadId(2), &both) };
        assert_eq!(policy.pick(done), ThreadId(2));
        done.passed.points = 1;
        assert_eq!(policy.pick(done), ThreadId(1));
    }

    #[test]
    fn several_stores_can_be_waited_for() {
        for seed in 0..50 {
            let delays = Delays { stores: 3, ..FIRST };
            let order = Toy::new(&[1, 5]).run(&mut Delay::new(seed, 1, delays));
            let at = order.iter().position(|&thread| thread == ThreadId(1));
            assert!(at.is_some_and(|at| at >= 3), "{order:?}");
        }
    }

    /// Otherwise nobody comes between the accesses of a thread.
    #[test]
    fn with_priorities_only_the_held_thread_is_interrupted() {
        for seed in 0..50 {
            let delays = Delays { ranked: true, ..FIRST };
            let order = Toy::new(&[3, 3, 3]).run(&mut Delay::new(seed, 1, delays));
            let switches = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert!(switches <= 4, "{order:?}");
        }
    }

    #[test]
    fn anywhere_threads_are_held_again_and_again() {
        let switches = |spacing: u64| -> usize {
            let switches = |seed| {
                let order = Toy::new(&[40, 40]).run(&mut Delay::anywhere(seed, spacing, true));
                assert_eq!(order.len(), 80);
                order.windows(2).filter(|pair| pair[0] != pair[1]).count()
            };
            (0..50).map(switches).sum()
        };
        let (often, seldom) = (switches(2), switches(1000));
        assert!(often > 5 * seldom && seldom >= 50, "{often} against {seldom}");
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let order = |seed| Toy::new(&[6, 6, 6]).run(&mut Delay::new(seed, 2, ONCE));
        assert_eq!(order(5), order(5));
        assert_ne!(order(5), order(6));
        let order = |seed| Toy::new(&[6, 6, 6]).run(&mut Delay::anywhere(seed, 2, false));
        assert_eq!(order(5), order(5));
        assert_ne!(order(5), order(6));
    }
}
