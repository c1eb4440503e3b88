//! Damaged input: readers never panic, never make events up, and give everything before the damage.

mod support;

use support::*;
use trace::format::{ChunkHeader, Codec, FRAMES, LogHeader, Slot, TailHeader, VERSION, frame_checksum};
use trace::{Digest, Ending, Event, Log, LogParts, Unopened};

/// A log of several chunks with a tail.
struct Sample {
    events: Vec<Event<'static>>,
    image: Image,
    /// For each event, the part it is in and the byte where it is whole.
    ends: Vec<(bool, usize)>,
}

fn sample() -> Sample {
    let events = random_events(20, 1200);
    let mut writer = writer(8 << 10);
    let mut ends: Vec<(bool, usize)> = Vec::new();
    for event in &events {
        let logged = writer.sink().len();
        writer.append(event).unwrap();
        if writer.sink().len() > logged {
            let whole = writer.sink().len();
            ends.iter_mut().filter(|(in_tail, _)| *in_tail).for_each(|end| *end = (false, whole));
        }
        ends.push((true, FRAMES + (writer.size() as usize - writer.sink().len())));
    }
    let sample = Sample { image: Image::of(&writer), events, ends };
    let in_tail = sample.ends.iter().filter(|(in_tail, _)| *in_tail).count();
    assert!(in_tail > 5 && sample.image.log.len() > 50_000, "{in_tail} events in the tail");
    sample
}

/// The unit in which a tail is filled.
const WORD: usize = 8;

impl Sample {
    /// How many events are whole before byte `at` of the tail or of the log.
    fn before(&self, in_tail: bool, at: usize) -> usize {
        let is_before = |end: &&(bool, usize)| match (end.0, in_tail) {
            (false, true) => true,
            (true, false) => false,
            _ => end.1 <= at,
        };
        self.ends.iter().take_while(is_before).count()
    }

    /// Damages a copy at byte `at` and checks what is read back from it.
    fn check(&self, in_tail: bool, at: usize, harm: impl FnOnce(&mut Vec<u8>)) {
        let mut image = self.image.clone();
        harm(if in_tail { &mut image.tail } else { &mut image.log });
        let log = match image.open() {
            Ok(log) => log,
            Err(_) => return assert!(!in_tail && at < LogHeader::SIZE, "not opened, damaged at byte {at}"),
        };
        let (count, ending) = prefix(log.cursor(), &self.events);
        let expected = self.before(in_tail, at);
        assert!(count >= expected, "{count} of {expected} events, damaged at byte {at}, tail: {in_tail}");
        if count < self.events.len() {
            assert_ne!(ending, Ending::Whole);
        }
        if let Ending::Damaged(damage) = ending {
            // A damaged slot shows at the first event, which the other slot does not fit. Events in a tail are filled up
            // to whole words with bytes that nobody looks at.
            let seen = if in_tail { at.max(FRAMES).next_multiple_of(WORD) } else { at };
            let offset = damage.offset as usize;
            assert!(damage.in_tail != in_tail || offset <= seen, "told byte {offset}, damaged at {at}");
        }
        self.check_seeking(&log, count);
    }

    /// Seeking must not make anything up either.
    fn check_seeking(&self, log: &Log, count: usize) {
        let mut cursor = log.cursor();
        for number in [count.saturating_sub(1), count, self.events.len() - 1] {
            cursor.seek(number as u64);
            if let Some(record) = cursor.next() {
                assert_eq!(record.event, self.events[record.number as usize]);
            }
        }
    }
}

#[test]
fn flipped_bits_at_a_thousand_places() {
    let sample = sample();
    let mut rng = Rng(21);
    for round in 0..1000 {
        let in_tail = round % 3 == 0;
        let length = if in_tail { sample.image.tail.len() } else { sample.image.log.len() };
        let at = rng.below(length);
        let bit = 1 << rng.below(8);
        sample.check(in_tail, at, |bytes| bytes[at] ^= bit);
    }
}

#[test]
fn flipped_bits_in_every_byte_of_headers() {
    let sample = sample();
    for at in 0..LogHeader::SIZE + ChunkHeader::SIZE {
        sample.check(false, at, |bytes| bytes[at] ^= 0x10);
    }
    for at in 0..FRAMES + 64 {
        sample.check(true, at, |bytes| bytes[at] ^= 0x10);
    }
}

