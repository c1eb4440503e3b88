//! Random streams, on which the detector must agree with an oracle.

use super::oracle::{ATOMICS, Oracle};
use super::streams::{Done, Stream};
use analysis::races::{Found, Instance, Side, Surveyed};
use fastrand::Rng;
use std::collections::BTreeSet;
use trace::stream::{Access, AccessKind, Event, LockMode, Site, Thread};

const STREAMS: u64 = 3000;
/// How many of them a sieve is tried on.
const SIEVED: u64 = 500;
const LOCKS: u64 = 3;
const SEMAPHORES: u64 = 2;
/// Neighbours in one granule, and one beyond it.
const N_ATOMICS: u64 = 3;

/// A stream of a few threads that come and go, use few bytes, and keep to the rules of locks.
struct Generator {
    random: Rng,
    /// Nothing if every access has a site of its own.
    n_sites: Option<u32>,
    stream: Stream,
    running: Vec<Thread>,
    ended: Vec<Thread>,
    threads: Thread,
    /// Who holds each lock, and how.
    holders: Vec<Vec<(Thread, LockMode)>>,
}

impl Generator {
    fn stream(seed: u64, n_sites: Option<u32>) -> Stream {
        let mut generator = Generator {
            random: Rng::with_seed(seed),
            n_sites,
            stream: Stream::default(),
            running: vec![1],
            ended: Vec::new(),
            threads: 1,
            holders: vec![Vec::new(); LOCKS as usize],
        };
        let steps = generator.random.usize(10..200);
        while generator.stream.steps.len() < steps {
            let thread = generator.running[generator.random.usize(..generator.running.len())];
            generator.step(thread);
        }
        // By this the survey knows them. Nobody runs after it.
        for number in 0..N_ATOMICS {
            let access = Access {
                address: ATOMICS + 4 * number,
                size: 4,
                site: generator.next_site(),
                kind: AccessKind::Atomic,
            };
            generator.push_access(1, access);
        }
        generator.stream
    }

    fn step(&mut self, thread: Thread) {
        match self.random.u32(..20) {
            0 if self.running.len() < 4 => self.create(thread),
            1 if thread != 1 => self.end(thread),
            2 if !self.ended.is_empty() => {
                let other = self.ended[self.random.usize(..self.ended.len())];
                self.tell(thread, Event::Joined { other });
            }
            3..=5 => self.lock(thread),
            6..=8 => self.unlock(thread),
            9 => {
                let object = 100 + self.random.u64(..SEMAPHORES);
                self.tell(thread, Event::Released { object, site: 0 });
            }
            10 => {
                let object = 100 + self.random.u64(..SEMAPHORES);
                self.tell(thread, Event::Acquired { object, site: 0 });
            }
            11 if self.n_sites.is_none() => self.atomic(thread),
            _ => self.access(thread),
        }
    }

    fn tell(&mut self, thread: Thread, event: Event) {
        self.stream.steps.push((thread, Done::Event(event)));
    }

    fn access(&mut self, thread: Thread) {
        let kinds = [AccessKind::Read, AccessKind::Read, AccessKind::Write, AccessKind::Update];
        let site = self.next_site();
        let size = *self.random.choice([1, 2, 3, 4, 8, 8, 16].iter()).expect("there are sizes");
        let address = 0x1000 - 8 + self.random.u64(..20);
        let access = Access { address, size, site, kind: kinds[self.random.usize(..kinds.len())] };
        self.push_access(thread, access);
    }

    /// Accesses an atomic variable, in one of the ways that there are.
    fn atomic(&mut self, thread: Thread) {
        let kinds = [AccessKind::Read, AccessKind::Write, AccessKind::Atomic];
        let kind = kinds[self.random.usize(..kinds.len())];
        let address = ATOMICS + 4 * self.random.u64(..N_ATOMICS);
        self.push_access(thread, Access { address, size: 4, site: self.next_site(), kind });
    }

    fn next_site(&self) -> Site {
        let step = self.stream.steps.len() as u32;
        Site(self.n_sites.map_or(step, |n_sites| step % n_sites))
    }

    fn push_access(&mut self, thread: Thread, access: Access) {
        self.stream.steps.push((thread, Done::Access(access)));
    }

    fn create(&mut self, thread: Thread) {
        self.threads += 1;
        self.running.push(self.threads);
        self.tell(thread, Event::Created { child: self.threads });
    }

    fn end(&mut self, thread: Thread) {
        self.tell(thread, Event::Ended);
        self.running.retain(|other| *other != thread);
        self.ended.push(thread);
    }

