//! Goes through the events of a log, from its chunks and then from its tail.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::chunk::{Unpacker, event_at};
use crate::clocks::Clocks;
use crate::event::Event;
use crate::format::ChunkHeader;
use crate::log::{Chunk, Layout, Stop};
use crate::tail::TailImage;
use crate::wire::Malformed;

/// An event with its number and place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Record<'a> {
    pub number: u64,
    pub place: Place,
    pub event: Event<'a>,
}

impl Record<'_> {
    pub fn thread(&self) -> Option<u32> {
        self.event.thread()
    }
}

/// Where an event is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the chunk at byte `chunk` of the log, `at` bytes into what it holds.
    Log { chunk: u64, at: usize },
    /// `at` bytes into what the tail holds.
    Tail { at: usize },
}

/// What comes after the last event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The end of the process, or of its image.
    Whole,
    /// Nothing: the recorder was killed, or is still at work.
    Cut,
    /// Bytes that are wrong. The events before are right.
    Damaged(Damage),
}

/// Where bytes are wrong: in a log, or in the tail of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage {
    pub log: u32,
    pub in_tail: bool,
    pub offset: u64,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Whole => write!(f, "whole"),
            Ending::Cut => write!(f, "cut: recording stopped before the program's end"),
            Ending::Damaged(damage) => {
                let part = if damage.in_tail { "tail" } else { "log" };
                write!(f, "damaged at byte {} of {}.{part}; all before it can be used", damage.offset, damage.log)
            }
        }
    }
}

/// A position in a log. Events borrow from it until it moves on.
pub struct Cursor {
    log: Arc<Layout>,
    unpacker: Option<Unpacker>,
    /// A chunk as stored.
    stored: Vec<u8>,
    /// The events of the segment.
    raw: Vec<u8>,
    segment: Segment,
    is_loaded: bool,
    /// Of the next event in `raw`.
    at: usize,
    /// The number of the event at `at`.
    number: u64,
    /// Events before this one are passed over.
    wanted: u64,
    clocks: Clocks,
    /// The last event passed closes the log.
    is_closed: bool,
    ending: Option<Ending>,
}

#[derive(Clone, Copy)]
enum Segment {
    /// The chunk of this index; the one behind the last stands for leaving the log.
    Chunk(usize),
    Tail,
}

impl Cursor {
    pub(crate) fn new(log: Arc<Layout>) -> Cursor {
        Cursor {
            log,
            unpacker: None,
            stored: Vec::new(),
            raw: Vec::new(),
            segment: Segment::Chunk(0),
            is_loaded: false,
            at: 0,
            number: 0,
            wanted: 0,
            clocks: Clocks::new(),
            is_closed: false,
            ending: None,
        }
    }

