//! Which memory translated code must not touch without asking: what holds corrupt bytes, and bytes whose writers are sought.
//!
//! There is a map for each width of accesses, with a byte for every value of the low half of an address: it is set where an access
//! that begins there reaches a granule of eight bytes that matters. Maps are large, but what was never set costs no memory.

use crate::kernel;
use std::collections::BTreeSet;

const GRANULE: u64 = 8;
/// The widest accesses that each map is for.
const WIDTHS: [u64; 3] = [1, 8, 64];
/// What an access reaches at most behind where it begins.
const REACH: u64 = 64;
const HALF: u64 = 1 << 32;
/// Each map has room for what reaches over the end of its half.
const ROOM: u64 = HALF + 2 * REACH;

pub struct Alarms {
    maps: [u64; 3],
    /// The granules that matter.
    granules: BTreeSet<u64>,
}

impl Alarms {
    /// None if there is no room for the maps in the address space.
    pub fn new() -> Option<Alarms> {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64;
        let length = WIDTHS.len() as u64 * ROOM;
        let start = kernel::call(libc::SYS_mmap as u64, [0, length, protection, flags, u64::MAX, 0]);
        let start = u64::try_from(start).ok()?;
        Some(Alarms { maps: [0, 1, 2].map(|map| start + map * ROOM + REACH), granules: BTreeSet::new() })
    }

    /// Where the maps are, the narrowest first: what the byte at the low half of an address is.
    pub fn maps(&self) -> [u64; 3] {
        self.maps
    }

    /// The granule of an address matters from now on, or no longer.
    pub fn set(&mut self, address: u64, matters: bool) {
        let granule = address / GRANULE * GRANULE;
        if matters {
            self.granules.insert(granule);
            return self.write(granule, 1);
        }
        self.granules.remove(&granule);
        self.write(granule, 0);
        // What reaches this one may reach others too.
        let near = granule.saturating_sub(2 * REACH)..=granule.saturating_add(2 * REACH);
        self.granules.range(near).for_each(|near| self.write(*near, 1));
    }

    /// Sets all entries from which the granule can be reached.
    fn write(&self, granule: u64, value: u8) {
        let low = granule % HALF;
        for (map, width) in self.maps.into_iter().zip(WIDTHS) {
            let bytes = [value; (REACH + GRANULE) as usize];
            let before = width - 1;
            for entry in [low, low + HALF].into_iter().filter(|entry| *entry < HALF + REACH) {
                // The map is the engine's own.
                let _ = kernel::write_bytes(map + entry - before, &bytes[..(before + GRANULE) as usize]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(alarms: &Alarms, map: usize, address: u64) -> bool {
        kernel::read::<u8>(alarms.maps[map] + address % HALF).unwrap() != 0
    }

    #[test]
    fn an_access_asks_if_it_reaches_a_granule_that_matters() {
        let mut alarms = Alarms::new().unwrap();
        let granule = 0x5510_0000_1008;
        alarms.set(granule + 3, true);
        for (map, width) in WIDTHS.into_iter().enumerate() {
            let first = granule + 1 - width;
            let rung = [first - 1, first, granule + 7, granule + 8].map(|address| rings(&alarms, map, address));
            assert_eq!(rung, [false, true, true, false], "accesses of {width} bytes");
        }
        alarms.set(granule + 8, true);
        alarms.set(granule, false);
        assert!(rings(&alarms, 1, granule + 1) && !rings(&alarms, 1, granule), "the next one is within reach");
        alarms.set(granule + 8, false);
        assert!(!(0..3).any(|map| rings(&alarms, map, granule + 8)));
    }

    #[test]
    fn an_access_may_reach_over_the_end_of_a_half() {
        let mut alarms = Alarms::new().unwrap();
        alarms.set(3 * HALF, true);
        assert!(rings(&alarms, 1, 3 * HALF - 7) && rings(&alarms, 2, 3 * HALF - 63) && rings(&alarms, 0, 3 * HALF));
        assert!(!rings(&alarms, 1, 3 * HALF - 8));
    }
}
