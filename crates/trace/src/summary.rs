//! What a list of recordings says of each.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cursor::{Damage, Ending};
use crate::error::OpenError;
use crate::event::{EndKind, Event};
use crate::log::Log;
use crate::recording::Recording;

/// A recording in short. Only its manifest, its sizes and the end of its first log are read.
#[derive(Debug)]
pub struct Summary {
    pub folder: PathBuf,
    /// Of all its files, in bytes.
    pub size: u64,
    pub started: SystemTime,
    /// Empty if it cannot be read.
    pub program: String,
    /// The program's name first.
    pub arguments: Vec<String>,
    /// How many process images it has.
    pub logs: usize,
    pub state: State,
}

/// How the first process of a recording ended.
#[derive(Debug)]
pub enum State {
    /// It has not: the recorder is at work.
    Live,
    Ended(EndKind),
    /// In an `execve`; the process went on in another log.
    Executed {
        next_log: u32,
    },
    /// The recorder was killed.
    Cut,
    Damaged(Damage),
    Unreadable(OpenError),
}

impl Summary {
    pub fn of(folder: &Path) -> Summary {
        let mut summary = Summary {
            folder: folder.to_owned(),
            size: size_of(folder),
            started: begun(folder),
            program: String::new(),
            arguments: Vec::new(),
            logs: 0,
            state: State::Cut,
        };
        match Recording::open(folder) {
            Ok(recording) => summary.read(&recording),
            Err(error) => summary.state = State::Unreadable(error),
        }
        summary
    }

    fn read(&mut self, recording: &Recording) {
        self.logs = recording.logs().len();
        if let Some(manifest) = recording.manifest() {
            self.program.clone_from(&manifest.program);
            self.arguments.clone_from(&manifest.arguments);
            self.started = manifest.started;
        }
        self.state = match recording.log(1) {
            Ok(log) if self.program.is_empty() => self.read_start(&log).unwrap_or_else(|| state_of(&log)),
            Ok(log) => state_of(&log),
            Err(error) => State::Unreadable(error),
        };
        if matches!(self.state, State::Cut | State::Executed { .. }) && recording.is_live() {
            self.state = State::Live;
        }
    }

    /// For recordings that have lost their manifest. Returns what was damaged, if the first event cannot be read.
    fn read_start(&mut self, log: &Log) -> Option<State> {
        let mut cursor = log.cursor();
        if let Some(Event::Start(start)) = cursor.next().map(|record| record.event) {
            self.program = text(start.program);
            self.arguments = start.arguments.iter().map(text).collect();
            return None;
        }
        match cursor.ending() {
            Ending::Damaged(damage) => Some(State::Damaged(damage)),
            Ending::Whole | Ending::Cut => None,
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn state_of(log: &Log) -> State {
    let mut cursor = log.cursor();
    cursor.seek(log.event_count().saturating_sub(1));
    let mut state = State::Cut;
    while let Some(record) = cursor.next() {
        state = match record.event {
            Event::End(end) => State::Ended(end.kind),
            Event::Exec(exec) => State::Executed { next_log: exec.next_log },
            _ => State::Cut,
        };
    }
    match cursor.ending() {
        Ending::Damaged(damage) => State::Damaged(damage),
        Ending::Whole | Ending::Cut => state,
    }
}

/// The bytes of all files in a folder and below, as far as they can be looked at.
pub fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.filter_map(|entry| entry.ok()).map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

fn begun(folder: &Path) -> SystemTime {
    fs::metadata(folder).and_then(|metadata| metadata.modified()).unwrap_or(UNIX_EPOCH)
}
