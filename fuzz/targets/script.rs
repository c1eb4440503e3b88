//! The first line of a script.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    guest::script::parse_shebang(bytes);
});
