//! The journal of a run that is kept in a folder.

use crate::mapped_files::Named;
use engine::{COMMONS_SIZE, Handover, Journal, Mapped, MoreDescriptors, PrivateLog, SharedBytes, Shown};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use trace::event::{self, Abort, Change, End, EndKind, Event, FilePart, Map, Note, Parent, Start};
use trace::format::{FILES, TAIL_SIZE};
use trace::{List, NewLog, WriteError, Writer, open_commons};

/// What is known of a run before it begins.
#[derive(Clone, Debug)]
pub struct Facts {
    pub program: Vec<u8>,
    pub arguments: Vec<Vec<u8>>,
    pub environment: Vec<Vec<u8>>,
    pub directory: Vec<u8>,
    pub seed: u64,
    pub policy: String,
    pub quantum: u64,
    pub kernel: String,
    pub processor: String,
    /// Those that the program is shown.
    pub features: Vec<String>,
    pub shown: Shown,
    /// Where the process image came from.
    pub parent: Option<(u32, u64)>,
    /// The descriptors that lead to standard output (1) and error (2).
    pub streams: Vec<(i32, u8)>,
    /// Nanoseconds since 1970.
    pub wall_time: u64,
}

/// When to stop recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub bytes: Option<u64>,
    pub time: Option<Duration>,
    /// The status that the program is ended with when there is no more room, if it is not to go on.
    pub status_when_full: Option<u8>,
}

/// Where an executed program comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    pub log: u32,
    pub event: u64,
    /// The log ends there, and its tail is empty.
    pub is_sealed: bool,
    /// The descriptors that lead to standard output (1) and error (2).
    pub streams: Vec<(i32, u8)>,
}

/// Makes the words that stand before those of an executed program.
pub type Words = Box<dyn Fn(Origin) -> Vec<Vec<u8>> + Send>;

/// Where a copy of the process is recorded, and what is other than in the process that was copied.
pub struct Branch {
    pub folder: PathBuf,
    pub log: NewLog,
    pub seed: u64,
    pub policy: String,
}

/// Makes the place for a copy, whose recording begins with so many bytes.
pub type Branches = Box<dyn FnMut(u64) -> io::Result<Branch> + Send>;

/// How many events may pass between two looks at the limits.
const INTERVAL: u64 = 256;

/// So much of a file that changes goes into one event.
const LARGEST_PIECE: u64 = 1 << 20;
/// As the kernel's headers have it.
const MAP_SHARED: u32 = 1;

pub struct Recorder {
    folder: PathBuf,
    recording: u64,
    facts: Facts,
    limits: Limits,
    /// What stands before a followed program's words.
    words: Words,
    /// Says something to the user.
    say: fn(&str),
    layout: Vec<u8>,
    log: u32,
    tail_path: PathBuf,
    writer: Option<Writer<SharedBytes, PrivateLog>>,
    child: Option<(NewLog, u64)>,
    files: Named,
    began: Instant,
    /// For copies of the process, if there are to be any.
    branches: Option<Branches>,
}

impl Recorder {
    /// Begins to write the first log of a process image.
    pub fn new(
        folder: PathBuf,
        log: NewLog,
        facts: Facts,
        limits: Limits,
        words: Words,
        say: fn(&str),
    ) -> io::Result<Recorder> {
        let (recording, number, tail_path) = (log.id.recording, log.id.log, log.tail_path.clone());
        let memory = map_tail(&log)?;
        let writer = Writer::create(log.id, memory, PrivateLog::keep(log.log)?).map_err(to_io)?;
        Ok(Recorder {
            folder,
            recording,
            facts,
            limits,
            words,
            say,
            layout: Vec::new(),
            log: number,
            tail_path,
            writer: Some(writer),
            child: None,
            files: Named::default(),
            began: Instant::now(),
            branches: None,
        })
    }

    /// The process will be copied, and these say where each copy is recorded.
    pub fn with_branches(mut self, branches: Branches) -> Recorder {
        self.branches = Some(branches);
        self
    }

    /// Goes on in another recording, which begins with what this one holds.
    fn branch_off(&mut self, branch: Branch) -> io::Result<()> {
        let Some(before) = self.writer.take() else { return Ok(()) };
        let Branch { folder, log, seed, policy } = branch;
        let memory = map_tail(&log)?;
        let sink = before.sink().replaced_by(log.log)?;
        (self.folder, self.recording, self.log, self.tail_path) = (folder, log.id.recording, log.id.log, log.tail_path);
        (self.facts.seed, self.facts.policy) = (seed, policy);
        self.writer = Some(Writer::create(log.id, memory, sink).map_err(to_io)?);
        self.start();
        match &mut self.writer {
            Some(writer) => writer.continue_from(&before).map_err(to_io),
            None => Err(io::Error::other("the recording cannot be begun")),
        }
    }

