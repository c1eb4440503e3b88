//! What users keep in files: plans, findings, suppressions.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = session::rerun::Plan::read(text);
    let _ = trace::finding::Findings::read(text);
    let _ = analysis::suppressions::Suppressions::parse(text);
});
