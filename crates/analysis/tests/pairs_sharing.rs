//! Random streams: the pairs among what threads share are all pairs there are, told by accesses or by records.

#[path = "races/written.rs"]
mod written;

use analysis::pairs::{Collected, Collector, Scope, Sharing};
use analysis::races::Suspects;
use fastrand::Rng;
use trace::stream::{Access, AccessKind, Event, Listener, Site, Thread};
use written::Written;

const STREAMS: u64 = 40;
const SITES: u32 = 12;
const HEAP: u64 = 0x10_0000;
const BLOCK_SIZE: u64 = 48;
const BLOCKS: usize = 4;
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
    for _ in 0..random.usize(10..120) {
        let thread = random.u32(1..=3);
        let done = match random.u32(..12) {
            0..=1 => {
                let number = random.usize(..BLOCKS);
                let address = HEAP + BLOCK_SIZE * number as u64;
                is_allocated[number] = !is_allocated[number];
                Done::Event(match is_allocated[number] {
                    true => Event::Allocated { address, size: BLOCK_SIZE - 3, site: 0 },
                    false => Event::Freed { address, site: 77 },
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

#[test]
fn what_threads_share_has_all_pairs() {
    let mut n_pairs = 0;
    for seed in 0..STREAMS {
        let stream = stream(seed);
        for two_by_two in [false, true] {
            let collector = || match two_by_two {
                false => Collector::new(scope()),
                true => Collector::new(scope()).two_by_two(),
            };
            let all = pairs(collector(), &stream, false);
            n_pairs += all.pairs.len();
            for by_records in [false, true] {
                let mut sharing = Sharing::new(scope());
                tell(&mut sharing, &stream, by_records);
                let shared = sharing.into_shared();
                let found = pairs(collector().among(Some(shared)), &stream, by_records);
                assert_eq!(found, all, "seed {seed}, two by two {two_by_two}, by records {by_records}");
            }
        }
    }
    assert!(n_pairs > 400, "{n_pairs} pairs");
}

/// The granules of which it can be told that threads share them.
fn shared(accesses: &[(Thread, u64, AccessKind)]) -> Suspects {
    let mut sharing = Sharing::new(Scope::default());
    sharing.site(Site(0), 1);
    for (thread, address, kind) in accesses {
        sharing.accesses(*thread, &[Access { address: *address, size: 4, site: Site(0), kind: *kind }]);
    }
    sharing.into_shared()
}

#[test]
fn memory_of_one_thread_or_that_nobody_writes_is_passed_over() {
    use AccessKind::{Read, Write};
    assert_eq!(shared(&[(1, 0x10, Write), (1, 0x10, Read), (2, 0x18, Write)]), Suspects::default());
    assert_eq!(shared(&[(1, 0x10, Read), (2, 0x10, Read), (3, 0x14, Read)]), Suspects::default());
    for accesses in [[(1, 0x10, Write), (2, 0x10, Read)], [(1, 0x10, Read), (2, 0x14, Write)]] {
        assert_eq!(shared(&accesses), Suspects::new([2]));
    }
}
