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

    /// The digest of what a page holds, and where. Nothing but zeros has the digest 0, like a page that is not there.
    pub fn of_page(address: u64, bytes: &[u8]) -> Digest {
        const ZEROS: [u8; 64] = [0; 64];
        let is_zero = bytes.chunks(ZEROS.len()).all(|piece| *piece == ZEROS[..piece.len()]);
        if is_zero { Digest(0) } else { Digest(XxHash3_64::oneshot_with_seed(address, bytes)) }
    }

    /// What both digests come to, in either order.
    pub fn plus(self, other: Digest) -> Digest {
        Digest(self.0.wrapping_add(other.0))
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
    fn digests_of_pages_depend_on_content_and_place() {
        let (mut page, zeros) = (vec![0; 4096], vec![0; 4096]);
        page[4095] = 1;
        assert_eq!(Digest::of_page(0x1000, &zeros), Digest(0));
        let here = Digest::of_page(0x1000, &page);
        let there = Digest::of_page(0x2000, &page);
        assert_ne!(here, there);
        assert_ne!(here, Digest(0));
        assert_eq!(here.plus(there), there.plus(here));
        assert_eq!(here.plus(Digest(0)), here);
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
