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
        let queue = Mutex::new(Queue::new(sources.iter().map(|source| source.beginning).collect()));
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
        if !stem.is_gone() {
            self.keep(key, stem);
        }
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
struct Queue<B> {
    /// How each of all runs begins, if others can begin like it.
    beginnings: Vec<Option<B>>,
    /// The numbers of those that wait, the first last.
    waiting: Vec<usize>,
    /// Which beginning each worker is at.
    at: BTreeMap<usize, B>,
}

impl<B: Copy + PartialEq> Queue<B> {
    fn new(beginnings: Vec<Option<B>>) -> Queue<B> {
        Queue { waiting: (0..beginnings.len()).rev().collect(), beginnings, at: BTreeMap::new() }
    }

    /// The next run for a worker: one that begins like its last one, or like none that others are at; else any, if
    /// there is a process for it or enough are left that one is worth its start. Tells also whether another of the runs begins like it.
    fn next(&mut self, worker: usize, has_stem: impl Fn(B) -> bool) -> Option<(usize, bool)> {
        let last = self.at.get(&worker).copied();
        let place = |is_meant: &dyn Fn(Option<B>) -> bool| {
            self.waiting.iter().rposition(|number| is_meant(self.beginnings[*number]))
        };
        let is_free = |one: Option<B>| one.is_none_or(|one| self.at.values().all(|other| *other != one));
        let is_worth_it = self.waiting.len() >= WORTH_A_START;
        let own = place(&|one| last.is_some() && one == last);
        let place =
            own.or_else(|| place(&is_free)).or_else(|| place(&|one| is_worth_it || one.is_some_and(&has_stem)))?;
        let number = self.waiting.remove(place);
        let beginning = self.beginnings[number];
        self.at.extend(beginning.map(|beginning| (worker, beginning)));
        let alike = self.beginnings.iter().filter(|other| **other == beginning);
        Some((number, alike.count() > 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_stem(_: char) -> bool {
        false
    }

    #[test]
    fn workers_keep_to_their_beginnings() {
        let mut queue = Queue::new("abbabac".chars().map(Some).collect());
        assert_eq!(queue.next(0, no_stem), Some((0, true)), "the first");
        assert_eq!(queue.next(1, no_stem), Some((1, true)), "the first that begins otherwise");
        assert_eq!(queue.next(1, no_stem), Some((2, true)));
        assert_eq!(queue.next(0, no_stem), Some((3, true)));
        assert_eq!(queue.next(1, no_stem), Some((4, true)));
        assert_eq!(queue.next(1, no_stem), Some((6, false)), "nobody is at this one, and no other run begins like it");
        assert_eq!(queue.next(2, no_stem), None, "what is left is not worth a process more");
        assert_eq!(queue.next(2, |beginning| beginning == 'a'), Some((5, true)), "unless there is one");
        assert_eq!(queue.next(0, no_stem), None);
    }

    #[test]
    fn many_runs_that_begin_alike_are_shared() {
        let mut queue = Queue::new(vec![Some('a'); WORTH_A_START + 1]);
        let all: Vec<_> = (0..3).map(|worker| queue.next(worker, no_stem).map(|(number, _)| number)).collect();
        assert_eq!(all, [Some(0), Some(1), None]);
    }

    #[test]
    fn runs_that_nothing_is_known_of_are_for_anybody() {
        let mut queue: Queue<char> = Queue::new(vec![None; 2]);
        let all: Vec<_> = (0..3).map(|worker| queue.next(worker, no_stem).map(|(number, _)| number)).collect();
        assert_eq!(all, [Some(0), Some(1), None]);
    }
}
