//! Packs: a recording in one file, with the programs and libraries it needs to be replayed elsewhere, and what their debug
//! information and sources are for people.
//!
//! A pack is a header of 64 bytes and a tar archive in one zstd frame. The header is a frame that zstd passes over, so
//! that common tools can list and extract a pack. `docs/pack.md` describes the bytes. What stands in the header is
//! checked before anything is unpacked; who made a pack is not known, so its content is believed in nothing.

mod content;
mod contents;
mod read;
mod write;

pub use contents::Contents;
pub use read::{Unpacked, unpack};
pub use write::{Member, Packed, pack};

use std::fmt;
use std::io;
use std::path::PathBuf;
use trace::format::{FILES, INDEX, MANIFEST, Version, log_name, tail_name};
use trace::{Digest, OpenError};

/// Version 1 had no index.
const VERSION: Version = Version { major: 2, minor: 0 };
/// A frame that decompressors of zstd pass over.
const SKIPPED_FRAME: [u8; 4] = 0x184d_2a50_u32.to_le_bytes();
const MAGIC: [u8; 8] = *b"WHOPACK\0";
/// Names cannot be longer; the longest in use are those of copies.
const LONGEST_NAME: usize = 64;

/// More members than any recording has.
const MOST_MEMBERS: u64 = 100_000;
/// What any pack may take when unpacked, and how often its own size on top of that: archives made to fill a disk
/// compress a thousandfold, and what is in a recording hardly tenfold.
const ALLOWANCE: u64 = 2 << 30;
const LARGEST_RATIO: u64 = 100;

/// The most bytes that a pack with this many bytes may hold.
fn most_bytes(packed: u64) -> u64 {
    packed.saturating_mul(LARGEST_RATIO).saturating_add(ALLOWANCE)
}

/// What the header says of the body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Header {
    version: Version,
    body_bytes: u64,
    body: Digest,
}

/// Why the first bytes are no header.
enum NoHeader {
    Foreign,
    Newer(Version),
    Damaged,
}

impl Header {
    const SIZE: usize = 64;

    fn encode(&self) -> [u8; Header::SIZE] {
        let mut bytes = [0; Header::SIZE];
        bytes[0..4].copy_from_slice(&SKIPPED_FRAME);
        bytes[4..8].copy_from_slice(&(Header::SIZE as u32 - 8).to_le_bytes());
        bytes[8..16].copy_from_slice(&MAGIC);
        bytes[16..18].copy_from_slice(&self.version.major.to_le_bytes());
        bytes[18..20].copy_from_slice(&self.version.minor.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.body.0.to_le_bytes());
        let checksum = Digest::of(&bytes[..56]);
        bytes[56..64].copy_from_slice(&checksum.0.to_le_bytes());
        bytes
    }

    /// `bytes` may be fewer than a header has.
    fn decode(bytes: &[u8]) -> Result<Header, NoHeader> {
        let magic = bytes.get(8..16).unwrap_or_default();
        if magic != MAGIC || !bytes.starts_with(&SKIPPED_FRAME) {
            return Err(NoHeader::Foreign);
        }
        let half = |at: usize| bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes);
        let word = |at: usize| bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        let version = half(16).zip(half(18)).map(|(major, minor)| Version { major, minor });
        if let Some(newer) = version.filter(|version| version.major > VERSION.major) {
            return Err(NoHeader::Newer(newer));
        }
        let checked = bytes.get(..56).map(|bytes| Digest::of(bytes).0).filter(|sum| word(56) == Some(*sum));
        let fields = || Some(Header { version: version?, body_bytes: word(24)?, body: Digest(word(32)?) });
        checked.and_then(|_| fields()).ok_or(NoHeader::Damaged)
    }
}

/// What a member of the archive is, by its name. Nothing else may be in a pack, so no name can lead elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Name {
    Manifest,
    Log(u32),
    Tail(u32),
    Copy(Digest),
    Index,
}

impl Name {
    fn of(bytes: &[u8]) -> Option<Name> {
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= LONGEST_NAME)?;
        let number = |digits: &str| digits.parse::<u32>().ok();
        let copy = |rest: &str| match rest.strip_prefix(FILES)?.strip_prefix('/')? {
            INDEX => Some(Name::Index),
            digits => u64::from_str_radix(digits, 16).ok().map(|sum| Name::Copy(Digest(sum))),
        };
        let found = match text.rsplit_once('.') {
            Some((digits, "log")) => number(digits).map(Name::Log),
            Some((digits, "tail")) => number(digits).map(Name::Tail),
            _ if text == MANIFEST => Some(Name::Manifest),
            _ => copy(text),
        };
        // Other spellings of the same (`01.log`, `files/+F`) are no names.
        found.filter(|name| name.to_string() == text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Manifest => write!(out, "{MANIFEST}"),
            Name::Log(number) => write!(out, "{}", log_name(*number)),
            Name::Tail(number) => write!(out, "{}", tail_name(*number)),
            Name::Copy(checksum) => write!(out, "{FILES}/{checksum}"),
            Name::Index => write!(out, "{FILES}/{INDEX}"),
        }
    }
}

