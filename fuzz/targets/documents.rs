//! What users keep in files (plans, findings, suppressions), and the kernel's table of mappings, which has a guest's paths.
#![no_main]

use libfuzzer_sys::fuzz_target;
use program::source::SourceCache;
use report::look::Look;
use trace::finding::Findings;

fuzz_target!(|text: &str| {
    let _ = session::rerun::Plan::read(text);
    let _ = analysis::suppressions::Suppressions::parse(text);
    program::space::parse_maps(text);
    let Ok(findings) = Findings::read(text) else { return };
    let (mut sources, look) = (SourceCache::new(), Look::new(true, None).with_width(text.len()));
    report::findings::text(&findings, &mut sources, &look);
    report::findings::html(&findings, &mut sources, &look);
    report::findings::sarif(&findings, &mut sources, &look);
    // What can be read can be written, and is the same when it is read again.
    let written = report::findings::json(&findings).unwrap();
    assert_eq!(Findings::read(&written).unwrap(), findings);
});
