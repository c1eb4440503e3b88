//! Random programs of which not everything is told: they end as on the bare processor, what is told is as it would be if everything were, and
//! nothing is missing that was asked for.

use crate::code::cache::CodeCache;
use crate::code::observe::sparing::Sparing;
use crate::code::observe::{AccessKind, Chosen, Wanted};
use crate::code::tests::home::{CODE_SIZE, THREAD_AREA, new_cache};
use crate::code::tests::machine::Machine;
use crate::code::tests::observed::run_as_natively;
use crate::code::tests::programs::{LIMITS, Trial, trial};
use crate::context;
use crate::observation::{self, Around, Batch, EventKind, Room};
use sched::ThreadId;
use std::collections::BTreeSet;
use trace::stream::strips::{NUMBERS, STRIP_SIZE, number_of};

const PROGRAMS: u64 = 120;
/// Programs that are run often go from telling to telling now and then.
const TIMES: usize = 12;

/// An access: its instruction, where it goes, how far, what it does, and whether it is a push or pop.
pub(super) type Told = (u64, u64, u64, AccessKind, bool);

/// Quanta in which programs end, and those that are over so soon that what is run often is made a hot path.
pub(super) const AT_ONCE: i64 = 1 << 20;
pub(super) const SHORT: i64 = 3;

/// What a program tells, each time that it is run.
fn told(machine: &mut Machine, cache: &mut CodeCache, trial: &Trial, quantum: i64, what: &str) -> Vec<Vec<Told>> {
    cache.invalidate(trial.home.code..trial.home.code + CODE_SIZE);
    (0..TIMES).map(|_| told_once(machine, cache, trial, quantum, what)).collect()
}

/// What a program tells when it is run once more. It must end as on the bare processor.
pub(super) fn told_once(
    machine: &mut Machine,
    cache: &mut CodeCache,
    trial: &Trial,
    quantum: i64,
    what: &str,
) -> Vec<Told> {
    // What has told enough by now tells now and then.
    cache.quieten_units(&trial.code);
    let words = run_as_natively(machine, cache, trial, quantum, what);
    let catalogue = cache.catalogue().expect("the cache is observed");
    let fs_base = trial.home.data + THREAD_AREA;
    let batch = Batch { thread: ThreadId(1), words: &words, catalogue, fs_base, around: Around::default() };
    let accesses = batch.events().filter_map(|event| match event.kind {
        EventKind::Access(access) => Some((event.pc, access.address, access.size, access.kind, access.is_push_or_pop)),
        _ => None,
    });
    accesses.collect()
}

fn spared_cache(sparing: Sparing) -> CodeCache {
    let mut cache = new_cache(LIMITS[0]);
    cache.observe(Wanted::ADDRESSES);
    cache.set_sparing(Some(sparing));
    cache
}

/// Whether some are among others, in the same order.
pub(super) fn is_among(some: &[Told], all: &[Told]) -> bool {
    let mut all = all.iter();
    some.iter().all(|access| all.any(|other| other == access))
}

fn is_on(strips: &Sparing, &(_, address, size, ..): &Told) -> bool {
    let last = address + size.max(1) - 1;
    (address / STRIP_SIZE..=last / STRIP_SIZE).any(|strip| strips.strips.contains(&number_of(strip * STRIP_SIZE)))
}

#[test]
fn what_is_told_is_so_in_full() {
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let mut whole = new_cache(LIMITS[0]);
    whole.observe(Wanted::ADDRESSES);
    let every_third = |rest: u16| {
        let strips = (0..=(NUMBERS - 1) as u16).filter(|strip| strip % 3 == rest).collect();
        Sparing { strips, is_thorough: true, ..Sparing::default() }
    };
    let mut spared = [0, 1].map(|rest| (every_third(rest), spared_cache(every_third(rest))));
    let (mut n_all, mut n_told) = (0, 0);
    for number in 0..PROGRAMS {
        let trial = trial(&mut machine, number, false);
        let what = format!("program {number}");
        let all = told(&mut machine, &mut whole, &trial, AT_ONCE, &what);
        for (sparing, cache) in &mut spared {
            let some = told(&mut machine, cache, &trial, AT_ONCE, &what);
            for (all, some) in all.iter().zip(&some) {
                assert!(is_among(some, all), "{what}: {some:x?}\nof {all:x?}\n{}", trial.listing);
                let is_wanted = |access: &&Told| is_on(sparing, access) && !access.4 || access.3 == AccessKind::Atomic;
                let wanted: Vec<Told> = all.iter().filter(is_wanted).copied().collect();
                assert!(is_among(&wanted, some), "{what}: {some:x?}\nlacks some of {wanted:x?}\n{}", trial.listing);
                (n_all, n_told) = (n_all + all.len(), n_told + some.len());
            }
        }
    }
    observation::close_buffer(context::of_this_thread());
    assert!(n_told > n_all / 10 && n_told < n_all * 9 / 10, "{n_told} of {n_all} were told");
}

