//! Random programs under observation: they end in the state that the processor ends in, and the events that they write
//! down, carried out on a copy of memory, show at every access what was there and lead to the memory that is there in
//! the end. So no store is missing, and no address, size or value is wrong.

use crate::code::cache::{CodeCache, Exit};
use crate::code::hot::Follower;
use crate::code::observe::{AccessKind, Mark, Wanted};
use crate::code::path::{GuestCode, decode_at};
use crate::code::tests::home::{Bytes, CODE_SIZE, Home, LOW, OPERANDS, THREAD_AREA, new_cache};
use crate::code::tests::machine::{Guest, Machine, Segment, follow, out_of_budget, transfer};
use crate::code::tests::native;
use crate::code::tests::programs::{ADJUST_FLAG, LIMITS, SYSCALL, Trial, trial};
use crate::code::tests::state::{Ignore, State};
use crate::context::{self, RCX, RDI, RSI};
use crate::kernel;
use crate::observation::{self, Access, Around, Batch, EventKind, Flat, Flattener, Outcome, Room, Step};
use crate::signals::frame::XState;
use sched::{Rng, ThreadId};
use trace::stream;

const PROGRAMS: u64 = 200;
/// Sequels are so many units longer than one.
const SEQUEL: u32 = 2;

/// Runs the program in quanta of `quantum` events; returns all that it wrote down.
pub(super) fn run(cache: &mut CodeCache, code: &dyn GuestCode, entry: u64, quantum: i64, xstate: XState) -> Vec<u64> {
    const MOST_EXITS: usize = 100_000;
    let mut log = Vec::new();
    let enter = cache.stubs().enter;
    let wanted = cache.catalogue().expect("the cache is observed").wanted;
    let mut host = cache.host_for(code, entry);
    let mut step = None;
    let mut pc = entry;
    let mut follower: Option<Follower> = None;
    // How many more units tell all.
    let mut sequel = 0;
    for _ in 0..MOST_EXITS {
        host = follow(cache, code, &mut follower, pc).unwrap_or(host);
        let raised = native::run_translated(cache, || kernel::enter(enter, host));
        assert_eq!(raised, None, "nothing faults");
        let context = context::of_this_thread();
        let exit = cache.exit(context.exit);
        if let Exit::Budget { record: Some((number, words)), .. } = exit {
            observation::end_record(context, number, words);
        }
        let words = observation::take_words(context);
        cache.count_tellings(words);
        log.extend_from_slice(words);
        if let (Some(step), Exit::Direct { target, .. }) = (step.take(), exit) {
            let step: Step = step;
            cache.tellings.count_step(step.instruction().ip());
            log.extend(step.end(context, Outcome::Ran(target)).expect("the instruction ran"));
        }
        host = match exit {
            Exit::SystemCall { .. } => return log,
            exit @ (Exit::Indirect | Exit::Direct { .. }) => {
                (pc, host) = transfer(cache, code, exit);
                if sequel > 0 {
                    sequel -= 1;
                    host = cache.host_for_sequel(code, pc);
                }
                host
            }
            Exit::Sequel { pc: at } => {
                (pc, sequel) = (at, SEQUEL);
                cache.begin_sequel(pc);
                cache.host_for_sequel(code, pc)
            }
            Exit::Step { pc } => {
                let instruction = decode_at(code, pc).expect("there is an instruction to step over");
                step = Some(Step::begin(instruction, context, xstate, wanted));
                cache.host_for_step(code, pc)
            }
            Exit::Budget { pc: at, amount, .. } => {
                pc = at;
                (host, follower) = out_of_budget(cache, code, (pc, amount), quantum);
                host
            }
            exit => panic!("unexpected {exit:?}"),
        };
    }
    panic!("the translated code never ends");
}

/// The same, of a program that must end as on the bare processor.
pub(super) fn run_as_natively(
    machine: &mut Machine,
    cache: &mut CodeCache,
    trial: &Trial,
    quantum: i64,
    what: &str,
) -> Vec<u64> {
    let guest = Guest { home: trial.home, entry: trial.entry, state: &trial.state, segment: Segment::Fs };
    machine.load(&guest, quantum);
    let words = run(cache, &trial.code, trial.entry, quantum, machine.xstate);
    let (state, _) = machine.collect(trial.home);
    let ignore = Ignore { flags: ADJUST_FLAG, ..Ignore::default() };
    if let Some(difference) = trial.native.difference(&state, ignore) {
        panic!("{what}, quantum {quantum}:\n{difference}{}", trial.listing);
    }
    words
}

/// The guest's memory as the events tell it.
struct Shadow {
    home: Home,
    memory: Vec<u8>,
    /// Accesses that were checked.
    accesses: u64,
}

