//! One log read from end to end: what the process image was, did, and came to.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::Shown;
use trace::event::{End, EndKind, Parent, Start};
use trace::{Event, Log, OpenError, Recording, State, Unopened, format};

use super::mappings::Mappings;
use super::tally::Tally;
use crate::recordings::text::command_line;
use crate::recordings::{Family, ends};

/// General registers, program counter, flags, two segment bases.
const REGISTERS: usize = 20;
/// Among the values of registers.
pub const PROGRAM_COUNTER: usize = 16;
/// Notes are for people; nobody reads more.
const MAX_NOTES: usize = 100;

/// A process, or a program that was executed in one.
pub struct Image {
    /// The number of its log.
    pub log: u32,
    pub begin: Option<Begin>,
    pub threads: BTreeMap<u32, ThreadLife>,
    /// Logs of processes that it forked.
    pub children: Vec<u32>,
    pub state: State,
    pub stop: Option<Stop>,
    pub tally: Tally,
    pub notes: Vec<(u64, String)>,
    /// As they were at the end.
    pub mappings: Mappings,
    /// On disk: the log, and its tail.
    pub sizes: (u64, u64),
}

/// What the first event tells.
pub struct Begin {
    /// As one would type it.
    pub command: String,
    pub program: Vec<u8>,
    pub arguments: Vec<Vec<u8>>,
    pub directory: Vec<u8>,
    pub pid: u32,
    pub seed: u64,
    pub policy: String,
    pub quantum: u64,
    pub kernel: String,
    pub processor: String,
    pub features: Vec<String>,
    /// The processor that the program was shown, if the recording tells.
    pub shown: Option<Shown>,
    pub parent: Option<Parent>,
    pub started: SystemTime,
}

pub struct ThreadLife {
    pub tid: Option<u32>,
    /// Who started it, by which event. None for the first thread.
    pub origin: Option<(u32, u64)>,
    /// The last that was heard of it.
    pub clock: u64,
    pub status: Option<i32>,
}

/// The event that tells how it ended.
pub struct Stop {
    pub event: u64,
    pub kind: EndKind,
    pub thread: u32,
    pub clock: u64,
    pub backtrace: Vec<u64>,
}

/// All logs of a recording. Those that cannot be read have a state that says so.
pub fn read_all(recording: &Recording) -> Vec<Image> {
    let family = Family::of(recording);
    let mut inherited = BTreeMap::new();
    let mut images = Vec::new();
    for &number in recording.logs() {
        let mut image = Image::new(number, inherited.remove(&number).unwrap_or_default());
        image.sizes = sizes(recording.folder(), number);
        match recording.log(number) {
            Ok(log) => image.read(&log, &mut inherited),
            // Made for a child or a program that never came to its first event.
            Err(OpenError { why: Unopened::Empty, .. }) => {}
            Err(error) => image.state = State::Unreadable(error),
        }
        match image.state {
            State::Cut if recording.is_log_live(number) => image.state = State::Live,
            State::Executed { next_log } => {
                let event = image.tally.total().events.saturating_sub(1);
                let next_log = family.successor(number, event, next_log).unwrap_or(0);
                image.state = State::Executed { next_log };
            }
            _ => {}
        }
        images.push(image);
    }
    images
}

impl Image {
    fn new(log: u32, mappings: Mappings) -> Image {
        Image {
            log,
            begin: None,
            threads: BTreeMap::new(),
            children: Vec::new(),
            state: State::Cut,
            stop: None,
            tally: Tally::default(),
            notes: Vec::new(),
            mappings,
            sizes: (0, 0),
        }
    }

    /// `inherited` gets the mappings of every forked child, by its log.
    fn read(&mut self, log: &Log, inherited: &mut BTreeMap<u32, Mappings>) {
        let mut cursor = log.cursor();
        let mut state = State::Cut;
        while let Some(record) = cursor.next() {
            self.note(record.number, &record.event);
            if let Event::Fork(fork) = record.event {
                inherited.insert(fork.child_log, self.mappings.clone());
            }
            state = ends::state_after(&record.event);
        }
        self.state = ends::after_ending(state, cursor.ending());
    }

    fn note(&mut self, number: u64, event: &Event<'_>) {
        self.tally.add(event);
        self.mappings.apply(event);
        if let Some((thread, clock)) = event.moment() {
            let life = self.thread(thread);
            life.clock = life.clock.max(clock);
        }
        match event {
            Event::Start(start) => {
                self.begin = Some(Begin::new(start));
                // The first thread of a process has the number of the process.
                let tid = Some(start.identity.tid).filter(|tid| *tid != 0);
                self.thread(1).tid = tid.or(Some(start.identity.pid));
            }
            Event::Thread(thread) => {
                let child = self.thread(thread.child);
                child.tid = Some(thread.tid);
                child.origin = Some((thread.parent, number));
            }
            Event::ThreadEnd(end) => self.thread(end.thread).status = Some(end.status),
            Event::Fork(fork) => self.children.push(fork.child_log),
            Event::Note(note) if self.notes.len() < MAX_NOTES => self.notes.push((number, note.text.to_owned())),
            Event::End(end) => {
                self.stop = Some(Stop {
                    event: number,
                    kind: end.kind,
                    thread: end.thread,
                    clock: end.clock,
                    backtrace: backtrace(end),
                });
            }
            _ => {}
        }
    }

    fn thread(&mut self, number: u32) -> &mut ThreadLife {
        let unknown = || ThreadLife { tid: None, origin: None, clock: 0, status: None };
        self.threads.entry(number).or_insert_with(unknown)
    }
}

impl Begin {
    fn new(start: &Start<'_>) -> Begin {
        let since = Duration::from_nanos(start.wall_time);
        Begin {
            command: command_of(start),
            program: start.program.to_vec(),
            arguments: start.arguments.iter().map(<[u8]>::to_vec).collect(),
            directory: start.directory.to_vec(),
            pid: start.identity.pid,
            seed: start.seed,
            policy: start.policy.to_owned(),
            quantum: start.quantum,
            kernel: start.machine.kernel.to_owned(),
            processor: start.machine.processor.to_owned(),
            features: start.machine.features.iter().map(str::to_owned).collect(),
            shown: Shown::recorded(start.shown),
            parent: start.parent,
            started: UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH),
        }
    }
}

/// The arguments, or the program where there are none.
pub fn command_of(start: &Start<'_>) -> String {
    match start.arguments.is_empty() {
        true => command_line([start.program]),
        false => command_line(start.arguments.iter()),
    }
}

/// Without a backtrace, the registers still tell where the signal met the thread: their order is that of `Registers` events.
/// Where a process exits is of no interest, for that is in the C library.
fn backtrace(end: &End<'_>) -> Vec<u64> {
    let (words, rest) = end.registers.as_chunks::<8>();
    let pc = words.get(PROGRAM_COUNTER).filter(|_| words.len() == REGISTERS && rest.is_empty());
    match end.kind {
        EndKind::Killed(_) if end.backtrace.is_empty() => {
            pc.map(|word| u64::from_le_bytes(*word)).into_iter().collect()
        }
        _ => end.backtrace.iter().collect(),
    }
}

fn sizes(folder: &Path, number: u32) -> (u64, u64) {
    let size = |name: String| fs::metadata(folder.join(name)).map_or(0, |metadata| metadata.len());
    (size(format::log_name(number)), size(format::tail_name(number)))
}
