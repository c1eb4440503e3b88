//! Random programs: the translation ends in the state that the processor ends in, however the code is cut into units
//! and however often it is interrupted; and the guest's clock counts the same.

use crate::code::cache::{CodeCache, Exit, Trap};
use crate::code::path::Limits;
use crate::code::tests::assemble::Assembled;
use crate::code::tests::generate::program;
use crate::code::tests::home::{Bytes, CODE_SIZE, HOMES, Home, OPERANDS, new_cache};
use crate::code::tests::machine::{Ending, Guest, Machine, Segment};
use crate::code::tests::native::{Raised, end_of_code};
use crate::code::tests::state::{Ignore, State};
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};
use sched::Rng;

const SEED: u64 = 0x5eed_0002;
const PROGRAMS: u64 = 500;
/// More events than any program passes: a wrong loop still leaves the cache, and is noticed.
const AT_ONCE: i64 = 1 << 20;
pub(super) const ADJUST_FLAG: u64 = 0x10;
pub(super) const SYSCALL: [u8; 2] = [0x0f, 0x05];

pub(super) const LIMITS: [Limits; 5] = [
    Limits { instructions: 64, branches: 8 },
    Limits { instructions: 1, branches: 1 },
    Limits { instructions: 3, branches: 8 },
    Limits { instructions: 64, branches: 1 },
    Limits { instructions: 3, branches: 1 },
];

/// One program in its home, with the state that it starts from.
pub(super) struct Trial {
    pub home: Home,
    pub entry: u64,
    pub code: Bytes,
    pub listing: String,
    pub state: State,
    pub native: State,
    pub ending: Ending,
    pub clock: u64,
}

pub(super) fn trial(machine: &mut Machine, number: u64, with_fault: bool) -> Trial {
    let mut rng = Rng::new(SEED + number);
    let home = HOMES[rng.below(3) as usize];
    let mut program = program(&mut rng, home);
    if with_fault {
        program.add_fault(&mut rng, home);
    }
    let entry = home.code + rng.below(64);
    let native = program.assemble(entry, Register::GS);
    let guest = program.assemble(entry, Register::FS);
    home.write_code(entry, &[native.bytes.as_slice(), &end_of_code()].concat());
    let mut state = State::random(&mut rng, home, machine.xstate);
    state.rflags &= !0x400; // string instructions go upwards
    state.gpr[15] = home.data + OPERANDS;
    for &(offset, word) in &guest.words {
        state.memory[offset as usize..offset as usize + 8].copy_from_slice(&word.to_le_bytes());
    }
    let (native_state, ending) = machine.run_native(home, entry, &state);
    let listing = listing(&guest);
    assert!(with_fault || ending == Ending::Done, "program {number} natively: {ending:x?}\n{listing}");
    let mut events = mark_events(home, &guest);
    let clock = machine.count_natively(home, entry, &state, &mut events);
    let code = Bytes { start: entry, bytes: [guest.bytes.as_slice(), &SYSCALL].concat() };
    Trial { home, entry, code, listing, state, native: native_state, ending, clock }
}

fn listing(guest: &Assembled) -> String {
    guest.instructions.iter().map(|instruction| format!("{:x} {instruction}\n", instruction.ip())).collect()
}

/// By offset into the home's code: whether an instruction starts there that the clock counts.
fn mark_events(home: Home, guest: &Assembled) -> Vec<bool> {
    let mut events = vec![false; CODE_SIZE as usize];
    for instruction in guest.instructions.iter().filter(|instruction| is_counted(instruction)) {
        events[(instruction.ip() - home.code) as usize] = true;
    }
    events
}

/// The clock's definition, apart from the engine's: near branches that go backward, taken or not, and indirect jumps.
fn is_counted(instruction: &Instruction) -> bool {
    let goes_back = instruction.op0_kind() == OpKind::NearBranch64
        && instruction.mnemonic() != Mnemonic::Call
        && instruction.near_branch_target() <= instruction.ip();
    goes_back || instruction.code() == Code::Jmp_rm64
}

fn check(machine: &mut Machine, cache: &mut CodeCache, trial: &Trial, quantum: i64, what: &str) {
    let guest = Guest { home: trial.home, entry: trial.entry, state: &trial.state, segment: Segment::Fs };
    let (state, ending, clock) = machine.run_translated(cache, &trial.code, &guest, quantum);
    let ending = as_raised(ending);
    assert_eq!(ending, trial.ending, "{what}, quantum {quantum}:\n{}", trial.listing);
    let ignore = Ignore { flags: ADJUST_FLAG, ..Ignore::default() };
    if let Some(difference) = trial.native.difference(&state, ignore) {
        panic!("{what}, quantum {quantum}:\n{difference}{}", trial.listing);
    }
    assert_eq!(clock, trial.clock, "clock of {what}, quantum {quantum}:\n{}", trial.listing);
}

/// An undefined instruction ends in an exit of its own, where the processor raises a signal.
fn as_raised(ending: Ending) -> Ending {
    match ending {
        Ending::Unexpected(Exit::Trap { pc, kind: Trap::Undefined }) => {
            Ending::Raised(Raised { signal: libc::SIGILL, pc, address: 0 })
        }
        ending => ending,
    }
}

#[test]
fn programs_end_the_same_however_they_are_cut_and_interrupted() {
    let mut machine = Machine::take();
    let mut caches: Vec<CodeCache> = LIMITS.into_iter().map(new_cache).collect();
    let (mut events, mut most) = (0, 0);
    for number in 0..PROGRAMS {
        let trial = trial(&mut machine, number, false);
        events += trial.clock;
        most = most.max(trial.clock);
        for (cache, limits) in caches.iter_mut().zip(LIMITS) {
            cache.invalidate(trial.home.code..trial.home.code + CODE_SIZE);
            let what = format!("program {number} (seed {SEED:#x}) with {limits:?}");
            check(&mut machine, cache, &trial, AT_ONCE, &what);
            // Once more, linked; then interrupted often, in fresh and in used code.
            check(&mut machine, cache, &trial, AT_ONCE, &what);
            check(&mut machine, cache, &trial, 1 + (number % 7) as i64, &what);
            // By now hot paths have been made: pass through them, and stop inside them.
            check(&mut machine, cache, &trial, AT_ONCE, &what);
            check(&mut machine, cache, &trial, 2 + (number % 11) as i64, &what);
            cache.invalidate(trial.home.code..trial.home.code + CODE_SIZE);
            check(&mut machine, cache, &trial, 1, &what);
        }
    }
    let hot_paths = caches[0].stats.hot_paths;
    assert!(hot_paths >= PROGRAMS / 4, "only {hot_paths} hot paths were tried");
    assert!(events / PROGRAMS >= 5, "programs pass {events} events, at most {most}: too few to interrupt them");
}

#[test]
fn faults_show_the_state_that_the_processor_shows() {
    let mut machine = Machine::take();
    let limits = Limits { instructions: 64, branches: 8 };
    let mut cache = new_cache(limits);
    let mut faults = 0;
    for number in 0..4 * PROGRAMS {
        let trial = trial(&mut machine, number, true);
        faults += u64::from(trial.ending != Ending::Done);
        cache.invalidate(trial.home.code..trial.home.code + CODE_SIZE);
        let what = format!("program {number} (seed {SEED:#x}) with a fault");
        check(&mut machine, &mut cache, &trial, AT_ONCE, &what);
        check(&mut machine, &mut cache, &trial, 1 + (number % 7) as i64, &what);
    }
    assert!(faults > PROGRAMS, "only {faults} programs reach their fault");
}
