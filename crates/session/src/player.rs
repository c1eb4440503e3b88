//! From a recording to a run: which logs a process's run is made of, and where it starts.

use crate::mapped_files::Originals;
use engine::{Leg, Plans, Recorded, Shown, Wishes};
use std::fmt;
use trace::event::{Event, Parent, Start};
use trace::{OpenError, Recording, Unopened};

/// Why a recording cannot be replayed.
#[derive(Debug)]
pub enum NotPlayable {
    Open(OpenError),
    /// The log has not even a beginning.
    Empty {
        log: u32,
    },
    /// It was forked by a process of which less was recorded.
    Orphan {
        log: u32,
    },
    /// Parents of parents of parents: no recording that was made looks like that.
    Endless,
}

impl fmt::Display for NotPlayable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotPlayable::Open(error) => error.fmt(out),
            NotPlayable::Empty { log } => write!(
                out,
                "the recording of process image {log} has no beginning; record again, and let it run a little longer"
            ),
            NotPlayable::Orphan { log } => write!(
                out,
                "process image {log} was forked behind the end of what is recorded of its parent, and cannot be replayed"
            ),
            NotPlayable::Endless => write!(out, "the recording's logs name each other as parents; it is damaged"),
        }
    }
}

impl std::error::Error for NotPlayable {}

impl From<OpenError> for NotPlayable {
    fn from(error: OpenError) -> NotPlayable {
        NotPlayable::Open(error)
    }
}

const MOST_GENERATIONS: usize = 1000;

/// What the engine needs to run the process image in `log` again.
pub fn recorded(recording: &Recording, log: u32, wishes: Wishes) -> Result<Recorded, NotPlayable> {
    let mut legs = Vec::new();
    let (mut number, mut until) = (log, None);
    let first = loop {
        if legs.len() > MOST_GENERATIONS {
            return Err(NotPlayable::Endless);
        }
        let log = recording.log(number)?;
        let leg = Leg { cursor: log.cursor(), until };
        let parent = with_start(recording, number, |start| start.parent)?;
        match parent.filter(|parent| is_fork(recording, *parent)) {
            Some(Parent { log, event }) => {
                legs.push(leg);
                (number, until) = (log, Some(event));
            }
            None if parent.is_some() && !has_own_memory(recording, number) => {
                return Err(NotPlayable::Orphan { log: number });
            }
            None => break leg,
        }
    };
    legs.reverse();
    let (layout, executable, command_line, shown) = with_start(recording, number, |start| {
        let words: Vec<u8> = start.arguments.iter().flat_map(|word| [word, b"\0"].concat()).collect();
        (start.layout.to_vec(), start.program.to_vec(), words, Shown::recorded(start.shown))
    })?;
    let files = Box::new(Originals::new(recording.folder()));
    Ok(Recorded {
        first,
        others: legs,
        files,
        executable,
        command_line,
        fixed_span: span(&layout),
        shown,
        wishes,
        plans: Plans::default(),
        debugger: None,
    })
}

fn span(layout: &[u8]) -> Option<(u64, u64)> {
    let word = |at: usize| layout.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    Some((word(0)?, word(8)?))
}

fn with_start<T>(recording: &Recording, log: u32, look: impl FnOnce(&Start<'_>) -> T) -> Result<T, NotPlayable> {
    let mut cursor = recording.log(log)?.cursor();
    match cursor.next().map(|record| record.event) {
        Some(Event::Start(start)) => Ok(look(&start)),
        _ => Err(NotPlayable::Empty { log }),
    }
}

/// Whether the process image was ended before its first event was written.
pub fn is_without_events(recording: &Recording, log: u32) -> bool {
    let start = with_start(recording, log, |_| ());
    matches!(start, Err(NotPlayable::Empty { .. } | NotPlayable::Open(OpenError { why: Unopened::Empty, .. })))
}

/// Whether the process image begins by mapping memory, and not with a copy of its parent's.
fn has_own_memory(recording: &Recording, log: u32) -> bool {
    let Ok(log) = recording.log(log) else { return false };
    let mut cursor = log.cursor();
    loop {
        match cursor.next().map(|record| record.event) {
            Some(Event::Call(_)) => return false,
            Some(Event::Map(_)) | None => return true,
            Some(_) => {}
        }
    }
}

/// Whether enough of the process image is there to begin with; a damaged one counts.
pub fn has_beginning(recording: &Recording, log: u32) -> bool {
    let is_orphan = matches!(recorded(recording, log, Wishes::default()), Err(NotPlayable::Orphan { .. }));
    !is_orphan && !is_without_events(recording, log)
}

fn is_fork(recording: &Recording, parent: Parent) -> bool {
    let Ok(log) = recording.log(parent.log) else { return false };
    let mut cursor = log.cursor();
    cursor.seek(parent.event);
    matches!(cursor.next().map(|record| record.event), Some(Event::Fork(_)))
}

/// The log in which the program goes on that `log` has executed at `event`.
pub fn successor(recording: &Recording, log: u32, event: u64) -> Option<u32> {
    let wanted = Parent { log, event };
    let came_from = |number: u32| with_start(recording, number, |start| start.parent).ok().flatten();
    recording.logs().iter().copied().find(|&number| came_from(number) == Some(wanted))
}

/// The logs that the first process went through, as it executed one program after the other.
pub fn first_process(recording: &Recording) -> Vec<u32> {
    let mut chain: Vec<u32> = recording.logs().first().copied().into_iter().collect();
    let came_from = |log: u32| with_start(recording, log, |start| start.parent).ok().flatten();
    while let Some(&last) = chain.last() {
        let is_next = |log: &u32| {
            let parent = came_from(*log).filter(|parent| parent.log == last && !is_fork(recording, *parent));
            parent.is_some() && process_of(recording, *log) == process_of(recording, last)
        };
        match recording.logs().iter().copied().find(is_next).filter(|next| !chain.contains(next)) {
            Some(next) => chain.push(next),
            None => break,
        }
    }
    chain
}

/// When a process image began, in nanoseconds since 1970.
pub fn began(recording: &Recording, log: u32) -> Option<u64> {
    with_start(recording, log, |start| start.wall_time).ok()
}

/// The process that a log is of.
pub fn process_of(recording: &Recording, log: u32) -> Option<u32> {
    with_start(recording, log, |start| start.identity.pid).ok()
}