impl Shadow {
    fn access(&mut self, access: &Access<'_>) -> Result<(), String> {
        let start = access.address.checked_sub(self.home.data).ok_or("below the data")? as usize;
        let range = start..start + access.size as usize;
        let here = self.memory.get_mut(range).ok_or("beyond the data")?;
        self.accesses += 1;
        // Repeated loads may read what their own instruction stored, which comes last.
        let overlaps = access.kind == AccessKind::Load && access.elements.count() > 1;
        match access.before {
            None => return Err("no value".to_owned()),
            Some(before) if !overlaps && !before.bytes().eq(here.iter().copied()) => {
                return Err(format!("memory is {here:x?}"));
            }
            Some(_) => {}
        }
        match (access.kind, access.after) {
            (AccessKind::Load, None) => Ok(()),
            (AccessKind::Store | AccessKind::Update | AccessKind::Atomic, Some(after)) => {
                here.iter_mut().zip(after.bytes()).for_each(|(byte, new)| *byte = new);
                Ok(())
            }
            _ => Err("stores have a new value, loads have none".to_owned()),
        }
    }
}

fn check(machine: &mut Machine, cache: &mut CodeCache, trial: &Trial, quantum: i64, what: &str) -> u64 {
    let words = run_as_natively(machine, cache, trial, quantum, what);
    let catalogue = cache.catalogue().expect("the cache is observed");
    let fs_base = trial.home.data + THREAD_AREA;
    let batch = Batch { thread: ThreadId(1), words: &words, catalogue, fs_base, around: Around::default() };
    let mut shadow = Shadow { home: trial.home, memory: trial.state.memory.clone(), accesses: 0 };
    let mut flow = Flow::default();
    for event in batch.events() {
        let accessed = match &event.kind {
            EventKind::Access(access) => shadow.access(access),
            _ => Ok(()),
        };
        if let Err(problem) = accessed.and_then(|()| flow.event(event.pc, &event.kind)) {
            panic!("{what}, quantum {quantum}: {problem} at {event:x?}\n{}", trial.listing);
        }
    }
    assert!(shadow.memory == trial.native.memory, "{what}, quantum {quantum}: a store is missing\n{}", trial.listing);
    shadow.accesses
}

/// Where accesses go must not depend on whether values are wanted, nor on how they are read.
fn check_addresses(machine: &mut Machine, caches: &mut [Observed; 2], trial: &Trial, what: &str) {
    let [with_values, without] = caches.each_mut().map(|Observed { cache, flattener, flat }| {
        cache.invalidate(trial.home.code..trial.home.code + CODE_SIZE);
        let guest = Guest { home: trial.home, entry: trial.entry, state: &trial.state, segment: Segment::Fs };
        machine.load(&guest, 1 << 20);
        let words = run(cache, &trial.code, trial.entry, 1 << 20, machine.xstate);
        let catalogue = cache.catalogue().expect("the cache is observed");
        let fs_base = trial.home.data + THREAD_AREA;
        let batch = Batch { thread: ThreadId(1), words: &words, catalogue, fs_base, around: Around::default() };
        let places = batch.events().filter_map(|event| match event.kind {
            EventKind::Access(Access { address, size, kind, elements, is_push_or_pop, .. }) => {
                Some((event.pc, address, size, kind, elements, is_push_or_pop))
            }
            _ => None,
        });
        let places = places.collect::<Vec<_>>();
        flattener.read(&batch, flat);
        let told = std::mem::take(&mut flat.told);
        let expected: Vec<_> = places
            .iter()
            .filter(|place| !place.5)
            .map(|&(pc, address, size, kind, ..)| (pc, address, size as u32, kind.into()))
            .collect();
        assert!(told == expected, "{what}: {told:x?}\nas events: {expected:x?}\n{}", trial.listing);
        places
    });
    assert!(!with_values.is_empty(), "{what}: nothing is accessed\n{}", trial.listing);
    assert!(with_values == without, "{what}: {with_values:x?}\nwithout values: {without:x?}\n{}", trial.listing);
}

/// A cache, and a reader of what its units write down.
struct Observed {
    cache: CodeCache,
    flattener: Flattener,
    flat: FlatPlaces,
}

fn caches_with_and_without_values() -> [Observed; 2] {
    [Wanted::EVERYTHING, Wanted::ADDRESSES].map(|wanted| {
        let mut cache = new_cache(LIMITS[0]);
        cache.observe(wanted);
        Observed { cache, flattener: Flattener::new(false), flat: FlatPlaces::default() }
    })
}

#[derive(Default)]
struct FlatPlaces {
    sites: Vec<u64>,
    /// Instruction, address, size and kind of every access.
    told: Vec<(u64, u64, u32, stream::AccessKind)>,
}

impl Flat for FlatPlaces {
    fn accesses(&mut self, accesses: &[stream::Access]) {
        let place =
            |access: &stream::Access| (self.sites[access.site.0 as usize], access.address, access.size, access.kind);
        self.told.extend(accesses.iter().map(place));
    }

    fn marked(&mut self, pc: u64, _mark: Mark, _words: &[u64]) {
        panic!("nothing is marked at {pc:x}");
    }

    fn site(&mut self, pc: u64) -> stream::Site {
        self.sites.push(pc);
        stream::Site(self.sites.len() as u32 - 1)
    }
}

