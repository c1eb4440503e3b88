//! Stop requests that come at any instruction in the cache: the thread leaves at its next event, and nothing of its
//! quantum or clock is lost.

use crate::code::cache::{CodeCache, Exit};
use crate::code::hot::{Follower, Next};
use crate::code::path::{End, Limits, Path};
use crate::code::points::Points;
use crate::code::tests::home::{Bytes, NEAR, OPERANDS, new_cache};
use crate::code::tests::machine::{Guest, Machine, Segment};
use crate::code::tests::native;
use crate::code::tests::state::{Ignore, State};
use crate::context;
use crate::kernel;
use sched::Rng;

const TRAP_FLAG: u64 = 0x100;
const QUANTUM: i64 = 4;
/// Three loops of six rounds, whose events are counted by subtraction, by decrement and with all flags kept.
const CODE: [u8; 42] = [
    0xbb, 6, 0, 0, 0, // mov ebx, 6
    0x48, 0x01, 0xd0, // 1: add rax, rdx
    0x48, 0x83, 0xeb, 1, // sub rbx, 1
    0x75, 0xf7, // jne 1b
    0xbb, 6, 0, 0, 0, // mov ebx, 6
    0x48, 0x11, 0xd0, // 2: adc rax, rdx
    0x48, 0xff, 0xcb, // dec rbx
    0x75, 0xf8, // jne 2b
    0x49, 0xc7, 0x07, 6, 0, 0, 0, // mov qword [r15], 6
    0x49, 0x83, 0x2f, 1, // 3: sub qword [r15], 1
    0x75, 0xfa, // jne 3b
    0x0f, 0x05, // syscall
];
const EVENTS: u64 = 18;

/// What a run with one stop request shows.
struct Run {
    state: State,
    /// The clock at every end of a quantum and at the end, from the start on.
    clocks: Vec<u64>,
    /// The clock when the thread had left because of the request.
    stopped: Option<u64>,
}

fn run(machine: &mut Machine, cache: &mut CodeCache, state: &State, stop_at: u64) -> Run {
    let code = Bytes { start: NEAR.code, bytes: CODE.to_vec() };
    let guest = Guest { home: NEAR, entry: NEAR.code, state, segment: Segment::Fs };
    let start = machine.load(&guest, QUANTUM);
    context::of_this_thread().rflags |= TRAP_FLAG;
    native::stop_at(stop_at);
    let (mut clocks, mut stopped) = (Vec::new(), None);
    let enter = cache.stubs().enter;
    let mut host = cache.host_for(&code, guest.entry);
    for _ in 0..100 {
        let has_stopped = native::run_until_stop(cache, || kernel::enter(enter, host));
        let context = context::of_this_thread();
        let exit = cache.exit(context.exit);
        if let Exit::Budget { amount, .. } = exit {
            context.take_back(amount);
        }
        if has_stopped {
            context.release_deferred();
            stopped = Some(context.clock() - start);
        }
        host = match exit {
            Exit::Budget { pc, .. } if context.budget > 1 => cache.host_for_last_events(&code, pc),
            Exit::Budget { pc, .. } => {
                if !has_stopped {
                    clocks.push(context.clock() - start);
                    context.set_quantum(QUANTUM);
                }
                cache.host_for(&code, pc)
            }
            Exit::Direct { target, link } => cache.link(&code, target, link),
            Exit::SystemCall { .. } => {
                let (mut state, clock) = machine.collect(NEAR);
                clocks.push(clock - start);
                state.rflags &= !TRAP_FLAG;
                return Run { state, clocks, stopped };
            }
            exit => panic!("{exit:?} is no exit of this code"),
        };
    }
    panic!("the code never ends when it is stopped at {stop_at}");
}

/// Where the three loops begin, by offset.
const LOOPS: [u64; 3] = [5, 19, 34];

fn make_loops_hot(cache: &mut CodeCache) {
    let code = Bytes { start: NEAR.code, bytes: CODE.to_vec() };
    for offset in LOOPS {
        let head = NEAR.code + offset;
        let limits = Limits { instructions: 64, branches: 1 };
        let block = Path::follow(&code, head, limits, |_| false, |_| true);
        cache.add_hot_path(&code, &Path { end: End::Continues(head), ..block });
    }
}

#[test]
fn a_stop_request_at_any_place_loses_nothing() {
    stop_everywhere(|_| {}, &[4, 8, 12, 16, EVENTS]);
}

#[test]
fn a_stop_request_at_any_place_of_a_hot_path_loses_nothing() {
    stop_everywhere(make_loops_hot, &[4, 8, 12, 16, EVENTS]);
}

/// The store and the subtractions from memory.
const POINTS: [u64; 2] = [27, 34];

fn make_points(cache: &mut CodeCache) {
    cache.points = Points::new(POINTS.map(|offset| NEAR.code + offset).into());
}

#[test]
fn a_stop_request_at_any_place_of_code_with_points_loses_nothing() {
    stop_everywhere(make_points, &[4, 8, 12, 16, 20, 24, EVENTS + 7]);
}