    fn append(&mut self, event: &Event<'_>) {
        let Some(writer) = &mut self.writer else { return };
        match writer.append(event) {
            Ok(number) if number % INTERVAL == 0 => self.look_at_limits(),
            Ok(_) => {}
            Err(error) => self.fail(&error),
        }
    }

    fn look_at_limits(&mut self) {
        let size = self.writer.as_ref().map_or(0, Writer::size);
        if self.limits.bytes.is_some_and(|most| size > most) {
            self.stop(Abort::SizeLimit, "the recording has reached --max-size");
        } else if self.limits.time.is_some_and(|most| self.began.elapsed() > most) {
            self.stop(Abort::TimeLimit, "the recording has reached --max-time");
        }
    }

    fn fail(&mut self, error: &WriteError) {
        let abort = if error.is_full() { Abort::DiskFull } else { Abort::Other(0) };
        self.stop(abort, &format!("the recording cannot be written: {error}"));
    }

    /// The guest goes on; what was recorded so far stays.
    fn stop(&mut self, why: Abort, what: &str) {
        if let Some(mut writer) = self.writer.take() {
            let end = End {
                kind: EndKind::Aborted(why),
                thread: 1,
                clock: 0,
                registers: &[],
                backtrace: List::EMPTY,
                details: &[],
            };
            let _ = writer.append(&Event::End(end));
            if writer.seal().is_ok() {
                let _ = std::fs::remove_file(&self.tail_path);
            }
        }
        let is_full = matches!(why, Abort::DiskFull | Abort::SizeLimit);
        let status = self.limits.status_when_full.filter(|_| is_full);
        let program = if status.is_some() { "is stopped (--on-full)" } else { "goes on without being recorded" };
        (self.say)(&format!("whodunit: {what}; the program {program}, and what was recorded stays usable\n"));
        if let Some(status) = status {
            engine::leave(status);
        }
    }

    fn start(&mut self) {
        let facts = self.facts.clone();
        let arguments: Vec<&[u8]> = facts.arguments.iter().map(Vec::as_slice).collect();
        let environment: Vec<&[u8]> = facts.environment.iter().map(Vec::as_slice).collect();
        let features: Vec<&str> = facts.features.iter().map(String::as_str).collect();
        let layout = self.layout.clone();
        self.append(&Event::Start(Start {
            program: &facts.program,
            arguments: List::of(&arguments),
            environment: List::of(&environment),
            directory: &facts.directory,
            layout: &layout,
            identity: event::Identity {
                pid: std::process::id(),
                tid: std::process::id(),
                ..event::Identity::default()
            },
            seed: facts.seed,
            policy: &facts.policy,
            quantum: facts.quantum,
            machine: event::Machine {
                kernel: &facts.kernel,
                processor: &facts.processor,
                features: List::of(&features),
            },
            parent: facts.parent.map(|(log, event)| Parent { log, event }),
            wall_time: facts.wall_time,
            shown: facts.shown.event(),
            ..Start::default()
        }));
    }

    /// The forked process's own log takes the place of its parent's.
    fn become_child(&mut self, log: NewLog, event: u64) -> io::Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let _room = MoreDescriptors::claim();
        let (memory, mut sink) = writer.into_parts();
        drop(memory);
        self.facts.parent = Some((self.log, event));
        self.facts.wall_time = nanoseconds_since_1970();
        self.log = log.id.log;
        self.tail_path = log.tail_path.clone();
        self.files.begin_log();
        let memory = map_tail(&log)?;
        sink.replace(log.log)?;
        self.writer = Some(Writer::create(log.id, memory, sink).map_err(to_io)?);
        self.start();
        Ok(())
    }
}

/// The time of day.
pub fn nanoseconds_since_1970() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn map_tail(log: &NewLog) -> io::Result<SharedBytes> {
    SharedBytes::map(&log.tail, log.tail.metadata()?.len() as usize)
}

