//! Segment bases, which the processor's own registers do not hold as the guest thinks, and instructions that leave.

use crate::code::cache::{Exit, Trap};
use crate::code::path::Limits;
use crate::code::tests::home::{Bytes, NEAR, THREAD_AREA, new_cache};
use crate::code::tests::machine::{Ending, Guest, Machine, Segment};
use crate::code::tests::state::State;
use crate::context;
use iced_x86::{Code, Encoder, Instruction, Register};
use sched::Rng;

const SYSCALL: [u8; 2] = [0x0f, 0x05];
const AREA: u64 = NEAR.data + THREAD_AREA;

/// Runs one instruction whose register operand holds `value`; gives the state after it.
fn run(code: Code, register: Register, number: usize, value: u64, segment: Segment) -> State {
    let mut machine = Machine::take();
    let mut cache = new_cache(Limits { instructions: 64, branches: 8 });
    let mut encoder = Encoder::new(64);
    let instruction = Instruction::with1(code, register).expect("a base instruction");
    encoder.encode(&instruction, NEAR.code).expect("it can be encoded");
    let code = Bytes { start: NEAR.code, bytes: [encoder.take_buffer(), SYSCALL.to_vec()].concat() };
    let mut state = State::random(&mut Rng::new(1), NEAR, machine.xstate);
    state.gpr[number] = value;
    let guest = Guest { home: NEAR, entry: NEAR.code, state: &state, segment };
    let (after, ending, _) = machine.run_translated(&mut cache, &code, &guest, 10);
    assert_eq!(ending, Ending::Done, "{instruction}");
    assert_eq!(after.rflags, state.rflags, "{instruction} keeps flags");
    after
}

#[test]
fn reading_a_base_gives_the_guests() {
    let after = run(Code::Rdfsbase_r64, Register::R9, 9, 7, Segment::Fs);
    assert_eq!(after.gpr[9], AREA);
    let after = run(Code::Rdgsbase_r64, Register::RBX, 3, 7, Segment::Gs);
    assert_eq!(after.gpr[3], AREA);
    let after = run(Code::Rdfsbase_r32, Register::EDX, 2, u64::MAX, Segment::Fs);
    assert_eq!(after.gpr[2], AREA & 0xffff_ffff);
    let after = run(Code::Rdgsbase_r32, Register::R12D, 12, u64::MAX, Segment::Gs);
    assert_eq!(after.gpr[12], AREA & 0xffff_ffff);
}

#[test]
fn writing_a_base_changes_the_guests() {
    run(Code::Wrfsbase_r64, Register::R10, 10, 0x1234_5678_9000, Segment::Gs);
    assert_eq!(context::of_this_thread().guest_fs(), 0x1234_5678_9000);
    run(Code::Wrgsbase_r64, Register::RAX, 0, 0x1234_5678_9000, Segment::Fs);
    assert_eq!(context::of_this_thread().guest_gs, 0x1234_5678_9000);
    run(Code::Wrfsbase_r32, Register::ESI, 6, 0x1234_5678_9000, Segment::Gs);
    assert_eq!(context::of_this_thread().guest_fs(), 0x5678_9000);
    run(Code::Wrgsbase_r32, Register::ESI, 6, 0x1234_5678_9000, Segment::Fs);
    assert_eq!(context::of_this_thread().guest_gs, 0x5678_9000);
}

/// Translates `bytes` at the start of the near home and runs them up to their exit.
fn exit_of(bytes: &[u8]) -> Ending {
    let mut machine = Machine::take();
    let mut cache = new_cache(Limits { instructions: 64, branches: 8 });
    let code = Bytes { start: NEAR.code, bytes: bytes.to_vec() };
    let state = State::random(&mut Rng::new(1), NEAR, machine.xstate);
    let guest = Guest { home: NEAR, entry: NEAR.code, state: &state, segment: Segment::Fs };
    let (after, ending, _) = machine.run_translated(&mut cache, &code, &guest, 10);
    assert_eq!(after.gpr, state.gpr, "an instruction that leaves changes nothing");
    ending
}

#[test]
fn instructions_that_the_engine_does_not_run_leave_at_their_place() {
    let trap = |pc, kind| Ending::Unexpected(Exit::Trap { pc: NEAR.code + pc, kind });
    assert_eq!(exit_of(&[0x0f, 0x0b]), trap(0, Trap::Undefined)); // ud2
    assert_eq!(exit_of(&[0x90, 0x0f, 0xff, 0xc0]), trap(1, Trap::Undefined)); // nop; ud0 eax, eax
    assert_eq!(exit_of(&[0x90, 0x06, 0x90]), trap(1, Trap::Undefined)); // nop; push es, which this mode does not have
    assert_eq!(exit_of(&[0x90, 0xcc]), trap(2, Trap::Breakpoint)); // nop; int3, reported behind it
    assert_eq!(exit_of(&[0x90, 0xcd, 0x03]), trap(3, Trap::Breakpoint)); // nop; int 3
    assert_eq!(exit_of(&[0xcd, 0x80]), trap(0, Trap::Unsupported)); // int 0x80
    assert_eq!(exit_of(&[0x90, 0x8e, 0xe0]), trap(1, Trap::Unsupported)); // nop; mov fs, eax
    assert_eq!(exit_of(&[0x0f, 0xa9]), trap(0, Trap::Unsupported)); // pop gs
    assert_eq!(exit_of(&[0x48, 0xcf]), trap(0, Trap::Unsupported)); // iretq
    assert_eq!(exit_of(&[0xff, 0x2b]), trap(0, Trap::Unsupported)); // jmp far [rbx]
}

#[test]
fn code_that_ends_with_its_page_is_reported_at_the_missing_byte() {
    let ending =
        |pc, address| Ending::Unexpected(Exit::Unfetchable { pc: NEAR.code + pc, address: NEAR.code + address });
    assert_eq!(exit_of(&[0x90]), ending(1, 1));
    assert_eq!(exit_of(&[0x90, 0x48, 0xb8, 0x11]), ending(1, 4)); // the first bytes of mov rax, imm64
}
