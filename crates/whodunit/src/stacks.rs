//! Who called whom, from observed calls and returns: the stack of every thread at any moment of a replay.
//!
//! May go wrong: after `longjmp` or an exception, frames that were left stay until the next call or return tells that they
//! are gone. What was called before a fork is not known to the child's threads.

use std::collections::BTreeMap;

/// The innermost callers are told, not more.
const MOST_CALLERS: usize = 32;

#[derive(Clone, Copy)]
struct Call {
    /// Where the return address was put, if that was seen.
    slot: u64,
    return_address: u64,
}

#[derive(Default)]
pub struct Stacks {
    threads: BTreeMap<u32, Vec<Call>>,
}

impl Stacks {
    pub fn called(&mut self, thread: u32, slot: u64, return_address: u64) {
        let calls = self.threads.entry(thread).or_default();
        // Stacks grow down: what lies at or below the new return address has been left.
        while calls.last().is_some_and(|call| call.slot <= slot) {
            calls.pop();
        }
        calls.push(Call { slot, return_address });
    }

    pub fn returned(&mut self, thread: u32, target: u64) {
        let Some(calls) = self.threads.get_mut(&thread) else { return };
        if let Some(position) = calls.iter().rposition(|call| call.return_address == target) {
            calls.truncate(position);
        }
    }

    /// Return addresses, the innermost first.
    pub fn callers(&self, thread: u32) -> Vec<u64> {
        let calls = self.threads.get(&thread).map_or(&[][..], Vec::as_slice);
        calls.iter().rev().take(MOST_CALLERS).map(|call| call.return_address).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_returns() {
        let mut stacks = Stacks::default();
        stacks.called(1, 0x1000, 0xa);
        stacks.called(1, 0x0ff0, 0xb);
        stacks.called(2, 0x9000, 0xc);
        assert_eq!(stacks.callers(1), [0xb, 0xa]);
        stacks.returned(1, 0xb);
        assert_eq!(stacks.callers(1), [0xa]);
        // A return that answers no call, as from a signal handler.
        stacks.returned(1, 0x77);
        assert_eq!(stacks.callers(1), [0xa]);
        assert_eq!(stacks.callers(2), [0xc]);
        assert_eq!(stacks.callers(3), [0_u64; 0]);
    }

    #[test]
    fn frames_that_were_jumped_out_of_are_gone_at_the_next_call() {
        let mut stacks = Stacks::default();
        stacks.called(1, 0x1000, 0xa);
        stacks.called(1, 0x0f00, 0xb);
        stacks.called(1, 0x0e00, 0xc);
        stacks.called(1, 0x0f80, 0xd);
        assert_eq!(stacks.callers(1), [0xd, 0xa]);
    }
}
