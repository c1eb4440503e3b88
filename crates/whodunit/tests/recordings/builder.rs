//! Writes recordings into a store of its own, and runs the binary on it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use trace::event::{Call, End, EndKind, Identity, Machine, Parent, Start, Switch, SwitchReason, Thread, ThreadEnd};
use trace::{Digest, Event, FileSink, List, Manifest, NewLog, Store, Writer};

const TAIL: usize = 64 << 10;

#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// Nothing but this was said, and all was well.
    #[track_caller]
    pub fn says(&self, stdout: &str) {
        assert_eq!((self.code, self.stdout.as_str(), self.stderr.as_str()), (Some(0), stdout, ""));
    }

    /// One line of whodunit's on standard error, with status 3.
    #[track_caller]
    pub fn refuses(&self, sentence: &str) {
        assert_eq!((self.code, self.stderr.as_str()), (Some(3), format!("whodunit: {sentence}\n").as_str()));
    }

    #[track_caller]
    pub fn has_lines(&self, lines: &[&str]) {
        for line in lines {
            assert!(self.stdout.lines().any(|there| there == *line), "`{line}` is missing in\n{}", self.stdout);
        }
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A store in a temporary folder, which goes with it.
pub struct Home {
    pub folder: PathBuf,
}

impl Home {
    pub fn new() -> Home {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("whodunit-recordings-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("store")).unwrap();
        Home { folder: folder.canonicalize().unwrap() }
    }

    pub fn root(&self) -> PathBuf {
        self.folder.join("store")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub fn store(&self) -> Store {
        Store::at(self.root())
    }

    /// Runs whodunit with this store, in its folder.
    pub fn run(&self, words: &[&str]) -> Outcome {
        let output = Command::new(env!("CARGO_BIN_EXE_whodunit"))
            .args(words)
            .current_dir(&self.folder)
            .env("WHODUNIT_DIR", self.root())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Outcome { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    pub fn record(&self, arguments: &[&str], age: u64) -> Recorder {
        let manifest = manifest(arguments, age);
        let new = self.store().create(&manifest, TAIL).unwrap();
        Recorder { folder: new.folder, id: new.id, log: OpenLog::new(new.first_log) }
    }

    /// Outside the store.
    pub fn record_at(&self, folder: &Path, arguments: &[&str], age: u64) -> Recorder {
        let new = self.store().create_at(folder, &manifest(arguments, age), TAIL).unwrap();
        Recorder { folder: new.folder, id: new.id, log: OpenLog::new(new.first_log) }
    }

    /// A recording of one process that has exited.
    pub fn exited(&self, arguments: &[&str], age: u64, status: i32) -> PathBuf {
        let mut recorder = self.record(arguments, age);
        recorder.log.start(arguments, 100, None);
        recorder.log.end(EndKind::Exited(status), &[]);
        recorder.log.close();
        recorder.folder
    }

    /// Bytes of all files, as `ls` shows them.
    pub fn size_of(&self, name: &str) -> String {
        let entries = fs::read_dir(self.path(name)).unwrap();
        let bytes: u64 = entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        if bytes < 1000 { format!("{bytes} B") } else { format!("{:.1} kB", bytes as f64 / 1000.0) }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// `age` is in seconds.
fn manifest(arguments: &[&str], age: u64) -> Manifest {
    Manifest {
        tool: "whodunit 0.1.0".into(),
        program: arguments[0].into(),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        directory: "/home/ada".into(),
        started: SystemTime::now() - Duration::from_secs(age),
    }
}

/// A recording being made.
pub struct Recorder {
    pub folder: PathBuf,
    id: u64,
    /// Of the first process.
    pub log: OpenLog,
}

impl Recorder {
    pub fn next_log(&self) -> OpenLog {
        OpenLog::new(NewLog::create(&self.folder, self.id, TAIL).unwrap())
    }
}

pub struct OpenLog {
    pub number: u32,
    writer: Writer<Vec<u8>, FileSink>,
    tail_path: PathBuf,
    /// Held open as a recorder would.
    _tail: File,
}

impl OpenLog {
    fn new(new: NewLog) -> OpenLog {
        let writer = Writer::create(new.id, vec![0; TAIL], FileSink::new(new.log)).unwrap();
        OpenLog { number: new.id.log, writer, tail_path: new.tail_path, _tail: new.tail }
    }

    pub fn add(&mut self, event: Event<'_>) -> u64 {
        self.writer.append(&event).unwrap()
    }

    pub fn start(&mut self, arguments: &[&str], pid: u32, parent: Option<(u32, u64)>) {
        let words: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
        self.add(Event::Start(Start {
            program: words[0],
            arguments: List::of(&words),
            directory: b"/home/ada",
            identity: Identity { pid, tid: pid, ..Identity::default() },
            seed: 7,
            policy: "round-robin",
            quantum: 50_000,
            machine: Machine { kernel: "6.1.0", processor: "Test CPU", features: List::of(&["avx", "bmi2"]) },
            parent: parent.map(|(log, event)| Parent { log, event }),
            wall_time: STARTED * 1_000_000_000,
            ..Start::default()
        }));
    }

    pub fn call(&mut self, thread: u32, clock: u64, number: u32, arguments: [u64; 6], result: i64) -> u64 {
        let arguments = Some(arguments);
        self.add(Event::Call(Call { thread, clock, number, result, arguments, effects: List::EMPTY }))
    }

    pub fn switch(&mut self, from: u32, to: u32, clock: u64, reason: SwitchReason) {
        self.add(Event::Switch(Switch { from, to, clock, reason, registers: Digest(0), memory: None }));
    }

    pub fn thread(&mut self, parent: u32, clock: u64, child: u32, tid: u32) -> u64 {
        self.add(Event::Thread(Thread { parent, clock, child, tid }))
    }

    pub fn thread_end(&mut self, thread: u32, clock: u64, status: i32) {
        self.add(Event::ThreadEnd(ThreadEnd { thread, clock, status }));
    }

    pub fn end(&mut self, kind: EndKind, backtrace: &[u64]) {
        let backtrace = List::of(backtrace);
        self.add(Event::End(End { kind, thread: 1, clock: 900, registers: &[], backtrace, details: &[] }));
    }

    /// As a recorder does when its process has ended.
    pub fn close(&mut self) {
        self.writer.seal().unwrap();
        fs::remove_file(&self.tail_path).unwrap();
    }

    /// What a mapping of the tail does by itself: its file has the events.
    pub fn store_tail(&self) {
        fs::write(&self.tail_path, self.writer.memory()).unwrap();
    }
}

/// When recorded processes began, in seconds since 1970.
pub const STARTED: u64 = 1_763_251_200;
pub const STARTED_DATE: &str = "2025-11-16 00:00:00 UTC";

/// How long ago that is, in the words of `show`.
pub fn started_age() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    format!("{} days ago", (now - STARTED) / 86_400)
}
