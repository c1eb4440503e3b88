//! Every instruction that the processor has and user code may run, alone: the translated copy must do what the
//! original does, faults included.

use crate::code::cache::CodeCache;
use crate::code::path::Limits;
use crate::code::tests::features::is_present;
use crate::code::tests::home::{Bytes, CODE_SIZE, HOMES, Home, new_cache};
use crate::code::tests::machine::{Ending, Guest, Machine, Segment};
use crate::code::tests::native::end_of_code;
use crate::code::tests::operands::{Encoded, encode, prepare};
use crate::code::tests::state::{Ignore, State};
use guest::instruction::loads_segment_register;
use iced_x86::{Code, FlowControl, Instruction, Mnemonic, RflagsBits};
use sched::Rng;

const SEED: u64 = 0x5eed_0001;
const CASES_PER_CODE: u32 = 24;
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Instructions whose result is not a function of the state, or shows what is known to differ.
fn is_left_out(code: Code) -> bool {
    use Mnemonic as M;
    let by_name = matches!(
        code.mnemonic(),
        // Time, randomness, the processor's number, and the kernel's settings.
        M::Rdtsc | M::Rdtscp | M::Rdpmc | M::Rdrand | M::Rdseed | M::Rdpid | M::Rdpru | M::Cpuid | M::Xgetbv
        // Wait for another processor.
        | M::Monitor | M::Mwait | M::Monitorx | M::Mwaitx | M::Umonitor | M::Umwait | M::Tpause
        // Save the x87 instruction pointer, an address in the cache.
        | M::Fnstenv | M::Fstenv | M::Fnsave | M::Fsave
        // Segment bases are tested on their own: the processor's FS is not the test's to change.
        | M::Rdfsbase | M::Wrfsbase | M::Rdgsbase | M::Wrgsbase
    );
    by_name || code.op_code().is_save_restore()
}

fn is_tested(code: Code) -> bool {
    let operations = code.op_code();
    operations.is_instruction()
        && operations.mode64()
        && operations.cpl3()
        && !operations.is_input_output()
        && !operations.is_privileged()
        && code.flow_control() == FlowControl::Next
        && code.cpuid_features().iter().all(|&feature| is_present(feature))
        && !is_left_out(code)
}

/// Cases run one after the other through a home's code memory; when it is full, the cache starts over.
struct Bench {
    machine: Machine,
    cache: CodeCache,
    rng: Rng,
    next: u64,
    faults: u32,
    runs: u32,
    failures: Vec<String>,
}

impl Bench {
    fn new() -> Bench {
        let machine = Machine::take();
        let cache = new_cache(Limits { instructions: 64, branches: 8 });
        Bench { machine, cache, rng: Rng::new(SEED), next: 0, faults: 0, runs: 0, failures: Vec::new() }
    }

    fn place(&mut self, home: Home) -> u64 {
        const ROOM: u64 = 48;
        if self.next + 2 * ROOM > CODE_SIZE {
            self.next = 0;
            self.cache.flush();
        }
        self.next += ROOM + self.rng.below(ROOM / 2);
        home.code + self.next - ROOM
    }

    fn case(&mut self, code: Code) -> bool {
        let home = HOMES[self.rng.below(3) as usize];
        let at = self.place(home);
        let Some(encoded) = encode(code, &mut self.rng, home, at) else { return false };
        if loads_segment_register(&encoded.instruction) {
            return false;
        }
        let mut state = State::random(&mut self.rng, home, self.machine.xstate);
        prepare(&mut state, &encoded, &mut self.rng, home);
        self.compare(home, at, &encoded, &state);
        true
    }

    fn compare(&mut self, home: Home, at: u64, encoded: &Encoded, state: &State) {
        home.write_code(at, &[native_bytes(encoded), end_of_code()].concat());
        let (native, native_ending) = self.machine.run_native(home, at, state);
        let code = Bytes { start: at, bytes: [encoded.bytes.as_slice(), &SYSCALL].concat() };
        let segment = encoded.segment.unwrap_or(Segment::Fs);
        let guest = Guest { home, entry: at, state, segment };
        let (translated, ending, _) = self.machine.run_translated(&mut self.cache, &code, &guest, 100);
        self.runs += 1;
        self.faults += u32::from(matches!(native_ending, Ending::Raised(_)));
        let ignore = Ignore {
            flags: undefined_flags(&encoded.instruction),
            // It is the offset in the segment, which a GS access does not keep.
            data_pointer: encoded.segment == Some(Segment::Gs),
        };
        let difference = if ending == native_ending {
            native.difference(&translated, ignore)
        } else {
            Some(format!("  ends with {native_ending:x?} natively, {ending:x?} translated\n"))
        };
        let Some(difference) = difference else { return };
        self.failures.push(format!(
            "{} [{:02x?}] {:?} at {at:#x} in {} memory:\n{difference}",
            encoded.instruction,
            encoded.bytes,
            encoded.instruction.code(),
            home.name
        ));
    }
}

/// The processor itself runs FS accesses through GS, since its FS is the test's own.
fn native_bytes(encoded: &Encoded) -> Vec<u8> {
    let mut bytes = encoded.bytes.clone();
    if encoded.segment == Some(Segment::Fs) {
        let prefix = bytes.iter_mut().find(|byte| matches!(**byte, 0x64)).expect("a segment prefix is encoded");
        *prefix = 0x65;
    }
    bytes
}

/// The flags that the instruction leaves in a state that its manual does not promise.
fn undefined_flags(instruction: &Instruction) -> u64 {
    const PLACES: [(u32, u64); 6] = [
        (RflagsBits::CF, 0x001),
        (RflagsBits::PF, 0x004),
        (RflagsBits::AF, 0x010),
        (RflagsBits::ZF, 0x040),
        (RflagsBits::SF, 0x080),
        (RflagsBits::OF, 0x800),
    ];
    let undefined = instruction.rflags_undefined();
    PLACES.iter().filter(|(name, _)| undefined & name != 0).map(|(_, bit)| bit).sum()
}

#[test]
fn every_instruction_does_the_same_from_the_cache() {
    let mut bench = Bench::new();
    let mut codes = 0;
    for code in Code::values().filter(|&code| is_tested(code)) {
        let cases = (0..CASES_PER_CODE).filter(|_| bench.case(code)).count();
        codes += u32::from(cases > 0);
    }
    // What the table of features leaves over on any processor that runs the engine, and enough of it to completion.
    assert!(codes > 800, "only {codes} instructions were tried");
    assert!(bench.faults < bench.runs / 4, "{} of {} cases fault", bench.faults, bench.runs);
    let failures = &bench.failures;
    assert!(
        failures.is_empty(),
        "seed {SEED:#x}: {} differ, first:\n{}",
        failures.len(),
        failures[..failures.len().min(20)].join("")
    );
}
