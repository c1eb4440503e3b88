//! Leaves out parts of a schedule, large ones first, until each single switch is needed.
//!
//! After delta debugging (Zeller, Hildebrandt, TSE 2002). Differs: only complements are tried, since few of many switches
//! are needed mostly, and after a success the search goes on behind the part that was left out.

use super::Shrinker;
use crate::hunt::ground::NoRun;
use sched::Detour;

impl Shrinker<'_> {
    pub(super) fn reduce(&mut self) -> Result<(), NoRun> {
        // Some failures need no luck.
        if self.best.detours.is_empty() || self.take_first(&[Vec::new()])?.is_some() {
            return Ok(());
        }
        let mut size = self.best.detours.len().div_ceil(2);
        loop {
            let has_changed = self.leave_out(size)?;
            match size {
                // Without one of them, others may be needless that were not before.
                1 if !has_changed => return Ok(()),
                1 => {}
                _ => size = size.min(self.best.detours.len()).div_ceil(2),
            }
        }
    }

    /// Tries to do without each part of this size; tells whether anything went.
    fn leave_out(&mut self, size: usize) -> Result<bool, NoRun> {
        let (mut start, mut has_changed) = (0, false);
        loop {
            let candidates = without_parts(&self.best.detours, start, size);
            let Some(index) = self.take_first(&candidates)? else { return Ok(has_changed) };
            (start, has_changed) = (start + index * size, true);
        }
    }
}

/// The list without each of its parts from `start` on.
fn without_parts(detours: &[Detour], start: usize, size: usize) -> Vec<Vec<Detour>> {
    let starts = (start..detours.len()).step_by(size.max(1));
    starts.map(|at| [&detours[..at], &detours[(at + size).min(detours.len())..]].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::{Deed, Mark, ThreadId};

    #[test]
    fn each_part_is_left_out_once() {
        let detour = |time| Detour { at: Mark { thread: ThreadId(1), deed: Deed::Call, time }, to: ThreadId(2) };
        let times = |detours: &[Detour]| detours.iter().map(|detour| detour.at.time).collect::<Vec<_>>();
        let all: Vec<Detour> = (1..=5).map(detour).collect();
        let parts: Vec<Vec<u64>> = without_parts(&all, 0, 2).iter().map(|detours| times(detours)).collect();
        assert_eq!(parts, [vec![3, 4, 5], vec![1, 2, 5], vec![1, 2, 3, 4]]);
        let parts: Vec<Vec<u64>> = without_parts(&all, 4, 1).iter().map(|detours| times(detours)).collect();
        assert_eq!(parts, [[1, 2, 3, 4]]);
        assert!(without_parts(&all, 5, 1).is_empty());
    }
}
