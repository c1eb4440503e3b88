//! Damaged packs, archives and plans: readers never panic, and give an error or a value that is right in itself.

use session::pack::unpack;
use session::rerun::Plan;
use std::fs;
use std::path::{Path, PathBuf};
use trace::event::{End, EndKind, Event, Note};
use trace::format::{FILES, INDEX, LogId, MANIFEST};
use trace::index::{Entry, Index, Kind};
use trace::{Digest, List, Recording, Writer};

const PLACES: usize = 1000;

/// splitmix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) >> 16) as usize % limit
    }
}

fn fresh_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("session-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn log() -> Vec<u8> {
    let mut writer = Writer::create(LogId { recording: 5, log: 1 }, vec![0; 64 << 10], Vec::new()).unwrap();
    writer.append(&Event::Note(Note { thread: Some(1), text: "all that happened" })).unwrap();
    let (kind, backtrace) = (EndKind::Exited(0), List::EMPTY);
    writer.append(&Event::End(End { kind, thread: 1, clock: 9, registers: &[], backtrace, details: &[] })).unwrap();
    writer.seal().unwrap();
    writer.into_parts().1
}

/// A recording with a copy of a file, as it lies in a pack.
fn archive() -> Vec<u8> {
    let copy = b"the bytes of a program";
    let checksum = Digest::of(copy);
    let index = Index::from([Entry { kind: Kind::Mapped, path: "/bin/prog".to_owned(), checksum }]);
    let members = [
        (MANIFEST.to_owned(), b"{\"schema\": \"whodunit/recording/1\"}".to_vec()),
        ("1.log".to_owned(), log()),
        (format!("{FILES}/{checksum}"), copy.to_vec()),
        (format!("{FILES}/{INDEX}"), trace::index::encode(&index)),
    ];
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        builder.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

/// A pack of the archive, with a header that fits.
fn pack(archive: &[u8]) -> Vec<u8> {
    let body = zstd::encode_all(archive, 1).unwrap();
    let mut pack = b"\x50\x2a\x4d\x18\x38\0\0\0WHOPACK\0\x02\0\0\0\0\0\0\0".to_vec();
    pack.extend((body.len() as u64).to_le_bytes());
    pack.extend(Digest::of(&body).0.to_le_bytes());
    pack.extend([0; 16]);
    let checksum = Digest::of(&pack);
    pack.extend(checksum.0.to_le_bytes());
    pack.extend(body);
    pack
}

struct Bench {
    folder: PathBuf,
}

impl Bench {
    /// Unpacks the bytes; tells whether a recording came of them. There is nothing else in the folder then.
    fn unpacks(&self, bytes: &[u8]) -> bool {
        let (path, root) = (self.folder.join("pack"), self.folder.join("store"));
        fs::write(&path, bytes).unwrap();
        let unpacked = unpack(&path, &root);
        let names: Vec<_> = fs::read_dir(&root).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        match &unpacked {
            Ok(unpacked) => {
                assert_eq!(names.iter().collect::<Vec<_>>(), [&unpacked.folder]);
                Recording::open(&unpacked.folder).unwrap().index();
            }
            Err(_) => assert!(names.is_empty(), "something is left of a pack that was refused: {names:?}"),
        }
        let _ = fs::remove_dir_all(&root);
        assert_eq!(fs::read_dir(&self.folder).unwrap().count(), 1, "something was written elsewhere");
        unpacked.is_ok()
    }
}

#[test]
fn packs_with_flipped_bits_and_cut_off() {
    let bench = Bench { folder: fresh_folder("packs") };
    let whole = pack(&archive());
    assert!(bench.unpacks(&whole));
    let mut random = Random(1);
    for _ in 0..PLACES {
        let mut damaged = whole.clone();
        let at = random.below(whole.len());
        damaged[at] ^= 1 << random.below(8);
        assert!(!bench.unpacks(&damaged), "byte {at}");
        assert!(!bench.unpacks(&whole[..at]), "cut at {at}");
    }
    fs::remove_dir_all(&bench.folder).unwrap();
}

/// Checksums fit, and what they are of does not.
#[test]
fn archives_with_changed_bytes() {
    let bench = Bench { folder: fresh_folder("archives") };
    let whole = archive();
    let mut random = Random(2);
    let mut n_refused = 0;
    for _ in 0..PLACES {
        let mut damaged = whole.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(whole.len());
            damaged[at] = random.below(256) as u8;
        }
        damaged.truncate(whole.len() - [0, random.below(whole.len())][random.below(2)]);
        n_refused += usize::from(!bench.unpacks(&pack(&damaged)));
    }
    assert!(n_refused > PLACES / 4 && n_refused < PLACES, "{n_refused}");
    fs::remove_dir_all(&bench.folder).unwrap();
}

const PLAN: &str = r#"{"schema": "whodunit/plan/1", "limit": 1000, "steps": [{"follow": {"event": 12}},
    {"hold": {"thread": 2, "before": "use", "time": 1, "until": {"thread": 3, "passes": "free", "time": 2}}},
    {"run": {"thread": 1, "until": {"thread": 1, "clock": 500}}}, {"flip": {"at": "main.c:7", "thread": 1}},
    {"suppress": {"at": "0x401000"}}, {"schedule": {"policy": "random", "seed": 3, "quantum": 100}}, {"stop": {}}]}"#;

/// What does most harm in JSON.
const CHARACTERS: &[u8] = b"{}[]:,\"\\0918-.eE\x01azt\xff";

#[test]
fn plans_with_changed_characters() {
    assert!(Plan::read(PLAN).is_ok(), "{:?}", Plan::read(PLAN));
    let mut random = Random(3);
    let mut n_refused = 0;
    for _ in 0..PLACES {
        let mut damaged = PLAN.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(damaged.len());
            damaged[at] = CHARACTERS[random.below(CHARACTERS.len())];
        }
        damaged.truncate(damaged.len() - [0, random.below(damaged.len())][random.below(2)]);
        match Plan::read(&String::from_utf8_lossy(&damaged)) {
            Ok(plan) => assert_eq!(Plan::read(&serde_json::to_string(&plan).unwrap()).unwrap(), plan),
            Err(error) => n_refused += usize::from(!error.to_string().is_empty()),
        }
    }
    assert!(n_refused > PLACES / 2, "{n_refused}");
}