#[test]
fn truncations_at_a_thousand_places() {
    let sample = sample();
    let mut rng = Rng(22);
    for round in 0..1000 {
        let in_tail = round % 3 == 0;
        let length = if in_tail { sample.image.tail.len() } else { sample.image.log.len() };
        let at = rng.below(length);
        sample.check(in_tail, at, |bytes| bytes.truncate(at));
    }
}

#[test]
fn zeroed_and_scrambled_pages() {
    let sample = sample();
    let mut rng = Rng(23);
    for round in 0..200 {
        let in_tail = round % 3 == 0;
        let length = if in_tail { sample.image.tail.len() } else { sample.image.log.len() };
        let at = rng.below(length);
        let end = length.min(at + 512);
        let value = |rng: &mut Rng| if round % 2 == 0 { 0 } else { rng.next() as u8 };
        sample.check(in_tail, at, |bytes| bytes[at..end].iter_mut().for_each(|byte| *byte = value(&mut rng)));
    }
}

#[test]
fn a_missing_tail_leaves_the_log() {
    let sample = sample();
    let image = Image { tail: Vec::new(), ..sample.image.clone() };
    let expected = sample.ends.iter().filter(|(in_tail, _)| !in_tail).count();
    assert_eq!(image.prefix_of(&sample.events), (expected, Ending::Cut));
}

/// As when a copy of the file has lost a part in the middle.
#[test]
fn a_missing_chunk_ends_the_log_where_it_was() {
    let sample = sample();
    let mut borders: Vec<usize> = sample.ends.iter().filter(|(in_tail, _)| !in_tail).map(|end| end.1).collect();
    borders.dedup();
    let mut image = sample.image.clone();
    image.log.drain(borders[1]..borders[2]);
    let (count, ending) = image.prefix_of(&sample.events);
    assert_eq!(count, sample.before(false, borders[1]));
    assert!(matches!(ending, Ending::Damaged(damage) if damage.offset == borders[1] as u64));
}

/// What is left of a tail no longer matters once the log has its last event.
#[test]
fn a_whole_log_is_whole_whatever_its_tail() {
    let mut writer = writer(4096);
    let events = [marked(0), marked(1), exited(0)];
    write_all(&mut writer, &events);
    writer.seal().unwrap();
    let image = Image::of(&writer);
    for at in [3, 40, FRAMES + 3] {
        let mut damaged = image.clone();
        damaged.tail[at] ^= 1;
        assert_eq!(damaged.prefix_of(&events), (3, Ending::Whole), "byte {at}");
    }
}

#[test]
fn the_byte_of_the_damage_is_told() {
    let sample = sample();
    let mut image = sample.image.clone();
    image.log[LogHeader::SIZE + ChunkHeader::SIZE + 9] ^= 4;
    let (count, ending) = image.prefix_of(&sample.events);
    assert_eq!(count, 0);
    assert_eq!(ending.to_string(), "damaged at byte 64 of 1.log; all before it can be used");
}

#[test]
fn bytes_appended_by_others_are_told_and_harm_nothing() {
    let mut writer = writer(4096);
    let events = [marked(0), marked(1), exited(0)];
    write_all(&mut writer, &events);
    writer.seal().unwrap();
    let (_, mut log) = writer.into_parts();
    let end = log.len();
    log.extend_from_slice(&[b'x'; 100]);
    let (count, ending) = Image { log, tail: Vec::new() }.prefix_of(&events);
    assert_eq!(count, 3);
    assert!(matches!(ending, Ending::Damaged(damage) if damage.offset == end as u64));
}

#[test]
fn headers_that_cannot_be_read_are_told_apart() {
    let why = |log: &[u8]| {
        let parts = LogParts { log: Box::new(log.to_vec()), tail: Vec::new() };
        Log::from_parts(parts).err()
    };
    let good = writer(1024).into_parts().1;
    assert!(why(&good).is_none());
    assert!(matches!(why(b""), Some(Unopened::Empty)));
    assert!(matches!(why(&good[..63]), Some(Unopened::Empty)));
    assert!(matches!(why(b"WHOEVER"), Some(Unopened::NotARecording)));
    assert!(matches!(why(&[7; 500]), Some(Unopened::NotARecording)));
    let mut damaged = good.clone();
    damaged[20] ^= 1;
    assert!(matches!(why(&damaged), Some(Unopened::DamagedHeader)));
    let mut newer = good;
    newer[8] = 2;
    assert!(matches!(why(&newer), Some(Unopened::Newer(version)) if version.major == 2));
}

