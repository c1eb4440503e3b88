//! Reduces a failing schedule to the fewest switches that it needs, by trying: a part of it stays away for good if the
//! program fails in the same way without.
//!
//! The failing run is repeated first, which tells in what its order differs from the ordinary one (`sched::Follow`). Then
//! parts of that are left out (`reduce`), and what remains is moved to where it matters (`refine`). Where that leaves several
//! switches, one of them may do if another thread gets the turn (`retarget`).

mod attempts;
mod recorded;
mod reduce;
mod refine;
mod retarget;

use super::failure::Failure;
use super::ground::{Ground, NoRun, Trial};
use super::order::Answer;
use super::progress::Shrinking;
use attempts::Attempts;
use sched::{Course, Detour, Step};

/// A schedule with nothing in it that the failure does not need, as far as there was time.
pub struct Shrunk {
    /// The number of its run.
    pub number: u64,
    pub answer: Answer,
    /// In how many choices the failing schedule differed from the ordinary order.
    pub before: usize,
    /// How many runs that took.
    pub runs: u64,
}

/// The best so far.
struct Best {
    number: u64,
    answer: Answer,
    detours: Vec<Detour>,
}

impl Best {
    fn steps(&self) -> &[Step] {
        &self.answer.choices
    }
}

/// How far to go.
#[derive(Clone, Copy)]
pub struct Effort {
    /// How many runs may be made for it.
    pub runs: u64,
    /// How many at the same time.
    pub jobs: usize,
}

/// None if the failure does not come again when the program is run as it was.
pub fn shrink(ground: &Ground, trial: Trial, failure: &Failure, effort: Effort) -> Result<Option<Shrunk>, NoRun> {
    let Some((points, switches)) = recorded::schedule(&ground.recording_of(trial.number)) else { return Ok(None) };
    ground.set_points(points.iter().copied())?;
    let mut attempts = Attempts::new(ground, trial, failure, effort);
    let again = match attempts.first(&[Course::Switches(switches)], |_| true) {
        Ok(Some((_, best))) => best,
        Ok(None) | Err(NoRun::Stopped) => return Ok(None),
        Err(other) => return Err(other),
    };
    // A run that had to be ended from outside tells nothing.
    if again.answer.choices.is_empty() {
        return Ok(None);
    }
    let before = again.detours.len();
    let mut shrinking = Shrinker { attempts, best: again, progress: Shrinking::new() };
    match shrinking.reduce().and_then(|()| shrinking.refine()).and_then(|()| shrinking.retarget()) {
        // What was reached until then counts.
        Ok(()) | Err(NoRun::Stopped) => {}
        Err(other) => return Err(other),
    }
    shrinking.progress.end();
    let Shrinker { best, attempts, .. } = shrinking;
    Ok(Some(Shrunk { number: best.number, answer: best.answer, before, runs: attempts.made() }))
}

struct Shrinker<'a> {
    attempts: Attempts<'a>,
    best: Best,
    progress: Shrinking,
}

impl Shrinker<'_> {
    /// The first of the candidates that fails in the same way becomes the best.
    fn take_first(&mut self, candidates: &[Vec<Detour>]) -> Result<Option<usize>, NoRun> {
        self.take_first_of(candidates, |_| true)
    }

    /// The same, of those whose choices are as they should be.
    fn take_first_of(
        &mut self,
        candidates: &[Vec<Detour>],
        is_wanted: impl Fn(&[Step]) -> bool,
    ) -> Result<Option<usize>, NoRun> {
        let courses: Vec<Course> = candidates.iter().map(|detours| Course::Detours(detours.clone())).collect();
        let found = self.attempts.first(&courses, is_wanted)?;
        self.progress.show(self.best.detours.len(), self.attempts.made());
        let Some((index, best)) = found else { return Ok(None) };
        let worse = std::mem::replace(&mut self.best, best);
        self.attempts.forget(&worse);
        Ok(Some(index))
    }
}