/// Why a pack was not made or not opened, in one sentence that says what to do.
#[derive(Debug)]
pub enum PackError {
    /// Its recorder is still at work.
    Live {
        folder: PathBuf,
    },
    /// There is something where the pack should go.
    Occupied {
        path: PathBuf,
    },
    /// A file that the program had mapped cannot be packed.
    NoFile {
        path: PathBuf,
        error: io::Error,
    },
    /// It is not the file any more that was recorded.
    Changed {
        path: PathBuf,
        /// By their build ids, in brackets, if those tell.
        builds: String,
    },
    /// It would not be opened again.
    TooCompressible {
        bytes: u64,
        packed: u64,
    },
    Io {
        doing: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    Open(OpenError),
    /// Not a pack at all.
    Foreign {
        path: PathBuf,
    },
    Newer {
        path: PathBuf,
        version: Version,
    },
    Damaged {
        path: PathBuf,
        what: String,
    },
    /// Right as bytes, but nothing that was packed.
    Refused {
        path: PathBuf,
        what: String,
    },
}

impl PackError {
    fn io(doing: &'static str, path: impl Into<PathBuf>, error: io::Error) -> PackError {
        PackError::Io { doing, path: path.into(), error }
    }
}

impl From<OpenError> for PackError {
    fn from(error: OpenError) -> PackError {
        PackError::Open(error)
    }
}

impl fmt::Display for PackError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackError::Live { folder } => {
                write!(out, "{} is still being recorded; end the program first", folder.display())
            }
            PackError::Occupied { path } => {
                write!(out, "{} already exists; name another file, or overwrite it with --force", path.display())
            }
            PackError::NoFile { path, error } => write!(
                out,
                "{}, which the program had mapped, cannot be packed: {error}; put it back where it was",
                path.display()
            ),
            PackError::Changed { path, builds } => write!(
                out,
                "{} has changed since the recording was made{builds}; put the version back that was recorded, or record again",
                path.display()
            ),
            PackError::TooCompressible { bytes, packed } => write!(
                out,
                "the recording has {bytes} bytes and only {packed} when packed, which would not be opened; copy its folder instead"
            ),
            PackError::Io { doing, path, error } => {
                write!(out, "cannot {doing} {}: {error}; check its permissions and space", path.display())
            }
            PackError::Open(error) => error.fmt(out),
            PackError::Foreign { path } => write!(
                out,
                "{} is no packed recording; name the folder of a recording, or a file that `whodunit pack` has made",
                path.display()
            ),
            PackError::Newer { path, version } => write!(
                out,
                "{} is a pack of format {version}, and this whodunit reads up to {}.x; use the whodunit that packed it, or a newer one",
                path.display(),
                VERSION.major
            ),
            PackError::Damaged { path, what } => {
                write!(out, "{} is damaged: {what}; copy or fetch it again", path.display())
            }
            PackError::Refused { path, what } => {
                write!(out, "{} is not a pack that whodunit has made: {what}; nothing was unpacked", path.display())
            }
        }
    }
}

impl std::error::Error for PackError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_hold_their_bytes() {
        let header = Header { version: VERSION, body_bytes: 0x1122, body: Digest(0x3344) };
        let bytes = header.encode();
        assert_eq!(bytes[..20], *b"\x50\x2a\x4d\x18\x38\0\0\0WHOPACK\0\x02\0\0\0");
        assert_eq!(Header::decode(&bytes).ok(), Some(header));
        for at in 0..bytes.len() {
            let mut damaged = bytes;
            damaged[at] ^= 0x10;
            assert!(Header::decode(&damaged).is_err(), "byte {at}");
            assert!(Header::decode(&bytes[..at]).is_err(), "{at} bytes");
        }
        let newer = Header { version: Version { major: 3, minor: 0 }, ..header }.encode();
        assert!(matches!(Header::decode(&newer), Err(NoHeader::Newer(Version { major: 3, .. }))));
        let older = Header { version: Version { major: 1, minor: 0 }, ..header };
        assert_eq!(Header::decode(&older.encode()).ok(), Some(older));
    }

    #[test]
    fn only_parts_of_a_recording_have_names() {
        let good = ["recording.json", "1.log", "12.tail", "files/00000000000000ff", "files/index.json"];
        for text in good {
            assert_eq!(Name::of(text.as_bytes()).map(|name| name.to_string()).as_deref(), Some(text));
        }
        let bad = [
            "",
            "/1.log",
            "../1.log",
            "./1.log",
            "01.log",
            "+1.log",
            "-1.log",
            "x.log",
            "1.log/",
            "4294967296.log",
            "files",
            "files/",
            "files/ff",
            "files/00000000000000FF",
            "files/../1.log",
            "files/index.json/",
            "index.json",
            "files/000000000000000g",
            "/etc/passwd",
            "recording.json\0",
            ".recording.json",
        ];
        for text in bad {
            assert_eq!(Name::of(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Name::of(b"\xff.log"), None);
    }
}
