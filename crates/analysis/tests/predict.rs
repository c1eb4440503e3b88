//! Predictions from streams written by hand, after the figures of the ConMem paper.

#[path = "predict/flags.rs"]
mod flags;
#[path = "predict/gaps.rs"]
mod gaps;
#[path = "predict/hand_overs.rs"]
mod hand_overs;
#[path = "predict/records.rs"]
mod records;

use analysis::predict::{
    Deed, Detector, Exploration, Explored, FirstPass, HandOverCheck, Kind, MOST_MEMORY, Predicted, Watching, sieve,
};
use analysis::races::{Classify, Flags, HandOvers, Sieved, SiteClass};
use std::collections::BTreeSet;
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
    /// Since its clock showed this, nothing was left out of what is told of the thread.
    Whole(Option<u64>),
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
            Does::Whole(clock) => {
                listener.whole_since(*thread, clock);
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
    tell(&mut Valuing::none(&mut sieve), stream);
    explored_after(sieve.into_sieved(), stream)
}

fn explored_after(sieved: Sieved, stream: &[(Thread, Does)]) -> Explored {
    let mut exploration = Exploration::after(sieved, [plain(), plain()], Vec::new());
    tell(&mut exploration, stream);
    exploration.into_explored()
}

/// What may hand something over under locks.
fn candidates(stream: &[(Thread, Does)]) -> HandOvers {
    let mut first = sieve(plain(), Vec::new(), MOST_MEMORY);
    tell(&mut Valuing::none(&mut first), stream);
    first.into_sieved().hand_overs
}

/// What has to do with flags that are waited for under locks.
fn trusted(stream: &[(Thread, Does)]) -> Flags {
    checked(stream).flags
}

/// What is handed over under locks.
fn checked(stream: &[(Thread, Does)]) -> HandOvers {
    let mut check = HandOverCheck::new(candidates(stream));
    let told = of_instructions(stream, &check.instructions());
    tell(&mut check, &told);
    check.into_checked()
}

/// A listener that is told the values of some instructions.
struct Valuing<'a, L> {
    listener: &'a mut L,
    instructions: BTreeSet<u64>,
}

impl<'a, L> Valuing<'a, L> {
    fn none(listener: &'a mut L) -> Valuing<'a, L> {
        Valuing { listener, instructions: BTreeSet::new() }
    }
}

impl<L: Listener> Listener for Valuing<'_, L> {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        self.listener.accesses(thread, accesses);
    }

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        match self.instructions.contains(&(0x100 * u64::from(access.site.0))) {
            true => self.listener.valued(thread, access, values),
            false => self.listener.accesses(thread, std::slice::from_ref(access)),
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.listener.event(thread, event);
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.listener.site(site, pc);
    }
}

/// The same as `explored`, where what is handed over under locks orders what follows.
fn explored_by_hand_overs(stream: &[(Thread, Does)]) -> Explored {
    let mut second = sieve(plain(), Vec::new(), MOST_MEMORY).trusting(trusted(stream));
    let instructions = candidates(stream).instructions();
    tell(&mut Valuing { listener: &mut second, instructions }, stream);
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
        Does::Event(_) | Does::Whole(_) => true,
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
    let flags = trusted(&stream);
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
    let detector = Detector::new(explored, plain(), Vec::new()).trusting(flags.clone());
    let mut watching = Watching::new(detector, instructions);
    tell(&mut watching, stream);
    watching.into_predicted()
}

/// The sites that a first pass finds worth looking at.
fn contended(rest: &[(Thread, Does)]) -> Vec<u64> {
    explored(&with_threads(rest)).contended.instructions.iter().map(|pc| pc / 0x100).collect()
}

/// The same, where what is handed over under locks orders what follows.
fn contended_by_hand_overs(rest: &[(Thread, Does)]) -> Vec<u64> {
    explored_by_hand_overs(&with_threads(rest)).contended.instructions.iter().map(|pc| pc / 0x100).collect()
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

/// A library that threads call keeps its own memory in order. What it does to others' memory is another matter.
#[test]
fn the_memory_of_libraries_is_not_looked_at() {
    let stream = with_threads(&[
        (2, Write(1, POINTER, 0, 1)),
        (3, Read(2, POINTER, 1)),
        (2, Write(1, OTHER, 0, 1)),
        (3, Read(2, OTHER, 1)),
    ]);
    let sieved = |libraries| {
        let mut sieve = sieve(plain(), libraries, MOST_MEMORY);
        tell(&mut sieve, &stream);
        sieve.into_sieved().suspects.expect("little memory").addresses().collect::<Vec<_>>()
    };
    assert_eq!(sieved(Vec::new()), [POINTER, OTHER]);
    assert_eq!(sieved(vec![POINTER..POINTER + 64, LOCK..LOCK + 64]), [OTHER]);
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

/// Filters of contended memory are wrong now and then, which is no reason to look at an instruction.
#[test]
fn who_goes_over_much_memory_is_not_looked_at_for_that() {
    let shared = (0..2000).map(|place| 0x6000_0000 + 4104 * place);
    let mut stream: Vec<(Thread, Does)> =
        shared.flat_map(|address| [(2, Write(1, address, 0, 1)), (3, Write(2, address, 1, 2))]).collect();
    stream.extend((0..20_000).map(|place| (2, Read(3, 0x4000_0000 + 4936 * place, 7))));
    assert_eq!(contended(&stream), [1, 2]);
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
