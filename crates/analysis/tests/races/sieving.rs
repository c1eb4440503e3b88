//! Random streams in which memory comes and goes: what a sieve leaves of them has the same races as all of it.

use super::streams::{Done, Stream, Told};
use analysis::races::{Sieve, SiteClass, Suspects};
use fastrand::Rng;
use std::collections::BTreeSet;
use trace::stream::strips::STRIP_SIZE;
use trace::stream::{Access, AccessKind, Event, Listener, LockMode, Site, Thread};

const STREAMS: u64 = 1000;
const THREADS: Thread = 6;
const SITES: u32 = 12;
/// Two sites that are of atomic operations, and one of no concern.
const ATOMIC_SITES: [u64; 2] = [3, 4];
const IGNORED_SITE: u64 = 5;
const HEAP: u64 = 0x10_0000;
const BLOCK_SIZE: u64 = 32;
const BLOCKS: u64 = 4;
const GLOBALS: u64 = 0x20_0000;

/// Writes streams that need not make sense: the sieve and the detector have to agree on all of them.
struct Writer {
    random: Rng,
    stream: Stream,
    created: Thread,
    is_allocated: [bool; BLOCKS as usize],
}

impl Writer {
    fn stream(seed: u64) -> Stream {
        let mut writer = Writer {
            random: Rng::with_seed(seed),
            stream: Stream::default(),
            created: 1,
            is_allocated: [false; BLOCKS as usize],
        };
        // Only what is given back on pages that have a history is remembered by detectors that see everything.
        writer.tell(1, Event::Created { child: 2 });
        writer.created = 2;
        let first = Access { address: HEAP + 0x800, size: 8, site: Site(0), kind: AccessKind::Read };
        writer.stream.steps.push((1, Done::Access(first)));
        let steps = writer.random.usize(20..400);
        while writer.stream.steps.len() < steps {
            let thread = writer.random.u32(1..=writer.created);
            writer.step(thread);
        }
        let stream =
            ATOMIC_SITES.iter().fold(writer.stream, |stream, site| stream.with_class(*site, SiteClass::Atomic));
        stream.with_class(IGNORED_SITE, SiteClass::Ignored)
    }

    fn tell(&mut self, thread: Thread, event: Event) {
        self.stream.steps.push((thread, Done::Event(event)));
    }

    fn step(&mut self, thread: Thread) {
        let object = 8 * self.random.u64(1..4);
        match self.random.u32(..24) {
            0 if self.created < THREADS => {
                self.created += 1;
                self.tell(thread, Event::Created { child: self.created });
            }
            1 => {
                let other = self.random.u32(1..=self.created);
                self.tell(thread, Event::Joined { other });
            }
            2..=3 => self.tell(thread, Event::Locked { object, mode: LockMode::Exclusive, site: 0 }),
            4 => self.tell(thread, Event::Locked { object, mode: LockMode::Shared, site: 0 }),
            5..=7 => self.tell(thread, Event::Unlocked { object, site: 0 }),
            8 => self.tell(thread, Event::Released { object, site: 0 }),
            9 => self.tell(thread, Event::Acquired { object, site: 0 }),
            10..=11 => self.allocate_or_free(thread),
            12 if self.random.u32(..8) == 0 => {
                let (address, size) = (GLOBALS + 8 * self.random.u64(..4), 8 * self.random.u64(1..4));
                self.tell(thread, Event::Mapped { address, size });
            }
            13 if self.random.u32(..8) == 0 => {
                let address = GLOBALS + 4 * self.random.u64(..16);
                self.tell(thread, Event::FutexWord { address });
            }
            14..=17 => {
                let (address, size) = (HEAP + self.random.u64(..BLOCK_SIZE * BLOCKS), self.size());
                self.access_at(thread, address, size);
            }
            _ => {
                let (address, size) = (GLOBALS + self.random.u64(..64), self.size());
                self.access_at(thread, address, size);
            }
        }
    }

    fn size(&mut self) -> u32 {
        *self.random.choice([1, 2, 4, 4, 8, 8, 16, 40].iter()).expect("there are sizes")
    }

