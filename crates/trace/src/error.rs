//! What can go wrong, in one sentence each that says what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::format::{LARGEST_CHUNK, LARGEST_EVENT, SMALLEST_TAIL, VERSION, Version};

/// An event was not written. All events before are where they were, and can be read.
#[derive(Debug)]
pub enum WriteError {
    /// The log could not grow. Writing may be tried again.
    Sink(io::Error),
    /// One event has more bytes than any may have.
    TooLarge { bytes: usize },
    /// Something else has written to the tail's memory: the guest, if they share an address space.
    Overwritten,
    /// The memory handed in is too small or too large for a tail.
    TailSize { bytes: usize },
}

impl WriteError {
    /// Whether the disk, a quota or a size limit is the reason.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self, WriteError::Sink(error) if matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge))
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Sink(error) if self.is_full() => {
                write!(f, "no space left for the recording ({error}): make room, or set WHODUNIT_DIR to a larger disk")
            }
            WriteError::Sink(error) => write!(f, "the recording cannot be written: {error}"),
            WriteError::TooLarge { bytes } => {
                write!(f, "an event of {bytes} bytes is more than the {LARGEST_EVENT} that a recording can hold")
            }
            WriteError::Overwritten => {
                write!(f, "the program has overwritten the recorder's memory; the recording ends here")
            }
            WriteError::TailSize { bytes } => {
                write!(f, "a tail cannot have {bytes} bytes: {SMALLEST_TAIL} to {LARGEST_CHUNK} are right")
            }
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Sink(error) => Some(error),
            _ => None,
        }
    }
}

/// A recording, or a log of it, could not be opened.
#[derive(Debug)]
pub struct OpenError {
    pub path: PathBuf,
    pub why: Unopened,
}

#[derive(Debug)]
pub enum Unopened {
    Missing,
    /// A file where a folder should be.
    NotAFolder,
    /// A folder with nothing in it, or a log that was never begun.
    Empty,
    NotARecording,
    Newer(Version),
    DamagedHeader,
    Unreadable(io::Error),
}

impl OpenError {
    pub(crate) fn new(path: impl Into<PathBuf>, why: Unopened) -> OpenError {
        OpenError { path: path.into(), why }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, error: io::Error) -> OpenError {
        let why = match error.kind() {
            io::ErrorKind::NotFound => Unopened::Missing,
            io::ErrorKind::NotADirectory => Unopened::NotAFolder,
            _ => Unopened::Unreadable(error),
        };
        OpenError::new(path, why)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.why {
            Unopened::Missing => write!(f, "{path} does not exist; `whodunit ls` lists the recordings there are"),
            Unopened::NotAFolder => write!(f, "{path} is not a folder, and a recording is one; name the folder"),
            Unopened::Empty => {
                write!(f, "{path} is empty: the recorder ended before its first event; record again")
            }
            Unopened::NotARecording => {
                write!(f, "{path} is not a recording; `whodunit ls` lists the recordings there are")
            }
            Unopened::Newer(version) => write!(
                f,
                "{path} has format {version}, and this whodunit reads up to {}.x; use the whodunit that recorded it, or a newer one",
                VERSION.major
            ),
            Unopened::DamagedHeader => {
                write!(
                    f,
                    "{path} is damaged in its first bytes and cannot be read; take a copy of it if there is one, or record again"
                )
            }
            Unopened::Unreadable(error) => write!(f, "{path} cannot be read: {error}; check its permissions"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.why {
            Unopened::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}
