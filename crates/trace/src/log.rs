//! One log, opened for reading: where its chunks are, and what its tail adds. Events come from a [`Cursor`].

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use crate::cursor::{Cursor, Ending};
use crate::error::{OpenError, Unopened};
use crate::format::{BadHeader, ChunkHeader, FRAMES, LARGEST_CHUNK, LOG_MAGIC, LogHeader, log_name, tail_name};
use crate::source::Source;
use crate::tail::TailImage;

/// The bytes of a log and of its tail.
pub struct LogParts {
    pub log: Box<dyn Source>,
    /// Empty if there is none. Must have been read before the log's length is asked for: a recorder may be at work, and
    /// moves events from here to there.
    pub tail: Vec<u8>,
}

/// A log. Copies share what they hold.
#[derive(Clone)]
pub struct Log(Arc<Layout>);

pub(crate) struct Layout {
    pub source: Box<dyn Source>,
    pub header: LogHeader,
    pub chunks: Vec<Chunk>,
    /// Why there are no more chunks.
    pub stop: Stop,
    pub tail: TailImage,
}

#[derive(Clone, Copy)]
pub(crate) struct Chunk {
    pub offset: u64,
    pub header: ChunkHeader,
}

/// What follows the last chunk.
#[derive(Clone, Copy)]
pub(crate) enum Stop {
    /// The end of the file, at this byte.
    End(u64),
    /// A chunk whose end is missing.
    Torn(u64),
    /// Something that is not the next chunk.
    Bad(u64),
}

impl Stop {
    pub fn offset(self) -> u64 {
        match self {
            Stop::End(offset) | Stop::Torn(offset) | Stop::Bad(offset) => offset,
        }
    }
}

impl Log {
    /// Opens log `number` of the recording in `folder`.
    pub fn open(folder: &Path, number: u32) -> Result<Log, OpenError> {
        let path = folder.join(log_name(number));
        let tail = read_tail(&folder.join(tail_name(number)));
        let tail = tail.map_err(|error| OpenError::io(folder.join(tail_name(number)), error))?;
        let log = File::open(&path).map_err(|error| OpenError::io(&path, error))?;
        let parts = LogParts { log: Box::new(log), tail };
        Log::from_parts(parts).map_err(|why| OpenError::new(path, why))
    }

    pub fn from_parts(parts: LogParts) -> Result<Log, Unopened> {
        let length = parts.log.length().map_err(Unopened::Unreadable)?;
        let header = read_header(&*parts.log, length)?;
        let (chunks, stop) = find_chunks(&*parts.log, length);
        let tail = TailImage::of(&parts.tail, header.id);
        Ok(Log(Arc::new(Layout { source: parts.log, header, chunks, stop, tail })))
    }

    pub fn header(&self) -> LogHeader {
        self.0.header
    }

    /// How many events there are, as far as headers tell.
    pub fn event_count(&self) -> u64 {
        let logged = self.0.logged();
        match &self.0.tail {
            TailImage::Present(tail) if tail.first <= logged => tail.next().max(logged),
            _ => logged,
        }
    }

    /// A cursor at the first event.
    pub fn cursor(&self) -> Cursor {
        Cursor::new(self.0.clone())
    }

    /// Reads all events: how many there are, and what comes after them.
    pub fn check(&self) -> (u64, Ending) {
        let mut cursor = self.cursor();
        let mut count = 0;
        while cursor.next().is_some() {
            count += 1;
        }
        (count, cursor.ending())
    }
}

impl Layout {
    /// The number of the event behind the last chunk.
    pub fn logged(&self) -> u64 {
        self.chunks.last().map_or(0, |chunk| chunk.header.next())
    }
}

/// No more than a tail can have, whatever the file's size.
fn read_tail(path: &Path) -> io::Result<Vec<u8>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take((LARGEST_CHUNK + FRAMES) as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_header(source: &dyn Source, length: u64) -> Result<LogHeader, Unopened> {
    let mut bytes = [0; LogHeader::SIZE];
    let there = length.min(LogHeader::SIZE as u64) as usize;
    source.read_exact_at(0, &mut bytes[..there]).map_err(Unopened::Unreadable)?;
    if there < LogHeader::SIZE {
        let magic = there.min(LOG_MAGIC.len());
        let begun = bytes[..magic] == LOG_MAGIC[..magic];
        return Err(if begun { Unopened::Empty } else { Unopened::NotARecording });
    }
    LogHeader::decode(&bytes).map_err(|bad| match bad {
        BadHeader::Magic => Unopened::NotARecording,
        BadHeader::Newer(version) => Unopened::Newer(version),
        BadHeader::Damaged => Unopened::DamagedHeader,
    })
}

fn find_chunks(source: &dyn Source, length: u64) -> (Vec<Chunk>, Stop) {
    let mut chunks = Vec::new();
    let mut offset = LogHeader::SIZE as u64;
    let mut first = 0;
    loop {
        match chunk_at(source, length, offset, first) {
            Ok(header) => {
                chunks.push(Chunk { offset, header });
                first = header.next();
                offset += (ChunkHeader::SIZE + header.stored as usize) as u64;
            }
            Err(stop) => return (chunks, stop),
        }
    }
}

fn chunk_at(source: &dyn Source, length: u64, offset: u64, first: u64) -> Result<ChunkHeader, Stop> {
    let left = length.saturating_sub(offset);
    if left == 0 {
        return Err(Stop::End(offset));
    }
    if left < ChunkHeader::SIZE as u64 {
        return Err(Stop::Torn(offset));
    }
    let mut bytes = [0; ChunkHeader::SIZE];
    source.read_exact_at(offset, &mut bytes).map_err(|_| Stop::Bad(offset))?;
    let header = ChunkHeader::decode(&bytes).filter(|header| header.first == first).ok_or(Stop::Bad(offset))?;
    if left - (ChunkHeader::SIZE as u64) < u64::from(header.stored) {
        return Err(Stop::Torn(offset));
    }
    Ok(header)
}
