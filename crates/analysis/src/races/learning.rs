//! What a detector that knows no synchronisation memory beforehand finds out as it goes, and whether that was in time.
//!
//! It was if all would have been the same with the knowledge from the start: if no thread had written to the bytes as to
//! plain memory, nor read them where that was written down in a history that granules share. Reading acquires nothing
//! as long as nobody has written.

use super::shadow::{Shadow, page_of};
use rustc_hash::FxHashSet;
use std::ops::Range;

#[derive(Default)]
pub struct Learning {
    /// Pages of which histories have been wiped out.
    wiped: FxHashSet<u64>,
    is_late: bool,
}

impl Learning {
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// The histories of a range are about to be wiped out.
    pub fn wipe(&mut self, shadow: &Shadow, range: Range<u64>) {
        let parts = shadow.known_parts(range.start, range.end.saturating_sub(range.start));
        self.wiped.extend(parts.iter().map(|part| page_of(part.start)));
    }

    /// These bytes are about to become synchronisation: outside of blocks, they should have been so from the beginning.
    pub fn learn(&mut self, shadow: &Shadow, granule: u64, new: u8, is_in_block: bool) {
        let is_wiped = || self.wiped.contains(&page_of(granule * super::shadow::GRANULE_SIZE));
        self.is_late |= shadow.was_plain(granule, new) || (!is_in_block && is_wiped());
    }
}
