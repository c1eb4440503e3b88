//! Plans that bring the accesses of a suspect about in another order, or in just this one.

use crate::rerun::outcomes;
use crate::study::entrances::{Arrival, TakenLock};
use session::rerun::{Passage, Plan, PolicyName, Step};
use std::collections::BTreeSet;
use std::iter;

/// An access of a thread: its instruction, or the call of a library that makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    pub thread: u32,
    pub at: Arrival,
    /// What the thread holds then, the first taken first.
    pub locks: Vec<TakenLock>,
}

impl Act {
    /// Where the thread is to be held, so that the other one can come to its own act: before it, or before the first lock that
    /// both need.
    fn entrance(&self, other: &Act) -> Arrival {
        let is_needed = |lock: &&TakenLock| other.locks.iter().any(|theirs| theirs.object == lock.object);
        let barrier = self.locks.iter().find(is_needed).map(|lock| lock.call);
        barrier.filter(|call| call.time > 0).unwrap_or(self.at)
    }
}

/// Plans for the run that has these acts in this order, by which those of one thread come before all of the other's: each
/// with the thread that it holds.
///
/// The thread that came in between waits first; then whoever began. Where each thread has several acts, it may do to turn the last change
/// between threads round: that leaves the run to itself for longer.
pub fn apart(acts: &[Act]) -> Vec<(u32, Plan)> {
    let threads: BTreeSet<u32> = acts.iter().map(|act| act.thread).collect();
    if threads.len() > 2 {
        return one_behind_another(acts, &threads);
    }
    let Some(first) = acts.first().filter(|_| threads.len() == 2) else { return Vec::new() };
    let (ours, theirs): (Vec<&Act>, Vec<&Act>) = acts.iter().partition(|act| act.thread == first.thread);
    let is_interrupted = acts.last().is_some_and(|last| last.thread == first.thread) || {
        // Both threads' acts may cross.
        let their_first = acts.iter().position(|act| act.thread != first.thread);
        let our_last = acts.iter().rposition(|act| act.thread == first.thread);
        their_first < our_last
    };
    let between = is_interrupted.then(|| hold(theirs[0], ours[ours.len() - 1]));
    let before = hold(ours[0], theirs[theirs.len() - 1]);
    let mut held: Vec<(u32, Step)> = between.map(|step| (theirs[0].thread, step)).into_iter().collect();
    held.push((first.thread, before));
    if ours.len() > 1 && theirs.len() > 1 {
        let last = acts.windows(2).rfind(|acts| acts[0].thread != acts[1].thread);
        held.extend(last.map(|acts| (acts[0].thread, hold(&acts[0], &acts[1]))));
    }
    held.into_iter().map(|(thread, step)| (thread, plan(vec![step]))).collect()
}

/// Plans for the acts of more threads than two: in each, one thread begins when another is done.
fn one_behind_another(acts: &[Act], threads: &BTreeSet<u32>) -> Vec<(u32, Plan)> {
    let first_of = |thread: u32| acts.iter().find(|act| act.thread == thread);
    let last_of = |thread: u32| acts.iter().rfind(|act| act.thread == thread);
    let orders = threads
        .iter()
        .flat_map(|held| threads.iter().filter(move |other| *other != held).map(move |other| (*held, *other)));
    let plans = orders.filter_map(|(held, other)| Some((held, plan(vec![hold(first_of(held)?, last_of(other)?)]))));
    plans.collect()
}

/// A plan that brings the acts about in just this order.
pub fn in_order(acts: &[Act]) -> Plan {
    let changes = acts.windows(2).filter(|acts| acts[0].thread != acts[1].thread);
    plan(changes.map(|acts| hold(&acts[1], &acts[0])).collect())
}

/// How often it is looked whether a preferred thread can run, in events: a thread that was let go on must not lag behind.
const PROMPT: u64 = 10;

/// Schedules from where the recording is left by which all but the threads of the acts stand by, so that nobody else undoes what
/// these do to each other: whoever is held comes before the other ones, or behind them.
pub fn others_stand_by(held: u32, acts: &[Act]) -> [Step; 2] {
    let threads: BTreeSet<u32> = acts.iter().map(|act| act.thread).filter(|thread| *thread != held).collect();
    let before = iter::once(held).chain(threads.iter().copied()).collect();
    let behind = threads.iter().copied().chain([held]).collect();
    [before, behind].map(|first| Step::Schedule {
        policy: PolicyName::RoundRobin,
        seed: 0,
        quantum: Some(PROMPT),
        first,
    })
}

