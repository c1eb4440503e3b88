//! Random programs of which calls and returns are told, of most instructions nothing else: those that are worked out once for all records are
//! the same as those of the events, in the same order.

use crate::code::cache::CodeCache;
use crate::code::observe::{Chosen, Mark, Patience, Wanted};
use crate::code::tests::home::{Bytes, CODE_SIZE, Home, NEAR, THREAD_AREA, new_cache};
use crate::code::tests::machine::{Guest, Machine, Segment};
use crate::code::tests::observed::{run, run_as_natively};
use crate::code::tests::programs::{LIMITS, Trial, trial};
use crate::code::tests::state::State;
use crate::context;
use crate::observation::{self, Around, Batch, Call, Event, EventKind, Flat, Flattener, Room};
use sched::{Rng, ThreadId};
use std::ops::Range;
use trace::stream::records::Records;
use trace::stream::{Access, Site};

const PROGRAMS: u64 = 200;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transfer {
    /// Where from, where to, where back, and where that is kept.
    Call([u64; 4]),
    Return(u64),
}

/// Hears calls and returns, and counts those that did not come as events.
#[derive(Default)]
struct Hearing {
    heard: Vec<Transfer>,
    pushed: (u64, u64),
    n_short: usize,
}

impl Flat for Hearing {
    fn accesses(&mut self, _accesses: &[Access]) {}

    fn records(&mut self, _records: &Records<'_>) -> usize {
        0
    }

    fn marked(&mut self, pc: u64, _mark: Mark, _words: &[u64]) {
        panic!("nothing is marked at {pc:x}");
    }

    fn called(&mut self, call: Call) {
        let Call { pc, target, return_address, stack, .. } = call;
        self.heard.push(Transfer::Call([pc, target, return_address, stack]));
        self.n_short += 1;
    }

    fn returned(&mut self, target: u64) {
        self.heard.push(Transfer::Return(target));
        self.n_short += 1;
    }

    fn detail(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Access(access) if access.is_push_or_pop => self.pushed = (event.pc, access.address),
            EventKind::Call { target, return_address } => {
                let stack = if self.pushed.0 == event.pc { self.pushed.1 } else { 0 };
                self.heard.push(Transfer::Call([event.pc, target, return_address, stack]));
            }
            EventKind::Return { target } => self.heard.push(Transfer::Return(target)),
            _ => {}
        }
    }

    fn site(&mut self, _pc: u64) -> Site {
        Site(0)
    }
}

#[test]
fn calls_and_returns_are_those_of_the_events() {
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let mut cache = new_cache(LIMITS[0]);
    cache.observe(Wanted::EVERYTHING);
    let others = Wanted { targets: true, ..Wanted::COUNTS };
    cache.set_chosen(Some(Chosen { others, ..Chosen::default() }));
    let mut flattener = Flattener::in_detail(true);
    let (mut n_short, mut n_heard) = (0, 0);
    for number in 0..PROGRAMS {
        let trial = trial(&mut machine, number, false);
        cache.invalidate(trial.home.code..trial.home.code + CODE_SIZE);
        let guest = Guest { home: trial.home, entry: trial.entry, state: &trial.state, segment: Segment::Fs };
        machine.load(&guest, 1 << 20);
        let words = run(&mut cache, &trial.code, trial.entry, 1 << 20, machine.xstate);
        let catalogue = cache.catalogue().expect("the cache is observed");
        let fs_base = trial.home.data + THREAD_AREA;
        let batch = Batch { thread: ThreadId(1), words: &words, catalogue, fs_base, around: Around::default() };
        let (mut expected, mut heard) = (Hearing::default(), Hearing::default());
        batch.events().for_each(|event| expected.detail(&event));
        flattener.read(&batch, &mut heard);
        assert_eq!(heard.heard, expected.heard, "program {number}\n{}", trial.listing);
        (n_short, n_heard) = (n_short + heard.n_short, n_heard + heard.heard.len());
    }
    observation::close_buffer(context::of_this_thread());
    assert!(n_short > n_heard / 2 && n_heard > 100, "{n_short} of {n_heard} were told by what units have in common");
}

/// Runs a program, which ends as on the bare processor, and gives the calls and returns that it tells, with where they are.
fn transfers(machine: &mut Machine, cache: &mut CodeCache, trial: &Trial) -> Vec<(u64, u64)> {
    cache.invalidate(trial.home.code..trial.home.code + CODE_SIZE);
    let words = run_as_natively(machine, cache, trial, 1 << 20, "a program whose calls are told");
    told_transfers(cache, trial.home, &words)
}

