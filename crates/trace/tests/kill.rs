//! The recorder is killed: whatever the moment, all whole events are there, once, and no other.

mod support;

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use support::*;
use trace::event::{Call, Effect};
use trace::format::{FRAMES, Slot, TailHeader};
use trace::{Damage, Ending, Event, List, WriteError, Writer};

const WORD: usize = 8;

/// Where the frames of a tail start, and where the last ends.
fn frame_places(tail: &[u8]) -> Vec<usize> {
    let mut places = vec![FRAMES];
    loop {
        let at = *places.last().unwrap();
        let length = u32::from_le_bytes(tail[at..at + 4].try_into().unwrap()) as usize;
        if length == 0 {
            return places;
        }
        places.push(at + WORD + length.next_multiple_of(WORD));
    }
}

/// All states of the memory while `after` is made of `before` in the order of the commit protocol: the bytes of the event, the
/// end mark behind them, and the word in front, byte by byte.
fn states_of_an_append(before: &[u8], after: &[u8]) -> Vec<Vec<u8>> {
    let places = frame_places(after);
    let (start, end) = (places[places.len() - 2], places[places.len() - 1]);
    let order = (start + WORD..end + WORD).chain(start..start + WORD);
    let mut states = vec![before.to_vec()];
    for at in order {
        let mut next = states.last().unwrap().clone();
        next[at] = after[at];
        states.push(next);
    }
    assert_eq!(states.last().unwrap()[..], after[..]);
    states
}

#[test]
fn a_torn_append_is_no_event_at_every_byte() {
    for seed in 0..20 {
        let events = random_events(seed, 6);
        // Memory in which something else was before.
        let mut writer = Writer::create(ID, vec![0xa5; 64 << 10], Vec::new()).unwrap();
        write_all(&mut writer, &events[..4]);
        for number in 4..6 {
            let before = writer.memory().clone();
            writer.append(&events[number]).unwrap();
            let states = states_of_an_append(&before, writer.memory());
            for (index, tail) in states.into_iter().enumerate() {
                let is_done = tail == *writer.memory();
                let image = Image { log: writer.sink().clone(), tail };
                let (count, _) = image.prefix_of(&events);
                assert_eq!(count, number + usize::from(is_done), "seed {seed}, state {index}");
            }
        }
    }
}

/// As after a power failure: any part of the last two events may be missing.
#[test]
fn events_with_missing_bytes_are_no_events() {
    let events = random_events(7, 8);
    let mut writer = Writer::create(ID, vec![0; 64 << 10], Vec::new()).unwrap();
    write_all(&mut writer, &events[..6]);
    let before = writer.memory().clone();
    write_all(&mut writer, &events[6..]);
    let after = writer.memory().clone();
    let changed: Vec<usize> = (0..after.len()).filter(|&at| before[at] != after[at]).collect();
    let mut rng = Rng(8);
    for _ in 0..2000 {
        let mut tail = after.clone();
        for _ in 0..=rng.below(3) {
            let at = changed[rng.below(changed.len())];
            tail[at] = before[at];
        }
        let (count, ending) = Image { log: writer.sink().clone(), tail }.prefix_of(&events);
        assert!((6..8).contains(&count), "{count} events");
        assert_ne!(ending, Ending::Whole);
    }
}

/// A tail whose file was cut short, at every byte.
#[test]
fn a_shortened_tail_gives_its_whole_events() {
    let events = random_events(9, 12);
    let mut writer = writer(64 << 10);
    write_all(&mut writer, &events);
    let image = Image::of(&writer);
    let places = frame_places(&image.tail);
    for length in 0..places[12] + WORD {
        let short = Image { tail: image.tail[..length].to_vec(), ..image.clone() };
        let padding = |end: &usize| length >= *end || frame_is_whole(&image.tail, &places, *end, length);
        let whole = places[1..].iter().filter(|end| padding(end)).count();
        assert_eq!(short.prefix_of(&events).0, whole, "{length} bytes");
    }
}

/// Whether only padding of the frame that ends at `end` is missing.
fn frame_is_whole(tail: &[u8], places: &[usize], end: usize, length: usize) -> bool {
    let start = places[places.iter().position(|&place| place == end).unwrap() - 1];
    let bytes = u32::from_le_bytes(tail[start..start + 4].try_into().unwrap()) as usize;
    length >= start + WORD + bytes
}

/// All states of log and tail while a chunk is appended and the tail restarted.
fn states_of_a_hand_over(before: &Image, after: &Image) -> Vec<Image> {
    // An event that did not fit has left bytes behind the end mark before anything else.
    let tail = [&before.tail[..FRAMES + WORD], &after.tail[FRAMES + WORD..]].concat();
    let mut states: Vec<Image> = (before.log.len()..=after.log.len())
        .map(|length| Image { log: after.log[..length].to_vec(), tail: tail.clone() })
        .collect();
    let slots = TailHeader::SIZE..TailHeader::SIZE + 2 * Slot::SIZE;
    let changes = (FRAMES..FRAMES + WORD).chain(slots.filter(|&at| before.tail[at] != after.tail[at]));
    for at in changes {
        let mut next = states.last().unwrap().clone();
        next.tail[at] = after.tail[at];
        // The first word becomes zero by one store.
        if at >= FRAMES {
            next.tail[FRAMES..FRAMES + WORD].fill(0);
        }
        states.push(next);
    }
    assert!(states.last().unwrap().tail == after.tail);
    states
}