fn hold(held: &Act, other: &Act) -> Step {
    let entrance = held.entrance(other);
    let passes = format!("{:#x}", other.at.pc);
    let until = Passage { thread: other.thread, passes, clock: None, time: other.at.time };
    Step::Hold { thread: held.thread, before: format!("{:#x}", entrance.pc), clock: None, time: entrance.time, until }
}

fn plan(steps: Vec<Step>) -> Plan {
    Plan { limit: Some(outcomes::LIMIT), ..Plan::new(steps) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(thread: u32, pc: u64) -> Act {
        Act { thread, at: Arrival { pc, time: pc }, locks: Vec::new() }
    }

    /// Who is held where, until who has passed what.
    fn holds(plan: &Plan) -> Vec<(u32, String, u32, String)> {
        let of = |step: &Step| match step {
            Step::Hold { thread, before, until, .. } => {
                Some((*thread, before.clone(), until.thread, until.passes.clone()))
            }
            _ => None,
        };
        plan.steps.iter().filter_map(of).collect()
    }

    fn step(thread: u32, before: &str, other: u32, passes: &str) -> (u32, String, u32, String) {
        (thread, before.to_owned(), other, passes.to_owned())
    }

    #[test]
    fn a_pair_is_turned_round() {
        let plans = apart(&[act(2, 1), act(3, 2)]);
        assert_eq!(
            plans.iter().map(|(held, plan)| (*held, holds(plan))).collect::<Vec<_>>(),
            [(2, vec![step(2, "0x1", 3, "0x2")])]
        );
    }

    #[test]
    fn what_came_in_between_comes_behind_or_before() {
        let acts = [act(2, 1), act(3, 2), act(2, 3)];
        let plans: Vec<_> = apart(&acts).iter().map(|(_, plan)| holds(plan)).collect();
        assert_eq!(plans, [vec![step(3, "0x2", 2, "0x3")], vec![step(2, "0x1", 3, "0x2")]]);
        assert_eq!(holds(&in_order(&acts)), [step(3, "0x2", 2, "0x1"), step(2, "0x3", 3, "0x2")]);
    }

    #[test]
    fn of_two_pairs_the_last_may_be_turned_round() {
        let acts = [act(2, 1), act(3, 2), act(3, 3), act(2, 4)];
        let plans: Vec<_> = apart(&acts).iter().map(|(_, plan)| holds(plan)).collect();
        assert_eq!(
            plans,
            [vec![step(3, "0x2", 2, "0x4")], vec![step(2, "0x1", 3, "0x3")], vec![step(3, "0x3", 2, "0x4")]]
        );
    }

    #[test]
    fn a_thread_is_held_before_the_lock_that_the_other_needs() {
        let lock = |object, pc| TakenLock { object, call: Arrival { pc, time: 1 } };
        let first = Act { locks: vec![lock(7, 0xa), lock(8, 0xb)], ..act(2, 1) };
        let second = Act { locks: vec![lock(8, 0xc)], ..act(3, 2) };
        let plans = apart(&[first, second]);
        assert_eq!(holds(&plans[0].1), [step(2, "0xb", 3, "0x2")]);
    }

    #[test]
    fn threads_of_the_acts_come_before_others() {
        let schedules = others_stand_by(3, &[act(2, 1), act(3, 2), act(2, 3)]);
        let first = schedules.map(|step| match step {
            Step::Schedule { first, .. } => first,
            _ => Vec::new(),
        });
        assert_eq!(first, [[3, 2], [2, 3]]);
    }

    #[test]
    fn acts_of_one_thread_have_no_plan() {
        assert!(apart(&[act(2, 1), act(2, 2)]).is_empty());
    }

    #[test]
    fn of_three_threads_one_begins_when_another_is_done() {
        let plans = apart(&[act(2, 1), act(3, 2), act(4, 3), act(2, 4)]);
        let held: Vec<_> = plans.iter().map(|(_, plan)| holds(plan)).collect();
        assert_eq!(held.len(), 6);
        assert_eq!(held[0], [step(2, "0x1", 3, "0x2")]);
        assert_eq!(held[2], [step(3, "0x2", 2, "0x4")]);
    }
}
