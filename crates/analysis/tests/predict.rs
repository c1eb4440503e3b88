//! Predictions from streams written by hand, after the figures of the ConMem paper.

use analysis::predict::{
    Deed, Detector, Exploration, Explored, HandOverCheck, Kind, MOST_MEMORY, Predicted, UseSeeker, sieve,
};
use analysis::races::{Classify, Flags, HandOvers, Sieved, SiteClass};
use std::collections::{BTreeMap, BTreeSet};
use trace::stream::{Access, AccessKind, Event, Listener, LockMode, Site, Thread, Values};

const POINTER: u64 = 0x1000_0000;
const OTHER: u64 = 0x1000_1000;
const OBJECT: u64 = 0x7e90_0000_1000;
const LOCK: u64 = 0x2000_0000;
const FLAG: u64 = 0x3000_0000;

/// The return addresses of calls that take a lock, give it up, and wait.
const LOCKING: u64 = 0x9100;
const UNLOCKING: u64 = 0x9200;
const WAITING: u64 = 0x9300;

/// One thing that a thread does. Sites are numbered by the test; the instruction of site n is at 0x100 * n.
#[derive(Clone)]
enum Does {
    Read(u32, u64, u64),
    Write(u32, u64, u64, u64),
    Update(u32, u64, u64, u64),
    Atomic(u32, u64, u64, u64),
    /// The same with four bytes instead of eight.
    Half(Box<Does>),
    Event(Event),
}

use Does::{Atomic, Read, Update, Write};

fn half(does: Does) -> Does {
    Does::Half(Box::new(does))
}

fn lock(object: u64) -> Does {
    Does::Event(Event::Locked { object, mode: LockMode::Exclusive, site: LOCKING })
}

fn unlock(object: u64) -> Does {
    Does::Event(Event::Unlocked { object, site: UNLOCKING })
}

/// A call that waits begins.
fn begin_wait(object: u64) -> Does {
    Does::Event(Event::Unlocked { object, site: WAITING })
}

fn end_wait(object: u64) -> Does {
    Does::Event(Event::Locked { object, mode: LockMode::Exclusive, site: WAITING })
}

fn allocate(address: u64) -> Does {
    Does::Event(Event::Allocated { address, size: 64, site: 0x9000 })
}

fn free(address: u64) -> Does {
    Does::Event(Event::Freed { address, site: 0x9005 })
}

fn created(child: Thread) -> (Thread, Does) {
    (1, Does::Event(Event::Created { child }))
}

fn joined(other: Thread) -> Does {
    Does::Event(Event::Joined { other })
}

fn tell(listener: &mut impl Listener, stream: &[(Thread, Does)]) {
    (0..64).for_each(|site| listener.site(Site(site), 0x100 * u64::from(site)));
    for (thread, does) in stream {
        let (does, size) = match does {
            Does::Half(does) => (&**does, 4),
            does => (does, 8),
        };
        let (site, address, before, after, kind) = match does.clone() {
            Read(site, address, value) => (site, address, value, value, AccessKind::Read),
            Write(site, address, before, after) => (site, address, before, after, AccessKind::Write),
            Update(site, address, before, after) => (site, address, before, after, AccessKind::Update),
            Atomic(site, address, before, after) => (site, address, before, after, AccessKind::Atomic),
            Does::Half(_) => unreachable!("half of a half"),
            Does::Event(event) => {
                listener.event(*thread, &event);
                continue;
            }
        };
        let access = Access { address, size, site: Site(site), kind };
        let (before, after) = (before.to_le_bytes(), after.to_le_bytes());
        let [before, after] = [&before, &after].map(|bytes| bytes.get(..size as usize));
        listener.valued(*thread, &access, Values { before, after });
    }
}

fn plain() -> Classify {
    Box::new(|_| SiteClass::Plain)
}

fn explored(stream: &[(Thread, Does)]) -> Explored {
    explored_within(MOST_MEMORY, stream)
}

fn explored_within(most_memory: u64, stream: &[(Thread, Does)]) -> Explored {
    let mut sieve = sieve(plain(), Vec::new(), most_memory);
    tell(&mut sieve, stream);
    explored_after(sieve.into_sieved(), stream)
}

fn explored_after(sieved: Sieved, stream: &[(Thread, Does)]) -> Explored {
    let mut exploration = Exploration::after(sieved, [plain(), plain()], Vec::new());
    tell(&mut exploration, stream);
    exploration.into_explored()
}

/// What hands something over under locks.
fn trusted(stream: &[(Thread, Does)]) -> HandOvers {
    let mut first = sieve(plain(), Vec::new(), MOST_MEMORY);
    tell(&mut first, stream);
    let mut check = HandOverCheck::new(first.into_sieved().hand_overs);
    let told = of_instructions(stream, &check.instructions());
    tell(&mut check, &told);
    check.into_trusted()
}

