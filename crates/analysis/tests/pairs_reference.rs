//! Random streams: the pairs that are told, by accesses or by records, are those of a model that keeps each byte by itself.

#[path = "races/written.rs"]
mod written;

use analysis::pairs::{Collected, Collector, Deed, End, Moment, Occurrence};
use analysis::pairs::{PlaceSeeker, Scope, SeenPair, VisitorSeeker};
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use trace::stream::{Access, AccessKind, Event, Listener, Site, Thread};
use written::Written;

const STREAMS: u64 = 200;
const SITES: u32 = 12;
const HEAP: u64 = 0x10_0000;
const BLOCK_SIZE: u64 = 48;
const BLOCKS: usize = 4;
/// What is forgotten is so many bytes in a row.
const GRANULE: u64 = 4;
/// Of a pair's addresses, so many are told.
const PLACES: usize = 4;
/// What releases a block in these streams.
const FREES: u64 = 77;
/// On both sides of the border between two parts of the memory that is kept track of.
const GLOBALS: u64 = 0x30_0000 - 32;

enum Done {
    Accesses(Vec<Access>),
    Event(Event),
}

fn scope() -> Scope {
    Scope {
        ignored_code: vec![3..4, 40..50],
        synchronising_code: vec![5..6, 6..7],
        ignored_memory: vec![GLOBALS + 40..GLOBALS + 48, 0..16],
    }
}

fn access(random: &mut Rng) -> Access {
    let kinds = [AccessKind::Read, AccessKind::Read, AccessKind::Write, AccessKind::Update, AccessKind::Atomic];
    let address = match random.u32(..3) {
        0 => HEAP + random.u64(..BLOCK_SIZE * BLOCKS as u64),
        _ => GLOBALS + random.u64(..64),
    };
    let size = *random.choice([1, 2, 4, 4, 8, 8, 16, 40].iter()).expect("there are sizes");
    Access { address, size, site: Site(random.u32(..SITES)), kind: kinds[random.usize(..kinds.len())] }
}

fn stream(seed: u64) -> Vec<(Thread, Done)> {
    let mut random = Rng::with_seed(seed);
    let mut is_allocated = [false; BLOCKS];
    let mut steps = Vec::new();
    // In some streams, threads have longer turns than in others.
    let (mut thread, steadiness) = (1, random.u32(1..12));
    for _ in 0..random.usize(10..120) {
        if random.u32(..steadiness) == 0 {
            thread = random.u32(1..=3);
        }
        let done = match random.u32(..12) {
            0..=1 => {
                let number = random.usize(..BLOCKS);
                let address = HEAP + BLOCK_SIZE * number as u64;
                is_allocated[number] = !is_allocated[number];
                Done::Event(match is_allocated[number] {
                    true => Event::Allocated { address, size: BLOCK_SIZE - 3, site: 0 },
                    false => Event::Freed { address, site: FREES },
                })
            }
            2 => Done::Event(Event::Mapped { address: GLOBALS + 8 * random.u64(..6), size: 8 * random.u64(1..4) }),
            _ => Done::Accesses((0..random.usize(1..8)).map(|_| access(&mut random)).collect()),
        };
        steps.push((thread, done));
    }
    steps
}

fn tell(listener: &mut dyn Listener, stream: &[(Thread, Done)], by_records: bool) {
    let mut written = Written::default();
    (0..SITES).for_each(|number| listener.site(Site(number), u64::from(number)));
    for (thread, done) in stream {
        match done {
            Done::Event(event) => listener.event(*thread, event),
            Done::Accesses(accesses) if by_records => written.tell(listener, *thread, accesses),
            Done::Accesses(accesses) => listener.accesses(*thread, accesses),
        }
    }
}

fn pairs(mut collector: Collector, stream: &[(Thread, Done)], by_records: bool) -> Collected {
    tell(&mut collector, stream, by_records);
    collector.into_collected()
}

/// The accesses of a byte that can still be heads.
#[derive(Clone, Default)]
struct Byte {
    write: Option<(End, Moment)>,
    reads: Vec<(End, Moment)>,
}

/// Says of each byte what a pair is.
#[derive(Default)]
struct Model {
    scope: Scope,
    bytes: BTreeMap<u64, Byte>,
    blocks: BTreeMap<u64, u64>,
    ordinals: BTreeMap<Thread, u64>,
    order: u64,
    pairs: Vec<SeenPair>,
    executed: BTreeSet<u64>,
}