    fn allocate_or_free(&mut self, thread: Thread) {
        let number = self.random.usize(..self.is_allocated.len());
        let address = HEAP + BLOCK_SIZE * number as u64;
        let is_allocated = &mut self.is_allocated[number];
        *is_allocated = !*is_allocated;
        let event = match *is_allocated {
            true => Event::Allocated { address, size: BLOCK_SIZE - 3, site: 0 },
            false => Event::Freed { address, site: 77 },
        };
        self.tell(thread, event);
    }

    fn access_at(&mut self, thread: Thread, address: u64, size: u32) {
        let kinds = [AccessKind::Read, AccessKind::Read, AccessKind::Read, AccessKind::Write, AccessKind::Update];
        let is_atomic = self.random.u32(..12) == 0;
        let kind = if is_atomic { AccessKind::Atomic } else { kinds[self.random.usize(..kinds.len())] };
        let access = Access { address, size, site: Site(self.random.u32(..SITES)), kind };
        self.stream.steps.push((thread, Done::Access(access)));
    }
}

#[test]
fn memory_that_comes_and_goes_races_after_sieving_as_before() {
    let mut racy = 0;
    for seed in 0..STREAMS {
        let stream = Writer::stream(seed);
        let found = stream.found_with(stream.survey());
        assert_eq!(stream.found_after_sieving(Told::Accesses), found, "seed {seed}");
        assert_eq!(stream.found_after_sieving(Told::Records), found, "seed {seed}, by records");
        racy += usize::from(!found.races.is_empty());
    }
    assert!(racy > 200, "{racy} streams race");
}

/// What is told of a stream where only what orders others is told wherever it is, and all else on strips where that has been before, or
/// that somebody looks at anyway.
fn spared(stream: &Stream, looked_at: impl Fn(u64) -> bool) -> Stream {
    let mut classify = stream.classify();
    let mut known = BTreeSet::new();
    let mut is_told = |access: &Access| {
        let strips = access.address / STRIP_SIZE..=(access.address + u64::from(access.size) - 1) / STRIP_SIZE;
        let is_atomic = access.kind == AccessKind::Atomic || classify(u64::from(access.site.0)) == SiteClass::Atomic;
        if is_atomic {
            known.extend(strips.clone());
        }
        is_atomic || strips.into_iter().any(|strip| known.contains(&strip) || looked_at(strip))
    };
    // All that stands between two events is one record, or one access, and is told as a whole.
    let groups = stream.steps.chunk_by(|one, next| one.0 == next.0 && [one, next].iter().all(|step| is_access(step)));
    let mut steps = Vec::new();
    for group in groups {
        let n_told = group.iter().filter_map(|(_, done)| done.access()).filter(|access| is_told(access)).count();
        if n_told > 0 || !is_access(&group[0]) {
            steps.extend_from_slice(group);
        }
    }
    Stream { steps, ..stream.clone() }
}

fn is_access(step: &(Thread, Done)) -> bool {
    step.1.access().is_some()
}

/// The same with so many accesses at most between two events, so that records stay as they are when others are left out.
fn in_groups(stream: &Stream, most: usize) -> Stream {
    let mut steps = Vec::new();
    for run in stream.steps.chunk_by(|one, next| one.0 == next.0 && is_access(one) && is_access(next)) {
        for group in run.chunks(most) {
            steps.extend_from_slice(group);
            steps.push((group[0].0, Done::Event(Event::SystemCall { number: 0, result: 0 })));
        }
    }
    Stream { steps, ..stream.clone() }
}

/// What a sieve without locks leaves, which looks at a part of what code comes to after so many strips.
fn contended(stream: &Stream, told: Told, few_strips: u32) -> Vec<u64> {
    let mut sieve = Sieve::without_locks(stream.classify(), Vec::new(), u64::MAX).sampling_after(few_strips);
    stream.tell_as(told, &mut sieve);
    suspects_of(sieve).iter().flat_map(Suspects::addresses).collect()
}

