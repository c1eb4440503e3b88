//! Damaged words about a recording: its manifest and the index of its copies. Nothing depends on them, so the recording is
//! there all the same.

mod support;

use std::fs;
use std::path::Path;
use support::Rng;
use trace::Recording;
use trace::format::{FILES, INDEX, LogHeader, LogId, MANIFEST, VERSION, log_name};

const TEXTS: [(&str, &str); 2] = [
    (
        MANIFEST,
        r#"{"schema": "whodunit/recording/1", "format": "1.2", "tool": "whodunit 0.1.0", "program": "/bin/prog",
        "arguments": ["prog", "-v"], "directory": "/", "started": 1763251200.25}"#,
    ),
    (
        INDEX,
        r#"{"schema": "whodunit/files/1", "files": [{"checksum": "0f3a", "kind": "mapped", "path": "/bin/prog"},
        {"checksum": "77c1", "kind": "source", "path": "/home/prog.c"}]}"#,
    ),
];

/// What does most harm in JSON.
const CHARACTERS: &[u8] = b"{}[]:,\"\\0918-.eE\x01azt\xff";

/// Opens the recording; tells whether its manifest can be read, and how many files its index has.
fn looked_at(folder: &Path) -> (bool, usize) {
    let recording = Recording::open(folder).unwrap();
    assert_eq!(recording.logs(), [1]);
    (recording.manifest().is_some(), recording.index().len())
}

#[test]
fn a_thousand_damaged_manifests_and_indices() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("folders-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join(FILES)).unwrap();
    let header = LogHeader { version: VERSION, id: LogId { recording: 1, log: 1 } };
    fs::write(folder.join(log_name(1)), header.encode()).unwrap();
    let path_of = |name: &str| if name == INDEX { folder.join(FILES).join(name) } else { folder.join(name) };
    TEXTS.iter().for_each(|(name, text)| fs::write(path_of(name), text).unwrap());
    assert_eq!(looked_at(&folder), (true, 2));
    let mut rng = Rng(31);
    let mut n_unlike = 0;
    for round in 0..1000 {
        let (name, text) = TEXTS[round % 2];
        let mut bytes = text.as_bytes().to_vec();
        let at = rng.below(bytes.len());
        bytes[at] = CHARACTERS[rng.below(CHARACTERS.len())];
        if round % 5 == 0 {
            bytes.truncate(at);
        }
        fs::write(path_of(name), bytes).unwrap();
        n_unlike += usize::from(looked_at(&folder) != (true, 2));
        fs::write(path_of(name), text).unwrap();
    }
    assert!((100..1000).contains(&n_unlike), "{n_unlike}");
    fs::remove_dir_all(&folder).unwrap();
}