impl Model {
    fn next(&mut self, thread: Thread) -> Moment {
        self.order += 1;
        let ordinal = self.ordinals.entry(thread).or_default();
        *ordinal += 1;
        Moment { thread, ordinal: *ordinal, order: self.order }
    }

    fn is_in(ranges: &[std::ops::Range<u64>], address: u64) -> bool {
        ranges.iter().any(|range| range.contains(&address))
    }

    fn access(&mut self, thread: Thread, access: &Access) {
        let moment = self.next(thread);
        let pc = u64::from(access.site.0);
        let is_lock = access.kind == AccessKind::Atomic && Model::is_in(&self.scope.synchronising_code, pc);
        if is_lock || Model::is_in(&self.scope.ignored_code, pc) {
            return;
        }
        self.executed.insert(pc);
        let bytes: Vec<u64> = (access.address..access.address + u64::from(access.size)).collect();
        for (deed, happens) in [(Deed::Read, access.kind.reads()), (Deed::Write, access.kind.writes())] {
            if happens {
                self.touch(&bytes, (End::new(pc, deed), moment));
            }
        }
    }

    fn touch(&mut self, bytes: &[u64], tail: (End, Moment)) {
        let mut told = BTreeSet::new();
        for address in bytes {
            let byte = self.bytes.entry(*address).or_default();
            let heads = if tail.0.deed == Deed::Read { byte.read(tail) } else { byte.write(tail) };
            for head in heads {
                if told.insert((head.1.order, head.0.deed)) && !Model::is_in(&self.scope.ignored_memory, *address) {
                    self.pair(head, tail, *address);
                }
            }
        }
    }

    fn pair(&mut self, head: (End, Moment), tail: (End, Moment), address: u64) {
        let occurrence = Occurrence { head: head.1, tail: tail.1, address };
        let known = self.pairs.iter_mut().find(|pair| (pair.head, pair.tail) == (head.0, tail.0));
        let direction = occurrence.direction();
        let Some(pair) = known else {
            self.pairs.push(SeenPair {
                head: head.0,
                tail: tail.0,
                first: occurrence,
                times: 0,
                directions: vec![direction],
                elsewhere: Vec::new(),
                places: vec![address],
                occurrences: Vec::new(),
            });
            return;
        };
        if !pair.directions.contains(&direction) {
            pair.directions.push(direction);
            pair.directions.sort_unstable();
            pair.elsewhere.push(occurrence);
        }
        if !pair.places.contains(&address) && pair.places.len() < PLACES {
            pair.places.push(address);
            pair.places.sort_unstable();
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        match *event {
            Event::Allocated { address, size, .. } => {
                self.blocks.insert(address, size);
                self.forget(address, size);
            }
            Event::Freed { address, .. } => {
                let moment = self.next(thread);
                let Some(size) = self.blocks.remove(&address) else { return };
                let accessed: Vec<u64> = self.bytes.range(address..address + size).map(|(at, _)| *at).collect();
                self.touch(&accessed, (End::new(FREES, Deed::Write), moment));
            }
            Event::Mapped { address, size } => self.forget(address, size),
            _ => {}
        }
    }

    fn forget(&mut self, address: u64, size: u64) {
        let end = (address + size).next_multiple_of(GRANULE);
        self.bytes.retain(|at, _| !(address / GRANULE * GRANULE..end).contains(at));
    }
}

impl Byte {
    fn read(&mut self, tail: (End, Moment)) -> Vec<(End, Moment)> {
        let thread = tail.1.thread;
        if let Some(own) = self.reads.iter_mut().find(|read| read.1.thread == thread) {
            *own = tail;
            return Vec::new();
        }
        self.reads.push(tail);
        self.write.into_iter().filter(|write| write.1.thread != thread).collect()
    }