/// The same as `explored`, where what is handed over under locks orders what follows.
fn explored_by_hand_overs(stream: &[(Thread, Does)]) -> Explored {
    let mut second = sieve(plain(), Vec::new(), MOST_MEMORY).with_hand_overs(trusted(stream));
    tell(&mut second, stream);
    explored_after(second.into_sieved(), stream)
}

/// Events, and the accesses of these instructions.
fn of_instructions(stream: &[(Thread, Does)], instructions: &BTreeSet<u64>) -> Vec<(Thread, Does)> {
    stream.iter().filter(|(_, does)| is_of(does, instructions)).cloned().collect()
}

fn is_of(does: &Does, instructions: &BTreeSet<u64>) -> bool {
    match does {
        Read(site, ..) | Write(site, ..) | Update(site, ..) | Atomic(site, ..) => {
            instructions.contains(&(0x100 * u64::from(*site)))
        }
        Does::Half(does) => is_of(does, instructions),
        Does::Event(_) => true,
    }
}

/// Threads 2 and 3 are made by thread 1.
fn with_threads(rest: &[(Thread, Does)]) -> Vec<(Thread, Does)> {
    let mut stream = vec![(1, Read(63, 0x5000_0000, 1)), created(2), created(3)];
    stream.extend_from_slice(rest);
    stream
}

/// What is predicted of threads 2 and 3, in three passes.
fn predicted(rest: &[(Thread, Does)]) -> Predicted {
    let stream = with_threads(rest);
    let flags = trusted(&stream).flags;
    let predicted = predicted_from(explored(&stream), &flags, &stream);
    let by_hand_overs = predicted_from(explored_by_hand_overs(&stream), &flags, &stream);
    assert_eq!(places(&predicted), places(&by_hand_overs), "what is handed over need not be looked at");
    predicted
}

/// What is predicted, and where. What threads did before depends on what is looked at.
fn places(predicted: &Predicted) -> Vec<Vec<(Kind, u64, Deed, Deed)>> {
    let bare = |deed: &Deed| Deed { before: Default::default(), locks: Vec::new(), ..deed.clone() };
    let pairs = predicted.pairs.iter();
    pairs
        .map(|pair| pair.iter().map(|one| (one.kind, one.address, bare(&one.early), bare(&one.late))).collect())
        .collect()
}

fn predicted_from(explored: Explored, flags: &Flags, stream: &[(Thread, Does)]) -> Predicted {
    let instructions = explored.contended.instructions.clone();
    let mut detector = Detector::new(explored, plain(), Vec::new()).trusting(flags.clone());
    tell(&mut detector, &of_instructions(stream, &instructions));
    let mut predicted = detector.into_predicted();
    let mut seeker = UseSeeker::new(predicted.doubtful());
    tell(&mut seeker, stream);
    predicted.keep_used(&seeker.into_used());
    predicted
}

/// The sites that a first pass finds worth looking at.
fn contended(rest: &[(Thread, Does)]) -> Vec<u64> {
    explored(&with_threads(rest)).contended.instructions.iter().map(|pc| pc / 0x100).collect()
}

#[test]
fn memory_of_one_thread_is_not_looked_at() {
    let own = [(2, Write(1, POINTER, 0, 1)), (3, Write(2, OTHER, 0, 1)), (2, Read(3, POINTER, 1))];
    assert!(contended(&own).is_empty());
    let shared = [(2, Write(1, POINTER, 0, 1)), (3, Write(2, OTHER, 0, 1)), (3, Read(3, POINTER, 1))];
    assert_eq!(contended(&shared), [1, 3]);
    let only_read = [(2, Read(1, POINTER, 1)), (3, Read(2, POINTER, 1))];
    assert!(contended(&only_read).is_empty());
}

/// Two threads write to memory in many places: what is beyond the bound is not compared, and that is said.
#[test]
fn memory_beyond_the_bound_is_left_out_and_counted() {
    let far = |place: u64| POINTER + (place << 28);
    let accesses = (0..8).flat_map(|place| [(2, Write(1, far(place), 0, 1)), (3, Write(2, far(place), 1, 2))]);
    let stream = with_threads(&accesses.collect::<Vec<_>>());
    assert_eq!(explored(&stream).contended.unwatched, 0);
    let bounded = explored_within(1 << 20, &stream);
    assert!(bounded.contended.unwatched > 0);
    let detector = Detector::new(bounded, plain(), Vec::new());
    assert!(detector.into_predicted().uncompared_accesses > 0);
}

#[test]
fn what_came_before_the_conflict_is_looked_at_too() {
    let stream =
        [(2, Read(1, POINTER, 0)), (2, Write(2, POINTER, 0, 1)), (2, Read(3, POINTER, 1)), (3, Read(4, POINTER, 1))];
    assert_eq!(contended(&stream), [1, 2, 3, 4]);
}

