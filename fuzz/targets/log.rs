//! A log and its tail, as recordings hold them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::{Log, LogParts};

fuzz_target!(|input: (Vec<u8>, Vec<u8>)| {
    let (log, tail) = input;
    let Ok(log) = Log::from_parts(LogParts { log: Box::new(log), tail }) else { return };
    log.check();
    let mut cursor = log.cursor();
    cursor.seek(log.event_count() / 2);
    while cursor.next().is_some() {}
});
