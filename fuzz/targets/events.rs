//! Events in a log that is right otherwise: what lies behind checksums that fit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::format::{ChunkHeader, Codec, LogHeader, LogId, VERSION};
use trace::{Digest, Log, LogParts};

fuzz_target!(|raw: &[u8]| {
    let size = raw.len() as u32;
    let chunk = ChunkHeader {
        codec: Codec::Plain,
        first: 0,
        count: (size / 2).max(1),
        stored: size,
        raw: size,
        checksum: Digest::of(raw),
    };
    let header = LogHeader { version: VERSION, id: LogId { recording: 1, log: 1 } };
    let log = [&header.encode()[..], &chunk.encode(), raw].concat();
    let Ok(log) = Log::from_parts(LogParts { log: Box::new(log), tail: Vec::new() }) else { return };
    let mut cursor = log.cursor();
    while let Some(record) = cursor.next() {
        // Lists are read as they are walked through.
        assert!(format!("{record:?}").len() < 4096 + 64 * raw.len());
    }
});
