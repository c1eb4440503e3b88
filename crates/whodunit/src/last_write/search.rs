//! A question about memory that a replay answers when it ends: where something is, or who wrote it.

use super::answer;
use super::watch::{By, Eyes, Moment, Outside, Shared, Watch};
use crate::inquiry::{Inquiry, Reply};
use crate::scene::Scene;
use engine::{Observation, Observer, Passed, Wanted};
use program::copies::Copies;
use program::whereabouts::Where;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use trace::event::Event;

/// System calls that change what memory shows.
const REMAPPING: [i64; 7] = [9, 11, 12, 25, 28, 30, 67];

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// As it was typed.
    pub place: String,
    /// The memory that is to be watched; none if the question is where it is.
    pub watched: Option<Range<u64>>,
    /// What is before this event is asked for.
    pub at: Option<u64>,
    /// How many writes are to be told, the last ones.
    pub limit: usize,
}

/// The question during a replay.
pub struct Search {
    question: Question,
    watching: Option<Watching>,
}

struct Watching {
    range: Range<u64>,
    shared: Arc<Shared>,
    feed: Mutex<Feed>,
}

/// What is known on the guest's side.
struct Feed {
    /// Our own memory, which the guest's is; absent where `/proc` is not mounted.
    memory: Option<File>,
    /// The watched memory could be read at the last look.
    is_mapped: bool,
    /// The program is loaded.
    has_begun: bool,
    /// Names of the recording's files.
    files: BTreeMap<u32, String>,
}

impl Search {
    pub fn new(question: Question) -> Search {
        let watching = question.watched.clone().map(|range| Watching {
            shared: Shared::new(Watch::new(range.clone(), question.at, question.limit)),
            range,
            feed: Mutex::new(Feed {
                memory: File::open("/proc/self/mem").ok(),
                is_mapped: false,
                has_begun: false,
                files: BTreeMap::new(),
            }),
        });
        Search { question, watching }
    }
}

impl Inquiry for Search {
    fn observation(&self) -> Observation {
        self.watching.as_ref().map_or(Observation::Nothing, |_| Observation::Tell(Wanted::EVERYTHING))
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        let watching = self.watching.as_ref()?;
        Some(Box::new(Eyes::new(Arc::clone(&watching.shared))))
    }

    fn passed(&self, passed: &Passed<'_>) {
        if let Some(watching) = &self.watching {
            watching.passed(passed);
        }
    }

    fn answer(&self, copies: &Arc<Copies>) -> Reply {
        let place = Where::parse(&self.question.place);
        let answer = match (&self.watching, place) {
            (_, Err(error)) => json!({ "problem": error.to_string() }),
            (None, Ok(place)) => answer::locate(&place, Scene::read(copies)),
            (Some(watching), Ok(place)) => {
                let watch = watching.shared.catch_up(u64::MAX);
                let seen = watching.feed.lock().ok().and_then(|feed| feed.read(&watching.range));
                answer::history(&place, &watching.range, &watch, seen.as_deref(), Scene::read(copies))
            }
        };
        Reply::of(&answer)
    }
}

impl Watching {
    fn passed(&self, passed: &Passed<'_>) {
        let moment = Moment { event: passed.number, inherited: passed.inherited };
        let (pc, batches) = (passed.pc, passed.batches);
        let wrote = |by: By, thread: u32, address: u64, bytes: &[u8]| {
            if address < self.range.end && address.saturating_add(bytes.len() as u64) > self.range.start {
                let bytes = bytes.to_vec();
                self.shared.push(batches, Outside::Wrote { by, moment, thread, pc, address, bytes });
            }
        };
        let (mut thread, mut file, mut look) = (0, None, false);
        match passed.event {
            Event::Call(call) => {
                thread = call.thread;
                look = REMAPPING.contains(&i64::from(call.number));
                call.effects.iter().for_each(|part| wrote(By::Call(call.number), thread, part.address, part.bytes));
            }
            Event::Memory(memory) if self.has_begun() => {
                wrote(By::Kernel, memory.thread, memory.address, memory.bytes);
            }
            // Loading the program clears memory behind its data, as a part of mapping it.
            Event::Memory(memory) => (thread, look) = (memory.thread, true),
            Event::Registers(_) => self.begin(),
            Event::File(file) => self.learn(file.id, file.path),
            Event::Map(map) => {
                thread = map.thread;
                look = map.address < self.range.end && map.address.saturating_add(map.length) > self.range.start;
                file = map.file.map(|part| part.id);
            }
            _ => {}
        }
        self.look(look, file, |file, bytes| {
            self.shared.push(batches, Outside::Mapped { file, moment, thread, pc, bytes });
        });
        self.shared.push(batches, Outside::Passed(moment));
    }

    fn has_begun(&self) -> bool {
        self.feed.lock().is_ok_and(|feed| feed.has_begun)
    }

    fn begin(&self) {
        if let Ok(mut feed) = self.feed.lock() {
            feed.has_begun = true;
        }
    }

    fn learn(&self, id: u32, path: &[u8]) {
        if let Ok(mut feed) = self.feed.lock() {
            feed.files.insert(id, String::from_utf8_lossy(path).into_owned());
        }
    }

    /// Tells what the watched memory holds now, if it may have become something else.
    fn look(&self, may_differ: bool, file: Option<u32>, tell: impl FnOnce(Option<String>, Option<Vec<u8>>)) {
        let Ok(mut feed) = self.feed.lock() else { return };
        if feed.is_mapped && !may_differ {
            return;
        }
        let bytes = feed.read(&self.range);
        let was_mapped = std::mem::replace(&mut feed.is_mapped, bytes.is_some());
        if was_mapped || bytes.is_some() {
            tell(file.and_then(|id| feed.files.get(&id).cloned()), bytes);
        }
    }
}

impl Feed {
    fn read(&self, range: &Range<u64>) -> Option<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.memory.as_ref()?.read_exact_at(&mut bytes, range.start).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remapping_calls_by_name() {
        let names = REMAPPING.map(|number| guest::syscall::lookup(number as u64).map_or("", |call| call.name));
        assert_eq!(names, ["mmap", "munmap", "brk", "mremap", "madvise", "shmat", "shmdt"]);
    }
}