#[test]
fn addresses_are_the_same_without_values() {
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let mut caches = caches_with_and_without_values();
    for number in 0..PROGRAMS {
        let trial = trial(&mut machine, number, false);
        check_addresses(&mut machine, &mut caches, &trial, &format!("program {number}"));
    }
    for string in STRINGS {
        for is_backward in [false, true] {
            let trial = string_trial(&mut machine, string, is_backward, 7, 0x100);
            check_addresses(&mut machine, &mut caches, &trial, &format!("backward {is_backward}"));
        }
    }
    observation::close_buffer(context::of_this_thread());
}

/// Control goes on in a straight line from where the last transfer went.
#[derive(Default)]
struct Flow {
    from: Option<u64>,
}

impl Flow {
    fn event(&mut self, pc: u64, kind: &EventKind<'_>) -> Result<(), String> {
        const LONGEST_RUN: u64 = 64 * 15;
        if let Some(from) = self.from.take()
            && !(from..from + LONGEST_RUN).contains(&pc)
        {
            return Err(format!("control should be behind {from:x}"));
        }
        if let EventKind::Branch { target, .. } | EventKind::Call { target, .. } | EventKind::Return { target } = *kind
        {
            self.from = Some(target);
        }
        Ok(())
    }
}

#[test]
fn events_show_every_access_with_its_values() {
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let mut caches: Vec<CodeCache> = LIMITS.into_iter().map(new_cache).collect();
    caches.iter_mut().for_each(|cache| cache.observe(Wanted::EVERYTHING));
    let mut accesses = 0;
    for number in 0..PROGRAMS {
        let trial = trial(&mut machine, number, false);
        for (cache, limits) in caches.iter_mut().zip(LIMITS) {
            cache.invalidate(trial.home.code..trial.home.code + CODE_SIZE);
            let what = format!("program {number} with {limits:?}");
            accesses += check(&mut machine, cache, &trial, 1 << 20, &what);
            // Once more, linked; then interrupted often.
            accesses += check(&mut machine, cache, &trial, 1 << 20, &what);
            accesses += check(&mut machine, cache, &trial, 1 + (number % 7) as i64, &what);
        }
    }
    observation::close_buffer(context::of_this_thread());
    assert!(accesses > 10 * PROGRAMS, "only {accesses} accesses were checked");
}

/// Repeated and single string instructions; the last has 32-bit addresses.
const STRINGS: [&[u8]; 11] = [
    &[0xf3, 0xa4],             // rep movsb
    &[0xf3, 0x48, 0xa5],       // rep movsq
    &[0xf3, 0xab],             // rep stosd
    &[0xf3, 0x66, 0xad],       // rep lodsw
    &[0xf3, 0xa6],             // repe cmpsb
    &[0xf2, 0x66, 0xaf],       // repne scasw
    &[0xa5],                   // movsd
    &[0x48, 0xab],             // stosq
    &[0xac],                   // lodsb
    &[0xa7],                   // cmpsd
    &[0x67, 0xf3, 0x66, 0xa5], // rep movsw
];

/// A string instruction between two settings of its direction, run on the bare processor.
fn string_trial(machine: &mut Machine, string: &[u8], is_backward: bool, count: u64, distance: i64) -> Trial {
    let home = LOW;
    let entry = home.code;
    let direction = if is_backward { 0xfd } else { 0xfc };
    let code = [&[direction], string, &[0xfc]].concat();
    home.write_code(entry, &[code.as_slice(), &native::end_of_code()].concat());
    let mut state = State::random(&mut Rng::new(count), home, machine.xstate);
    state.gpr[RCX] = count;
    state.gpr[RSI] = home.data + OPERANDS + 0x400;
    state.gpr[RDI] = state.gpr[RSI].wrapping_add_signed(distance);
    let (native, ending) = machine.run_native(home, entry, &state);
    let code = Bytes { start: entry, bytes: [code.as_slice(), &SYSCALL].concat() };
    Trial { home, entry, code, listing: format!("{string:x?}"), state, native, ending, clock: 0 }
}

#[test]
fn string_instructions_show_their_range_in_both_directions() {
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let mut cache = new_cache(LIMITS[0]);
    cache.observe(Wanted::EVERYTHING);
    let mut accesses = 0;
    for string in STRINGS {
        for (is_backward, distance) in [(false, 3), (false, -3), (false, 0x100), (true, 3), (true, -3), (true, 0x100)] {
            for count in [0, 1, 7, 50] {
                let trial = string_trial(&mut machine, string, is_backward, count, distance);
                cache.invalidate(trial.home.code..trial.home.code + CODE_SIZE);
                let what = format!("backward {is_backward}, count {count}, distance {distance}");
                accesses += check(&mut machine, &mut cache, &trial, 1 << 20, &what);
            }
        }
    }
    observation::close_buffer(context::of_this_thread());
    assert!(accesses > 300, "only {accesses} accesses were checked");
}
