//! The tail: events that are not in the log yet, in memory that outlives the process. See [`crate::format`].

use std::ops::DerefMut;
use std::sync::atomic::{Ordering, fence};

use crate::format::{FRAMES, LARGEST_CHUNK, LogId, SMALLEST_TAIL, Slot, TailHeader, frame_checksum};
use crate::wire::Buffer;

/// In front of each event, and behind the last.
const WORD: usize = 8;

/// Writes a tail.
pub struct TailWriter<M> {
    memory: M,
    slot: Slot,
    /// Of the next event.
    number: u64,
    /// Where the next frame starts; the word 0 stands there.
    at: usize,
}

impl<M: DerefMut<Target = [u8]>> TailWriter<M> {
    /// Makes `memory` an empty tail whose first event will be number 0. None if its size will not do.
    pub fn format(mut memory: M, id: LogId) -> Option<TailWriter<M>> {
        if !(SMALLEST_TAIL..=LARGEST_CHUNK).contains(&memory.len()) {
            return None;
        }
        memory[..FRAMES + WORD].fill(0);
        let mut tail = TailWriter { memory, slot: Slot { generation: 0, first: 0 }, number: 0, at: FRAMES };
        tail.restart(0);
        // Last: without a header there is no tail.
        tail.memory[..TailHeader::SIZE].copy_from_slice(&TailHeader { id }.encode());
        Some(tail)
    }

    pub fn is_empty(&self) -> bool {
        self.at == FRAMES
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.at - FRAMES
    }

    pub fn first(&self) -> u64 {
        self.slot.first
    }

    /// Of the next event.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn memory(&self) -> &M {
        &self.memory
    }

    pub fn into_memory(self) -> M {
        self.memory
    }

    /// Where the next event's bytes may be put, with `reserve` bytes left free behind them.
    #[inline]
    pub fn room(&mut self, reserve: usize) -> &mut [u8] {
        let end = (self.memory.len() & !(WORD - 1)).saturating_sub(WORD + reserve.next_multiple_of(WORD));
        let start = self.at + WORD;
        self.memory.get_mut(start..end).unwrap_or_default()
    }

    /// Makes the first `length` bytes of [`TailWriter::room`] an event, and returns its number.
    #[inline]
    pub fn commit(&mut self, length: usize) -> u64 {
        let number = self.number;
        let start = self.at + WORD;
        let next = start + length.next_multiple_of(WORD);
        let checksum = frame_checksum(&self.memory[start..start + length], self.slot.generation, number);
        self.put_word(next, 0);
        // The event's bytes and the end mark behind it first, the word that makes it count last.
        fence(Ordering::Release);
        self.put_word(self.at, length as u64 | u64::from(checksum) << 32);
        self.at = next;
        self.number += 1;
        number
    }

    /// Empties the tail; its next event is number `first`. To be called once the log has all events before that.
    pub fn restart(&mut self, first: u64) {
        self.put_word(FRAMES, 0);
        // The old slot must not be seen with new events, nor the new one with old events.
        fence(Ordering::Release);
        self.slot = Slot { generation: self.slot.generation + 1, first };
        let place = slot_place(self.slot.generation);
        self.memory[place..place + Slot::SIZE].copy_from_slice(&self.slot.encode());
        fence(Ordering::Release);
        self.at = FRAMES;
        self.number = first;
    }

    /// The events, as they are in the memory.
    pub fn frames(&self) -> Frames<'_> {
        Frames::new(&self.memory, self.slot)
    }

    #[inline]
    fn put_word(&mut self, at: usize, word: u64) {
        self.memory[at..at + WORD].copy_from_slice(&word.to_le_bytes());
    }
}

fn slot_place(generation: u64) -> usize {
    TailHeader::SIZE + (generation % 2) as usize * Slot::SIZE
}

/// The events of a tail in order, up to its end or to the first that is not right.
pub struct Frames<'m> {
    memory: &'m [u8],
    generation: u64,
    number: u64,
    at: usize,
    broken: bool,
}

