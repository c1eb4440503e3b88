//! What a recording's folder says of itself besides its logs: its manifest and the index of its copies.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::Path;
use trace::Recording;
use trace::format::{FILES, INDEX, LogHeader, LogId, MANIFEST, VERSION, log_name};

fn write(folder: &Path, text: &[u8]) -> std::io::Result<()> {
    let header = LogHeader { version: VERSION, id: LogId { recording: 1, log: 1 } };
    fs::write(folder.join(log_name(1)), header.encode())?;
    fs::write(folder.join(MANIFEST), text)?;
    fs::create_dir(folder.join(FILES))?;
    fs::write(folder.join(FILES).join(INDEX), text)
}

fuzz_target!(|text: &[u8]| {
    let Ok(folder) = tempfile::tempdir() else { return };
    if write(folder.path(), text).is_err() {
        return;
    }
    let Ok(recording) = Recording::open(folder.path()) else { return };
    recording.manifest();
    recording.index();
    recording.is_live();
});
