//! The XSAVE family kept to the components that the guest is shown: as if it had asked for no more.

use crate::code::path::Limits;
use crate::code::tests::home::{Bytes, NEAR, new_cache};
use crate::code::tests::machine::{Ending, Guest, Machine, Segment};
use crate::code::tests::native::end_of_code;
use crate::code::tests::state::{Ignore, State};
use crate::context::{RAX, RBX, RDI, RDX};
use crate::processor::{Level, Shown};
use sched::Rng;

const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Only the SSE registers, though those of AVX are in use.
const SHOWN: u64 = 2;
/// Where the area is in the home's data, and what is there at first: a header of zeros in the midst of other bytes.
const AREA: usize = 4096;
const HEADER: std::ops::Range<usize> = AREA + 512..AREA + 576;
const MXCSR: std::ops::Range<usize> = AREA + 24..AREA + 28;
/// How the mask that names every component arrives.
const ALL: u64 = 0xffff_ffff_ffff_ffff;

fn shown() -> Option<Shown> {
    Some(Shown { level: Some(Level::V3), components: SHOWN })
}

fn first_state(machine: &Machine) -> State {
    let mut state = State::random(&mut Rng::new(7), NEAR, machine.xstate);
    state.memory[AREA..AREA + 1024].fill(0x5a);
    state.memory[HEADER].fill(0);
    state.memory[HEADER.start] = SHOWN as u8;
    state.memory[MXCSR].copy_from_slice(&0x1f80_u32.to_le_bytes());
    state.gpr[RDI] = NEAR.data + AREA as u64;
    state
}

/// `native` runs on the processor and asks for what is shown; `bytes` run translated, ask for everything, and find the area
/// by the register in `pointer`.
fn compare(name: &str, native: &[u8], bytes: &[u8], pointer: Option<usize>) {
    let mut machine = Machine::take();
    let mut cache = new_cache(Limits { instructions: 64, branches: 8 });
    cache.show(shown());
    let mut state = first_state(&machine);
    let (mut asking, area) = (state.gpr, NEAR.data + AREA as u64);
    (asking[RAX], asking[RDX]) = (ALL, ALL);
    if let Some(pointer) = pointer {
        asking[pointer] = area;
    }
    (state.gpr[RAX], state.gpr[RDX]) = (asking[RAX] & SHOWN, 0);
    NEAR.write_code(NEAR.code, &[native.to_vec(), end_of_code()].concat());
    let (mut expected, ending) = machine.run_native(NEAR, NEAR.code, &state);
    assert_eq!(ending, Ending::Done, "{name} runs natively");
    (state.gpr, expected.gpr) = (asking, asking);
    let code = Bytes { start: NEAR.code, bytes: [bytes, &SYSCALL].concat() };
    let guest = Guest { home: NEAR, entry: NEAR.code, state: &state, segment: Segment::Fs };
    let (translated, ending, _) = machine.run_translated(&mut cache, &code, &guest, 100);
    assert_eq!(ending, Ending::Done, "{name}");
    let ignore = Ignore { flags: 0, data_pointer: false };
    assert_eq!(expected.difference(&translated, ignore), None, "{name}");
}

#[test]
fn only_what_is_shown_is_saved_and_restored() {
    compare("xsave [rdi]", &[0x0f, 0xae, 0x27], &[0x0f, 0xae, 0x27], None);
    compare("xsave64 [rdi]", &[0x48, 0x0f, 0xae, 0x27], &[0x48, 0x0f, 0xae, 0x27], None);
    compare("xrstor [rdi]", &[0x0f, 0xae, 0x2f], &[0x0f, 0xae, 0x2f], None);
    if std::arch::is_x86_feature_detected!("xsavec") {
        compare("xsavec [rdi]", &[0x0f, 0xc7, 0x27], &[0x0f, 0xc7, 0x27], None);
    }
}

#[test]
fn the_mask_may_be_a_part_of_the_address() {
    let native = [0x0f, 0xae, 0x27];
    compare("xsave [rbx]", &native, &[0x0f, 0xae, 0x23], Some(RBX));
    compare("xsave [rax]", &native, &[0x0f, 0xae, 0x20], Some(RAX));
    compare("xsave [rdx]", &native, &[0x0f, 0xae, 0x22], Some(RDX));
    // The masks are all ones, which is one less than nothing.
    compare("xsave [rdi+rax+1]", &native, &[0x0f, 0xae, 0x64, 0x07, 0x01], None);
    compare("xsave [rdi+rdx*2+2]", &native, &[0x0f, 0xae, 0x64, 0x57, 0x02], None);
}

#[test]
fn a_fault_finds_the_guests_own_registers() {
    let mut machine = Machine::take();
    let mut cache = new_cache(Limits { instructions: 64, branches: 8 });
    cache.show(shown());
    let mut state = first_state(&machine);
    (state.gpr[RAX], state.gpr[RDX], state.gpr[RDI]) = (ALL, ALL, 64);
    let code = Bytes { start: NEAR.code, bytes: [&[0x0f, 0xae, 0x27][..], &SYSCALL].concat() };
    let guest = Guest { home: NEAR, entry: NEAR.code, state: &state, segment: Segment::Fs };
    let (after, ending, _) = machine.run_translated(&mut cache, &code, &guest, 100);
    assert!(matches!(ending, Ending::Raised(_)), "{ending:?}");
    assert_eq!((after.gpr, after.rflags), (state.gpr, state.rflags));
}
