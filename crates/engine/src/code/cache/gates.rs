//! Gates: paths that tell nothing, though they would, begin with one. While gates are open, threads go on in units that tell instead.
//!
//! Code that comes often tells the same again and again. So it tells for a few slices of the clock each time that the run has become twice as long. They follow each
//! other, since what several threads do to the same memory is mostly done within a short time. A gate that is closed costs nothing: it becomes a jump when it is opened.

use super::CodeCache;
use crate::code::assembler::Assembler;
use crate::code::path::GuestCode;
use crate::code::translate::CLOSED_GATE;

/// Gates are open for so many slices of the clock at a time.
const OPEN: u64 = 8;
/// But not in the first ones: hardly anything has told enough by then.
pub(super) const FIRST: u64 = 64;

/// Where threads come into a path that tells nothing.
struct Gate {
    /// The guest's address.
    head: u64,
    entry: u64,
    /// A translation of the path's head that tells.
    aside: u64,
}

#[derive(Default)]
pub struct Gates {
    gates: Vec<Gate>,
    /// How many slices of the clock have begun.
    slices: u64,
    are_open: bool,
}

impl Gates {
    /// Every translation has been forgotten.
    pub fn clear(&mut self) {
        self.gates.clear();
    }
}

/// Whether gates are open in a slice of the clock.
fn are_open_in(slice: u64) -> bool {
    slice >= FIRST && slice - (1 << slice.ilog2()) < OPEN
}

impl CodeCache {
    /// Another slice of the clock begins. Tells whether what is told is no longer the same.
    pub fn begin_slice(&mut self, code: &dyn GuestCode) -> bool {
        self.gates.slices += 1;
        let are_open = are_open_in(self.gates.slices);
        let is_change = std::mem::replace(&mut self.gates.are_open, are_open) != are_open;
        self.review_sequels(code, self.gates.slices, is_change.then_some(are_open));
        let is_told_change = self.review_tellings(code, is_change && are_open);
        if !is_change {
            return is_told_change;
        }
        // A path that others have taken the place of, or whose code has changed, is led away from for good.
        let entries = &self.entries;
        self.gates.gates.retain(|gate| entries.get(&gate.head) == Some(&gate.entry));
        for Gate { entry, aside, .. } in &self.gates.gates {
            let mut jump = Assembler::new(*entry);
            jump.jump(*aside);
            self.memory.write(*entry, if are_open { jump.bytes() } else { &CLOSED_GATE });
        }
        is_told_change
    }

    #[cfg(test)]
    pub fn are_gates_open(&self) -> bool {
        self.gates.are_open
    }

    /// The path at `head`, which has just been made, begins with a gate.
    pub(super) fn add_gate(&mut self, head: u64, aside: u64) {
        self.gates.gates.extend(self.entry(head).map(|entry| Gate { head, entry, aside }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_open_each_time_that_a_run_is_twice_as_long() {
        let open: Vec<u64> = (0..300).filter(|slice| are_open_in(*slice)).collect();
        let expected: Vec<u64> = [64, 128, 256].into_iter().flat_map(|first| first..first + OPEN).collect();
        assert_eq!(open, expected);
    }
}