fn to_io(error: WriteError) -> io::Error {
    match error {
        WriteError::Sink(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

impl Journal for Recorder {
    fn begin(&mut self, fixed_span: Option<(u64, u64)>) {
        if let Some((low, high)) = fixed_span {
            self.layout = [low, high].iter().flat_map(|word| word.to_le_bytes()).collect();
        }
        self.start();
    }

    fn note(&mut self, event: &Event<'_>) {
        self.append(event);
    }

    fn map(&mut self, mapped: &Mapped) {
        if self.writer.is_none() {
            return;
        }
        let Mapped { thread, address, length, protection, flags, file } = *mapped;
        let mut map = Map { thread, address, length, protection, flags, file: None, content: None };
        let mut content = None;
        if let Some((descriptor, offset)) = file {
            let _room = MoreDescriptors::claim();
            let is_shared = flags & MAP_SHARED != 0;
            let found = match is_shared {
                true => self.files.find_shared(descriptor, offset.saturating_add(length)),
                false => self.files.find(descriptor),
            };
            match found {
                Some(found) => {
                    // Without a copy the recording is as good as the file that it names.
                    let _ = found.keep(&self.folder);
                    if let Some(new) = &found.new {
                        self.append(&Event::File(new.event(found.id)));
                    }
                    map.file = Some(FilePart { id: found.id, offset });
                    if !found.is_program {
                        content = found.content(offset, length);
                    }
                }
                None => {
                    let text = "a device is mapped, whose content is not recorded; replay may diverge";
                    self.append(&Event::Note(Note { thread: Some(thread), text }));
                    map.file = None;
                }
            }
        }
        map.content = content.as_deref();
        self.append(&Event::Map(map));
    }

    fn attach(&mut self, mapped: &Mapped, segment: u64, bytes: &[u8]) {
        let Mapped { thread, address, length, protection, flags, .. } = *mapped;
        let file = Some(FilePart { id: self.files.segment(segment), offset: 0 });
        self.append(&Event::Map(Map { thread, address, length, protection, flags, file, content: Some(bytes) }));
    }

    fn watches_files(&self) -> bool {
        self.writer.is_some() && self.files.has_shared()
    }

    fn file_changed(&mut self, thread: u32, descriptor: i32, part: Range<u64>) {
        let _room = MoreDescriptors::claim();
        let Some((file, id, end)) = self.files.shared(descriptor) else { return };
        let Ok(size) = file.metadata().map(|metadata| metadata.len()) else { return };
        let mut offset = part.start;
        let end = part.end.min(end).min(size);
        loop {
            let mut bytes = vec![0; end.saturating_sub(offset).min(LARGEST_PIECE) as usize];
            if file.read_exact_at(&mut bytes, offset).is_err() {
                return;
            }
            self.append(&Event::Change(Change { thread, file: id, size, offset, bytes: &bytes }));
            offset += bytes.len() as u64;
            if offset >= end {
                return;
            }
        }
    }

    fn before_fork(&mut self) -> u32 {
        let Some(event) = self.writer.as_ref().map(Writer::next_event) else { return 0 };
        let _room = MoreDescriptors::claim();
        match NewLog::create(&self.folder, self.recording, TAIL_SIZE) {
            Ok(log) => {
                let number = log.id.log;
                self.child = Some((log, event));
                number
            }
            Err(error) => {
                (self.say)(&format!("whodunit: a child process is not recorded: {error}\n"));
                0
            }
        }
    }

    fn after_fork(&mut self, is_child: bool) {
        let child = self.child.take();
        if !is_child {
            return;
        }
        let became = match child {
            Some((log, event)) => self.become_child(log, event),
            None => Err(io::Error::other("it has no log")),
        };
        if became.is_err() {
            // The parent's log is the parent's.
            self.writer = None;
        }
    }

    fn words_for_exec(&mut self, handover: &Handover) -> Vec<Vec<u8>> {
        let event = self.writer.as_ref().map_or(0, Writer::next_event).saturating_sub(1);
        // The next program can then remove the tail, which nobody else will.
        let is_sealed = handover.replaces && self.writer.as_mut().is_some_and(|writer| writer.seal().is_ok());
        (self.words)(Origin { log: self.log, event, is_sealed, streams: handover.streams.clone() })
    }

    fn first_streams(&self) -> Vec<(i32, u8)> {
        self.facts.streams.clone()
    }

    fn has_parent(&self) -> bool {
        self.facts.parent.is_some()
    }

    fn commons(&self) -> Option<SharedBytes> {
        let _room = MoreDescriptors::claim();
        let file = open_commons(&self.folder, COMMONS_SIZE).ok()?;
        SharedBytes::map(&file, COMMONS_SIZE).ok()
    }

    fn can_depart(&self) -> bool {
        let is_whole = self.writer.as_ref().is_some_and(Writer::is_all_in_tail);
        // Copies of files that only this recording has are not its copies'.
        is_whole && self.branches.is_some() && !self.folder.join(FILES).exists()
    }

    fn depart(&mut self) {
        let size = self.writer.as_ref().map_or(0, Writer::size);
        let Some(mut branches) = self.branches.take() else { return };
        let _room = MoreDescriptors::claim();
        if let Err(error) = branches(size).and_then(|branch| self.branch_off(branch)) {
            // What was written so far belongs to the process that was copied.
            self.writer = None;
            (self.say)(&format!("whodunit: the recording cannot be written: {error}\n"));
        }
    }

    fn close(&mut self) {
        if let Some(mut writer) = self.writer.take()
            && writer.seal().is_ok()
        {
            let _ = std::fs::remove_file(&self.tail_path);
        }
    }
}
