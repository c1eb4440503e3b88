//! The bytes of a recording: files, headers, versions and limits. `docs/format.md` says the same at more length.
//!
//! A recording is a folder:
//!
//! | file | content |
//! |---|---|
//! | `recording.json` | what is recorded, for people; nothing depends on it |
//! | `N.log` | events of one process image, appended in compressed chunks; 1 is the program that was named |
//! | `N.tail` | the events that are not in `N.log` yet, in memory shared with the file; gone once the log is whole |
//! | `files/` | copies of files, named by checksum: of programs that the run made, and of all in packed recordings |
//!
//! All numbers in headers are little-endian and of fixed size. Checksums are XXH3 with 64 bits, seed 0; where a field has
//! 32 bits, the low half.
//!
//! # `N.log`
//!
//! A [`LogHeader`], then chunks one after the other. A chunk is a [`ChunkHeader`] and a body of `stored` bytes, which is one
//! zstd frame (or plain if that is shorter) of `raw` bytes. Those are events: the length as a varint, then a kind byte and
//! the fields in the order of [`event`](crate::event), each as `wire.rs` lays it out. Clocks are stored as
//! differences from the thread's last clock in the same chunk, by a table of 64 places (`clocks.rs`): chunks can be
//! read alone. Events are numbered from 0 through all chunks of a log.
//!
//! # `N.tail`
//!
//! A [`TailHeader`], then two slots, then frames. The valid slot of the higher generation tells the number of the first
//! event. A frame starts at a multiple of eight bytes with a word: length in the low half, checksum in the high half; then
//! come the event's bytes as in a chunk. The word 0 ends the frames. The checksum of a frame is that of its bytes, changed by
//! generation and event number (`frame_checksum`), so that bytes of an earlier generation never pass.
//!
//! # Why a kill at any moment loses nothing
//!
//! A store to a shared mapping is in the page cache once it is done, whatever becomes of the process. So order is all:
//!
//! 1. An event: its bytes; the word 0 behind them; and last, by one store, its own word.
//! 2. A chunk: appended to the log while the tail stays as it is. A kill leaves a torn chunk that its header tells, and
//!    all its events are in the tail.
//! 3. The restart of the tail: the first word becomes 0; then the slot that is not in use gets the next generation. Until
//!    that slot's checksum is right the old one counts, and tells of no events, or of events that the log has too.
//!
//! Readers take events from the log as long as chunks are right, and then from the tail those whose numbers follow.
//!
//! # Versions
//!
//! Magic and version stand at the same place in every version. A new *major* version is not read by older tools. A
//! *minor* version may add kinds of events, codes of enumerations that have `Other`, and fields at the end of an event:
//! older tools of the same major version read on, and show such events as `Unknown`.

use crate::checksum::Digest;

/// The version that this crate writes.
pub const VERSION: Version = Version { major: 1, minor: 2 };

/// The first bytes of every log.
pub const LOG_MAGIC: [u8; 8] = *b"WHODUNIT";
/// The first bytes of every tail.
pub const TAIL_MAGIC: [u8; 8] = *b"WHOTAIL\0";
const CHUNK_MAGIC: [u8; 4] = *b"CHNK";

/// The most bytes that a chunk holds, before and after compression.
pub const LARGEST_CHUNK: usize = 64 << 20;

/// The most bytes that one event may take. Larger effects go ahead as [`Memory`](crate::event::Memory) events.
pub const LARGEST_EVENT: usize = LARGEST_CHUNK - 16;

/// The size that a tail should have. Its time to compress (some milliseconds) is the longest pause of a recorder.
pub const TAIL_SIZE: usize = 1 << 20;

/// The smallest tail that a writer takes.
pub const SMALLEST_TAIL: usize = 1 << 10;

/// Of the manifest.
pub const MANIFEST: &str = "recording.json";
/// The folder of copies.
pub const FILES: &str = "files";
/// The file by which processes that share memory take turns while they are recorded. It means nothing afterwards.
pub const COMMONS: &str = "commons";
/// What the copies were, in their folder.
pub const INDEX: &str = "index.json";

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    pub major: u16,
    pub minor: u16,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The name of a log's file.
pub fn log_name(number: u32) -> String {
    format!("{number}.log")
}

/// The name of a tail's file.
pub fn tail_name(number: u32) -> String {
    format!("{number}.tail")
}

/// Which log this is. A tail carries the same, so that one is never joined to another's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogId {
    /// Differs between recordings.
    pub recording: u64,
    /// The log's number within its recording.
    pub log: u32,
}

/// Why a header is not one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadHeader {
    /// Something else stands here.
    Magic,
    Newer(Version),
    Damaged,
}

/// The first [`LogHeader::SIZE`] bytes of a log.
///
/// | at | bytes | field |
/// |---|---|---|
/// | 0 | 8 | magic `WHODUNIT` |
/// | 8 | 2 | major version |
/// | 10 | 2 | minor version |
/// | 12 | 4 | number of the log |
/// | 16 | 8 | id of the recording |
/// | 24 | 32 | zero |
/// | 56 | 8 | checksum of the bytes before |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogHeader {
    pub version: Version,
    pub id: LogId,
}

