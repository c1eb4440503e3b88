//! What a schedule does to threads: from a choice that is not the ordinary one to the turn's coming back.

use sched::{Step, ThreadId};
use std::collections::BTreeSet;

/// A thread that would have had the turn is held while others go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Episode {
    pub held: ThreadId,
    /// The choice that takes the turn from it.
    pub start: usize,
    /// The choice that gives it back, if that ever happens.
    pub back: Option<usize>,
}

/// In the order in which they begin. A choice that ends one is none of its own.
pub fn of(steps: &[Step]) -> Vec<Episode> {
    let mut ends = BTreeSet::new();
    let mut episodes = Vec::new();
    for (start, step) in steps.iter().enumerate() {
        if step.detour().is_none() || ends.contains(&start) {
            continue;
        }
        let held = step.ordinary;
        let back = (start + 1..steps.len()).find(|index| steps[*index].picked == held);
        ends.extend(back);
        episodes.push(Episode { held, start, back });
    }
    episodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::{Deed, Mark};

    #[test]
    fn a_switch_back_belongs_to_the_switch_before() {
        let step = |thread, ordinary, picked| Step {
            at: Mark { thread: ThreadId(thread), deed: Deed::Call, time: 1 },
            access: None,
            ordinary: ThreadId(ordinary),
            picked: ThreadId(picked),
        };
        let steps = [step(1, 1, 2), step(2, 2, 2), step(2, 2, 1), step(1, 1, 1), step(1, 1, 3)];
        let first = Episode { held: ThreadId(1), start: 0, back: Some(2) };
        assert_eq!(of(&steps), [first, Episode { held: ThreadId(1), start: 4, back: None }]);
    }
}
