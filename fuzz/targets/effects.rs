//! The memory that a system call writes, whatever its arguments point at.
#![no_main]

use guest::effects::{self, Call, Memory};
use libfuzzer_sys::fuzz_target;

/// The same bytes everywhere but at the start of memory.
struct Repeated(Vec<u8>);

impl Memory for Repeated {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        if address < 4096 || self.0.is_empty() {
            return false;
        }
        if address.checked_add(buffer.len() as u64).is_none() {
            return false;
        }
        let start = (address % self.0.len() as u64) as usize;
        buffer.iter_mut().zip(self.0.iter().cycle().skip(start)).for_each(|(to, from)| *to = *from);
        true
    }
}

fuzz_target!(|input: (u16, [u64; 6], i64, Vec<u8>)| {
    let (number, arguments, result, bytes) = input;
    let (number, memory) = (u64::from(number), Repeated(bytes));
    let prepared = effects::prepare(number, &arguments, &memory);
    let mut spans = 0;
    let _ = effects::of(&Call { number, arguments, result }, &prepared, &memory, &mut |span| {
        assert!(span.length > 0 && span.address.checked_add(span.length - 1).is_some());
        spans += 1;
    });
});
