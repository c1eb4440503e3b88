//! The disk is full: an error says so, nothing already written is harmed, and writing goes on once there is room.

mod support;

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use support::*;
use trace::event::{Abort, Effect, End, EndKind};
use trace::{Ending, Event, List, Sink, Writer};

/// A disk that takes part of what does not fit, as real ones do.
struct Disk {
    bytes: Vec<u8>,
    limit: Rc<Cell<usize>>,
    /// Whether cutting a file back fails too.
    is_stuck: Rc<Cell<bool>>,
}

impl Disk {
    fn new(limit: usize) -> Disk {
        Disk { bytes: Vec::new(), limit: Rc::new(Cell::new(limit)), is_stuck: Rc::default() }
    }
}

impl Sink for Disk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = self.limit.get().saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..room]);
        if room < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        if self.is_stuck.get() {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        self.bytes.truncate(length as usize);
        Ok(())
    }
}

fn image(writer: &Writer<Vec<u8>, &mut Disk>) -> Image {
    Image { log: writer.sink().bytes.clone(), tail: writer.memory().clone() }
}

fn disk_full() -> Event<'static> {
    Event::End(End {
        kind: EndKind::Aborted(Abort::DiskFull),
        thread: 1,
        clock: 0,
        registers: &[9; 300],
        backtrace: List::of(&[1, 2, 3]),
        details: &[],
    })
}

/// At every limit: the prefix is there, and the end can still be told.
#[test]
fn the_prefix_and_the_end_are_kept_at_every_limit() {
    let events = random_events(30, 600);
    for limit in (64..40_000).step_by(501) {
        for is_stuck in [false, true] {
            let mut disk = Disk { is_stuck: Rc::new(Cell::new(is_stuck)), ..Disk::new(limit) };
            let mut writer = Writer::create(ID, vec![0; 8 << 10], &mut disk).unwrap();
            let failed = events.iter().position(|event| match writer.append(event) {
                Ok(_) => false,
                Err(error) => {
                    assert!(error.is_full(), "{error}");
                    true
                }
            });
            let mut written = events[..failed.expect("the disk is smaller than the events")].to_vec();
            assert_eq!(image(&writer).prefix_of(&written), (written.len(), Ending::Cut), "limit {limit}");
            written.push(disk_full());
            writer.append(&disk_full()).unwrap();
            assert_eq!(image(&writer).prefix_of(&written), (written.len(), Ending::Whole), "limit {limit}");
        }
    }
}

/// Events that failed are left out; those that follow go on with the next number.
#[test]
fn writing_goes_on_once_there_is_room() {
    let events = random_events(31, 2000);
    let limit = Rc::new(Cell::new(64));
    let mut disk = Disk { limit: limit.clone(), ..Disk::new(0) };
    let mut writer = Writer::create(ID, vec![0; 4 << 10], &mut disk).unwrap();
    let mut written = Vec::new();
    let mut refusals = 0;
    for event in &events {
        match writer.append(event) {
            Ok(number) => {
                assert_eq!(number, written.len() as u64);
                written.push(*event);
            }
            Err(_) => {
                refusals += 1;
                assert_eq!(image(&writer).prefix_of(&written), (written.len(), Ending::Cut));
                limit.set(limit.get() + 777);
            }
        }
    }
    assert!(refusals > 50 && written.len() > 1000, "{refusals} refusals, {} events written", written.len());
    assert_eq!(image(&writer).prefix_of(&written).0, written.len());
}

#[test]
fn a_log_without_room_for_its_header_is_refused() {
    let mut disk = Disk::new(63);
    let error = Writer::create(ID, vec![0; 4096], &mut disk).err().unwrap();
    assert!(error.is_full());
    assert_eq!(
        error.to_string(),
        "no space left for the recording (no storage space): make room, or set WHODUNIT_DIR to a larger disk"
    );
    assert_eq!(disk.bytes, b"");
}

/// A part of a chunk that could not be cut off at once is cut off before the next is written.
#[test]
fn a_stuck_disk_is_mended_once_it_works() {
    let events = random_events(34, 300);
    let disk = Disk { is_stuck: Rc::new(Cell::new(true)), ..Disk::new(1000) };
    let (limit, is_stuck) = (disk.limit.clone(), disk.is_stuck.clone());
    let mut disk = disk;
    let mut writer = Writer::create(ID, vec![0; 8 << 10], &mut disk).unwrap();
    let written = events.iter().take_while(|event| writer.append(event).is_ok()).count();
    assert_eq!(writer.sink().bytes.len(), 1000);
    assert_eq!(image(&writer).prefix_of(&events).0, written);
    limit.set(1 << 20);
    assert!(writer.seal().is_err(), "there is room, but the torn part cannot be cut off yet");
    assert_eq!(image(&writer).prefix_of(&events).0, written);
    is_stuck.set(false);
    write_all(&mut writer, &events[written..]);
    assert_eq!(image(&writer).prefix_of(&events), (300, Ending::Cut));
}

#[test]
fn a_large_event_that_does_not_fit_leaves_no_trace() {
    let mut rng = Rng(33);
    let bytes: Vec<u8> = (0..20_000).map(|_| rng.next() as u8).collect();
    let effects = [Effect { address: 5, bytes: &bytes }];
    let mut large = call(&mut rng);
    large.effects = List::of(&effects);
    let mut disk = Disk::new(10_000);
    let mut writer = Writer::create(ID, vec![0; 4 << 10], &mut disk).unwrap();
    writer.append(&marked(0)).unwrap();
    assert!(writer.append(&Event::Call(large)).is_err());
    writer.append(&marked(1)).unwrap();
    writer.append(&disk_full()).unwrap();
    writer.seal().unwrap();
    assert_eq!(image(&writer).prefix_of(&[marked(0), marked(1), disk_full()]), (3, Ending::Whole));
}