/// All memory is looked at, but half of the code is not heard of.
#[test]
fn nothing_is_told_of_code_that_is_not_heard_of() {
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let strips: BTreeSet<u16> = (0..=(NUMBERS - 1) as u16).collect();
    let sparing = Sparing { strips, is_thorough: true, patience: Some([u32::MAX; 2]), ..Sparing::default() };
    let [mut whole, mut cache] = [spared_cache(sparing.clone()), spared_cache(sparing.clone())];
    let (mut n_all, mut n_told) = (0, 0);
    for number in 0..PROGRAMS / 8 {
        let trial = trial(&mut machine, number, false);
        let what = format!("program {number}");
        let all = told(&mut machine, &mut whole, &trial, AT_ONCE, &what);
        let Some((middle, ..)) = all[0].get(all[0].len() / 2) else { continue };
        let code = trial.home.code..trial.home.code + CODE_SIZE;
        let unheard = if number % 2 == 0 { code.start..*middle } else { *middle..code.end };
        let is_heard = |access: &&Told| !unheard.contains(&access.0);
        let expected: Vec<Told> = all[0].iter().filter(is_heard).copied().collect();
        let others = Wanted::ADDRESSES;
        cache.set_chosen(Some(Chosen { others, unheard: vec![unheard.clone()], ..Chosen::default() }));
        cache.set_sparing(Some(sparing.clone()));
        for some in told(&mut machine, &mut cache, &trial, AT_ONCE, &what) {
            assert!(some.iter().all(|access| is_heard(&access)), "{what}: {some:x?}\n{}", trial.listing);
            // No record is told for the sake of a push, so pushes depend on how the program is cut into units.
            let [some, expected] =
                [&some, &expected].map(|told| told.iter().filter(|told| !told.4).collect::<Vec<_>>());
            assert_eq!(some, expected, "{what} without {unheard:x?}\n{}", trial.listing);
        }
        (n_all, n_told) = (n_all + all[0].len(), n_told + expected.len());
    }
    observation::close_buffer(context::of_this_thread());
    assert!(n_told > n_all / 10 && n_told < n_all * 9 / 10, "{n_told} of {n_all} were told");
}

#[test]
fn what_comes_often_is_told_now_and_then() {
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let mut whole = new_cache(LIMITS[0]);
    whole.observe(Wanted::ADDRESSES);
    let sparing = Sparing { few: 1000, patience: Some([4, 4]), ..Sparing::default() };
    let mut spared = spared_cache(sparing);
    let (mut first, mut last) = (0, 0);
    for number in 0..PROGRAMS {
        let trial = trial(&mut machine, number, false);
        let what = format!("program {number}");
        let all = told(&mut machine, &mut whole, &trial, AT_ONCE, &what);
        let some = told(&mut machine, &mut spared, &trial, AT_ONCE, &what);
        for (all, some) in all.iter().zip(&some) {
            assert!(is_among(some, all), "{what}: {some:x?}\nof {all:x?}\n{}", trial.listing);
        }
        first += some[0].len();
        last += some[TIMES - 1].len();
    }
    observation::close_buffer(context::of_this_thread());
    assert!(first > 2 * last, "{first} were told first, {last} in the end");
}

