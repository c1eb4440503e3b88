//! Some threads whenever they can run, the first of them first; the others by another policy.

use crate::{Policy, SwitchPoint, ThreadId};

pub struct Preferring {
    first: Vec<ThreadId>,
    others: Box<dyn Policy>,
}

impl Preferring {
    pub fn new(first: Vec<ThreadId>, others: Box<dyn Policy>) -> Preferring {
        Preferring { first, others }
    }
}

impl Policy for Preferring {
    fn pick(&mut self, point: SwitchPoint<'_>) -> ThreadId {
        let preferred = self.first.iter().copied().find(|thread| point.runnable.contains(thread));
        preferred.unwrap_or_else(|| self.others.pick(point))
    }

    fn quantum(&mut self) -> u64 {
        self.others.quantum()
    }

    fn points(&mut self) -> u64 {
        self.others.points()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RoundRobin;

    fn check(last: u32, runnable: &[u32], expected: u32) {
        let mut policy = Preferring::new([4, 2].map(ThreadId).to_vec(), Box::new(RoundRobin::new(1)));
        let runnable: Vec<ThreadId> = runnable.iter().map(|&id| ThreadId(id)).collect();
        assert_eq!(policy.pick(crate::tests::over(ThreadId(last), &runnable)), ThreadId(expected));
    }

    #[test]
    fn others_run_where_nobody_that_is_preferred_can() {
        check(4, &[1, 2, 3, 4], 4);
        check(4, &[1, 2, 3], 2);
        check(2, &[1, 3], 3);
        check(3, &[1, 3], 1);
    }
}
