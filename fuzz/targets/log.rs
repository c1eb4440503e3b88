//! A log and its tail, as recordings hold them: the length of the log in four bytes, the log, the tail.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::{Log, LogParts};

fuzz_target!(|bytes: &[u8]| {
    let Some((length, parts)) = bytes.split_first_chunk() else { return };
    let length = (u32::from_le_bytes(*length) as usize).min(parts.len());
    let (log, tail) = parts.split_at(length);
    let Ok(log) = Log::from_parts(LogParts { log: Box::new(log.to_vec()), tail: tail.to_vec() }) else { return };
    log.check();
    let mut cursor = log.cursor();
    cursor.seek(log.event_count() / 2);
    while cursor.next().is_some() {}
});
