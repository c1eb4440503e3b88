//! Hears many runs, several at the same time. Runs that begin alike are followed together that far: a process for each beginning is kept
//! as long as it is asked the same.

use super::hearing::{Manner, Source};
use crate::inquiry::siblings::Stem;
use crate::recordings::Trouble;
use crate::study::Study;
use analysis::pairs::falcon::SeenPattern;
use analysis::pairs::{Collected, Learning};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trace::Beginning;

/// To start a process takes as long as to hear so many runs.
const WORTH_A_START: usize = 6;

/// Runs that were heard, in the order in which they were given.
#[derive(Default)]
pub struct Heard {
    pub runs: Vec<Collected>,
    /// Why others were not.
    pub refusals: Vec<Trouble>,
}

pub struct Ears {
    /// How many runs are heard at the same time.
    jobs: usize,
    /// Those that nobody asks at the moment, the latest last.
    stems: Mutex<Vec<(Key, Stem)>>,
}

/// What a process is good for.
#[derive(PartialEq, Eq)]
struct Key {
    beginning: Beginning,
    task: Vec<u8>,
}

impl Ears {
    pub fn new(jobs: usize) -> Ears {
        Ears { jobs, stems: Mutex::default() }
    }

    /// Hears passing runs as closely as is worth it after what others have told.
    pub fn hear_passing(&self, sources: &[Source], failing: &Source, learning: &Learning) -> Heard {
        let manner = Manner::after(learning);
        let Some(varying) = learning.varying() else { return self.hear_all(sources, failing, &manner) };
        let manner = Manner { among: Some(varying.clone()), ..manner };
        let mut heard = self.hear_all(sources, failing, &manner);
        heard.runs.iter_mut().for_each(|run| learning.complete(run, &varying));
        heard
    }

    pub fn hear_all(&self, sources: &[Source], failing: &Source, manner: &Manner) -> Heard {
        let mut heard = Heard::default();
        for answer in self.collect_all(sources, failing, manner, |run| run) {
            match answer {
                Ok(run) => heard.runs.push(run),
                Err(trouble) => heard.refusals.push(trouble),
            }
        }
        heard
    }

    /// The pairs of runs, of which only a part is kept.
    pub fn collect_all(
        &self,
        sources: &[Source],
        failing: &Source,
        manner: &Manner,
        keep: impl Fn(Collected) -> Collected + Sync,
    ) -> Vec<Result<Collected, Trouble>> {
        let study = |source: &Source| source.pairs_study(manner, failing);
        self.ask_all(sources, study, |source, collected| keep(source.told(collected, failing)))
    }

    /// Falcon's patterns of runs, as far as they can be told.
    pub fn patterns(&self, sources: &[Source]) -> Vec<Vec<SeenPattern>> {
        let answers = self.ask_all(sources, Source::patterns_study, Source::told_patterns);
        answers.into_iter().flatten().collect()
    }

    /// Asks something about each run; the answers come in the order of the runs.
    fn ask_all<T: DeserializeOwned, R: Send>(
        &self,
        sources: &[Source],
        study: impl Fn(&Source) -> Study + Sync,
        told: impl Fn(&Source, T) -> R + Sync,
    ) -> Vec<Result<R, Trouble>> {
        let queue = Mutex::new(Queue::new(sources));
        let answers = Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| {
            for worker in 0..self.jobs.min(sources.len()) {
                let (queue, answers, study, told) = (&queue, &answers, &study, &told);
                scope.spawn(move || {
                    let next = || lock(queue).next(worker, |beginning| self.has_stem(beginning));
                    while let Some((number, has_siblings)) = next() {
                        let source = &sources[number];
                        let answer = self.ask(source, study(source), has_siblings).map(|answer| told(source, answer));
                        lock(answers).insert(number, answer);
                    }
                });
            }
        });
        answers.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
    }

    /// Asks a process that has followed the beginning already; or one that will be of use for other runs, too.
    fn ask<T: DeserializeOwned>(&self, source: &Source, study: Study, has_siblings: bool) -> Result<T, Trouble> {
        let task = source.task(study);
        let Some(beginning) = source.beginning else { return source.answer(&task) };
        let key = Key { beginning, task: serde_json::to_vec(&task).unwrap_or_default() };
        let known = self.take(&key);
        if known.is_none() && !has_siblings {
            return source.answer(&task);
        }
        let mut stem = known.map_or_else(|| Stem::start(&source.subject(), beginning.events, &task), Ok)?;
        let answer = stem.ask(source.recording.folder(), source.log);
        self.keep(key, stem);
        answer
    }

    /// Whether there is a process for runs that begin like this, whatever it is asked.
    fn has_stem(&self, beginning: Beginning) -> bool {
        lock(&self.stems).iter().any(|(key, _)| key.beginning == beginning)
    }

    fn take(&self, key: &Key) -> Option<Stem> {
        let mut stems = lock(&self.stems);
        let place = stems.iter().position(|(other, _)| other == key)?;
        Some(stems.remove(place).1)
    }

    fn keep(&self, key: Key, stem: Stem) {
        let mut stems = lock(&self.stems);
        stems.push((key, stem));
        if stems.len() > 2 * self.jobs {
            stems.remove(0);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs that wait to be heard.
struct Queue<'a> {
    sources: &'a [Source],
    /// Their numbers, the first last.
    waiting: Vec<usize>,
    /// Which beginning each worker is at.
    at: BTreeMap<usize, Beginning>,
}

impl Queue<'_> {
    fn new(sources: &[Source]) -> Queue<'_> {
        Queue { sources, waiting: (0..sources.len()).rev().collect(), at: BTreeMap::new() }
    }

    /// The next run for a worker: one that begins like its last one, or like none that others are at; else any, if
    /// there is a process for it or enough are left that one is worth its start. Tells also whether another of the runs begins like it.
    fn next(&mut self, worker: usize, has_stem: impl Fn(Beginning) -> bool) -> Option<(usize, bool)> {
        let beginning = |number: usize| self.sources[number].beginning;
        let last = self.at.get(&worker).copied();
        let own = || self.waiting.iter().rposition(|number| last.is_some() && beginning(*number) == last);
        let is_free = |number: usize| beginning(number).is_none_or(|one| !self.at.values().any(|other| *other == one));
        let free = || self.waiting.iter().rposition(|number| is_free(*number));
        let is_worth_it = self.waiting.len() >= WORTH_A_START;
        let shared =
            || self.waiting.iter().rposition(|number| is_worth_it || beginning(*number).is_some_and(&has_stem));
        let place = own().or_else(free).or_else(shared)?;
        let number = self.waiting.remove(place);
        if let Some(beginning) = self.sources[number].beginning {
            self.at.insert(worker, beginning);
        }
        let alike = self.sources.iter().filter(|other| other.beginning == self.sources[number].beginning);
        Some((number, alike.count() > 1))
    }
}
