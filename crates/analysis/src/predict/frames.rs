//! What threads share of their stacks: it ends with the frame that it lies in.

use super::runners::Frame;
use crate::races::shadow::GRANULE_SIZE;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What lies so near to a thread's innermost return address is its stack.
const STACK_REACH: u64 = 1 << 18;

/// Whether an address is on the stack of a thread in this frame.
pub fn is_on_stack(innermost: Option<&Arc<Frame>>, address: u64) -> bool {
    innermost.is_some_and(|frame| address.wrapping_sub(frame.slot().wrapping_sub(STACK_REACH)) < 2 * STACK_REACH)
}

/// Granules of stacks that several threads access.
#[derive(Default)]
pub struct Shared {
    granules: BTreeSet<u64>,
}

impl Shared {
    pub fn is_empty(&self) -> bool {
        self.granules.is_empty()
    }

    pub fn add(&mut self, address: u64) {
        self.granules.insert(address / GRANULE_SIZE);
    }

    /// The addresses that are no longer anybody's when a frame has been left.
    pub fn left_with(&mut self, frame: &Frame) -> Vec<u64> {
        let end = frame.slot() / GRANULE_SIZE;
        let left: Vec<u64> =
            self.granules.range(end.saturating_sub(STACK_REACH / GRANULE_SIZE)..=end).copied().collect();
        left.iter().for_each(|granule| {
            self.granules.remove(granule);
        });
        left.into_iter().map(|granule| granule * GRANULE_SIZE).collect()
    }
}

/// The outermost of the frames that a thread has left.
pub fn left(before: Option<Arc<Frame>>, now: Option<&Arc<Frame>>) -> Option<Arc<Frame>> {
    let now = now.map(Arc::as_ptr);
    let mut outermost = None;
    let mut next = before;
    while let Some(frame) = next.filter(|frame| Some(Arc::as_ptr(frame)) != now) {
        next = frame.parent().cloned();
        outermost = Some(frame);
    }
    outermost
}