impl<'m> Frames<'m> {
    fn new(memory: &'m [u8], slot: Slot) -> Frames<'m> {
        Frames { memory, generation: slot.generation, number: slot.first, at: FRAMES, broken: false }
    }

    /// Where something stands that is neither an event nor the end, once the iterator has come there.
    pub fn broken_at(&self) -> Option<u64> {
        self.broken.then_some(self.at as u64)
    }

    fn word(&self) -> u64 {
        let bytes = self.memory.get(self.at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn event(&self, word: u64) -> Option<&'m [u8]> {
        let length = word as u32 as usize;
        let bytes = self.memory.get(self.at + WORD..)?.get(..length)?;
        let checksum = frame_checksum(bytes, self.generation, self.number);
        (length > 0 && checksum == (word >> 32) as u32).then_some(bytes)
    }
}

impl<'m> Iterator for Frames<'m> {
    type Item = &'m [u8];

    fn next(&mut self) -> Option<&'m [u8]> {
        let word = self.word();
        if word == 0 || self.broken {
            return None;
        }
        let Some(bytes) = self.event(word) else {
            self.broken = true;
            return None;
        };
        self.at += WORD + bytes.len().next_multiple_of(WORD);
        self.number = self.number.wrapping_add(1);
        Some(bytes)
    }
}

/// A tail as found by a reader.
pub enum TailImage {
    /// None there, or none begun.
    Absent,
    /// Not this log's, or its header is damaged.
    Unusable,
    Present(TailEvents),
}

pub struct TailEvents {
    pub first: u64,
    pub count: u64,
    /// The events in the form of an unpacked chunk.
    pub raw: Vec<u8>,
    /// Where in the file the events end in something that is not right.
    pub broken_at: Option<u64>,
}

impl TailEvents {
    /// The number of the event behind the last.
    pub fn next(&self) -> u64 {
        self.first.saturating_add(self.count)
    }
}

impl TailImage {
    pub fn of(memory: &[u8], id: LogId) -> TailImage {
        let Some(header) = memory.first_chunk::<{ TailHeader::SIZE }>() else {
            return if memory.iter().all(|&byte| byte == 0) { TailImage::Absent } else { TailImage::Unusable };
        };
        if header.iter().all(|&byte| byte == 0) {
            return TailImage::Absent;
        }
        if TailHeader::decode(header) != Ok(TailHeader { id }) {
            return TailImage::Unusable;
        }
        newest_slot(memory).map_or(TailImage::Unusable, |slot| TailImage::Present(collect(memory, slot)))
    }
}

fn newest_slot(memory: &[u8]) -> Option<Slot> {
    let slots = (0..2).filter_map(|generation| {
        let bytes = memory.get(slot_place(generation)..)?.first_chunk()?;
        Slot::decode(bytes)
    });
    slots.max_by_key(|slot| slot.generation)
}

fn collect(memory: &[u8], slot: Slot) -> TailEvents {
    let mut frames = Frames::new(memory, slot);
    let mut raw = Vec::new();
    let mut count = 0;
    for event in frames.by_ref() {
        (&mut raw).varint(event.len() as u64);
        raw.extend_from_slice(event);
        count += 1;
    }
    TailEvents { first: slot.first, count, raw, broken_at: frames.broken_at() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: LogId = LogId { recording: 1, log: 1 };

    fn tail() -> TailWriter<Vec<u8>> {
        TailWriter::format(vec![0xee; SMALLEST_TAIL], ID).unwrap()
    }

    fn put(tail: &mut TailWriter<Vec<u8>>, bytes: &[u8]) {
        tail.room(0)[..bytes.len()].copy_from_slice(bytes);
        tail.commit(bytes.len());
    }

    fn seen(memory: &[u8]) -> Option<(u64, Vec<u8>, Option<u64>)> {
        match TailImage::of(memory, ID) {
            TailImage::Present(events) => Some((events.first, events.raw, events.broken_at)),
            _ => None,
        }
    }

    #[test]
    fn events_are_seen_once_they_are_committed() {
        let mut tail = tail();
        assert_eq!(seen(tail.memory()), Some((0, vec![], None)));
        tail.room(0)[..3].copy_from_slice(&[7, 8, 9]);
        assert_eq!(seen(tail.memory()), Some((0, vec![], None)));
        tail.commit(3);
        put(&mut tail, &[1; 8]);
        assert_eq!(seen(tail.memory()), Some((0, vec![3, 7, 8, 9, 8, 1, 1, 1, 1, 1, 1, 1, 1], None)));
    }

    #[test]
    fn bytes_of_an_earlier_generation_are_never_events() {
        let mut tail = tail();
        put(&mut tail, &[1; 16]);
        put(&mut tail, &[2; 16]);
        tail.restart(2);
        assert_eq!(seen(tail.memory()), Some((2, vec![], None)));
        put(&mut tail, &[3; 16]);
        assert_eq!(seen(tail.memory()).unwrap().1.len(), 17);
        // Even if the end mark were missing, the old event behind it has the wrong generation and number.
        let mut memory = tail.memory().clone();
        let old = tail.slot;
        let end = FRAMES + 24;
        memory[end..end + 8].copy_from_slice(&(16 | 0x1234_u64 << 32).to_le_bytes());
        assert_eq!(Frames::new(&memory, old).count(), 1);
    }

    #[test]
    fn every_moment_of_a_restart_shows_the_old_or_the_new_tail() {
        let mut tail = tail();
        put(&mut tail, &[1; 16]);
        let old = tail.memory().clone();
        tail.restart(1);
        let new = tail.memory().clone();
        let mut memory = old.clone();
        memory[FRAMES..FRAMES + 8].fill(0);
        let place = slot_place(2);
        for done in 0..=Slot::SIZE {
            memory[place..place + done].copy_from_slice(&new[place..place + done]);
            let (first, raw, broken) = seen(&memory).unwrap();
            assert_eq!((first, raw.len(), broken), (u64::from(memory == new), 0, None), "{done} bytes of the slot");
        }
        assert_eq!(memory, new);
    }

    #[test]
    fn a_full_tail_has_no_room_and_keeps_its_end_mark() {
        let mut tail = tail();
        while tail.room(0).len() >= 50 {
            put(&mut tail, &[5; 50]);
        }
        let rest = tail.room(0).len();
        put(&mut tail, &vec![6; rest]);
        assert_eq!(tail.room(0), &[] as &[u8]);
        let image = seen(tail.memory()).unwrap();
        assert_eq!((image.2, image.1.last()), (None, Some(&6)));
    }

    #[test]
    fn another_logs_tail_is_not_used() {
        assert!(matches!(TailImage::of(tail().memory(), LogId { log: 2, ..ID }), TailImage::Unusable));
        assert!(matches!(TailImage::of(&[0; 4096], ID), TailImage::Absent));
        assert!(matches!(TailImage::of(&[], ID), TailImage::Absent));
        assert!(matches!(TailImage::of(&[1; 40], ID), TailImage::Unusable));
        assert!(TailWriter::format(vec![0; SMALLEST_TAIL - 1], ID).is_none());
    }
}
