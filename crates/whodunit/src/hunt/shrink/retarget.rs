//! Tries whether one switch does where several are left: at a place that turned out to matter, to any other thread.

use super::Shrinker;
use crate::hunt::episodes;
use crate::hunt::ground::NoRun;
use sched::{Detour, Step, ThreadId};
use std::collections::BTreeSet;

/// With more threads than this, only the first ones are tried.
const MOST_THREADS: usize = 8;

impl Shrinker<'_> {
    pub(super) fn retarget(&mut self) -> Result<(), NoRun> {
        if episodes::of(self.best.steps()).len() < 2 {
            return Ok(());
        }
        let candidates = single(&self.best.detours, self.best.steps());
        match self.take_first(&candidates)? {
            Some(_) => self.refine(),
            None => Ok(()),
        }
    }
}

/// Each place of the list by itself, with each thread that could get the turn there. Places where a thread could have
/// gone on come first.
fn single(detours: &[Detour], steps: &[Step]) -> Vec<Vec<Detour>> {
    let threads: BTreeSet<ThreadId> = steps.iter().map(|step| step.at.thread).collect();
    let is_forced =
        |detour: &&Detour| steps.iter().any(|step| step.at == detour.at && step.ordinary == detour.at.thread);
    let (forced, chosen): (Vec<&Detour>, Vec<&Detour>) = detours.iter().partition(is_forced);
    let places = forced.into_iter().chain(chosen).map(|detour| detour.at);
    let targets = |at: sched::Mark| threads.iter().copied().filter(move |to| *to != at.thread).take(MOST_THREADS);
    places.flat_map(|at| targets(at).map(move |to| vec![Detour { at, to }])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::{Deed, Mark};

    #[test]
    fn every_place_with_every_other_thread() {
        let at = |thread, deed| Mark { thread: ThreadId(thread), deed, time: 1 };
        let step = |at: Mark, ordinary| Step { at, access: None, ordinary: ThreadId(ordinary), picked: ThreadId(2) };
        let (stop, call) = (at(1, Deed::Stop), at(3, Deed::Call));
        let steps = [step(stop, 3), step(call, 3), step(at(2, Deed::Call), 2)];
        let detours = [Detour { at: stop, to: ThreadId(2) }, Detour { at: call, to: ThreadId(2) }];
        let tried: Vec<(Mark, u32)> = single(&detours, &steps).iter().map(|list| (list[0].at, list[0].to.0)).collect();
        assert_eq!(tried, [(call, 1), (call, 2), (stop, 2), (stop, 3)]);
    }
}