    /// The next event. At the end, [`Cursor::ending`] says what comes there.
    #[expect(clippy::should_implement_trait, reason = "events borrow from the cursor")]
    pub fn next(&mut self) -> Option<Record<'_>> {
        let bytes = self.find_wanted()?;
        let place = self.place(bytes.start);
        let damage = self.damage_here();
        match Event::decode(&self.raw[bytes.clone()], &self.clocks) {
            Ok(event) => {
                let number = self.number;
                self.clocks.note(event.moment());
                self.is_closed = event.closes();
                self.number += 1;
                self.at = bytes.end;
                Some(Record { number, place, event })
            }
            Err(Malformed) => {
                self.ending = Some(Ending::Damaged(damage));
                None
            }
        }
    }

    /// The next event, without moving on.
    pub fn peek(&mut self) -> Option<Record<'_>> {
        let bytes = self.find_wanted()?;
        let (number, place, damage) = (self.number, self.place(bytes.start), self.damage_here());
        match Event::decode(&self.raw[bytes], &self.clocks) {
            Ok(event) => Some(Record { number, place, event }),
            Err(Malformed) => {
                self.ending = Some(Ending::Damaged(damage));
                None
            }
        }
    }

    /// Moves so that the next event is the one of this number, or the end if there is none.
    pub fn seek(&mut self, number: u64) {
        let after = self.log.chunks.partition_point(|chunk| chunk.header.first <= number);
        let index = after.saturating_sub(1);
        self.number = self.log.chunks.get(index).map_or(0, |chunk| chunk.header.first);
        self.wanted = number;
        self.is_closed = false;
        self.ending = None;
        self.go_to(Segment::Chunk(index));
    }

    /// What comes after the last event, once [`Cursor::next`] has said that there are no more. What is damaged is only
    /// known as far as the cursor has come, from where it started.
    pub fn ending(&self) -> Ending {
        self.ending.unwrap_or(Ending::Cut)
    }

    /// Passes over unwanted events, and tells where the next has its bytes.
    fn find_wanted(&mut self) -> Option<Range<usize>> {
        loop {
            let bytes = self.find_event()?;
            if self.number >= self.wanted {
                return Some(bytes);
            }
            let Ok(event) = Event::decode(&self.raw[bytes.clone()], &self.clocks) else {
                self.end(Some(self.damage_here()));
                return None;
            };
            self.clocks.note(event.moment());
            self.is_closed = event.closes();
            self.number += 1;
            self.at = bytes.end;
        }
    }

    /// The bytes of the next event, in this segment or in one that follows.
    fn find_event(&mut self) -> Option<Range<usize>> {
        while self.ending.is_none() {
            if !self.is_loaded {
                self.load();
            } else if self.at == self.raw.len() {
                self.leave();
            } else if let Ok(bytes) = event_at(&self.raw, self.at) {
                return Some(bytes);
            } else {
                self.end(Some(self.damage_here()));
            }
        }
        None
    }

    fn load(&mut self) {
        match self.segment {
            Segment::Chunk(index) => match self.log.chunks.get(index).copied() {
                Some(chunk) => self.load_chunk(chunk),
                None => self.join_tail(match self.log.stop {
                    Stop::Bad(offset) => Some(self.damage(offset)),
                    Stop::End(_) | Stop::Torn(_) => None,
                }),
            },
            Segment::Tail => self.load_tail(),
        }
    }

    fn load_chunk(&mut self, chunk: Chunk) {
        self.number = chunk.header.first;
        match self.unpack(chunk) {
            Some(()) => self.is_loaded = true,
            None => self.join_tail(Some(self.damage(chunk.offset))),
        }
    }

    fn unpack(&mut self, chunk: Chunk) -> Option<()> {
        self.stored.resize(chunk.header.stored as usize, 0);
        self.log.source.read_exact_at(chunk.offset + ChunkHeader::SIZE as u64, &mut self.stored).ok()?;
        if self.unpacker.is_none() {
            self.unpacker = Unpacker::new().ok();
        }
        self.unpacker.as_mut()?.unpack(&chunk.header, &self.stored, &mut self.raw).ok()
    }

    fn load_tail(&mut self) {
        self.raw.clear();
        if let TailImage::Present(tail) = &self.log.tail {
            self.number = tail.first;
            self.raw.extend_from_slice(&tail.raw);
        }
        self.is_loaded = true;
    }

    /// At the end of a segment.
    fn leave(&mut self) {
        match self.segment {
            Segment::Chunk(index) => {
                let expected = self.log.chunks.get(index).map(|chunk| chunk.header.next());
                if expected == Some(self.number) {
                    self.go_to(Segment::Chunk(index + 1));
                } else {
                    self.end(Some(self.damage_here()));
                }
            }
            Segment::Tail => self.end(self.tail_damage()),
        }
    }

    fn go_to(&mut self, segment: Segment) {
        self.segment = segment;
        self.is_loaded = false;
        self.at = 0;
        self.clocks.reset();
    }

    /// Where the log has no more to give, because of `trouble` or because that is all: the tail may go on.
    fn join_tail(&mut self, trouble: Option<Damage>) {
        let log = self.log.clone();
        match &log.tail {
            TailImage::Present(tail) if tail.first > self.number => {
                self.end(Some(trouble.unwrap_or_else(|| self.damage(log.stop.offset()))));
            }
            TailImage::Present(tail) if tail.next() > self.number => {
                self.wanted = self.wanted.max(self.number);
                self.go_to(Segment::Tail);
            }
            _ => self.end(trouble.or_else(|| self.tail_damage())),
        }
    }

    /// What is wrong with the tail. Once a log is closed it no longer matters.
    fn tail_damage(&self) -> Option<Damage> {
        let offset = match &self.log.tail {
            _ if self.is_closed => None,
            TailImage::Absent => None,
            TailImage::Unusable => Some(0),
            TailImage::Present(tail) => tail.broken_at,
        };
        offset.map(|offset| Damage { log: self.log.header.id.log, in_tail: true, offset })
    }

    fn end(&mut self, trouble: Option<Damage>) {
        self.ending = Some(match trouble {
            Some(damage) => Ending::Damaged(damage),
            None if self.is_closed => Ending::Whole,
            None => Ending::Cut,
        });
    }

    fn damage(&self, offset: u64) -> Damage {
        Damage { log: self.log.header.id.log, in_tail: false, offset }
    }

    /// For bytes of the segment that make no sense although their checksum is right.
    fn damage_here(&self) -> Damage {
        match self.place(self.at) {
            Place::Log { chunk, .. } => self.damage(chunk),
            Place::Tail { at } => Damage { in_tail: true, ..self.damage(at as u64) },
        }
    }

    fn place(&self, at: usize) -> Place {
        match self.segment {
            Segment::Chunk(index) => {
                let chunk = self.log.chunks.get(index).map_or(0, |chunk| chunk.offset);
                Place::Log { chunk, at }
            }
            Segment::Tail => Place::Tail { at },
        }
    }
}
