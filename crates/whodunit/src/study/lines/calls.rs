//! Which calls of each thread have not returned, and whose frame an address is in.
//!
//! May go wrong: after `longjmp` or an exception, calls that were left stay until the next call or return tells that they
//! are gone. Threads that change stacks by themselves confuse it.

use crate::naming::Frame;
use std::collections::BTreeMap;
use trace::stream::Thread;

/// No frame is larger.
const LARGEST_FRAME: u64 = 8 << 20;
/// The size of a return address.
const WORD: u64 = 8;

/// A call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    pub site: u64,
    pub target: u64,
    pub return_address: u64,
    /// Where the return address is.
    pub stack: u64,
}

#[derive(Default)]
pub struct Calls {
    /// The outermost first.
    threads: BTreeMap<Thread, Vec<Open>>,
}

impl Calls {
    /// Takes out the calls that are over, since another has its return address where theirs were or above; the innermost
    /// first.
    pub fn left_before(&mut self, thread: Thread, new: &Open) -> Vec<Open> {
        let calls = self.threads.entry(thread).or_default();
        let kept = calls.iter().rposition(|call| call.stack > new.stack).map_or(0, |position| position + 1);
        calls.split_off(kept).into_iter().rev().collect()
    }

    pub fn enter(&mut self, thread: Thread, new: Open) {
        self.threads.entry(thread).or_default().push(new);
    }

    /// Takes out the call that returns to an address and all inside of it, the innermost first. None if no call does.
    pub fn returned(&mut self, thread: Thread, target: u64) -> Vec<Open> {
        let Some(calls) = self.threads.get_mut(&thread) else { return Vec::new() };
        match calls.iter().rposition(|call| call.return_address == target) {
            Some(position) => calls.split_off(position).into_iter().rev().collect(),
            None => Vec::new(),
        }
    }

    /// The frame that an address may be in, accessed by an instruction of a thread: the thread's own, or one of another's
    /// that waits for what it called.
    pub fn frame(&self, thread: Thread, address: u64, pc: u64) -> Option<Frame> {
        let own = self.threads.get(&thread).and_then(|calls| frame_in(calls, address, Some(pc)));
        own.or_else(|| self.threads.values().find_map(|calls| frame_in(calls, address, None)))
    }
}

/// `pc` is where the innermost function is, if that is known.
fn frame_in(calls: &[Open], address: u64, pc: Option<u64>) -> Option<Frame> {
    let position = calls.iter().rposition(|call| call.stack > address)?;
    let call = &calls[position];
    if call.stack - address > LARGEST_FRAME {
        return None;
    }
    let inner = calls.get(position + 1);
    let frame = |pc, is_calling| Frame { address: call.stack.wrapping_add(WORD), pc, is_calling };
    match inner {
        Some(inner) => Some(frame(inner.return_address, true)),
        None => pc.map(|pc| frame(pc, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(stack: u64, return_address: u64) -> Open {
        Open { site: return_address - 5, target: 0x100, return_address, stack }
    }

    #[test]
    fn calls_are_left_by_returns_and_by_jumps() {
        let mut calls = Calls::default();
        [open(0x1000, 0xa0), open(0xf00, 0xb0), open(0xe00, 0xc0)].into_iter().for_each(|call| calls.enter(1, call));
        let stacks = |gone: Vec<Open>| gone.into_iter().map(|call| call.stack).collect::<Vec<_>>();
        assert_eq!(stacks(calls.returned(1, 0x77)), [0u64; 0]);
        assert_eq!(stacks(calls.left_before(1, &open(0xf80, 0xd0))), [0xe00, 0xf00]);
        calls.enter(1, open(0xf80, 0xd0));
        assert_eq!(stacks(calls.returned(1, 0xa0)), [0xf80, 0x1000]);
        assert_eq!(stacks(calls.returned(2, 0xa0)), [0u64; 0]);
    }

    #[test]
    fn frames_of_addresses() {
        let mut calls = Calls::default();
        [open(0x1000, 0xa0), open(0xf00, 0xb0)].into_iter().for_each(|call| calls.enter(1, call));
        let innermost = Frame { address: 0xf08, pc: 0x5, is_calling: false };
        let outer = Frame { address: 0x1008, pc: 0xb0, is_calling: true };
        assert_eq!(calls.frame(1, 0xef0, 0x5), Some(innermost));
        assert_eq!(calls.frame(1, 0xff0, 0x5), Some(outer));
        assert_eq!(calls.frame(2, 0xff0, 0x5), Some(outer));
        assert_eq!(calls.frame(2, 0xef0, 0x5), None);
        assert_eq!(calls.frame(1, 0x1000, 0x5), None);
    }
}