#[test]
fn handing_over_is_no_contention_and_locking_is() {
    let between = |first: [Does; 2]| {
        let [release, acquire] = first;
        [(2, Write(1, POINTER, 0, 1)), (2, release), (3, acquire), (3, Write(2, POINTER, 1, 2))]
    };
    let released = Does::Event(Event::Released { object: LOCK, site: 0 });
    let acquired = Does::Event(Event::Acquired { object: LOCK, site: 0 });
    assert!(contended(&between([released, acquired])).is_empty());
    assert_eq!(contended(&between([unlock(LOCK), lock(LOCK)])), [1, 2]);
}

#[test]
fn the_lives_of_blocks_are_apart_and_their_ends_count() {
    let apart = [
        (2, allocate(OBJECT)),
        (2, Write(1, OBJECT, 0, 1)),
        (2, free(OBJECT)),
        (3, allocate(OBJECT)),
        (3, Write(2, OBJECT, 0, 1)),
    ];
    assert!(contended(&apart).is_empty());
    let freed_by_another = [(2, allocate(OBJECT)), (2, Write(1, OBJECT, 0, 1)), (3, free(OBJECT))];
    assert_eq!(contended(&freed_by_another), [1]);
    let read_by_both = [(3, allocate(OBJECT)), (2, Read(1, OBJECT, 1)), (3, Read(2, OBJECT, 1)), (3, free(OBJECT))];
    assert_eq!(contended(&read_by_both), [1, 2]);
}

/// Kind and sites, the early one first.
fn pairs(rest: &[(Thread, Does)]) -> Vec<(Kind, u64, u64)> {
    let told = |pair: &Vec<analysis::predict::Prediction>| {
        let first = &pair[0];
        (first.kind, first.early.pc / 0x100, first.late.pc / 0x100)
    };
    let found = predicted(rest);
    found.pairs.iter().map(told).filter(|(kind, ..)| *kind != Kind::Inconsistent).collect()
}

/// Figure 3: a status string is tested and used while its owner sets it to NULL.
#[test]
fn a_pointer_that_is_cleared_after_its_use() {
    let stream = [
        (2, Read(1, POINTER, OBJECT)),
        (2, Read(2, POINTER, OBJECT)),
        (2, Read(3, OBJECT, 7)),
        (3, Write(4, POINTER, OBJECT, 0)),
        (2, Read(1, POINTER, 0)),
    ];
    assert_eq!(pairs(&stream), [(Kind::Null, 4, 2)], "the test itself bears NULL");
    let found = predicted(&stream);
    let occurrence = &found.pairs[0][0];
    assert_eq!((occurrence.late.thread, occurrence.early.thread), (2, 3));
    assert_eq!((occurrence.late.place.time, occurrence.late.before.pc), (1, 0x100));
}

#[test]
fn a_pointer_that_was_renewed_before_its_use() {
    let stream = [
        (3, Write(4, POINTER, OBJECT, 0)),
        (3, Write(5, POINTER, 0, OBJECT)),
        (2, Read(2, POINTER, OBJECT)),
        (2, Read(3, OBJECT, 7)),
    ];
    let found = predicted(&stream);
    let null: Vec<_> = found.pairs.iter().flatten().filter(|found| found.kind == Kind::Null).collect();
    assert_eq!(null.len(), 1);
    assert!(null[0].was_renewed);
    assert_eq!(null[0].renewal.as_ref().map(|renewal| renewal.pc), Some(0x500));
}

#[test]
fn a_pointer_that_nobody_dereferences() {
    let stream = [(2, Read(2, POINTER, OBJECT)), (2, Read(3, OTHER, 7)), (3, Write(4, POINTER, OBJECT, 0))];
    assert_eq!(pairs(&stream), []);
}

/// Test and use in one critical section; or cleared and renewed in one.
#[test]
fn mutual_exclusion_shields() {
    let one_section = [
        (2, lock(LOCK)),
        (2, Read(1, POINTER, OBJECT)),
        (2, Read(2, POINTER, OBJECT)),
        (2, Read(3, OBJECT, 7)),
        (2, unlock(LOCK)),
        (3, lock(LOCK)),
        (3, Write(4, POINTER, OBJECT, 0)),
        (3, unlock(LOCK)),
        (2, Read(1, POINTER, 0)),
    ];
    assert_eq!(pairs(&one_section), []);
    let renewed = [
        (3, lock(LOCK)),
        (3, Write(4, POINTER, OBJECT, 0)),
        (3, Write(5, POINTER, 0, OBJECT)),
        (3, unlock(LOCK)),
        (2, lock(LOCK)),
        (2, Read(2, POINTER, OBJECT)),
        (2, Read(3, OBJECT, 7)),
        (2, unlock(LOCK)),
    ];
    assert!(predicted(&renewed).pairs.iter().flatten().all(|found| found.kind != Kind::Null));
}

