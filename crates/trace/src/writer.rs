//! Writes one log: events into the tail, full tails as chunks into the log. See [`crate::format`] for why a kill at any
//! moment loses nothing.

use std::ops::DerefMut;

use crate::chunk::{Packer, encode_alone};
use crate::clocks::Clocks;
use crate::error::WriteError;
use crate::event::{Event, Memory};
use crate::format::{LARGEST_EVENT, LogHeader, LogId, VERSION};
use crate::sink::Sink;
use crate::tail::TailWriter;
use crate::wire::{Output, Room};

/// The room at the end of a tail that only [`Event::End`] may use, so that a recording can say that the disk is full.
const RESERVE: usize = 16 << 10;

/// Effects that are too large for one event are cut into pieces of this size.
const PIECE: usize = 4 << 20;

/// Writes the events of one process image.
///
/// `M` is the tail's memory: for a real recording a shared mapping of `N.tail`, whose bytes must all be allocated on disk
/// (see [`NewLog`](crate::NewLog)). A process that forks shares it with its child: the child must leave this writer alone
/// and make one of its own.
///
/// Appending takes no memory and makes no system calls until the tail is full; then it is compressed and appended to the
/// log at once.
pub struct Writer<M, S> {
    tail: TailWriter<M>,
    log: Growing<S>,
    packer: Packer,
    clocks: Clocks,
}

impl<M: DerefMut<Target = [u8]>, S: Sink> Writer<M, S> {
    /// Begins a log: formats `memory` as its tail and appends the header to `sink`, which must be empty.
    pub fn create(id: LogId, memory: M, sink: S) -> Result<Writer<M, S>, WriteError> {
        let bytes = memory.len();
        let tail = TailWriter::format(memory, id).ok_or(WriteError::TailSize { bytes })?;
        let packer = Packer::new(bytes).map_err(WriteError::Sink)?;
        let mut log = Growing { sink, length: 0, torn: false };
        log.append(&LogHeader { version: VERSION, id }.encode())?;
        Ok(Writer { tail, log, packer, clocks: Clocks::new() })
    }

    /// Writes an event and returns its number. After an error the event is not written, and all before it are.
    #[inline]
    pub fn append(&mut self, event: &Event<'_>) -> Result<u64, WriteError> {
        match self.put(event) {
            Some(number) => Ok(number),
            None => self.append_slowly(event),
        }
    }

    /// Writes memory as effects of the thread's next event, in as many events as that takes.
    pub fn append_memory(&mut self, thread: u32, address: u64, bytes: &[u8]) -> Result<(), WriteError> {
        for (index, piece) in bytes.chunks(PIECE).enumerate() {
            let address = address.wrapping_add((index * PIECE) as u64);
            self.append(&Event::Memory(Memory { thread, address, bytes: piece }))?;
        }
        Ok(())
    }

    /// Moves all events from the tail to the log. After an error they stay in the tail.
    pub fn seal(&mut self) -> Result<(), WriteError> {
        if self.tail.is_empty() {
            return Ok(());
        }
        self.packer.begin();
        self.tail.frames().for_each(|event| self.packer.add(event));
        if u64::from(self.packer.count()) != self.tail.number() - self.tail.first() {
            return Err(WriteError::Overwritten);
        }
        self.log.append(self.packer.pack(self.tail.first()))?;
        self.restart(self.tail.number());
        Ok(())
    }

    /// Writes all events of another log but its first, as they stand there, behind the first one of this log. The other one
    /// must have them all in its tail, and there must be room for them in this one.
    pub fn continue_from(&mut self, other: &Writer<M, S>) -> Result<(), WriteError> {
        for event in other.tail.frames().skip(1) {
            let reserve = self.reserve();
            let room = self.tail.room(reserve).get_mut(..event.len());
            room.ok_or(WriteError::TooLarge { bytes: event.len() })?.copy_from_slice(event);
            self.tail.commit(event.len());
        }
        self.clocks = other.clocks.clone();
        Ok(())
    }

    /// Whether no event has left the tail yet.
    pub fn is_all_in_tail(&self) -> bool {
        self.tail.first() == 0
    }

    /// The number that the next event gets.
    pub fn next_event(&self) -> u64 {
        self.tail.number()
    }

    /// Bytes in the log and in the tail.
    pub fn size(&self) -> u64 {
        self.log.length + self.tail.used() as u64
    }

    /// The tail's memory as it is.
    pub fn memory(&self) -> &M {
        self.tail.memory()
    }

    pub fn sink(&self) -> &S {
        &self.log.sink
    }

    /// Ends without a last [`Writer::seal`]. After one, the tail is empty and its file may be removed.
    pub fn into_parts(self) -> (M, S) {
        (self.tail.into_memory(), self.log.sink)
    }

    /// Writes into the tail if there is room.
    #[inline]
    fn put(&mut self, event: &Event<'_>) -> Option<u64> {
        let reserve = if matches!(event, Event::End(_)) { 0 } else { self.reserve() };
        let mut output = Output::new(Room::new(self.tail.room(reserve)), &self.clocks);
        event.encode(&mut output);
        let length = output.buffer.used()?;
        self.clocks.note(event.moment());
        Some(self.tail.commit(length))
    }

    #[cold]
    fn append_slowly(&mut self, event: &Event<'_>) -> Result<u64, WriteError> {
        self.seal()?;
        match self.put(event) {
            Some(number) => Ok(number),
            None => self.append_alone(event),
        }
    }

    /// An event larger than the tail becomes a chunk of its own. The tail is empty.
    fn append_alone(&mut self, event: &Event<'_>) -> Result<u64, WriteError> {
        let bytes = encode_alone(event);
        if bytes.len() > LARGEST_EVENT {
            return Err(WriteError::TooLarge { bytes: bytes.len() });
        }
        let number = self.tail.number();
        self.packer.begin();
        self.packer.add(&bytes);
        self.log.append(self.packer.pack(number))?;
        self.restart(number + 1);
        Ok(number)
    }

    fn restart(&mut self, first: u64) {
        self.tail.restart(first);
        self.clocks.reset();
    }

    fn reserve(&self) -> usize {
        RESERVE.min(self.tail.memory().len() / 4)
    }
}

/// A sink with the length up to which it is good.
struct Growing<S> {
    sink: S,
    length: u64,
    /// There may be a part of a chunk behind `length`.
    torn: bool,
}

impl<S: Sink> Growing<S> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.mend()?;
        if let Err(error) = self.sink.append(bytes) {
            self.torn = true;
            // If this fails too, the next attempt begins with it; and readers know a torn chunk.
            let _ = self.mend();
            return Err(WriteError::Sink(error));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn mend(&mut self) -> Result<(), WriteError> {
        if self.torn {
            self.sink.cut(self.length).map_err(WriteError::Sink)?;
            self.torn = false;
        }
        Ok(())
    }
}
