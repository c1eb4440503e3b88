//! Tries whether fewer switches do where several are left: at a place that turned out to matter, to any other thread, with
//! nothing of what came before and less of what comes then.

use super::Shrinker;
use crate::hunt::episodes;
use crate::hunt::ground::NoRun;
use sched::{Detour, Step, ThreadId};
use std::collections::BTreeSet;

/// With more threads than this, only the first ones are tried.
const MOST_THREADS: usize = 6;
/// With more switches than this, only the last ones are tried.
const MOST_SWITCHES: usize = 8;

impl Shrinker<'_> {
    pub(super) fn retarget(&mut self) -> Result<(), NoRun> {
        loop {
            let now = episodes::of(self.best.steps()).len();
            if now < 2 {
                return Ok(());
            }
            let candidates = shorter(&self.best.detours, self.best.steps());
            let is_fewer = |steps: &[Step]| episodes::of(steps).len() < now;
            if self.take_first_of(&candidates, is_fewer)?.is_none() {
                return Ok(());
            }
            self.refine()?;
        }
    }
}

/// Each place of the list where a thread could have gone on, with each thread that could get the turn there, followed by
/// less or more of what comes behind in the list.
fn shorter(detours: &[Detour], steps: &[Step]) -> Vec<Vec<Detour>> {
    let threads: BTreeSet<ThreadId> = steps.iter().map(|step| step.at.thread).collect();
    let is_forced = |at| steps.iter().any(|step| step.at == at && step.ordinary == at.thread);
    let first = detours.len().saturating_sub(MOST_SWITCHES);
    let mut lists = Vec::new();
    for (position, &Detour { at, .. }) in detours.iter().enumerate().skip(first) {
        let others = threads.iter().filter(|thread| **thread != at.thread).take(MOST_THREADS);
        for &to in others.filter(|_| is_forced(at)) {
            let rests = (position + 1..=detours.len()).rev().map(|rest| &detours[rest..]);
            lists.extend(rests.map(|rest| [&[Detour { at, to }], rest].concat()));
        }
    }
    lists.sort_by_key(Vec::len);
    lists
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::{Deed, Mark};

    #[test]
    fn short_lists_come_first() {
        let at = |thread, deed| Mark { thread: ThreadId(thread), deed, time: 1 };
        let step = |at: Mark, ordinary| Step { at, access: None, ordinary: ThreadId(ordinary), picked: ThreadId(2) };
        let (stop, call, last) = (at(1, Deed::Stop), at(3, Deed::Call), at(2, Deed::Call));
        let steps = [step(stop, 3), step(call, 3), step(last, 2)];
        let detour = |at, to| Detour { at, to: ThreadId(to) };
        let detours = [detour(stop, 2), detour(call, 2), detour(last, 1)];
        let tried = shorter(&detours, &steps);
        assert_eq!(tried[0], [detour(call, 1)]);
        assert!(tried.contains(&vec![detour(call, 2), detour(last, 1)]));
        assert!(tried.iter().all(|list| list[0].at != stop) && tried.is_sorted_by_key(Vec::len));
    }
}