/// MySQL-2: test and use in two critical sections of one lock.
#[test]
fn two_critical_sections_do_not_shield() {
    let stream = [
        (2, lock(LOCK)),
        (2, Read(1, POINTER, OBJECT)),
        (2, unlock(LOCK)),
        (2, lock(LOCK)),
        (2, Read(2, POINTER, OBJECT)),
        (2, Read(3, OBJECT, 7)),
        (2, unlock(LOCK)),
        (3, lock(LOCK)),
        (3, Write(4, POINTER, OBJECT, 0)),
        (3, unlock(LOCK)),
    ];
    assert_eq!(pairs(&stream), [(Kind::Null, 4, 2)]);
    let found = predicted(&stream);
    let occurrence = &found.pairs[0][0];
    assert_eq!(occurrence.late.barred_by(&occurrence.early).map(|held| held.object), Some(LOCK));
}

/// Figure 8: what only another thread initialises.
#[test]
fn a_read_that_relies_on_another_threads_write() {
    let stream = [(2, Write(1, POINTER, 0, 5)), (3, Read(2, POINTER, 5))];
    assert_eq!(pairs(&stream), [(Kind::Uninitialised, 2, 1)]);
    let waited =
        [(2, Write(1, POINTER, 0, 5)), (2, Does::Event(Event::Ended)), (3, joined(2)), (3, Read(2, POINTER, 5))];
    assert_eq!(pairs(&waited), []);
    let own = [(2, Write(1, POINTER, 0, 5)), (3, Write(3, POINTER, 5, 6)), (3, Read(2, POINTER, 6))];
    assert_eq!(pairs(&own), []);
    let lived_with = [(3, Read(2, POINTER, 0)), (2, Write(1, POINTER, 0, 5)), (3, Read(2, POINTER, 5))];
    assert_eq!(pairs(&lived_with), []);
}

/// A flag that is an atomic variable, and one under a lock.
#[test]
fn flags_and_queues_order() {
    let flag = [
        (2, Write(1, POINTER, 0, 5)),
        (2, Atomic(4, FLAG, 0, 1)),
        (3, Atomic(5, FLAG, 1, 1)),
        (3, Read(2, POINTER, 5)),
    ];
    assert_eq!(pairs(&flag), []);
    let queue = [
        (2, Write(1, OBJECT, 0, 5)),
        (2, lock(LOCK)),
        (2, Write(3, POINTER, 0, OBJECT)),
        (2, unlock(LOCK)),
        (3, Read(9, OTHER, 0)),
        (3, lock(LOCK)),
        (3, Read(9, POINTER, OBJECT)),
        (3, unlock(LOCK)),
        (3, Read(2, OBJECT, 5)),
    ];
    assert_eq!(pairs(&queue), [], "the item is there when the queue says so");
}

/// Figure 9: a block that is given back while another thread still looks at it.
#[test]
fn a_block_that_is_given_back_after_its_use() {
    let stream = [(2, allocate(OBJECT)), (3, Read(2, OBJECT + 8, 1)), (2, free(OBJECT))];
    let found = predicted(&stream);
    assert_eq!(found.pairs.len(), 1);
    let occurrence = &found.pairs[0][0];
    assert_eq!((occurrence.kind, occurrence.address, occurrence.size), (Kind::Dangling, OBJECT, 64));
    assert_eq!((occurrence.early.thread, occurrence.late.pc), (2, 0x200));
    let joined_first = [
        (2, allocate(OBJECT)),
        (3, Read(2, OBJECT + 8, 1)),
        (3, Does::Event(Event::Ended)),
        (2, joined(3)),
        (2, free(OBJECT)),
    ];
    assert_eq!(pairs(&joined_first), []);
}

#[test]
fn a_recycled_address_is_another_block() {
    let stream = [
        (2, allocate(OBJECT)),
        (2, Read(1, OBJECT, 1)),
        (2, free(OBJECT)),
        (3, allocate(OBJECT)),
        (3, Read(2, OBJECT, 1)),
        (3, free(OBJECT)),
    ];
    assert_eq!(pairs(&stream), []);
}