#[test]
fn a_hand_over_neither_loses_nor_repeats_events_at_any_moment() {
    for seed in 0..6 {
        let events = random_events(100 + seed, 40);
        let mut writer = writer(64 << 10);
        let mut written = 0;
        for upto in [9, 10, 27] {
            write_all(&mut writer, &events[written..upto]);
            written = upto;
            let before = Image::of(&writer);
            writer.seal().unwrap();
            let after = Image::of(&writer);
            for (index, image) in states_of_a_hand_over(&before, &after).iter().enumerate() {
                let (count, ending) = image.prefix_of(&events);
                assert_eq!(count, written, "seed {seed}, state {index}");
                assert!(!matches!(ending, Ending::Damaged(_)), "seed {seed}, state {index}: {ending}");
            }
            let before = writer.memory().clone();
            writer.append(&events[written]).unwrap();
            written += 1;
            for tail in states_of_an_append(&before, writer.memory()) {
                let is_done = tail == *writer.memory();
                let image = Image { log: after.log.clone(), tail };
                assert_eq!(image.prefix_of(&events).0, written - usize::from(!is_done));
            }
        }
    }
}

/// The chunk of an event that is larger than the tail, torn at every byte.
#[test]
fn a_torn_chunk_of_one_large_event_leaves_what_was_before() {
    let mut rng = Rng(11);
    let bytes: Vec<u8> = (0..3000).map(|_| rng.next() as u8).collect();
    let effects = [Effect { address: 5, bytes: &bytes }];
    let large =
        Event::Call(Call { thread: 1, clock: 7, number: 0, result: 0, arguments: None, effects: List::of(&effects) });
    let events = [marked(0), marked(1), large, marked(3)];
    let mut writer = writer(1024);
    write_all(&mut writer, &events[..2]);
    writer.seal().unwrap();
    let before = Image::of(&writer);
    writer.append(&large).unwrap();
    let after = Image::of(&writer);
    for (index, image) in states_of_a_hand_over(&before, &after).iter().enumerate() {
        let expected = 2 + usize::from(image.log.len() == after.log.len());
        assert_eq!(image.prefix_of(&events), (expected, Ending::Cut), "state {index}");
    }
    writer.append(&marked(3)).unwrap();
    assert_eq!(Image::of(&writer).prefix_of(&events), (4, Ending::Cut));
}

/// Taken between any two calls, a copy of both files reads back.
#[test]
fn a_copy_after_each_event_has_all_so_far() {
    let events = random_events(12, 300);
    let mut writer = writer(2048);
    for (number, event) in events.iter().enumerate() {
        writer.append(event).unwrap();
        assert_eq!(Image::of(&writer).prefix_of(&events).0, number + 1);
    }
}

/// A reader reads the tail first and the log later: the recorder may have moved on in between.
#[test]
fn a_tail_older_than_the_log_adds_nothing_twice() {
    let events = random_events(13, 60);
    let mut writer = writer(64 << 10);
    write_all(&mut writer, &events[..20]);
    let tail = writer.memory().clone();
    write_all(&mut writer, &events[20..40]);
    writer.seal().unwrap();
    write_all(&mut writer, &events[40..]);
    let image = Image { log: writer.sink().clone(), tail };
    assert_eq!(image.prefix_of(&events).0, 40);
}

/// A tail that begins before the end of the log and ends behind it: numbers decide.
#[test]
fn a_tail_that_overlaps_the_log_adds_what_follows() {
    let events = random_events(15, 30);
    let (mut shorter, mut longer) = (writer(64 << 10), writer(64 << 10));
    write_all(&mut shorter, &events[..10]);
    shorter.seal().unwrap();
    write_all(&mut longer, &events);
    let image = Image { log: shorter.sink().clone(), tail: longer.memory().clone() };
    assert_eq!(image.prefix_of(&events), (30, Ending::Cut));
}

/// The guest shares the address space and may write anywhere.
#[test]
fn a_tail_overwritten_by_the_guest_is_never_made_a_chunk() {
    let events = random_events(14, 20);
    let wild = Rc::new(Cell::new(None));
    let memory = Shared { bytes: vec![0; 64 << 10], wild: wild.clone() };
    let mut writer = Writer::create(ID, memory, Vec::new()).unwrap();
    events[..10].iter().for_each(|event| drop(writer.append(event)));
    writer.seal().unwrap();
    events[10..19].iter().for_each(|event| drop(writer.append(event)));
    let places = frame_places(writer.memory());
    wild.set(Some(places[3] + WORD));
    writer.append(&events[19]).unwrap();
    let log = writer.sink().clone();
    assert!(matches!(writer.seal(), Err(WriteError::Overwritten)));
    assert_eq!(*writer.sink(), log);

    let (count, ending) = Image { log, tail: writer.memory().bytes.clone() }.prefix_of(&events);
    assert_eq!(count, 13);
    assert_eq!(ending, Ending::Damaged(Damage { log: 1, in_tail: true, offset: places[3] as u64 }));
}

/// Memory in which a byte changes when `wild` tells its place, before the next use.
struct Shared {
    bytes: Vec<u8>,
    wild: Rc<Cell<Option<usize>>>,
}

impl Deref for Shared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut [u8] {
        if let Some(at) = self.wild.take() {
            self.bytes[at] ^= 1;
        }
        &mut self.bytes
    }
}
