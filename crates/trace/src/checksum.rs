//! Checksums: XXH3 with 64 bits, in the files and of what is recorded.

use std::fmt;
use std::io::{self, Read};

use twox_hash::XxHash3_64;

/// A 64-bit XXH3 checksum: of a file's content, of registers, of memory.
///
/// Its own type because checksums look like noise: they are stored in eight bytes where other numbers are stored in
/// as few as their size needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Digest(pub u64);

impl Digest {
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(XxHash3_64::oneshot(bytes))
    }

    /// The digest of all that `reader` yields, and how many bytes those were.
    pub fn of_reader(mut reader: impl Read) -> io::Result<(Digest, u64)> {
        let mut hasher = Hasher::new();
        let mut piece = vec![0; 64 << 10];
        let mut length = 0;
        loop {
            match reader.read(&mut piece) {
                Ok(0) => return Ok((hasher.digest(), length)),
                Ok(n) => {
                    hasher.add(&piece[..n]);
                    length += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({:016x})", self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A digest taken in pieces; equal to [`Digest::of`] all pieces joined.
#[derive(Clone)]
pub struct Hasher(XxHash3_64);

impl Hasher {
    pub fn new() -> Hasher {
        Hasher(XxHash3_64::new())
    }

    pub fn add(&mut self, bytes: &[u8]) {
        std::hash::Hasher::write(&mut self.0, bytes);
    }

    pub fn digest(&self) -> Digest {
        Digest(std::hash::Hasher::finish(&self.0))
    }
}

impl Default for Hasher {
    fn default() -> Hasher {
        Hasher::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of nothing, as published with XXH3.
    #[test]
    fn digests_are_xxh3() {
        assert_eq!(Digest::of(b""), Digest(0x2d06_8005_38d3_94c2));
    }

    #[test]
    fn pieces_and_readers_give_the_digest_of_the_whole() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let mut hasher = Hasher::new();
        bytes.chunks(777).for_each(|piece| hasher.add(piece));
        assert_eq!(hasher.digest(), Digest::of(&bytes));
        assert_eq!(Digest::of_reader(&bytes[..]).unwrap(), (Digest::of(&bytes), 200_000));
    }
}