impl LogHeader {
    pub const SIZE: usize = 64;

    pub fn encode(&self) -> [u8; Self::SIZE] {
        encode_identity(LOG_MAGIC, self.version, self.id)
    }

    pub fn decode(bytes: &[u8; Self::SIZE]) -> Result<LogHeader, BadHeader> {
        decode_identity(LOG_MAGIC, bytes).map(|(version, id)| LogHeader { version, id })
    }
}

/// The first [`TailHeader::SIZE`] bytes of a tail: as a [`LogHeader`], but for the magic `WHOTAIL\0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TailHeader {
    pub id: LogId,
}

impl TailHeader {
    pub const SIZE: usize = 64;

    pub fn encode(&self) -> [u8; Self::SIZE] {
        encode_identity(TAIL_MAGIC, VERSION, self.id)
    }

    pub fn decode(bytes: &[u8; Self::SIZE]) -> Result<TailHeader, BadHeader> {
        decode_identity(TAIL_MAGIC, bytes).map(|(_, id)| TailHeader { id })
    }
}

/// Slots stand behind the tail's header; generation `g` is in slot `g % 2`.
///
/// | at | bytes | field |
/// |---|---|---|
/// | 0 | 8 | generation, from 1 |
/// | 8 | 8 | number of the tail's first event |
/// | 16 | 8 | zero |
/// | 24 | 8 | checksum of the bytes before |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    pub generation: u64,
    pub first: u64,
}

impl Slot {
    pub const SIZE: usize = 32;

    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&self.generation.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.first.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Slot> {
        let slot = Slot { generation: u64_at(bytes, 0), first: u64_at(bytes, 8) };
        (is_sealed(bytes) && slot.generation > 0).then_some(slot)
    }
}

/// Where the frames of a tail start.
pub const FRAMES: usize = TailHeader::SIZE + 2 * Slot::SIZE;

/// The checksum of a frame of a tail.
pub fn frame_checksum(bytes: &[u8], generation: u64, number: u64) -> u32 {
    let place = (generation as u32).wrapping_mul(0x9e37_79b1) ^ (number as u32).wrapping_mul(0x85eb_ca77);
    Digest::of(bytes).0 as u32 ^ place
}

/// How a chunk's body is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    Plain,
    Zstd,
}

/// In front of a chunk's body.
///
/// | at | bytes | field |
/// |---|---|---|
/// | 0 | 4 | magic `CHNK` |
/// | 4 | 1 | codec: 0 plain, 1 zstd |
/// | 5 | 3 | zero |
/// | 8 | 8 | number of the first event |
/// | 16 | 4 | number of events, at least 1 |
/// | 20 | 4 | bytes stored |
/// | 24 | 4 | bytes when decompressed |
/// | 28 | 4 | zero |
/// | 32 | 8 | checksum of the body as stored |
/// | 40 | 8 | checksum of the bytes before |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkHeader {
    pub codec: Codec,
    pub first: u64,
    pub count: u32,
    pub stored: u32,
    pub raw: u32,
    pub checksum: Digest,
}

impl ChunkHeader {
    pub const SIZE: usize = 48;

    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..4].copy_from_slice(&CHUNK_MAGIC);
        bytes[4] = match self.codec {
            Codec::Plain => 0,
            Codec::Zstd => 1,
        };
        bytes[8..16].copy_from_slice(&self.first.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.stored.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.raw.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.checksum.0.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// None if anything about it is wrong, limits included.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<ChunkHeader> {
        let codec = match bytes[4] {
            0 => Codec::Plain,
            1 => Codec::Zstd,
            _ => return None,
        };
        let header = ChunkHeader {
            codec,
            first: u64_at(bytes, 8),
            count: u32_at(bytes, 16),
            stored: u32_at(bytes, 20),
            raw: u32_at(bytes, 24),
            checksum: Digest(u64_at(bytes, 32)),
        };
        let right = bytes[..4] == CHUNK_MAGIC && is_sealed(bytes) && header.is_within_limits();
        right.then_some(header)
    }

    /// An event takes two bytes at least: its length and its kind.
    fn is_within_limits(&self) -> bool {
        let sizes = self.stored as usize <= LARGEST_CHUNK && self.raw as usize <= LARGEST_CHUNK;
        let count = self.count > 0 && u64::from(self.count) * 2 <= u64::from(self.raw);
        let numbers = self.first.checked_add(u64::from(self.count)).is_some();
        sizes && count && numbers && (self.codec == Codec::Zstd || self.stored == self.raw)
    }

    /// The number of the event behind the chunk.
    pub fn next(&self) -> u64 {
        self.first.saturating_add(u64::from(self.count))
    }
}

