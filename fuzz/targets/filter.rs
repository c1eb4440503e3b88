//! A guest's own filter of system calls.
#![no_main]

use guest::bpf::{Instruction, Program, Subject};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u64>, u32, u64, [u64; 6])| {
    let (words, number, pc, arguments) = input;
    let instructions = words.into_iter().map(Instruction::from_word).collect();
    if let Some(program) = Program::check(instructions) {
        program.run(&Subject { number, pc, arguments });
    }
});
