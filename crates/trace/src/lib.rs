//! The recording: every byte that outlives a process.
//!
//! Owns the events that a recorder writes down, their encoding, the files they are kept in, and the folder where
//! recordings are kept and found; and findings. The module `format` describes the bytes, and so does `docs/format.md`.
//!
//! This crate must not know how events were caught, nor what they are used for. It has no `unsafe`: memory that outlives
//! the process (a shared mapping) is handed in by the caller as a plain slice.
#![forbid(unsafe_code)]

mod beginning;
mod checksum;
mod chunk;
mod clocks;
mod cursor;
mod error;
pub mod event;
pub mod finding;
pub mod format;
pub mod index;
mod list;
mod lock;
mod log;
mod manifest;
mod recording;
mod sink;
mod source;
pub mod store;
pub mod stream;
mod summary;
mod tail;
mod wire;
mod writer;

pub use beginning::Beginning;
pub use checksum::{Digest, Hasher};
pub use cursor::{Cursor, Damage, Ending, Place, Record};
pub use error::{OpenError, Unopened, WriteError};
pub use event::Event;
pub use list::{Items, List};
pub use log::{Log, LogParts};
pub use manifest::Manifest;
pub use recording::{NewLog, Recording, file_copy, keep_copy, open_commons};
pub use sink::{FileSink, Sink};
pub use source::Source;
pub use store::{NewRecording, Store, StoreError};
pub use summary::{State, Summary};
pub use writer::Writer;
