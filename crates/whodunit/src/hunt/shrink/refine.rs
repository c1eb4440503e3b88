//! Moves the switches that are left to where they matter.
//!
//! A thread loses the turn as early as it may, so right behind an access that must have been made by then; and it gets
//! the turn back as early as it may, right behind the access of another thread that had to come between. Each place is
//! found by trying: one step earlier, the program does not fail.

use super::Shrinker;
use crate::hunt::episodes::{self, Episode};
use crate::hunt::ground::NoRun;
use sched::{Deed, Detour, Step};

/// A switch is not moved further than over so many steps.
const FURTHEST: usize = 4096;

impl Shrinker<'_> {
    pub(super) fn refine(&mut self) -> Result<(), NoRun> {
        let mut position = 0;
        while position < self.best.detours.len() {
            let candidates = earlier(&self.best.detours, position, self.best.steps());
            self.take_furthest(&candidates)?;
            position += 1;
        }
        let mut number = 0;
        while let Some(episode) = episodes::of(self.best.steps()).get(number).copied() {
            let candidates = closed(&self.best.detours, &episode, self.best.steps());
            self.take_furthest(&candidates)?;
            number += 1;
        }
        Ok(())
    }

    /// Of candidates that are further and further away from what is known to fail, one that fails while the next does not.
    fn take_furthest(&mut self, candidates: &[Vec<Detour>]) -> Result<(), NoRun> {
        let (mut fails, mut stride) = (0, 1);
        // The first `fails` do, and the one at `passes` does not.
        let mut passes = candidates.len();
        while fails < passes {
            let tried = if passes == candidates.len() { fails + stride - 1 } else { fails + (passes - fails) / 2 };
            let tried = tried.min(passes - 1);
            match self.take_first(std::slice::from_ref(&candidates[tried]))? {
                Some(_) => (fails, stride) = (tried + 1, stride * 2),
                None => passes = tried,
            }
        }
        Ok(())
    }
}

/// The list with one of its switches earlier and earlier, as long as the thread has the turn.
fn earlier(detours: &[Detour], position: usize, steps: &[Step]) -> Vec<Vec<Detour>> {
    let detour = detours[position];
    let Some(index) = steps.iter().position(|step| step.at == detour.at) else { return Vec::new() };
    if steps[index].ordinary != detour.at.thread {
        return Vec::new();
    }
    let before = steps[..index].iter().rev().take_while(|step| step.at.thread == detour.at.thread).take(FURTHEST);
    let moved = |step: &Step| {
        let mut list = detours.to_vec();
        list[position].at = step.at;
        list
    };
    before.filter(|step| is_place(step)).map(moved).collect()
}

/// The list with a switch back to the thread that was held, earlier and earlier than where it comes anyway.
fn closed(detours: &[Detour], episode: &Episode, steps: &[Step]) -> Vec<Vec<Detour>> {
    let Some(back) = episode.back.filter(|back| steps[*back].detour().is_none()) else { return Vec::new() };
    let between = steps[episode.start + 1..back].iter().rev().take(FURTHEST);
    let added = |step: &Step| with(detours, steps, Detour { at: step.at, to: episode.held });
    between.filter(|step| is_place(step) && step.detour().is_none()).map(added).collect()
}

fn with(detours: &[Detour], steps: &[Step], new: Detour) -> Vec<Detour> {
    let place = |detour: &Detour| steps.iter().position(|step| step.at == detour.at);
    let at = detours.partition_point(|detour| place(detour) < place(&new));
    [&detours[..at], &[new], &detours[at..]].concat()
}

/// Whether a thread can lose the turn here though it could go on.
fn is_place(step: &Step) -> bool {
    matches!(step.at.deed, Deed::Access(_) | Deed::Call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::{Mark, ThreadId};

    fn mark(thread: u32, time: u64) -> Mark {
        Mark { thread: ThreadId(thread), deed: Deed::Access(u64::from(thread)), time }
    }

    /// Thread 1 makes three accesses, is followed by thread 2 for two, and goes on.
    fn steps() -> (Vec<Step>, Detour) {
        let step = |thread, time, ordinary, picked| Step {
            at: mark(thread, time),
            access: None,
            ordinary: ThreadId(ordinary),
            picked: ThreadId(picked),
        };
        let stop = Step { at: Mark { deed: Deed::Stop, ..mark(2, 1) }, ..step(2, 1, 1, 1) };
        let all = [step(1, 1, 1, 1), step(1, 2, 1, 1), step(1, 3, 1, 2), step(2, 1, 2, 2), step(2, 2, 2, 2), stop];
        (all.to_vec(), Detour { at: mark(1, 3), to: ThreadId(2) })
    }

    #[test]
    fn a_switch_moves_back_to_the_start_of_the_turn() {
        let (steps, detour) = steps();
        let places: Vec<Mark> = earlier(&[detour], 0, &steps).iter().map(|list| list[0].at).collect();
        assert_eq!(places, [mark(1, 2), mark(1, 1)]);
    }

    #[test]
    fn a_thread_gets_the_turn_back_earlier_and_earlier() {
        let (steps, detour) = steps();
        let episode = episodes::of(&steps)[0];
        let lists = closed(&[detour], &episode, &steps);
        assert!(lists.iter().all(|list| list[0] == detour && list[1].to == ThreadId(1)));
        assert_eq!(lists.iter().map(|list| list[1].at).collect::<Vec<_>>(), [mark(2, 2), mark(2, 1)]);
    }
}