/// Figure 10: a count that says where to copy to is raised by another thread.
#[test]
fn an_index_that_another_thread_changes() {
    let buffer = 0x4000_0000;
    let stream = [
        (3, Read(9, POINTER, 40)),
        (2, Read(1, POINTER, 40)),
        (2, Write(2, buffer + 40, 0, 1)),
        (2, Update(5, POINTER, 40, 80)),
        (2, Read(1, POINTER, 80)),
        (2, Write(2, buffer + 80, 0, 1)),
        (3, Update(3, POINTER, 80, 120)),
    ];
    assert!(pairs(&stream).contains(&(Kind::Overflow, 3, 1)), "{:?}", pairs(&stream));
    let locked: Vec<(Thread, Does)> = stream
        .iter()
        .flat_map(|(thread, does)| [(*thread, lock(LOCK)), (*thread, does.clone()), (*thread, unlock(LOCK))])
        .collect();
    assert!(pairs(&locked).iter().all(|(kind, ..)| *kind != Kind::Overflow));
}

/// Figure 7: a key is read that does not belong to the identifier that was read before.
#[test]
fn a_second_read_that_another_thread_comes_before() {
    let read = [
        (2, lock(LOCK)),
        (2, Read(1, OTHER, 1)),
        (2, unlock(LOCK)),
        (2, lock(LOCK)),
        (2, Read(2, POINTER, 100)),
        (2, unlock(LOCK)),
    ];
    let written = [(3, lock(LOCK)), (3, Write(3, POINTER, 100, 200)), (3, unlock(LOCK))];
    let found = predicted(&[&read[..], &written[..]].concat());
    let inconsistent = found.pairs.iter().flatten().filter(|found| found.kind == Kind::Inconsistent);
    let pairs: Vec<_> = inconsistent.map(|found| (found.early.pc, found.late.pc)).collect();
    assert_eq!(pairs, [(0x300, 0x200)]);
}

#[test]
fn one_thread_has_nothing_to_fear() {
    let mut detector = Detector::new(Explored::default(), plain(), Vec::new());
    let stream = [(1, Read(2, POINTER, OBJECT)), (1, Read(3, OBJECT, 1)), (1, Write(4, POINTER, OBJECT, 0))];
    tell(&mut detector, &stream);
    assert_eq!(detector.into_predicted(), Predicted::default());
}

/// Thread 2 fills an object and puts a pointer to it where thread 3 finds it, both under a lock.
fn queue(value: u64) -> Vec<(Thread, Does)> {
    vec![
        (2, Write(1, OBJECT, 0, 7)),
        (2, lock(LOCK)),
        (2, Write(2, POINTER, 0, value)),
        (2, unlock(LOCK)),
        (3, lock(LOCK)),
        (3, Read(3, POINTER, value)),
        (3, unlock(LOCK)),
        (3, Read(4, OBJECT, 7)),
    ]
}

fn contended_by_hand_overs(rest: &[(Thread, Does)]) -> Vec<u64> {
    explored_by_hand_overs(&with_threads(rest)).contended.instructions.iter().map(|pc| pc / 0x100).collect()
}

#[test]
fn what_is_handed_over_under_a_lock_is_not_looked_at() {
    assert_eq!(contended_by_hand_overs(&queue(OBJECT)), [2, 3]);
    assert_eq!(contended(&queue(OBJECT)), [1, 2, 3, 4]);
    for number in [0, 12, 1 << 47] {
        assert_eq!(contended_by_hand_overs(&queue(number)), [1, 2, 3, 4], "{number} is no pointer");
    }
    let mut unlocked = queue(OBJECT);
    unlocked.remove(6);
    unlocked.remove(4);
    assert_eq!(contended_by_hand_overs(&unlocked), [1, 2, 3, 4], "the reader holds no lock");
    let other = |does: &Does| matches!(does, Does::Event(_)).then(|| lock(LOCK + 64));
    let mut elsewhere = queue(OBJECT);
    elsewhere[4].1 = other(&elsewhere[4].1).expect("an event");
    assert_eq!(contended_by_hand_overs(&elsewhere), [1, 2, 3, 4], "another lock");
}

#[test]
fn what_is_done_after_a_hand_over_is_looked_at() {
    let mut late = queue(OBJECT);
    late.insert(3, (2, Write(5, OBJECT, 7, 8)));
    assert_eq!(contended_by_hand_overs(&late), [1, 2, 3, 4, 5]);
    let mut replaced = queue(OBJECT);
    replaced.insert(4, (1, Write(6, POINTER, OBJECT, OBJECT)));
    assert_eq!(contended_by_hand_overs(&replaced), [1, 2, 3, 4, 6], "the pointer is of another thread's making");
}

/// Thread 2 looks at a block and says that it is done with it, by a flag; thread 3 waits for that and gives the block back.
fn awaited() -> Vec<(Thread, Does)> {
    vec![
        (3, allocate(OBJECT)),
        (3, lock(LOCK)),
        (3, Read(5, FLAG, 0)),
        (3, begin_wait(LOCK)),
        (2, Read(1, OBJECT + 8, 7)),
        (2, lock(LOCK)),
        (2, Write(4, FLAG, 0, 1)),
        (2, unlock(LOCK)),
        (3, end_wait(LOCK)),
        (3, Read(5, FLAG, 1)),
        (3, unlock(LOCK)),
        (3, free(OBJECT)),
    ]
}

