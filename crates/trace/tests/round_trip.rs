//! What is written comes back: every kind of event, through tails and chunks of all sizes, in order and by number.

mod support;

use support::*;
use trace::event::{Call, Effect, Hash, Memory, Switch, SwitchReason};
use trace::format::{ChunkHeader, Codec, FRAMES, LARGEST_EVENT, LogHeader};
use trace::{Cursor, Digest, Ending, Event, List, Place, WriteError};

/// A hundred random events of each kind, alone in their tail.
#[test]
fn every_kind_comes_back() {
    let mut rng = Rng(1);
    for kind in 0..KINDS {
        for _ in 0..100 {
            let event = event(&mut rng, kind);
            let mut writer = writer(64 << 10);
            writer.append(&event).unwrap();
            let (count, _) = Image::of(&writer).prefix_of(&[event]);
            assert_eq!(count, 1, "{event:?}");
        }
    }
}

#[test]
fn long_logs_come_back_through_tails_of_all_sizes() {
    let mut events = random_events(2, 3000);
    events.push(exited(0));
    for tail in [1024, 1031, 4096, 10_000, 1 << 20] {
        let mut writer = writer(tail);
        write_all(&mut writer, &events);
        assert_eq!(Image::of(&writer).prefix_of(&events), (3001, Ending::Whole), "unsealed, tail of {tail}");
        writer.seal().unwrap();
        let (_, log) = writer.into_parts();
        let image = Image { log, tail: Vec::new() };
        assert_eq!(image.prefix_of(&events), (3001, Ending::Whole), "sealed, tail of {tail}");
    }
}

#[test]
fn events_larger_than_the_tail_come_back() {
    let big: &[u8] = (0..300_000_u32).map(|i| (i.wrapping_mul(i) >> 9) as u8).collect::<Vec<u8>>().leak();
    let effects = [Effect { address: 1 << 40, bytes: big }, Effect { address: 9, bytes: b"x" }];
    let read = |clock| {
        Event::Call(Call { thread: 1, clock, number: 0, result: 5, arguments: None, effects: List::of(&effects) })
    };
    let events = [marked(0), read(100), read(101), marked(1), read(102), exited(0)];
    let mut writer = writer(4096);
    write_all(&mut writer, &events);
    assert_eq!(Image::of(&writer).prefix_of(&events), (6, Ending::Whole));
    writer.seal().unwrap();
    assert_eq!(Image::of(&writer).prefix_of(&events), (6, Ending::Whole));
}

#[test]
fn events_beyond_the_limit_are_refused_and_memory_is_cut_into_pieces() {
    let huge = vec![7; LARGEST_EVENT + 1];
    let mut writer = writer(4096);
    writer.append(&marked(0)).unwrap();
    let refused = writer.append(&Event::Memory(Memory { thread: 1, address: 0x1000, bytes: &huge }));
    assert!(matches!(refused, Err(WriteError::TooLarge { bytes }) if bytes > LARGEST_EVENT));
    writer.append_memory(1, 0x1000, &huge).unwrap();
    writer.append(&marked(1)).unwrap();

    let mut cursor = Image::of(&writer).open().unwrap().cursor();
    assert_eq!(cursor.next().unwrap().event, marked(0));
    let mut address = 0x1000;
    while let Some(Event::Memory(memory)) = cursor.peek().map(|record| record.event) {
        assert_eq!((memory.thread, memory.address), (1, address));
        assert!(memory.bytes.iter().all(|&byte| byte == 7));
        address += memory.bytes.len() as u64;
        cursor.next();
    }
    assert_eq!(address, 0x1000 + huge.len() as u64);
    assert_eq!(cursor.next().unwrap().event, marked(1));
}

/// Seeking gives the same as reading from the start, in chunks, at their borders, in the tail, and beyond the end.
#[test]
fn every_event_is_found_by_its_number() {
    let events = random_events(3, 400);
    let mut writer = writer(4096);
    write_all(&mut writer, &events);
    let log = Image::of(&writer).open().unwrap();
    assert_eq!(log.event_count(), 400);
    let mut rng = Rng(4);
    let mut cursor = log.cursor();
    for number in (0..400).chain((0..400).map(|_| rng.below(400))) {
        cursor.seek(number as u64);
        assert_eq!(cursor.peek().unwrap().event, events[number], "peeking at {number}");
        for (expected, event) in events.iter().enumerate().skip(number).take(3) {
            let record = cursor.next().unwrap();
            assert_eq!((record.number, &record.event), (expected as u64, event), "sought {number}");
        }
    }
    cursor.seek(400);
    assert_eq!(end_of(&mut cursor), Some(Ending::Cut));
    cursor.seek(u64::MAX);
    assert_eq!(cursor.peek(), None);
}

#[test]
fn the_end_is_known_however_it_is_reached() {
    let mut writer = writer(2048);
    write_all(&mut writer, &(0..500).map(marked).collect::<Vec<_>>());
    writer.append(&exited(3)).unwrap();
    for _ in 0..2 {
        let mut cursor = Image::of(&writer).open().unwrap().cursor();
        cursor.seek(501);
        assert_eq!(end_of(&mut cursor), Some(Ending::Whole));
        cursor.seek(500);
        assert_eq!(cursor.next().unwrap().event, exited(3));
        assert_eq!(end_of(&mut cursor), Some(Ending::Whole));
        writer.seal().unwrap();
    }
}

