//! Where memory of interest is: lines of 64 bytes, or whole pages if there are too many of these.

use crate::races::shadow::GRANULE_SIZE;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Lines are kept up to so many.
const MOST_LINES: usize = 1 << 18;
const LINE_BITS: u32 = 6;
const PAGE_BITS: u32 = 12;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Places {
    /// How many bits of an address tell where in a unit it is.
    bits: u32,
    units: BTreeSet<u64>,
}

impl Default for Places {
    fn default() -> Places {
        Places { bits: LINE_BITS, units: BTreeSet::new() }
    }
}

impl Places {
    pub fn add(&mut self, granule: u64) {
        self.units.insert(self.unit(granule * GRANULE_SIZE));
        if self.units.len() > MOST_LINES && self.bits == LINE_BITS {
            self.bits = PAGE_BITS;
            self.units = self.units.iter().map(|line| line >> (PAGE_BITS - LINE_BITS)).collect();
        }
    }

    /// The number of the unit that an address lies in.
    pub fn unit(&self, address: u64) -> u64 {
        address.checked_shr(self.bits).unwrap_or(0)
    }

    /// Where units begin, and their size.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.units.iter().map(|unit| (unit << self.bits, 1 << self.bits))
    }

    pub fn units(&self) -> impl Iterator<Item = u64> {
        self.units.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_lines_become_pages() {
        let mut places = Places::default();
        places.add(9);
        assert_eq!(places.units().collect::<Vec<_>>(), [places.unit(0x7f)]);
        (0..=MOST_LINES as u64).for_each(|line| places.add(line * 8));
        assert!(places.units().count() <= MOST_LINES);
        assert!(places.units().any(|unit| unit == places.unit(64 * MOST_LINES as u64)));
    }
}