/// The same with another block and its flag, but thread 3 comes too late to wait.
fn late() -> Vec<(Thread, Does)> {
    let (object, flag) = (OBJECT + 0x1000, FLAG + 64);
    vec![
        (3, allocate(object)),
        (2, Read(2, object + 8, 7)),
        (2, lock(LOCK)),
        (2, Write(4, flag, 0, 1)),
        (2, unlock(LOCK)),
        (3, lock(LOCK)),
        (3, Read(5, flag, 1)),
        (3, unlock(LOCK)),
        (3, free(object)),
    ]
}

const NOTHING: [u64; 0] = [];

/// Sites that would come to a block too late.
fn dangling(rest: &[(Thread, Does)]) -> Vec<u64> {
    pairs(rest).into_iter().filter(|(kind, ..)| *kind == Kind::Dangling).map(|(.., late)| late).collect()
}

fn replaced(mut stream: Vec<(Thread, Does)>, at: usize, by: &[Does]) -> Vec<(Thread, Does)> {
    let thread = stream[at].0;
    stream.splice(at..=at, by.iter().map(|does| (thread, does.clone())));
    stream
}

fn halves(stream: &[(Thread, Does)]) -> Vec<(Thread, Does)> {
    let of_flag = |does: &Does| matches!(does, Read(5, ..) | Write(4, ..));
    let smaller = |does: &Does| if of_flag(does) { half(does.clone()) } else { does.clone() };
    stream.iter().map(|(thread, does)| (*thread, smaller(does))).collect()
}

#[test]
fn a_flag_that_is_waited_for_under_a_lock_orders() {
    assert_eq!(contended(&awaited()), [1, 4, 5]);
    assert_eq!(contended_by_hand_overs(&awaited()), [4, 5]);
    assert_eq!(dangling(&awaited()), NOTHING);
    assert_eq!(contended_by_hand_overs(&halves(&awaited())), [4, 5], "of four bytes");
    assert_eq!(dangling(&halves(&awaited())), NOTHING);
    let both = [awaited(), late()].concat();
    assert_eq!(contended_by_hand_overs(&both), [4, 5], "who comes late would have waited too");
    assert_eq!(dangling(&both), NOTHING);
    let updated = replaced(awaited(), 6, &[Update(4, FLAG, 0, 1)]);
    assert_eq!(contended_by_hand_overs(&updated), [4, 5], "by an update");
    let woken = replaced(awaited(), 3, &[begin_wait(LOCK), end_wait(LOCK), Read(5, FLAG, 0), begin_wait(LOCK)]);
    assert_eq!(dangling(&woken), NOTHING, "woken for nothing");
}

/// As compilers do with loops: one instruction tests before it, another in it.
#[test]
fn several_instructions_may_wait_for_one_flag() {
    let rotated = replaced(awaited(), 9, &[Read(6, FLAG, 1)]);
    assert_eq!(contended_by_hand_overs(&rotated), [4, 5, 6]);
    assert_eq!(dangling(&rotated), NOTHING);
    assert_eq!(dangling(&[rotated.clone(), late()].concat()), NOTHING);
    let careless = [vec![(1, lock(LOCK)), (1, Read(6, FLAG + 128, 0)), (1, unlock(LOCK))], rotated].concat();
    assert_eq!(dangling(&careless), [1], "the other goes on with the old value");
}

#[test]
fn what_is_done_after_a_flag_was_set_is_looked_at() {
    let after = replaced(awaited(), 7, &[unlock(LOCK), Read(3, OBJECT + 8, 7)]);
    assert_eq!(contended_by_hand_overs(&after), [1, 3, 4, 5]);
    assert_eq!(dangling(&after), [3]);
}

#[test]
fn flags_that_nobody_has_to_wait_for_order_nothing() {
    assert_eq!(dangling(&late()), [2], "no wait ever");
    let lock_again = replaced(awaited(), 3, &[unlock(LOCK)]);
    assert_eq!(dangling(&replaced(lock_again, 8, &[lock(LOCK)])), [1], "who asks again has not waited");
    let passing = |site| vec![(1, lock(LOCK)), (1, Read(site, FLAG + 128, 0)), (1, unlock(LOCK))];
    assert_eq!(dangling(&[passing(5), awaited()].concat()), [1], "the old value was passed by before");
    assert_eq!(dangling(&[awaited(), passing(5)].concat()), [1], "or after");
    assert_eq!(dangling(&[vec![(1, Read(5, FLAG + 128, 0))], awaited()].concat()), [1], "or without a lock");
    assert_eq!(dangling(&[awaited(), passing(6)].concat()), NOTHING, "by another instruction");
    let once = replaced(awaited(), 9, &[]);
    assert_eq!(dangling(&once), [1], "it is not read again after the wait");
    let twice = [once, awaited()].concat();
    assert_eq!(dangling(&twice), [1], "not always");
}