#[test]
fn places_and_threads_are_told() {
    let mut writer = writer(2048);
    writer.append(&marked(0)).unwrap();
    writer.seal().unwrap();
    writer.append(&marked(1)).unwrap();
    let mut cursor = Image::of(&writer).open().unwrap().cursor();
    let first = cursor.next().unwrap();
    assert_eq!((first.place, first.thread()), (Place::Log { chunk: LogHeader::SIZE as u64, at: 1 }, Some(1)));
    let second = cursor.next().unwrap();
    assert_eq!((second.place, second.thread()), (Place::Tail { at: 1 }, Some(2)));
}

/// The bytes of events are a promise: they may only change with the major version.
#[test]
fn the_encoding_is_fixed() {
    let effects = [Effect { address: 0x1000, bytes: b"ab" }];
    let call = Call {
        thread: 2,
        clock: 100,
        number: 0,
        result: -4,
        arguments: Some([3, 0x1000, 2, 0, 0, 0]),
        effects: List::of(&effects),
    };
    let mut writer = writer(1024);
    writer.append(&Event::Call(call)).unwrap();
    writer.append(&Event::Call(Call { clock: 90, arguments: None, effects: List::EMPTY, ..call })).unwrap();
    let first = b"\x05\x02\xc8\x01\0\x07\x01\x03\x80\x20\x02\0\0\0\x01\x80\x20\x02ab";
    let second = b"\x05\x02\x13\0\x07\0\0";
    let frames = &writer.memory()[FRAMES..];
    assert_eq!(&frames[..4], &(first.len() as u32).to_le_bytes());
    assert_eq!(&frames[8..8 + first.len()], first);
    assert_eq!(&frames[40..40 + second.len()], second);
}

/// What a newer minor version may do: more kinds, more fields.
#[test]
fn additions_of_newer_minor_versions_are_passed_over() {
    let unknown = b"\xf0whatever";
    let longer = b"\x0c\x01\x02\x07 and a new field";
    let mut raw = Vec::new();
    for event in [&unknown[..], &longer[..]] {
        raw.push(event.len() as u8);
        raw.extend_from_slice(event);
    }
    let mut log = writer(1024).into_parts().1;
    log.extend(plain_chunk(0, 2, &raw));
    let mut cursor = Image { log, tail: Vec::new() }.open().unwrap().cursor();
    assert_eq!(cursor.next().unwrap().event, Event::Unknown { kind: 0xf0, bytes: b"whatever" });
    let exec = trace::event::Exec { thread: 1, clock: 1, next_log: 7 };
    assert_eq!(cursor.next().unwrap().event, Event::Exec(exec));
    assert_eq!(end_of(&mut cursor), Some(Ending::Whole));
}

/// Older minor versions know less of how a run began.
#[test]
fn a_start_without_the_newest_fields_is_read() {
    let start = Event::Start(trace::event::Start { program: b"prog", ..trace::event::Start::default() });
    let mut writer = writer(1024);
    writer.append(&start).unwrap();
    let frames = &writer.memory()[FRAMES..];
    let length = u32::from_le_bytes(frames[..4].try_into().unwrap()) as usize;
    // No level, and no components.
    let older = frames[8..8 + length].strip_suffix(b"\0\0").unwrap();
    let raw = [&[older.len() as u8], older].concat();
    let mut log = writer.into_parts().1;
    log.extend(plain_chunk(0, 1, &raw));
    let mut cursor = Image { log, tail: Vec::new() }.open().unwrap().cursor();
    assert_eq!(cursor.next().unwrap().event, start);
}

/// What an older minor version of the format did not have.
#[test]
fn fields_that_came_later_may_be_missing() {
    let switch = b"\x06\x01\x02\x14\x03abcdefgh";
    let hash = b"\x0e\x01\x02abcdefghABCDEFGH";
    let mut raw = Vec::new();
    for event in [&switch[..], &hash[..]] {
        raw.push(event.len() as u8);
        raw.extend_from_slice(event);
    }
    let mut log = writer(1024).into_parts().1;
    log.extend(plain_chunk(0, 2, &raw));
    let mut cursor = Image { log, tail: Vec::new() }.open().unwrap().cursor();
    let registers = Digest(u64::from_le_bytes(*b"abcdefgh"));
    let reason = SwitchReason::Waiting;
    let expected = Event::Switch(Switch { from: 1, to: 2, clock: 10, reason, registers, memory: None });
    assert_eq!(cursor.next().unwrap().event, expected);
    let memory = Digest(u64::from_le_bytes(*b"ABCDEFGH"));
    let expected = Event::Hash(Hash { thread: 1, clock: 11, registers, memory, place: None, parts: List::EMPTY });
    assert_eq!(cursor.next().unwrap().event, expected);
}

/// What the cursor says if there are no more events.
fn end_of(cursor: &mut Cursor) -> Option<Ending> {
    cursor.next().is_none().then(|| cursor.ending())
}

fn plain_chunk(first: u64, count: u32, raw: &[u8]) -> Vec<u8> {
    let size = raw.len() as u32;
    let header = ChunkHeader { codec: Codec::Plain, first, count, stored: size, raw: size, checksum: Digest::of(raw) };
    [&header.encode()[..], raw].concat()
}