fn encode_identity(magic: [u8; 8], version: Version, id: LogId) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&magic);
    bytes[8..10].copy_from_slice(&version.major.to_le_bytes());
    bytes[10..12].copy_from_slice(&version.minor.to_le_bytes());
    bytes[12..16].copy_from_slice(&id.log.to_le_bytes());
    bytes[16..24].copy_from_slice(&id.recording.to_le_bytes());
    seal(&mut bytes);
    bytes
}

/// A newer version is told from its number alone: the rest of its header may look different.
fn decode_identity(magic: [u8; 8], bytes: &[u8; 64]) -> Result<(Version, LogId), BadHeader> {
    if bytes[..8] != magic {
        return Err(BadHeader::Magic);
    }
    let version = Version { major: u16_at(bytes, 8), minor: u16_at(bytes, 10) };
    if version.major > VERSION.major {
        return Err(BadHeader::Newer(version));
    }
    if version.major == 0 || !is_sealed(bytes) {
        return Err(BadHeader::Damaged);
    }
    Ok((version, LogId { log: u32_at(bytes, 12), recording: u64_at(bytes, 16) }))
}

/// Puts the checksum of all bytes before the last eight there.
fn seal<const N: usize>(bytes: &mut [u8; N]) {
    let checksum = Digest::of(&bytes[..N - 8]);
    bytes[N - 8..].copy_from_slice(&checksum.0.to_le_bytes());
}

fn is_sealed<const N: usize>(bytes: &[u8; N]) -> bool {
    Digest::of(&bytes[..N - 8]).0 == u64_at(bytes, N - 8)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: LogId = LogId { recording: 0x1122_3344_5566_7788, log: 3 };

    fn chunk() -> ChunkHeader {
        ChunkHeader { codec: Codec::Zstd, first: 7, count: 9, stored: 1000, raw: 3000, checksum: Digest(5) }
    }

    #[test]
    fn headers_come_back() {
        let log = LogHeader { version: VERSION, id: ID };
        assert_eq!(LogHeader::decode(&log.encode()), Ok(log));
        assert_eq!(TailHeader::decode(&TailHeader { id: ID }.encode()), Ok(TailHeader { id: ID }));
        assert_eq!(ChunkHeader::decode(&chunk().encode()), Some(chunk()));
        let slot = Slot { generation: 4, first: 1 << 40 };
        assert_eq!(Slot::decode(&slot.encode()), Some(slot));
    }

    /// The layout is a promise to other readers: these bytes may only change with the major version.
    #[test]
    fn the_layout_is_fixed() {
        let version = Version { major: 1, minor: 2 };
        let log = LogHeader { version, id: ID }.encode();
        assert_eq!(log[..24], *b"WHODUNIT\x01\0\x02\0\x03\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11");
        let header = chunk().encode();
        assert_eq!(header[..20], *b"CHNK\x01\0\0\0\x07\0\0\0\0\0\0\0\x09\0\0\0");
        assert_eq!(header[20..40], *b"\xe8\x03\0\0\xb8\x0b\0\0\0\0\0\0\x05\0\0\0\0\0\0\0");
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let log = LogHeader { version: VERSION, id: ID }.encode();
        let slot = Slot { generation: 4, first: 1 << 40 }.encode();
        for bit in 0..log.len() * 8 {
            let mut copy = log;
            copy[bit / 8] ^= 1 << (bit % 8);
            assert!(LogHeader::decode(&copy).is_err(), "log bit {bit}");
        }
        for bit in 0..slot.len() * 8 {
            let mut copy = slot;
            copy[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Slot::decode(&copy), None, "slot bit {bit}");
        }
        for bit in 0..ChunkHeader::SIZE * 8 {
            let mut copy = chunk().encode();
            copy[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ChunkHeader::decode(&copy), None, "chunk bit {bit}");
        }
    }

    #[test]
    fn a_newer_major_version_is_named() {
        let newer = Version { major: 2, minor: 5 };
        let header = LogHeader { version: newer, id: ID }.encode();
        assert_eq!(LogHeader::decode(&header), Err(BadHeader::Newer(newer)));
        let minor = LogHeader { version: Version { major: 1, minor: 9 }, id: ID };
        assert_eq!(LogHeader::decode(&minor.encode()), Ok(minor));
    }

    #[test]
    fn chunks_beyond_the_limits_are_refused() {
        let limit = LARGEST_CHUNK as u32;
        let refused = [
            ChunkHeader { raw: limit + 1, ..chunk() },
            ChunkHeader { stored: limit + 1, ..chunk() },
            ChunkHeader { count: 0, ..chunk() },
            ChunkHeader { count: 1501, ..chunk() },
            ChunkHeader { codec: Codec::Plain, ..chunk() },
            ChunkHeader { first: u64::MAX, ..chunk() },
        ];
        for header in refused {
            assert_eq!(ChunkHeader::decode(&header.encode()), None, "{header:?}");
        }
    }
}