/// A few instructions of threads that go over much memory, with and without locks.
fn sweeping(seed: u64) -> Stream {
    let mut random = Rng::with_seed(seed);
    let mut stream = Stream::default();
    stream.steps.extend((2..=THREADS).map(|child| (1, Done::Event(Event::Created { child }))));
    for _ in 0..400 {
        let (thread, object) = (random.u32(1..=THREADS), 8 * random.u64(1..3));
        let done = match random.u32(..20) {
            0..=1 => Done::Event(Event::Locked { object, mode: LockMode::Exclusive, site: 0 }),
            2..=3 => Done::Event(Event::Unlocked { object, site: 0 }),
            4 => Done::Event(Event::Released { object, site: 0 }),
            5 => Done::Event(Event::Acquired { object, site: 0 }),
            kind => {
                let (address, size) = (HEAP + 8 * random.u64(..2048), random.choice([4, 8, 8, 1200]).unwrap_or(8));
                let site = Site(random.u32(6..SITES));
                let kinds = [AccessKind::Read, AccessKind::Read, AccessKind::Write, AccessKind::Update];
                let kind = if kind == 6 { AccessKind::Atomic } else { kinds[random.usize(..kinds.len())] };
                Done::Access(Access { address, size, site, kind })
            }
        };
        stream.steps.push((thread, done));
    }
    stream
}

#[test]
fn who_looks_at_a_part_suspects_nothing_else() {
    let mut n_fewer = 0;
    for seed in 0..STREAMS {
        for stream in [Writer::stream(seed), sweeping(seed)] {
            let [single, several] = [1, 4].map(|most| in_groups(&stream, most));
            let [few, few_records] = [&single, &several].map(|stream| spared(stream, |strip| (strip ^ seed) % 4 == 0));
            let parts = [
                (&stream, &stream, Told::Accesses),
                (&stream, &stream, Told::Records),
                (&single, &few, Told::Accesses),
                (&several, &few_records, Told::Records),
            ];
            for (all, part, told) in parts {
                let [all, part] =
                    [(all, u32::MAX), (part, 0)].map(|(stream, few_strips)| contended(stream, told, few_strips));
                let are_known = part.iter().all(|address| all.contains(address));
                assert!(are_known, "seed {seed}, {told:?}: {part:x?} of {all:x?}");
                n_fewer += u64::from(part.len() < all.len());
            }
        }
    }
    assert!(n_fewer > STREAMS / 4, "{n_fewer} streams have less");
}

/// A sieve of two threads.
fn sieve() -> Sieve {
    let mut sieve = Sieve::new(Box::new(|_| SiteClass::Plain));
    sieve.event(1, &Event::Created { child: 2 });
    sieve
}

fn access(sieve: &mut Sieve, thread: Thread, address: u64, kind: AccessKind) {
    sieve.accesses(thread, &[Access { address, size: 4, site: Site(0), kind }]);
}

fn pass_the_baton(sieve: &mut Sieve, from: Thread, to: Thread) {
    sieve.event(from, &Event::Released { object: 8, site: 0 });
    sieve.event(to, &Event::Acquired { object: 8, site: 0 });
}

fn suspects_of(sieve: Sieve) -> Option<Suspects> {
    sieve.into_sieved().suspects
}

/// More epochs than fit beside the number of a slot.
const MANY_EPOCHS: u64 = 1_100_000;

#[test]
fn threads_may_release_a_million_times() {
    for is_ordered in [true, false] {
        let mut sieve = sieve();
        for _ in 0..MANY_EPOCHS {
            access(&mut sieve, 2, GLOBALS, AccessKind::Write);
            sieve.event(2, &Event::Released { object: 16, site: 0 });
        }
        access(&mut sieve, 2, GLOBALS, AccessKind::Write);
        if is_ordered {
            pass_the_baton(&mut sieve, 2, 1);
        }
        access(&mut sieve, 1, GLOBALS, AccessKind::Write);
        let expected = if is_ordered { Suspects::default() } else { Suspects::new([GLOBALS / 8]) };
        assert_eq!(suspects_of(sieve), Some(expected));
    }
}

/// Pairs of readers, more than are kept before unused ones are looked for.
const MANY_READERS: u64 = 50_000;

#[test]
fn readers_are_remembered_while_memory_has_been_read_by_them_alone() {
    let mut sieve = sieve();
    for place in 0..MANY_READERS {
        let address = GLOBALS + 4 * (place % 1000);
        for thread in [1, 2] {
            access(&mut sieve, thread, address, AccessKind::Read);
            sieve.event(thread, &Event::Released { object: u64::from(thread) * 8, site: 0 });
        }
    }
    access(&mut sieve, 1, GLOBALS, AccessKind::Write);
    assert_eq!(suspects_of(sieve), Some(Suspects::new([GLOBALS / 8])), "the other has read it too");
}
