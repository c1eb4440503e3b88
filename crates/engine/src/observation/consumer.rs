//! Hands batches to an observer on a thread of its own, so that the guest goes on meanwhile.
//!
//! Words are gathered in chunks, which go through a bounded channel and come back to be filled again. A chunk brings what
//! the catalogue has more than before, so that the observer's thread has a catalogue of its own. Where no thread can be
//! had, the observer works on the guest's.
//!
//! The thread is none of the guest's: it blocks all signals. A forked child does not have it; see [`Consumer::abandon`].

use super::{Around, Batch, Observer};
use crate::code::observe::{Catalogue, RecordFacts, UnitFacts, Wanted};
use crate::signals::host;
use sched::ThreadId;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Words in a chunk.
const CHUNK: usize = 32 << 10;
/// Chunks on their way.
const IN_FLIGHT: usize = 16;

#[derive(Default)]
struct Chunk {
    words: Vec<u64>,
    /// Each with the number of its words.
    batches: Vec<(ThreadId, u64, Around, usize)>,
    units: Vec<UnitFacts>,
    records: Vec<RecordFacts>,
}

impl Chunk {
    fn clear(&mut self) {
        self.words.clear();
        self.batches.clear();
        self.units.clear();
        self.records.clear();
    }
}

enum Message {
    Chunk(Chunk),
    /// Answered when all chunks before have been read.
    Report,
}

/// Reads chunks, wherever it runs.
struct Reader {
    observer: Box<dyn Observer>,
    catalogue: Catalogue,
}

impl Reader {
    fn read(&mut self, chunk: &mut Chunk) {
        self.catalogue.extend(&mut chunk.units, &chunk.records);
        let mut rest = chunk.words.as_slice();
        for &(thread, fs_base, around, length) in &chunk.batches {
            let (words, after) = rest.split_at(length);
            rest = after;
            self.observer.batch(&Batch { thread, words, catalogue: &self.catalogue, fs_base, around });
        }
        chunk.clear();
    }
}

enum Place {
    Here(Box<Reader>),
    Elsewhere {
        thread: JoinHandle<Option<Box<Reader>>>,
        send: SyncSender<Message>,
        returned: Receiver<Chunk>,
        reports: Receiver<()>,
    },
}

impl Place {
    /// The reader, once it has read what was sent; none if its thread has come to grief.
    fn leave(self) -> Option<Box<Reader>> {
        match self {
            Place::Here(reader) => Some(reader),
            Place::Elsewhere { thread, send, .. } => {
                drop(send);
                thread.join().ok().flatten()
            }
        }
    }
}

/// Where batches of a run go.
pub struct Consumer {
    place: Place,
    chunk: Chunk,
    /// How much of the catalogue the observer has.
    units: usize,
    records: usize,
}

impl Consumer {
    pub fn start(observer: Box<dyn Observer>, wanted: Wanted) -> Consumer {
        let reader = Box::new(Reader { observer, catalogue: Catalogue::new(wanted) });
        Consumer { place: begin(reader), chunk: Chunk::default(), units: 0, records: 0 }
    }

    /// Takes a thread's words; `catalogue` knows all their records.
    pub fn take(
        &mut self,
        thread: ThreadId,
        words: &[u64],
        catalogue: Option<&Catalogue>,
        fs_base: u64,
        around: Around,
    ) {
        if words.is_empty() {
            return;
        }
        if !self.chunk.words.is_empty() && self.chunk.words.len() + words.len() > CHUNK {
            self.send();
        }
        if let Some(catalogue) = catalogue {
            self.bring(catalogue);
        }
        self.chunk.words.extend_from_slice(words);
        self.chunk.batches.push((thread, fs_base, around, words.len()));
    }

    /// Has the observer know what the catalogue has, before anything is told of it.
    pub fn know(&mut self, catalogue: &Catalogue) {
        self.bring(catalogue);
        self.send();
    }

    /// What the catalogue has more than before.
    fn bring(&mut self, catalogue: &Catalogue) {
        self.chunk.units.extend_from_slice(&catalogue.units()[self.units..]);
        self.chunk.records.extend_from_slice(&catalogue.records()[self.records..]);
        (self.units, self.records) = (catalogue.units().len(), catalogue.records().len());
    }

    fn send(&mut self) {
        match &mut self.place {
            Place::Here(reader) => reader.read(&mut self.chunk),
            Place::Elsewhere { send, returned, .. } => {
                let fresh = returned.try_recv().unwrap_or_default();
                let full = std::mem::replace(&mut self.chunk, fresh);
                // A reader that has gone has told why; the guest goes on.
                let _ = send.send(Message::Chunk(full));
            }
        }
    }

    /// Waits until the observer has seen everything and its thread does nothing.
    pub fn settle(&mut self) {
        self.send();
        match &mut self.place {
            Place::Here(reader) => reader.observer.settle(),
            Place::Elsewhere { send, reports, .. } => {
                if send.send(Message::Report).is_ok() {
                    let _ = reports.recv();
                }
            }
        }
    }

    /// Lets the observer see the rest; the process is about to end.
    pub fn finish(mut self) {
        self.send();
        if let Some(mut reader) = self.place.leave() {
            reader.observer.finished();
            // To give back piece by piece what goes with the process takes longer than many a run.
            std::mem::forget(reader);
        }
    }

    /// Lets the observer see everything so far, and ends its thread: the process can be copied, and each copy can go on with an
    /// observer of its own once it has [woken](Consumer::wake) it.
    pub fn rest(mut self) -> Option<Consumer> {
        self.send();
        let reader = self.place.leave()?;
        Some(Consumer { place: Place::Here(reader), ..self })
    }

    pub fn wake(self) -> Consumer {
        match self.place {
            Place::Here(reader) => Consumer { place: begin(reader), ..self },
            Place::Elsewhere { .. } => self,
        }
    }

    /// For a forked child, in which the thread does not exist: nothing of it is touched any more.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}

/// Starts the observer's thread, which takes over the reader once it runs.
fn begin(reader: Box<Reader>) -> Place {
    let mask = host::block_all();
    let place = spawn(reader);
    host::unblock(mask);
    place
}

fn spawn(reader: Box<Reader>) -> Place {
    let (hand_over, receive_reader) = channel::<Box<Reader>>();
    let (send, receive) = sync_channel(IN_FLIGHT);
    let (give_back, returned) = channel();
    let (report, reports) = sync_channel(1);
    let work = move || {
        let mut reader = receive_reader.recv().ok()?;
        serve(&mut reader, &receive, &give_back, &report);
        Some(reader)
    };
    match std::thread::Builder::new().name("observer".to_owned()).spawn(work) {
        Err(_) => Place::Here(reader),
        Ok(thread) => {
            let _ = hand_over.send(reader);
            Place::Elsewhere { thread, send, returned, reports }
        }
    }
}

fn serve(
    reader: &mut Reader,
    receive: &Receiver<Message>,
    give_back: &std::sync::mpsc::Sender<Chunk>,
    report: &SyncSender<()>,
) {
    for message in receive {
        match message {
            Message::Chunk(mut chunk) => {
                reader.read(&mut chunk);
                let _ = give_back.send(chunk);
            }
            Message::Report => {
                reader.observer.settle();
                let _ = report.send(());
            }
        }
    }
}
