//! Places and expressions, as users type them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use program::whereabouts::Where;

fuzz_target!(|text: &str| {
    let _ = Where::parse(text);
    let _ = program::expression::Expression::parse(text);
});