#[test]
fn a_flag_orders_by_the_lock_and_the_address_of_its_writer_alone() {
    let elsewhere = replaced(awaited(), 5, &[lock(LOCK + 64)]);
    assert_eq!(dangling(&elsewhere), [1], "another lock");
    let mut unlocked = awaited();
    unlocked.remove(7);
    unlocked.remove(5);
    assert_eq!(dangling(&unlocked), [1], "no lock");
    let other = replaced(awaited(), 6, &[Write(4, FLAG, 0, 1), Write(9, FLAG, 1, 1)]);
    assert_eq!(dangling(&other), [1], "the old value is of another writer");
    // The last to write to the granule has done nothing to what is read.
    let neighbour = |site| [Read(3, OBJECT + 16, 7), lock(LOCK), half(Write(site, FLAG + 4, 0, 1)), unlock(LOCK)];
    for site in [4, 9] {
        let mut beside = halves(&awaited());
        beside.splice(8..8, neighbour(site).map(|does| (1, does)));
        assert_eq!(dangling(&beside), [3], "the neighbour by site {site}");
        assert!(contended_by_hand_overs(&beside).contains(&3), "the neighbour by site {site}");
    }
}

/// Two have to be done with it, and who waits comes to see both numbers.
#[test]
fn a_value_that_is_waited_with_orders_nothing() {
    let mut counted = awaited();
    let second = [Read(3, OBJECT + 8, 7), lock(LOCK), Write(4, FLAG, 1, 2), unlock(LOCK)].map(|does| (1, does));
    let woken = [Read(5, FLAG, 1), begin_wait(LOCK)].map(|does| (3, does));
    counted.splice(9..10, [woken.to_vec(), second.to_vec(), vec![(3, end_wait(LOCK)), (3, Read(5, FLAG, 2))]].concat());
    assert_eq!(dangling(&counted), [1, 3]);
}

/// Something else may end the wait.
#[test]
fn conditions_with_an_alternative_order_nothing() {
    let (taken, queued, closed) = (FLAG, FLAG + 64, FLAG + 128);
    let test = |numbers: [u64; 2]| [Read(5, taken, numbers[0]), Read(6, queued, numbers[1])];
    let say = |does: &[Does]| does.iter().map(|does| (2, does.clone())).collect::<Vec<_>>();
    let mut stream = vec![(3, allocate(OBJECT)), (3, lock(LOCK))];
    stream.extend(test([0, 0]).map(|does| (3, does)));
    stream.extend([Read(7, closed, 0), begin_wait(LOCK)].map(|does| (3, does)));
    stream.extend(say(&[Read(1, OBJECT, 7), lock(LOCK), Write(8, queued, 0, 1), unlock(LOCK)]));
    stream.push((3, end_wait(LOCK)));
    stream.extend(test([0, 1]).map(|does| (3, does)));
    stream.extend([Write(9, taken, 0, 1), unlock(LOCK), lock(LOCK)].map(|does| (3, does)));
    stream.extend(test([1, 1]).map(|does| (3, does)));
    stream.extend([Read(7, closed, 0), begin_wait(LOCK)].map(|does| (3, does)));
    stream.extend(say(&[Read(2, OBJECT, 7), lock(LOCK), Write(10, closed, 0, 1), unlock(LOCK)]));
    stream.push((3, end_wait(LOCK)));
    stream.extend(test([1, 1]).map(|does| (3, does)));
    stream.extend([Read(7, closed, 1), unlock(LOCK), free(OBJECT)].map(|does| (3, does)));
    assert_eq!(dangling(&stream), [2]);
    assert_eq!(trusted(&with_threads(&stream)).flags, Flags::default());
}

/// A run whose threads hand objects to each other, and now and then do something else to what they share.
struct RandomRun {
    random: fastrand::Rng,
    memory: BTreeMap<u64, u64>,
    done: Vec<(Thread, Does)>,
}

impl RandomRun {
    fn new(seed: u64) -> Vec<(Thread, Does)> {
        let mut run = RandomRun { random: fastrand::Rng::with_seed(seed), memory: BTreeMap::new(), done: Vec::new() };
        for object in 0..run.random.u64(2..9) {
            let (thread, slot, object) = (run.random.u32(1..4), 8 * run.random.u64(0..3), OBJECT + 64 * object);
            run.put(thread, POINTER + slot, object);
            let (thread, slot) = (run.random.u32(1..4), 8 * run.random.u64(0..3));
            run.get(thread, POINTER + slot);
        }
        for block in 0..run.random.u64(0..9) {
            let (thread, other) = *run.random.choice(&[(1, 2), (2, 3), (3, 1), (3, 2)]).expect("there are some");
            run.wait(thread, other, block);
        }
        run.done
    }

