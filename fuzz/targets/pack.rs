//! A packed recording.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Write;

fuzz_target!(|bytes: &[u8]| {
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = folder.path().join("pack");
    let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(bytes));
    if written.is_ok() {
        let _ = session::pack::unpack(&path, &folder.path().join("unpacked"));
    }
});