/// All memory is looked at, and units are run four times before they tell now and then.
#[test]
fn units_that_have_told_enough_leave_most_out() {
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let strips: BTreeSet<u16> = (0..=(NUMBERS - 1) as u16).collect();
    let mut spared = spared_cache(Sparing { strips, patience: Some([u32::MAX, 4]), ..Sparing::default() });
    let (mut first, mut last) = (0, 0);
    for number in 0..PROGRAMS {
        let trial = trial(&mut machine, number, false);
        let some = told(&mut machine, &mut spared, &trial, AT_ONCE, &format!("program {number}"));
        assert!(is_among(&some[TIMES - 1], &some[0]), "{:x?}\nof {:x?}\n{}", some[TIMES - 1], some[0], trial.listing);
        let n_atomic = |told: &[Told]| told.iter().filter(|access| access.3 == AccessKind::Atomic).count();
        assert_eq!(n_atomic(&some[0]), n_atomic(&some[TIMES - 1]), "what orders others is always told");
        first += some[0].len();
        last += some[TIMES - 1].len();
    }
    observation::close_buffer(context::of_this_thread());
    assert!(first > 3 * last, "{first} were told first, {last} in the end");
}

/// Hot paths tell nothing, and let a thread go where it is told now and then.
#[test]
fn hot_paths_leave_out_what_comes_often() {
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let mut whole = new_cache(LIMITS[0]);
    whole.observe(Wanted::ADDRESSES);
    let strips: BTreeSet<u16> = (0..=(NUMBERS - 1) as u16).collect();
    let sparing = Sparing { strips, patience: Some([u32::MAX, 4]), ..Sparing::default() };
    let mut spared = spared_cache(sparing);
    let (mut n_all, mut first, mut last) = (0, 0, 0);
    for number in 0..PROGRAMS {
        let trial = trial(&mut machine, number, false);
        let what = format!("program {number}");
        let all = told(&mut machine, &mut whole, &trial, SHORT, &what);
        let some = told(&mut machine, &mut spared, &trial, SHORT, &what);
        for (all, some) in all.iter().zip(&some) {
            assert!(is_among(some, all), "{what}: {some:x?}\nof {all:x?}\n{}", trial.listing);
            let is_atomic = |access: &&Told| access.3 == AccessKind::Atomic;
            let count = |told: &[Told]| told.iter().filter(is_atomic).count();
            assert_eq!(count(some), count(all), "{what}: what orders others is always told\n{}", trial.listing);
        }
        n_all += all[0].len();
        first += some[0].len();
        last += some[TIMES - 1].len();
    }
    observation::close_buffer(context::of_this_thread());
    let n_paths = spared.stats.hot_paths;
    assert!(n_paths >= PROGRAMS / 8, "only {n_paths} hot paths were made");
    assert!(last < first && first <= n_all, "{n_all} accesses, {first} were told first, {last} in the end");
}

/// Where gates are open, everything is told as it was at first, and nothing when they are closed again.
#[test]
fn gates_lead_where_everything_is_told() {
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let strips: BTreeSet<u16> = (0..=(NUMBERS - 1) as u16).collect();
    let sparing = Sparing { strips, patience: Some([u32::MAX, 4]), ..Sparing::default() };
    let (mut n_closed, mut n_open) = (0, 0);
    for number in 0..PROGRAMS / 8 {
        let trial = trial(&mut machine, number, false);
        let what = format!("program {number}");
        let mut cache = spared_cache(sparing.clone());
        let some = told(&mut machine, &mut cache, &trial, AT_ONCE, &what);
        let mut when = |are_open: bool| {
            while cache.are_gates_open() != are_open {
                cache.begin_slice(&trial.code);
            }
            told_once(&mut machine, &mut cache, &trial, AT_ONCE, &what)
        };
        let (open, closed) = (when(true), when(false));
        assert_eq!(open, some[0], "{what}\n{}", trial.listing);
        assert_eq!(closed, some[TIMES - 1], "{what}\n{}", trial.listing);
        (n_closed, n_open) = (n_closed + closed.len(), n_open + open.len());
    }
    observation::close_buffer(context::of_this_thread());
    assert!(n_open > 2 * n_closed, "{n_open} accesses are told where gates are open, and {n_closed} elsewhere");
}