#[test]
fn a_thread_stops_before_the_point_that_it_may_not_pass() {
    let mut machine = Machine::take();
    let mut cache = new_cache(Limits { instructions: 64, branches: 8 });
    make_points(&mut cache);
    let mut state = State::random(&mut Rng::new(3), NEAR, machine.xstate);
    state.gpr[15] = NEAR.data + OPERANDS;
    let code = Bytes { start: NEAR.code, bytes: CODE.to_vec() };
    let start = machine.load(&Guest { home: NEAR, entry: NEAR.code, state: &state, segment: Segment::Fs }, 1000);
    context::of_this_thread().points = 3;
    let mut host = cache.host_for(&code, NEAR.code);
    let stopped_at = loop {
        kernel::enter(cache.stubs().enter, host);
        match cache.exit(context::of_this_thread().exit) {
            Exit::Point { pc, .. } => break pc,
            Exit::Direct { target, link } => host = cache.link(&code, target, link),
            exit => panic!("{exit:?} is no exit of this code"),
        }
    };
    context::of_this_thread().points = u64::MAX;
    let (_, clock) = machine.collect(NEAR);
    assert_eq!(stopped_at, NEAR.code + POINTS[1]);
    // Two loops of six rounds, the store, and two rounds of the third loop with its point.
    assert_eq!(clock - start, 6 + 6 + 1 + 2 * 2);
}

#[test]
fn no_hot_path_is_made_of_a_last_block_with_a_point() {
    let (mut bytes, store) = (vec![0xeb, 0], [0x49, 0x89, 0x07]); // jmp to the next instruction; mov [r15], rax
    (0..8).for_each(|_| bytes.extend_from_slice(&store));
    bytes.push(0xc3); // ret, which no call on the path leads back from
    let code = Bytes { start: NEAR.code, bytes };
    let block = NEAR.code + 2;
    let is_made = |points: Points| {
        let mut cache = new_cache(Limits { instructions: 64, branches: 8 });
        cache.points = points;
        let mut follower = Follower::default();
        assert!(matches!(cache.follow(&code, &mut follower, NEAR.code), Next::Run(_)));
        matches!(cache.follow(&code, &mut follower, block), Next::Done(Some(_)))
    };
    assert!(is_made(Points::default()));
    assert!(!is_made(Points::new([block + 3].into())));
}

#[test]
fn jumps_lead_to_the_latest_translation_at_once() {
    /// `jne` forward to where the second page of the home's code begins, where there is a `ret`.
    const JUMP: [u8; 6] = [0x0f, 0x85, 0xfa, 0x0f, 0, 0];
    const PAGE: u64 = 0x1000;
    let mut bytes = vec![0xc3; PAGE as usize + 1];
    bytes[..JUMP.len()].copy_from_slice(&JUMP);
    let code = Bytes { start: NEAR.code, bytes };
    let target = NEAR.code + PAGE;
    let mut cache = new_cache(Limits { instructions: 64, branches: 8 });
    let first = cache.host_for(&code, NEAR.code);
    // The jump is the first thing in its unit: two bytes, and where it leads from behind them.
    let leads_to = || {
        let displacement: u32 = kernel::read(first + 2).expect("the code is there");
        (first + 6).wrapping_add_signed(i64::from(displacement.cast_signed()))
    };
    assert_ne!(leads_to(), cache.host_for(&code, target), "nobody has taken it yet");
    cache.link(&code, target, first + 2);
    for _ in 0..3 {
        let before = leads_to();
        assert_eq!(before, cache.host_for(&code, target));
        cache.invalidate(target..target + 1);
        assert_ne!(cache.host_for(&code, target), before);
    }
    cache.flush();
    assert_eq!(cache.host_for(&code, NEAR.code), first, "memory is used again");
    assert_ne!(leads_to(), cache.host_for(&code, target), "and jumps in it are others");
}

fn stop_everywhere(prepare: fn(&mut CodeCache), expected: &[u64]) {
    let mut machine = Machine::take();
    let mut cache = new_cache(Limits { instructions: 64, branches: 8 });
    prepare(&mut cache);
    let mut state = State::random(&mut Rng::new(3), NEAR, machine.xstate);
    state.gpr[15] = NEAR.data + OPERANDS;
    // The first runs translate and link; from then on every run takes the same steps.
    run(&mut machine, &mut cache, &state, u64::MAX);
    let plain = run(&mut machine, &mut cache, &state, u64::MAX);
    assert_eq!(plain.clocks, expected);
    let mut places = 0;
    let mut lost = Vec::new();
    for place in 1.. {
        let run = run(&mut machine, &mut cache, &state, place);
        if let Some(difference) = plain.state.difference(&run.state, Ignore::default()) {
            panic!("stopped at the instruction {place} in the cache:\n{difference}");
        }
        if run.stopped.is_none() {
            break;
        }
        places += 1;
        if run.clocks != plain.clocks {
            lost.push((place, run.clocks));
        }
    }
    assert!(places > 200, "only {places} places were tried");
    assert!(lost.is_empty(), "{lost:?}");
}