    fn lock(&mut self, thread: Thread) {
        let lock = self.random.usize(..self.holders.len());
        let mode = if self.random.bool() { LockMode::Exclusive } else { LockMode::Shared };
        let holders = &mut self.holders[lock];
        let mine = holders.iter().find(|(holder, _)| *holder == thread).copied();
        let allowed = match mine {
            Some((_, held)) => held == mode,
            None => holders.iter().all(|(_, held)| *held == LockMode::Shared && mode == LockMode::Shared),
        };
        if allowed {
            holders.push((thread, mode));
            self.tell(thread, Event::Locked { object: lock as u64, mode, site: 0 });
        }
    }

    fn unlock(&mut self, thread: Thread) {
        let lock = self.random.usize(..self.holders.len());
        let holders = &mut self.holders[lock];
        if let Some(index) = holders.iter().position(|(holder, _)| *holder == thread) {
            holders.remove(index);
            self.tell(thread, Event::Unlocked { object: lock as u64, site: 0 });
        }
    }
}

#[test]
fn random_streams_race_as_the_oracle_says() {
    let mut racy = 0;
    for seed in 0..STREAMS {
        let stream = Generator::stream(seed, None);
        let oracle = Oracle::of(&stream);
        let found = stream.found_with(stream.survey());
        assert_nothing_is_made_up(seed, &oracle, &found);
        assert_nothing_is_missed(seed, &oracle, &found);
        racy += usize::from(!found.races.is_empty());
    }
    let calm = STREAMS as usize - racy;
    assert!(racy > 100 && calm > 100, "{racy} streams race and {calm} do not: both must be tried");
}

/// The sieve meets some atomic variables by plain accesses first, and learns late what they are.
#[test]
fn what_a_sieve_leaves_of_random_streams_races_as_all_of_it_does() {
    let (mut without_suspects, mut racy) = (0, 0);
    for seed in 0..SIEVED {
        let mut stream = Generator::stream(seed, None);
        if seed % 4 == 0 {
            stream.steps.rotate_right(N_ATOMICS as usize);
        }
        racy += usize::from(!stream.found().races.is_empty());
        without_suspects += usize::from(stream.sieve().suspects.is_some_and(|suspects| suspects.is_empty()));
    }
    assert!(racy > 20 && without_suspects > 20, "{racy} streams race, {without_suspects} have no suspects");
}

fn pairs_of(found: &Found) -> BTreeSet<(usize, usize)> {
    let instances = found.races.iter().flat_map(|race| &race.instances);
    instances.map(|instance| (instance.first.pc as usize, instance.second.pc as usize)).collect()
}

/// Sites are numbers of steps, so a race names its steps.
fn assert_nothing_is_made_up(seed: u64, oracle: &Oracle, found: &Found) {
    let wrong: Vec<_> = pairs_of(found).difference(&oracle.pairs).copied().collect();
    assert_eq!(wrong, [], "seed {seed}: accesses that are ordered");
}

/// After a byte's first race its history may be shorter than the oracle's; until then they must agree.
fn assert_nothing_is_missed(seed: u64, oracle: &Oracle, found: &Found) {
    let seconds: BTreeSet<usize> = pairs_of(found).into_iter().map(|(_, second)| second).collect();
    for (byte, step) in &oracle.first_by_byte {
        assert!(seconds.contains(step), "seed {seed}: step {step} races at {byte:#x}");
    }
}

/// Few sites: accesses share entries, and granules share histories.
#[test]
fn random_streams_of_few_sites_race_where_the_oracle_says() {
    for seed in 0..STREAMS {
        let stream = Generator::stream(seed, Some(2));
        let oracle = Oracle::of(&stream);
        let found = stream.found_with(Surveyed::default());
        let instances: Vec<&Instance> = found.races.iter().flat_map(|race| &race.instances).collect();
        for instance in &instances {
            let steps = steps_of(&stream, instance);
            assert!(oracle.pairs.contains(&steps), "seed {seed}: {steps:?} are ordered");
        }
        let first_racy = instances.iter().map(|instance| steps_of(&stream, instance).1).min();
        let expected = oracle.first_by_byte.values().min().copied();
        assert_eq!(first_racy, expected, "seed {seed}: the first step that races");
    }
}

/// Finds both sides' accesses as a replay would.
fn steps_of(stream: &Stream, instance: &Instance) -> (usize, usize) {
    let step_of = |side: &Side| {
        let steps = stream.steps.iter().enumerate().filter(|(_, (thread, _))| *thread == side.thread);
        let accesses = steps.filter_map(|(step, (_, done))| match done {
            Done::Access(access) => Some((step, access)),
            Done::Event(_) => None,
        });
        let mut counted = (1..).zip(accesses);
        let found = counted.find(|(ordinal, (_, access))| side.is(instance.address, *ordinal, access));
        found.map(|(_, (step, _))| step).unwrap_or_else(|| panic!("{side:?} is in the stream"))
    };
    (step_of(&instance.first), step_of(&instance.second))
}