    /// A thread waits until another has done with a block, unless that is so already, and gives the block back.
    fn wait(&mut self, thread: Thread, other: Thread, block: u64) {
        let (object, flag) = (OBJECT + 0x1000 + 64 * block, FLAG + 8 * block);
        let comes_late = self.random.bool();
        let in_loop = if self.random.bool() { 20 } else { 21 };
        self.done.push((thread, allocate(object)));
        if comes_late {
            self.finish(other, object, flag);
        }
        self.done.push((thread, lock(LOCK)));
        let mut value = self.read(thread, 20, flag);
        while value == 0 && !self.rarely() {
            self.done.push((thread, begin_wait(LOCK)));
            if !self.rarely() {
                self.finish(other, object, flag);
            }
            self.done.push((thread, end_wait(LOCK)));
            value = if self.rarely() { 1 } else { self.read(thread, in_loop, flag) };
        }
        self.done.push((thread, unlock(LOCK)));
        self.done.push((thread, free(object)));
    }

    fn finish(&mut self, thread: Thread, object: u64, flag: u64) {
        self.read(thread, 22, object);
        let flag_lock = if self.rarely() { LOCK + 64 } else { LOCK };
        self.done.push((thread, lock(flag_lock)));
        let site = if self.rarely() { 24 } else { 23 };
        self.write(thread, site, flag, 1);
        if self.rarely() {
            self.read(thread, 25, object + 8);
        }
        self.done.push((thread, unlock(flag_lock)));
        if self.rarely() {
            self.read(thread, 26, object + 16);
        }
    }

    fn read(&mut self, thread: Thread, site: u32, address: u64) -> u64 {
        let value = self.memory.get(&address).copied().unwrap_or(0);
        self.done.push((thread, Read(site, address, value)));
        value
    }

    fn write(&mut self, thread: Thread, site: u32, address: u64, value: u64) {
        let before = self.memory.insert(address, value).unwrap_or(0);
        self.done.push((thread, Write(site, address, before, value)));
    }

    fn rarely(&mut self) -> bool {
        self.random.u32(0..16) == 0
    }

    fn put(&mut self, thread: Thread, slot: u64, object: u64) {
        self.done.push((thread, allocate(object)));
        self.write(thread, 1, object, 7);
        let object_lock = if self.rarely() { LOCK + 64 } else { LOCK };
        self.done.push((thread, lock(object_lock)));
        let value = if self.rarely() { self.random.u64(0..3) } else { object };
        self.write(thread, 2, slot, value);
        if self.rarely() {
            self.write(thread, 3, object + 8, 9);
        }
        self.done.push((thread, unlock(object_lock)));
        if self.rarely() {
            self.write(thread, 4, object + 16, 9);
        }
    }

    fn get(&mut self, thread: Thread, slot: u64) {
        let is_locked = !self.rarely();
        if is_locked {
            self.done.push((thread, lock(LOCK)));
        }
        let site = 10 + ((slot - POINTER) / 8) as u32;
        let object = self.read(thread, site, slot);
        if self.random.bool() {
            self.write(thread, 14, slot, 0);
        }
        if is_locked {
            self.done.push((thread, unlock(LOCK)));
        }
        if object >= OBJECT {
            self.read(thread, 15, object);
            self.read(thread, 16, object + 8);
            self.write(thread, 17, object + 16, 3);
        }
        if object >= OBJECT && self.rarely() {
            self.done.push((thread, free(object)));
        }
    }
}

#[test]
fn hand_overs_take_nothing_from_predictions() {
    let (mut less, mut by_flags) = (0, 0);
    for seed in 0..300 {
        let stream = with_threads(&RandomRun::new(seed));
        let flags = trusted(&stream).flags;
        let (all, by_hand_overs) = (explored(&stream), explored_by_hand_overs(&stream));
        assert!(by_hand_overs.contended.instructions.is_subset(&all.contended.instructions), "seed {seed}");
        less += u32::from(by_hand_overs.contended.memory != all.contended.memory);
        let without_flags = predicted_from(all.clone(), &Flags::default(), &stream);
        let [all, by_hand_overs] = [all, by_hand_overs].map(|explored| predicted_from(explored, &flags, &stream));
        assert_eq!(places(&all), places(&by_hand_overs), "seed {seed}");
        by_flags += u32::from(places(&all) != places(&without_flags));
    }
    assert!(less > 50, "hand-overs made a difference in {less} runs only");
    assert!(by_flags > 50, "flags made a difference in {by_flags} runs only");
}
