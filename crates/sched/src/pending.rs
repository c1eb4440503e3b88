//! What threads are about to do, for policies that want to be asked before every access.

use crate::{Access, SwitchPoint, ThreadId};
use std::collections::BTreeMap;

pub struct Pending {
    /// Of threads that stand at a point.
    accesses: BTreeMap<ThreadId, Access>,
    points: u64,
}

impl Pending {
    pub fn new() -> Pending {
        Pending { accesses: BTreeMap::new(), points: u64::MAX }
    }

    /// Takes in what `last` is about to do now; tells what it has done.
    pub fn advance(&mut self, point: &SwitchPoint<'_>) -> Option<Access> {
        let before = match point.access {
            Some(access) => self.accesses.insert(point.last, access),
            None => self.accesses.remove(&point.last),
        };
        before.filter(|_| point.passed.points > 0)
    }

    pub fn of(&self, thread: ThreadId) -> Option<Access> {
        self.accesses.get(&thread).copied()
    }

    pub fn all(&self) -> impl Iterator<Item = (ThreadId, Access)> {
        self.accesses.iter().map(|(&thread, &access)| (thread, access))
    }

    /// A thread was picked from so many.
    pub fn pick(&mut self, thread: ThreadId, runnable: usize) -> ThreadId {
        self.points = match self.of(thread) {
            _ if runnable == 1 => u64::MAX,
            Some(_) => 1,
            // Up to its next access, and no further.
            None => 0,
        };
        thread
    }

    /// How many points the thread just picked may pass.
    pub fn points(&self) -> u64 {
        self.points
    }
}