    fn write(&mut self, tail: (End, Moment)) -> Vec<(End, Moment)> {
        let thread = tail.1.thread;
        let reads = std::mem::take(&mut self.reads);
        let has_read = |who: Thread| reads.iter().any(|read| read.1.thread == who);
        let write = self
            .write
            .replace(tail)
            .filter(|write| write.1.thread != thread && !has_read(write.1.thread) && !has_read(thread));
        reads.iter().copied().filter(|read| read.1.thread != thread).chain(write).collect()
    }
}

fn modelled(stream: &[(Thread, Done)]) -> Model {
    let mut model = Model { scope: scope(), ..Model::default() };
    for (thread, done) in stream {
        match done {
            Done::Event(event) => model.event(*thread, event),
            Done::Accesses(accesses) => accesses.iter().for_each(|access| model.access(*thread, access)),
        }
    }
    model
}

#[test]
fn pairs_are_those_of_every_byte() {
    let mut n_pairs = 0;
    for seed in 0..STREAMS {
        let stream = stream(seed);
        let expected = modelled(&stream);
        n_pairs += expected.pairs.len();
        for by_records in [false, true] {
            let mut found = pairs(Collector::new(scope()), &stream, by_records);
            found.pairs.iter_mut().for_each(|pair| pair.times = 0);
            assert_eq!(found.pairs, expected.pairs, "seed {seed}, by records {by_records}");
            assert_eq!(found.accesses, expected.order);
            assert_eq!(found.executed, expected.executed.iter().copied().collect::<Vec<_>>());
            let are_together = |pair: &SeenPair| {
                let ends = [pair.head.pc, pair.tail.pc];
                found.meeting.iter().any(|group| ends.iter().all(|pc| group.binary_search(pc).is_ok()))
            };
            assert!(found.pairs.iter().all(are_together), "seed {seed}");
        }
    }
    assert!(n_pairs > 400, "{n_pairs} pairs");
}

#[test]
fn two_by_two_is_the_same_by_accesses_and_by_records() {
    for seed in 0..STREAMS {
        let stream = stream(seed);
        let [accesses, records] = [false, true].map(|by| pairs(Collector::new(scope()).two_by_two(), &stream, by));
        assert_eq!(accesses, records, "seed {seed}");
    }
}

#[test]
fn instructions_that_never_come_where_threads_meet_make_no_pairs() {
    let mut n_left_out = 0;
    for seed in 0..STREAMS {
        let stream = stream(seed);
        for by_records in [false, true] {
            let mut seeker = PlaceSeeker::new(scope());
            tell(&mut seeker, &stream, by_records);
            let mut visiting = VisitorSeeker::new(scope(), &seeker.into_places());
            tell(&mut visiting, &stream, by_records);
            let visitors = visiting.into_visitors().instructions;
            n_left_out += SITES as usize - visitors.len();
            let whole = pairs(Collector::new(scope()), &stream, by_records);
            let among = pairs(Collector::new(scope()).among(visitors), &stream, by_records);
            assert_eq!(among.pairs, whole.pairs, "seed {seed}, by records {by_records}");
        }
    }
    assert!(n_left_out > STREAMS as usize, "only {n_left_out} instructions were left out");
}

/// The same accesses over more memory.
fn spread(stream: &mut [(Thread, Done)], seed: u64) {
    let mut random = Rng::with_seed(seed);
    for (_, done) in stream {
        let Done::Accesses(accesses) = done else { continue };
        for access in accesses.iter_mut().filter(|access| access.address >= GLOBALS) {
            access.address += random.u64(..256) << 8;
        }
    }
}

#[test]
fn instructions_that_sweep_make_no_pairs_but_real_ones() {
    let (mut n_pairs, mut n_sampled) = (0, 0);
    for seed in 0..STREAMS {
        // Ten times the same length: lines that are looked at must be come to often.
        let mut stream: Vec<(Thread, Done)> = (0..10).flat_map(|part| stream(seed + part * STREAMS)).collect();
        spread(&mut stream, seed);
        let key = |pair: &SeenPair| (pair.head, pair.tail);
        let whole: BTreeSet<(End, End)> =
            pairs(Collector::new(scope()), &stream, false).pairs.iter().map(key).collect();
        let sweeping = || Collector::new(scope()).sweeping([0, 1, 2, 7, 8]);
        let [accesses, records] = [false, true].map(|by_records| pairs(sweeping(), &stream, by_records));
        assert_eq!(accesses, records, "seed {seed}");
        let sampled: BTreeSet<(End, End)> = accesses.pairs.iter().map(key).collect();
        assert!(sampled.is_subset(&whole), "seed {seed}: {:?}", sampled.difference(&whole).next());
        (n_pairs, n_sampled) = (n_pairs + whole.len(), n_sampled + sampled.len());
    }
    assert!(n_sampled > n_pairs / 4 && n_sampled < n_pairs, "{n_sampled} of {n_pairs} pairs");
}
