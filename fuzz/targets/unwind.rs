//! Stacks of a thread whose registers and memory are anything, in code whose call-frame information is: the registers
//! first, then memory, which begins with an ELF file as the vdso does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use program::space::{AddressSpace, Mapping};
use program::unwind::{Memory, Registers, backtrace};

const START: u64 = 0x10000;
const MOST_FRAMES: usize = 256;

struct Bytes<'a>(&'a [u8]);

impl Memory for Bytes<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let start = usize::try_from(address.wrapping_sub(START)).unwrap_or(usize::MAX);
        let Some(bytes) = self.0.get(start..).and_then(|rest| rest.get(..buffer.len())) else { return false };
        buffer.copy_from_slice(bytes);
        true
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((words, memory)) = bytes.split_at_checked(17 * 8) else { return };
    let word = |index: usize| words[8 * index..][..8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let registers = Registers::full(word(16), std::array::from_fn(word));
    let mapping = Mapping { start: START, end: START + memory.len() as u64, offset: 0, executable: true, path: None };
    let space = AddressSpace::new(vec![mapping]);
    let stack = backtrace(&space, &Bytes(memory), registers, MOST_FRAMES);
    assert!((1..=MOST_FRAMES).contains(&stack.frames.len()));
});
