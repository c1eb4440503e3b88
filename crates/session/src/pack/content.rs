//! A file on its way into an archive or out of one.

use std::io::{self, Read};
use trace::{Digest, Hasher};

/// Counts and hashes what goes through, and keeps a failure: whoever copies cannot tell which side has failed.
pub(super) struct Content<R> {
    source: R,
    hasher: Hasher,
    pub bytes: u64,
    pub error: Option<io::Error>,
}

impl<R: Read> Content<R> {
    pub fn new(source: R) -> Content<R> {
        Content { source, hasher: Hasher::new(), bytes: 0, error: None }
    }

    pub fn digest(&self) -> Digest {
        self.hasher.digest()
    }
}

impl<R: Read> Read for Content<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer).map_err(|error| {
            let kind = error.kind();
            self.error = Some(error);
            io::Error::from(kind)
        })?;
        self.hasher.add(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}
