//! A file that is said to be a packed recording: its header, and what is compressed behind it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = folder.path().join("pack");
    if std::fs::write(&path, bytes).is_ok() {
        let _ = session::pack::unpack(&path, &folder.path().join("unpacked"));
    }
});