/// Random bytes in every place that a reader looks at, behind ever more that is right: nothing, headers, checksums.
#[test]
fn random_bytes_in_every_reader() {
    let mut rng = Rng(24);
    for round in 0..3000 {
        let noise = rng.bytes(600);
        let log = match round % 4 {
            0 => noise.to_vec(),
            1 => [&log_header()[..], noise].concat(),
            _ => [&log_header()[..], &random_chunk(&mut rng, noise)].concat(),
        };
        let tail = if round % 2 == 0 { rng.bytes(600).to_vec() } else { random_tail(&mut rng) };
        read_through(log, tail);
    }
}

/// Right events with a few bytes changed, under checksums made right again.
#[test]
fn events_with_changed_bytes_and_right_checksums() {
    let mut rng = Rng(25);
    for _ in 0..5000 {
        let event = any_event(&mut rng);
        let mut writer = writer(64 << 10);
        writer.append(&event).unwrap();
        let tail = writer.memory();
        let length = u32::from_le_bytes(tail[FRAMES..FRAMES + 4].try_into().unwrap()) as usize;
        let mut bytes = tail[FRAMES + 8..FRAMES + 8 + length].to_vec();
        for _ in 0..=rng.below(3) {
            let at = rng.below(bytes.len());
            bytes[at] = rng.next() as u8 >> rng.below(8);
        }
        bytes.truncate(bytes.len() - rng.below(bytes.len() / 2));
        read_through(log_header().to_vec(), tail_of(&[bytes]));
    }
}

/// A header may claim anything; what it claims is checked against limits and against the file.
#[test]
fn claims_beyond_the_file_are_not_believed() {
    let claims = [(u32::MAX, u32::MAX), (64 << 20, 64 << 20), (10, 64 << 20), (64 << 20, 10)];
    for (stored, raw) in claims {
        for codec in [Codec::Plain, Codec::Zstd] {
            let header = ChunkHeader { codec, first: 0, count: 1, stored, raw, checksum: Digest::of(&[1; 10]) };
            let log = [&log_header()[..], &header.encode(), &[1; 10]].concat();
            let (count, ending) = Image { log, tail: Vec::new() }.prefix_of(&[]);
            assert_eq!(count, 0);
            assert_ne!(ending, Ending::Whole);
        }
    }
}

fn log_header() -> [u8; LogHeader::SIZE] {
    LogHeader { version: VERSION, id: ID }.encode()
}

/// A chunk whose checksums are right.
fn random_chunk(rng: &mut Rng, body: &[u8]) -> Vec<u8> {
    let zstd = rng.below(2) == 0;
    let raw = if zstd { rng.below(4096) } else { body.len() } as u32;
    let header = ChunkHeader {
        codec: if zstd { Codec::Zstd } else { Codec::Plain },
        first: 0,
        count: (1 + rng.below(20) as u32).min(raw / 2),
        stored: body.len() as u32,
        raw,
        checksum: Digest::of(body),
    };
    [&header.encode()[..], body].concat()
}

/// A tail whose checksums are right, of events that are none.
fn random_tail(rng: &mut Rng) -> Vec<u8> {
    let events: Vec<Vec<u8>> = (0..rng.below(5)).map(|_| [&[rng.below(20) as u8], rng.bytes(80)].concat()).collect();
    tail_of(&events)
}

fn tail_of(events: &[Vec<u8>]) -> Vec<u8> {
    let mut tail = TailHeader { id: ID }.encode().to_vec();
    tail.extend([0; Slot::SIZE]);
    tail.extend(Slot { generation: 1, first: 0 }.encode());
    for (number, event) in events.iter().enumerate() {
        let checksum = frame_checksum(event, 1, number as u64);
        tail.extend((event.len() as u64 | u64::from(checksum) << 32).to_le_bytes());
        tail.extend(event);
        tail.resize(tail.len().next_multiple_of(8), 0);
    }
    tail
}

/// Reads all there is in all ways there are, down to the items of lists.
fn read_through(log: Vec<u8>, tail: Vec<u8>) {
    let size = log.len() + tail.len();
    let Ok(log) = Log::from_parts(LogParts { log: Box::new(log), tail }) else { return };
    let mut cursor = log.cursor();
    let mut count = 0;
    while let Some(record) = cursor.next() {
        assert!(format!("{record:?}").len() < 100 + 40 * (4096 + size));
        count += 1;
    }
    assert_eq!(log.check(), (count, cursor.ending()));
    for number in [0, 1, log.event_count(), u64::MAX] {
        cursor.seek(number);
        cursor.peek();
        cursor.next();
    }
}
