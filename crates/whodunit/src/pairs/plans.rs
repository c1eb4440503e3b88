//! Plans that bring the accesses of a suspect about in another order, or in just this one.

use session::rerun::{Left, Passage, Plan, Point, Step};
use std::collections::BTreeSet;

/// How many clock events a run may take after it has left the recording.
const LIMIT: u64 = 100_000_000;

/// An access: which arrival of a thread at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    pub thread: u32,
    pub pc: u64,
    pub time: u64,
}

/// Plans for the run that has these acts in this order, by which those of one thread come before all of the other's: each
/// with the thread that it holds.
///
/// The thread that came in between waits first; then whoever began.
pub fn apart(acts: &[Act]) -> Vec<(u32, Plan)> {
    let threads: BTreeSet<u32> = acts.iter().map(|act| act.thread).collect();
    let Some(first) = acts.first().filter(|_| threads.len() == 2) else { return Vec::new() };
    let (ours, theirs): (Vec<Act>, Vec<Act>) = acts.iter().partition(|act| act.thread == first.thread);
    let is_interrupted = acts.last().is_some_and(|last| last.thread == first.thread) || {
        // Both threads' acts may cross.
        let their_first = acts.iter().position(|act| act.thread != first.thread);
        let our_last = acts.iter().rposition(|act| act.thread == first.thread);
        their_first < our_last
    };
    let between = is_interrupted.then(|| hold(theirs[0], ours[ours.len() - 1]));
    let before = hold(ours[0], theirs[theirs.len() - 1]);
    let held = between.map(|step| (theirs[0].thread, step)).into_iter().chain([(first.thread, before)]);
    held.map(|(thread, step)| (thread, plan(vec![step]))).collect()
}

/// A plan that brings the acts about in just this order.
pub fn in_order(acts: &[Act]) -> Plan {
    let changes = acts.windows(2).filter(|acts| acts[0].thread != acts[1].thread);
    plan(changes.map(|acts| hold(acts[1], acts[0])).collect())
}

/// Leaves the recording at the same point and changes nothing else: whatever this does to a run, the order of the acts has
/// no part in it.
pub fn without_the_order(left: &Left) -> Plan {
    let point = Point {
        thread: Some(left.thread),
        clock: Some(left.clock),
        at: Some(left.pc.clone()),
        time: 1,
        ..Point::default()
    };
    plan(vec![Step::Follow(point)])
}

fn hold(held: Act, other: Act) -> Step {
    Step::Hold {
        thread: held.thread,
        before: format!("{:#x}", held.pc),
        time: held.time,
        until: Passage { thread: other.thread, passes: format!("{:#x}", other.pc), time: other.time },
    }
}

fn plan(steps: Vec<Step>) -> Plan {
    Plan { limit: Some(LIMIT), ..Plan::new(steps) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(thread: u32, pc: u64) -> Act {
        Act { thread, pc, time: pc }
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
        assert_eq!(plans.iter().map(|(held, plan)| (*held, holds(plan))).collect::<Vec<_>>(), [(2, vec![step(
            2, "0x1", 3, "0x2"
        )])]);
    }

    #[test]
    fn what_came_in_between_comes_behind_or_before() {
        let acts = [act(2, 1), act(3, 2), act(2, 3)];
        let plans: Vec<_> = apart(&acts).iter().map(|(_, plan)| holds(plan)).collect();
        assert_eq!(plans, [vec![step(3, "0x2", 2, "0x3")], vec![step(2, "0x1", 3, "0x2")]]);
        assert_eq!(holds(&in_order(&acts)), [step(3, "0x2", 2, "0x1"), step(2, "0x3", 3, "0x2")]);
    }

    #[test]
    fn acts_of_one_thread_or_of_three_have_no_plan() {
        assert!(apart(&[act(2, 1), act(2, 2)]).is_empty());
        assert!(apart(&[act(2, 1), act(3, 2), act(4, 3)]).is_empty());
    }
}
