//! Who is told what happens in a hunted run: keeps it and writes it down at the end, and says nothing to people.

use super::order::{Answer, Crash, Kind, Order, Shared};
use super::stem::Stem;
use crate::host::{Terminal, with_room};
use crate::scene::Scene;
use crate::status;
use engine::{Counts, Departure, Faultable, Host, MappedCode, Observer, PrivateFile, Stats, ThreadFacts};
use program::symbols::SourceFrame;
use sched::Steps;
use session::{SharedSites, Sharing};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// `SIGXCPU`, by which the engine ends a run that comes to nothing.
const SIGXCPU: i32 = 24;
const SIGABRT: i32 = 6;

pub struct Witness {
    /// Knows how to follow a stack.
    terminal: Terminal,
    observes: bool,
    /// The choices of a run that follows a course.
    steps: Mutex<Option<Steps>>,
    answer: Arc<Mutex<Answer>>,
    /// None before the schedule has begun.
    file: Mutex<Option<PrivateFile>>,
    /// Who waits for orders, before the schedule has begun.
    stem: Mutex<Option<Stem>>,
    tells_units: AtomicBool,
    tells_places: AtomicBool,
}

impl Witness {
    /// Makes the witness of one run.
    pub fn maker(
        order: &Order,
        steps: Option<Steps>,
        file: PrivateFile,
    ) -> impl FnOnce(Terminal) -> Box<dyn Host> + use<> {
        let (observes, tells_places) = (order.observe, order.tells_places);
        move |terminal| {
            let (steps, file) = (Mutex::new(steps), Mutex::new(Some(file)));
            let tells_places = AtomicBool::new(tells_places);
            Box::new(Witness { observes, steps, file, tells_places, ..Witness::new(terminal) })
        }
    }

    /// Makes the witness of each copy that is to be made.
    pub fn maker_at(stem: Stem) -> impl FnOnce(Terminal) -> Box<dyn Host> {
        move |terminal| Box::new(Witness { stem: Mutex::new(Some(stem)), ..Witness::new(terminal) })
    }

    fn new(terminal: Terminal) -> Witness {
        Witness {
            terminal,
            observes: false,
            steps: Mutex::default(),
            answer: Arc::default(),
            file: Mutex::default(),
            stem: Mutex::default(),
            tells_units: AtomicBool::new(false),
            tells_places: AtomicBool::new(true),
        }
    }

    /// Every function of each thread's stack, the innermost first; nothing if nobody wants to know.
    fn functions_of(&self, threads: &[&ThreadFacts]) -> Vec<Vec<SourceFrame>> {
        if self.tells_places.load(Ordering::Relaxed) { functions_of(threads) } else { Vec::new() }
    }

    fn keep(&self, change: impl FnOnce(&mut Answer)) {
        change(&mut self.answer.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Host for Witness {
    fn crashed(&self, crash: &engine::Crash) {
        let culprit: Vec<&ThreadFacts> = crash.threads.iter().filter(|thread| thread.id == crash.thread).collect();
        let told = with_room(&|| {
            let functions = self.functions_of(&culprit);
            let kind = match crash.signal {
                SIGXCPU => Kind::Hang,
                SIGABRT if functions.iter().flatten().any(is_assertion) => Kind::Assertion,
                signal => Kind::Signal(signal),
            };
            let places = functions.iter().filter_map(|stack| own_place(stack)).collect();
            Crash { kind, places }
        });
        self.keep(|answer| answer.crash = Some(told));
    }

    fn deadlocked(&self, threads: &[ThreadFacts]) {
        let told = with_room(&|| {
            let threads_of: Vec<&ThreadFacts> = threads.iter().collect();
            let places: BTreeSet<String> =
                self.functions_of(&threads_of).iter().filter_map(|stack| own_place(stack)).collect();
            Crash { kind: Kind::Deadlock, places: places.into_iter().collect() }
        });
        self.keep(|answer| answer.crash = Some(told));
    }

    fn finished(&self, stats: &Stats) {
        self.keep(|answer| {
            answer.threads = stats.turn.threads;
            answer.events = stats.turn.events;
            answer.steps = stats.turn.steps;
            answer.schedule = stats.turn.schedule_hash;
            if self.tells_units.load(Ordering::Relaxed) {
                answer.units = engine::translated();
            }
            if let Some(steps) = &*self.steps.lock().unwrap_or_else(PoisonError::into_inner) {
                answer.choices = steps.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
            }
            let text = serde_json::to_vec(answer).unwrap_or_default();
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            // Without an answer the run counts by its status alone.
            let _ = file.as_mut().map(|file| file.write_all(&text));
        });
    }

    fn counted(&self, _: &Counts) {}

    fn observer(&self) -> Option<Box<dyn Observer>> {
        let answer = Arc::clone(&self.answer);
        let deliver = move |sharing: &Sharing| {
            let (sites, pairs) = (
                sharing.sites.iter().map(|(&site, &turns)| (site, turns)).collect(),
                sharing.pairs.iter().copied().collect(),
            );
            answer.lock().unwrap_or_else(PoisonError::into_inner).shared =
                Some(Shared { sites, pairs, accesses: sharing.accesses });
        };
        self.observes.then(|| -> Box<dyn Observer> { Box::new(SharedSites::new(Box::new(deliver))) })
    }

    fn backtrace(&self, thread: &ThreadFacts) -> Vec<u64> {
        self.terminal.backtrace(thread)
    }

    fn callers(&self, thread: &ThreadFacts) -> Vec<u64> {
        self.terminal.callers(thread)
    }

    fn faultable(&self, code: &MappedCode) -> Vec<(u64, Faultable)> {
        self.terminal.faultable(code)
    }

    fn depart(&self) -> Departure {
        let stem = self.stem.lock().unwrap_or_else(PoisonError::into_inner).take();
        match stem.map(Stem::serve) {
            Some(Ok(copied)) => {
                *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(copied.answer);
                *self.steps.lock().unwrap_or_else(PoisonError::into_inner) = copied.steps;
                self.tells_units.store(copied.tells_units, Ordering::Relaxed);
                self.tells_places.store(copied.tells_places, Ordering::Relaxed);
                copied.departure
            }
            // Whoever waits for the answer finds none.
            _ => engine::leave(status::MACHINE),
        }
    }

    fn notice(&self, _: &str) {}
}

fn functions_of(threads: &[&ThreadFacts]) -> Vec<Vec<SourceFrame>> {
    let shown = Scene::read(&Arc::default()).threads(threads);
    shown.into_iter().map(|thread| thread.frames.into_iter().flat_map(|frame| frame.resolved).collect()).collect()
}

fn is_assertion(frame: &SourceFrame) -> bool {
    frame.function.as_deref().is_some_and(|name| name.starts_with("__assert"))
}

/// The innermost function that is the program's own, as far as can be told: one whose source line is known, else one
/// outside the C library.
pub fn own_place(functions: &[SourceFrame]) -> Option<String> {
    let is_library = |frame: &&SourceFrame| frame.module.starts_with("libc.so") || frame.module.starts_with("ld-linux");
    let own = functions.iter().find(|frame| frame.line.is_some() && !is_library(frame));
    let frame = own.or_else(|| functions.iter().find(|frame| !is_library(frame))).or_else(|| functions.first())?;
    let function = frame.function.clone().unwrap_or_else(|| format!("{}+{:#x}", frame.module, frame.module_offset));
    let file = frame.file.as_ref().and_then(|file| file.file_name());
    Some(match (file, frame.line) {
        (Some(file), Some(line)) => format!("{function} ({}:{line})", file.to_string_lossy()),
        _ => function,
    })
}
