//! The archive in a packed recording whose header is right. The input is the archive before compression.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::Digest;

/// A header that fits the body, as `docs/pack.md` has it.
fn header(body: &[u8]) -> Vec<u8> {
    let mut header = [&0x184d_2a50_u32.to_le_bytes()[..], &56_u32.to_le_bytes(), b"WHOPACK\0"].concat();
    header.extend(2_u16.to_le_bytes());
    header.extend([0; 6]);
    header.extend((body.len() as u64).to_le_bytes());
    header.extend(Digest::of(body).0.to_le_bytes());
    header.resize(56, 0);
    let checksum = Digest::of(&header);
    header.extend(checksum.0.to_le_bytes());
    header
}

fuzz_target!(|archive: &[u8]| {
    let Ok(body) = zstd::encode_all(archive, 1) else { return };
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = folder.path().join("pack");
    if std::fs::write(&path, [header(&body), body].concat()).is_ok() {
        let _ = session::pack::unpack(&path, &folder.path().join("unpacked"));
    }
});
