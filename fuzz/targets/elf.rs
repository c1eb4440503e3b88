//! Program headers, as a launch reads them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(image) = guest::elf::parse(&bytes) {
        image.span();
    }
});
