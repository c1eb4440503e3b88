//! Where a log grows.

use std::fs::File;
use std::io::{self, Write};

/// The end of a log. A recorder inside a guest's process may bring its own, made of bare system calls.
pub trait Sink {
    /// Adds all of `bytes` at the end. After an error, a part of them may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Takes off what is behind the first `length` bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

/// A log in a file, which must be open for appending (`O_APPEND`).
pub struct FileSink(File);

impl FileSink {
    pub fn new(file: File) -> FileSink {
        FileSink(file)
    }

    pub fn file(&self) -> &File {
        &self.0
    }
}

impl Sink for FileSink {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        (**self).append(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        (**self).cut(length)
    }
}

/// A log in memory.
impl Sink for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        Ok(())
    }
}
