//! Runs of a program along given courses, as many as are allowed, to see whether they fail in the same way.

use super::{Best, Effort};
use crate::hunt::failure::Failure;
use crate::hunt::ground::{Ground, NoRun, Run, Trial};
use crate::hunt::runner::Runner;
use sched::{Course, Step};

pub struct Attempts<'a> {
    ground: &'a Ground,
    /// The schedule that failed.
    trial: Trial,
    failure: &'a Failure,
    runners: Vec<Runner>,
    effort: Effort,
    made: u64,
    /// The number of the next run.
    next: u64,
}

impl<'a> Attempts<'a> {
    pub fn new(ground: &'a Ground, trial: Trial, failure: &'a Failure, effort: Effort) -> Attempts<'a> {
        // Far from the numbers of schedules, and of what is made for other failures.
        let next = (trial.number + 1) << 32;
        Attempts { ground, trial, failure, runners: Vec::new(), effort, made: 0, next }
    }

    /// How many runs there have been, as if they had been made one after the other.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// The first course that leads to the same failure by choices as they are wanted, and its place in the list. Stops when no more runs are allowed.
    ///
    /// Several are tried at the same time, but what comes of it does not depend on how many.
    pub fn first(
        &mut self,
        courses: &[Course],
        is_wanted: impl Fn(&[Step]) -> bool,
    ) -> Result<Option<(usize, Best)>, NoRun> {
        let mut offset = 0;
        for batch in courses.chunks(self.effort.jobs.max(1)) {
            let left = usize::try_from(self.effort.runs - self.made).unwrap_or(usize::MAX);
            if left == 0 {
                return Err(NoRun::Stopped);
            }
            let batch = &batch[..batch.len().min(left)];
            let runs = self.all(batch)?;
            let mut failed = None;
            for (index, run) in runs.into_iter().enumerate() {
                let is_same = run.failure.as_ref() == Some(self.failure) && is_wanted(&run.answer.choices);
                if is_same && failed.is_none() {
                    failed = Some((index, run));
                } else {
                    self.ground.clear(run.trial.number);
                }
            }
            self.made += failed.as_ref().map_or(batch.len(), |(index, _)| index + 1) as u64;
            if let Some((index, run)) = failed {
                return Ok(Some((offset + index, best(run, &batch[index]))));
            }
            offset += batch.len();
        }
        Ok(None)
    }

    /// What a run has left is no longer needed.
    pub fn forget(&self, best: &Best) {
        self.ground.clear(best.number);
    }

    fn all(&mut self, courses: &[Course]) -> Result<Vec<Run>, NoRun> {
        while self.runners.len() < courses.len() {
            self.runners.push(self.ground.stem(Trial { observe: false, ..self.trial })?);
        }
        let (ground, trial, first) = (self.ground, self.trial, self.next);
        self.next += courses.len() as u64;
        let run = |(runner, (number, course)): (&mut Runner, (u64, &Course))| {
            ground.follow(runner, Trial { number, observe: false, ..trial }, course)
        };
        std::thread::scope(|scope| {
            let tasks = self.runners.iter_mut().zip((first..).zip(courses));
            let running: Vec<_> = tasks.map(|task| scope.spawn(move || run(task))).collect();
            let lost = |_| Err(NoRun::Refused("a thread that waits for schedules is gone".to_owned()));
            running.into_iter().map(|running| running.join().unwrap_or_else(lost)).collect()
        })
    }
}

fn best(run: Run, course: &Course) -> Best {
    // Those that were taken, if the run could tell.
    let taken = run.answer.choices.iter().filter_map(Step::detour);
    let detours = match course {
        Course::Detours(given) if run.answer.choices.is_empty() => given.clone(),
        _ => taken.collect(),
    };
    Best { number: run.trial.number, answer: run.answer, detours }
}
