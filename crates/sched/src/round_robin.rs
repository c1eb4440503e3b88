//! Each runnable thread in turn, for one quantum.

use crate::{Policy, SwitchPoint, ThreadId};

pub struct RoundRobin {
    quantum: u64,
}

impl RoundRobin {
    pub fn new(quantum: u64) -> RoundRobin {
        RoundRobin { quantum }
    }
}

impl Policy for RoundRobin {
    fn pick(&mut self, point: SwitchPoint<'_>) -> ThreadId {
        let after = point.runnable.partition_point(|&thread| thread <= point.last);
        point.runnable[after % point.runnable.len()]
    }

    fn quantum(&mut self) -> u64 {
        self.quantum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(last: u32, runnable: &[u32], expected: u32) {
        let runnable: Vec<ThreadId> = runnable.iter().map(|&id| ThreadId(id)).collect();
        let point = crate::tests::over(ThreadId(last), &runnable);
        assert_eq!(RoundRobin::new(1).pick(point), ThreadId(expected));
    }

    #[test]
    fn goes_round_in_order_and_wraps() {
        check(1, &[1, 2, 3], 2);
        check(2, &[1, 2, 3], 3);
        check(3, &[1, 2, 3], 1);
    }

    #[test]
    fn skips_threads_that_cannot_run() {
        check(1, &[1, 5], 5);
        check(5, &[2, 3], 2);
        check(4, &[4], 4);
    }
}