/// The calls and returns that records tell, with where they are.
fn told_transfers(cache: &CodeCache, home: Home, words: &[u64]) -> Vec<(u64, u64)> {
    let catalogue = cache.catalogue().expect("the cache is observed");
    let fs_base = home.data + THREAD_AREA;
    let batch = Batch { thread: ThreadId(1), words, catalogue, fs_base, around: Around::default() };
    let told = batch.events().filter_map(|event| match event.kind {
        EventKind::Call { target, .. } | EventKind::Return { target } => Some((event.pc, target)),
        _ => None,
    });
    told.collect()
}

#[test]
fn within_some_code_only_those_that_lead_in_or_out_are_told() {
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let others = Wanted { targets: true, ..Wanted::COUNTS };
    let [mut whole, mut cache] = [new_cache(LIMITS[0]), new_cache(LIMITS[0])];
    whole.observe(Wanted::EVERYTHING);
    whole.set_chosen(Some(Chosen { others, ..Chosen::default() }));
    cache.observe(Wanted::EVERYTHING);
    let (mut n_inside, mut n_crossing, mut n_told_inside) = (0, 0, 0);
    for number in 0..PROGRAMS {
        let trial = trial(&mut machine, number, false);
        let all = transfers(&mut machine, &mut whole, &trial);
        // All code but that before a return in the middle, or behind it.
        let Some(&(middle, _)) = all.get(all.len() / 2) else { continue };
        let code = trial.home.code..trial.home.code + CODE_SIZE;
        let inner: Range<u64> = if number % 2 == 0 { code.start..middle } else { middle..code.end };
        let crosses = |(from, to): &&(u64, u64)| !(inner.contains(from) && inner.contains(to));
        cache.set_chosen(Some(Chosen { others, inner: vec![inner.clone()], ..Chosen::default() }));
        let some = transfers(&mut machine, &mut cache, &trial);
        let [expected, crossing] = [&all, &some].map(|told| told.iter().filter(crosses).collect::<Vec<_>>());
        assert_eq!(crossing, expected, "program {number} within {inner:x?}\n{}", trial.listing);
        n_crossing += crossing.len();
        n_inside += all.len() - expected.len();
        n_told_inside += some.len() - crossing.len();
    }
    observation::close_buffer(context::of_this_thread());
    assert!(n_crossing > 100 && n_inside > 100, "{n_crossing} led in or out, and {n_inside} did not");
    assert!(n_told_inside < n_inside / 4, "{n_told_inside} of {n_inside} were told all the same");
}

#[test]
fn calls_in_which_nothing_was_ever_told_are_left_out_for_a_while() {
    /// A loop that calls a function, which goes on where a register points to, and returns.
    const CODE: [u8; 26] = [
        0xb9, 0x88, 0x13, 0, 0, // mov ecx, 5000
        0xe8, 6, 0, 0, 0, // call the function
        0xff, 0xc9, // dec ecx
        0x75, 0xf7, // jne to the call
        0x0f, 0x05, // syscall
        0x48, 0x8d, 0x05, 2, 0, 0, 0, // lea rax, [rip + 2]
        0xff, 0xe0, // jmp rax
        0xc3, // ret
    ];
    const ROUNDS: usize = 5000;
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let others = Wanted { targets: true, ..Wanted::COUNTS };
    let patience = Some(Patience { first: 1000, later: 100, ..Patience::default() });
    let mut cache = new_cache(LIMITS[0]);
    cache.observe(Wanted::EVERYTHING);
    cache.set_chosen(Some(Chosen { others, spares_calls: true, patience, ..Chosen::default() }));
    let code = Bytes { start: NEAR.code, bytes: CODE.to_vec() };
    let state = State::random(&mut Rng::new(3), NEAR, machine.xstate);
    let mut told = |cache: &mut CodeCache| {
        let guest = Guest { home: NEAR, entry: NEAR.code, state: &state, segment: Segment::Fs };
        machine.load(&guest, 1 << 20);
        let words = run(cache, &code, NEAR.code, 1 << 20, machine.xstate);
        machine.collect(NEAR);
        told_transfers(cache, NEAR, &words)
    };
    let first = told(&mut cache);
    assert_eq!(first.len(), 2 * ROUNDS);
    assert!(cache.review_tellings(&code, false), "nothing has been told within");
    assert_eq!(told(&mut cache), [], "so nothing is told of the calls and returns");
    assert!(cache.review_tellings(&code, true));
    assert_eq!(told(&mut cache), first);
    observation::close_buffer(context::of_this_thread());
}
