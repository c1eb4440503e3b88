//! Chunks: events put together, compressed and sealed with a header; and taken apart again.
//!
//! [`Packer`] turns events into bytes and touches neither tail nor log, so it could work on another thread.

use std::io;

use zstd::bulk::{Compressor, Decompressor};

use crate::checksum::Digest;
use crate::clocks::Clocks;
use crate::format::{ChunkHeader, Codec};
use crate::wire::{Buffer, Input, Malformed, NO_CLOCKS, Output};

/// The fastest of the regular levels: events are repetitive, and the guest waits.
const LEVEL: i32 = 1;

/// Makes chunks, with memory of its own that it uses again.
pub struct Packer {
    compressor: Compressor<'static>,
    raw: Vec<u8>,
    count: u32,
    packed: Vec<u8>,
}

impl Packer {
    /// With memory for chunks of up to `capacity` bytes; larger ones make it grow.
    pub fn new(capacity: usize) -> io::Result<Packer> {
        let packed = Vec::with_capacity(ChunkHeader::SIZE + zstd::zstd_safe::compress_bound(capacity));
        Ok(Packer { compressor: Compressor::new(LEVEL)?, raw: Vec::with_capacity(capacity), count: 0, packed })
    }

    pub fn begin(&mut self) {
        self.raw.clear();
        self.count = 0;
    }

    /// Adds an encoded event.
    pub fn add(&mut self, event: &[u8]) {
        (&mut self.raw).varint(event.len() as u64);
        self.raw.extend_from_slice(event);
        self.count += 1;
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// The chunk of all events since [`Packer::begin`], the first of which has the number `first`.
    pub fn pack(&mut self, first: u64) -> &[u8] {
        let bound = zstd::zstd_safe::compress_bound(self.raw.len());
        self.packed.resize(ChunkHeader::SIZE + bound, 0);
        let compressed = self.compressor.compress_to_buffer(&self.raw, &mut self.packed[ChunkHeader::SIZE..]);
        let (codec, stored) = match compressed {
            Ok(length) if length < self.raw.len() => (Codec::Zstd, length),
            _ => {
                self.packed[ChunkHeader::SIZE..][..self.raw.len()].copy_from_slice(&self.raw);
                (Codec::Plain, self.raw.len())
            }
        };
        self.packed.truncate(ChunkHeader::SIZE + stored);
        let header = ChunkHeader {
            codec,
            first,
            count: self.count,
            stored: stored as u32,
            raw: self.raw.len() as u32,
            checksum: Digest::of(&self.packed[ChunkHeader::SIZE..]),
        };
        self.packed[..ChunkHeader::SIZE].copy_from_slice(&header.encode());
        &self.packed
    }
}

/// Takes chunks apart.
pub struct Unpacker(Decompressor<'static>);

impl Unpacker {
    pub fn new() -> io::Result<Unpacker> {
        Decompressor::new().map(Unpacker)
    }

    /// Replaces `raw` by the events of a chunk. `raw` never grows beyond what the header says, which is limited.
    pub fn unpack(&mut self, header: &ChunkHeader, body: &[u8], raw: &mut Vec<u8>) -> Result<(), Malformed> {
        raw.clear();
        if Digest::of(body) != header.checksum {
            return Err(Malformed);
        }
        match header.codec {
            Codec::Plain => raw.extend_from_slice(body),
            Codec::Zstd => {
                raw.resize(header.raw as usize, 0);
                let length = self.0.decompress_to_buffer(body, &mut raw[..]).map_err(|_| Malformed)?;
                raw.truncate(length);
            }
        }
        if raw.len() == header.raw as usize { Ok(()) } else { Err(Malformed) }
    }
}

/// Where the event that starts at `at` in `raw` has its bytes.
pub fn event_at(raw: &[u8], at: usize) -> Result<std::ops::Range<usize>, Malformed> {
    let rest = raw.get(at..).ok_or(Malformed)?;
    let mut input = Input::new(rest, &NO_CLOCKS);
    let length = usize::try_from(input.varint()?).map_err(|_| Malformed)?;
    let start = at + (rest.len() - input.rest().len());
    input.raw(length)?;
    Ok(start..start + length)
}

/// The bytes of an event that is too large for a tail, as the only one of a chunk.
pub fn encode_alone(event: &crate::Event<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    event.encode(&mut Output::new(&mut bytes, &Clocks::new()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(events: &[Vec<u8>]) -> (ChunkHeader, Vec<u8>) {
        let mut packer = Packer::new(1000).unwrap();
        packer.begin();
        events.iter().for_each(|event| packer.add(event));
        let bytes = packer.pack(5);
        let header = ChunkHeader::decode(bytes.first_chunk().unwrap()).unwrap();
        (header, bytes[ChunkHeader::SIZE..].to_vec())
    }

    fn unpacked(header: &ChunkHeader, body: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
        let mut raw = Vec::new();
        Unpacker::new().unwrap().unpack(header, body, &mut raw)?;
        let mut events = Vec::new();
        let mut at = 0;
        while at < raw.len() {
            let range = event_at(&raw, at)?;
            at = range.end;
            events.push(raw[range].to_vec());
        }
        Ok(events)
    }

    #[test]
    fn chunks_come_back_compressed_or_plain() {
        let repetitive: Vec<Vec<u8>> = (0..500).map(|i| vec![i as u8 % 3; 40]).collect();
        let (header, body) = packed(&repetitive);
        assert_eq!((header.codec, header.first, header.count), (Codec::Zstd, 5, 500));
        assert!(body.len() < 2000, "{}", body.len());
        assert_eq!(unpacked(&header, &body), Ok(repetitive));

        let tiny = vec![vec![1, 2, 3]];
        let (header, body) = packed(&tiny);
        assert_eq!(header.codec, Codec::Plain);
        assert_eq!(unpacked(&header, &body), Ok(tiny));
    }

    #[test]
    fn a_bomb_is_stopped_at_the_stated_size() {
        let (header, body) = packed(&[vec![0; 1_000_000]]);
        let bomb = ChunkHeader { raw: 1000, ..header };
        let mut raw = Vec::new();
        assert_eq!(Unpacker::new().unwrap().unpack(&bomb, &body, &mut raw), Err(Malformed));
        assert!(raw.capacity() < 10_000);
    }
}
