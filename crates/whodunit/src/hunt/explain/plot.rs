//! Which steps of a shrunk schedule tell why it fails: what threads had done when they lost the turn, what others did
//! meanwhile, and what that did to them.

use crate::hunt::episodes::{self, Episode};
use sched::{Access, Mark, Step, ThreadId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// An access that a thread has made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Made {
    pub at: Mark,
    pub access: Access,
}

/// A thread that is held, by places in `Plot::made`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    pub held: ThreadId,
    /// What it did last before.
    pub after: Option<usize>,
    /// What another thread did last before it went on.
    pub until: Option<usize>,
    /// Who got the turn.
    pub by: ThreadId,
    /// Whether it was taken off its work, and not just passed over when somebody else stopped.
    pub is_preempted: bool,
}

#[derive(Debug, Default)]
pub struct Plot {
    /// All accesses at points, in the order in which they were made.
    pub made: Vec<Made>,
    pub holds: Vec<Hold>,
    /// Those worth telling, and whether the failure would not have come without them.
    pub told: BTreeMap<usize, bool>,
}

/// What a thread does long before or after being held is not looked at.
const REACH: usize = 200;

/// How much an access tells people.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Interest {
    /// A library minds its own business.
    None,
    /// A library acts for the program, such as at a lock.
    Some,
    /// The program itself.
    Most,
}

impl Plot {
    pub fn new(steps: &[Step], interest: impl Fn(Access) -> Interest) -> Plot {
        let (made, counts) = made(steps);
        let mut plot = Plot { made, ..Plot::default() };
        let interests: Vec<Interest> = plot.made.iter().map(|made| interest(made.access)).collect();
        for episode in episodes::of(steps) {
            plot.tell(&episode, &steps[episode.start], &counts, &interests);
        }
        // Where it all ended.
        if let Some(last) = interests.iter().rposition(|interest| *interest > Interest::None) {
            plot.told.entry(last).or_insert(false);
        }
        plot
    }

    fn tell(&mut self, episode: &Episode, start: &Step, counts: &[usize], interests: &[Interest]) {
        let held = episode.held;
        let (from, to) = (counts[episode.start], episode.back.map_or(self.made.len(), |back| counts[back]));
        let Plot { made, holds, told } = self;
        let is_held = |index: &usize| made[*index].at.thread == held;
        let after = (0..from).rev().find(is_held);
        let until = (from..to).rev().find(|index| !is_held(index));
        let is_preempted = start.at.thread == held;
        holds.push(Hold { held, after, until, by: start.picked, is_preempted });
        let mut guilty: BTreeSet<usize> = after.filter(|_| is_preempted).into_iter().chain(until).collect();
        let before: Vec<usize> = (0..from).rev().filter(is_held).take(REACH).collect();
        let behind: Vec<usize> = (from..made.len()).filter(is_held).take(REACH).collect();
        for own in [before, behind] {
            let interest = |meeting: &[usize; 2]| meeting.map(|index| interests[index]).into_iter().min();
            let meetings = own.iter().filter_map(|&own| meeting(made, own, from));
            let telling = meetings.filter(|meeting| interest(meeting) > Some(Interest::None));
            // Of those that tell most, the one that is closest to where the turn was lost.
            guilty.extend(telling.min_by_key(|meeting| Reverse(interest(meeting))).into_iter().flatten());
        }
        told.extend(guilty.into_iter().map(|index| (index, true)));
    }
}

/// One of a held thread's accesses, and an access of another thread that conflicts with it and was made after the turn
/// was lost: the next one behind what came before, else the last one before it.
fn meeting(made: &[Made], own: usize, from: usize) -> Option<[usize; 2]> {
    let Made { at, access } = made[own];
    let conflicts = |other: &usize| {
        let other = made[*other];
        other.at.thread != at.thread && other.access.conflicts(access)
    };
    let other = match own < from {
        true => (from..made.len()).find(conflicts),
        false => (from..own).rev().find(conflicts),
    };
    Some([own, other?])
}

/// All accesses in the order in which they were made, and how many there were before each choice. A thread that stands
/// before an access makes it when it has the turn again.
fn made(steps: &[Step]) -> (Vec<Made>, Vec<usize>) {
    let mut ahead: BTreeMap<ThreadId, Made> = BTreeMap::new();
    let (mut made, mut counts) = (Vec::new(), Vec::new());
    for step in steps {
        counts.push(made.len());
        match step.access {
            Some(access) => ahead.insert(step.at.thread, Made { at: step.at, access }),
            None => ahead.remove(&step.at.thread),
        };
        made.extend(ahead.remove(&step.picked));
    }
    (made, counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::Deed;

    fn step(thread: u32, time: u64, access: (u64, bool), picked: u32) -> Step {
        let (address, writes) = access;
        let deed = Deed::Access(address);
        let at = Mark { thread: ThreadId(thread), deed, time };
        let access = Some(Access { site: address, address, writes });
        Step { at, access, ordinary: ThreadId(thread), picked: ThreadId(picked) }
    }

    /// Thread 1 tests a pointer and is held before it uses it, while thread 2 clears it, between other things.
    #[test]
    fn test_clear_use() {
        let stop = Step {
            at: Mark { thread: ThreadId(2), deed: Deed::Stop, time: 1 },
            access: None,
            ordinary: ThreadId(1),
            picked: ThreadId(1),
        };
        let steps = [
            step(1, 1, (5, true), 1),
            step(1, 1, (8, false), 1),
            step(1, 2, (8, false), 2),
            step(2, 1, (7, true), 2),
            step(2, 1, (8, true), 2),
            stop,
        ];
        let plot = Plot::new(&steps, |_| Interest::Most);
        let order: Vec<(u32, u64)> = plot.made.iter().map(|made| (made.at.thread.0, made.access.address)).collect();
        assert_eq!(order, [(1, 5), (1, 8), (2, 7), (2, 8), (1, 8)]);
        let hold = Hold { held: ThreadId(1), after: Some(1), until: Some(3), by: ThreadId(2), is_preempted: true };
        assert_eq!(plot.holds, [hold]);
        assert_eq!(plot.told, BTreeMap::from([(1, true), (3, true), (4, true)]));
    }

    #[test]
    fn nothing_is_told_of_nothing() {
        let plot = Plot::new(&[], |_| Interest::Most);
        assert!(plot.made.is_empty() && plot.holds.is_empty() && plot.told.is_empty());
    }
}
