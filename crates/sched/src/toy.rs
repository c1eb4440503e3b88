//! A machine to try policies on: threads that each make a number of accesses to one variable, and nothing else.

use crate::{Access, Passed, Policy, Reason, SwitchPoint, ThreadId};

pub struct Toy {
    /// Accesses that each thread has still to make.
    left: Vec<u64>,
    /// Whether each has come to the next of them.
    is_there: Vec<bool>,
}

impl Toy {
    /// A thread for each number of accesses.
    pub fn new(accesses: &[u64]) -> Toy {
        Toy { left: accesses.to_vec(), is_there: vec![false; accesses.len()] }
    }

    /// Runs to the end; tells who made each access.
    pub fn run(&mut self, policy: &mut dyn Policy) -> Vec<ThreadId> {
        let mut order = Vec::new();
        let (mut last, mut passed) = (ThreadId(1), Passed::default());
        loop {
            let can_run = |thread: &ThreadId| self.left[thread.0 as usize - 1] > 0;
            let runnable: Vec<ThreadId> = (1..=self.left.len() as u32).map(ThreadId).filter(can_run).collect();
            if runnable.is_empty() {
                return order;
            }
            let stopped = !runnable.contains(&last);
            let reason = if stopped { Reason::Stopped } else { Reason::QuantumOver };
            let is_there = self.is_there[last.0 as usize - 1] && !stopped;
            let access = is_there.then_some(Access { site: u64::from(last.0), address: 8, writes: true });
            last = policy.pick(SwitchPoint { reason, last, clock: 0, runnable: &runnable, access, passed });
            assert!(runnable.contains(&last), "{last} cannot run");
            let left = &mut self.left[last.0 as usize - 1];
            let steps = policy.points().min(policy.quantum()).min(*left);
            let was_there = std::mem::replace(&mut self.is_there[last.0 as usize - 1], true);
            assert!(steps > 0 || !was_there, "{last} was given no time");
            *left -= steps;
            passed = Passed { events: steps, points: steps };
            order.extend((0..steps).map(|_| last));
        }
    }
}

/// Two threads each load a variable, then store what they loaded and one; tells what it is in the end.
pub fn torn(policy: &mut dyn Policy) -> u32 {
    let mut loaded = [None; 2];
    let mut variable = 0;
    for thread in Toy::new(&[2, 2]).run(policy) {
        let register = &mut loaded[thread.0 as usize - 1];
        match *register {
            None => *register = Some(variable),
            Some(value) => variable = value + 1,
        }
    }
    variable
}
