//! Which memory translated code must not touch without asking: what holds corrupt bytes, and bytes whose writers are sought.
//!
//! Memory is cut into granules of eight bytes. An access looks up the granule that it begins in, in the map for its width:
//! a granule also rings for those before it, from which an access can reach it. Several granules share an entry;
//! whoever asks in vain loses only time.

use std::sync::atomic::{AtomicU8, Ordering};

const ENTRIES: usize = 1 << 16;
const GRANULE: u64 = 8;
/// How many granules before one an access to it may begin in, for accesses of one byte, of up to eight, and of any.
const REACHES: [u64; 3] = [0, 1, 8];

/// For each width, how many granules an entry rings for, and what translated code reads.
pub struct Alarms {
    counts: Vec<u32>,
    rings: &'static [AtomicU8],
}

impl Alarms {
    pub fn new() -> Alarms {
        let rings: Vec<AtomicU8> = (0..REACHES.len() * ENTRIES).map(|_| AtomicU8::new(0)).collect();
        // Translated code may read them as long as the process lives.
        Alarms { counts: vec![0; REACHES.len() * ENTRIES], rings: rings.leak() }
    }

    /// Where the maps are, the narrowest first. The entry of an address is that of its granule, by the low 16 bits.
    pub fn maps(&self) -> [u64; 3] {
        [0, 1, 2].map(|width| self.rings[width * ENTRIES..].as_ptr() as u64)
    }

    /// The granule of an address rings from now on, or no longer.
    pub fn set(&mut self, address: u64, rings: bool) {
        let granule = address / GRANULE;
        for (width, reach) in REACHES.into_iter().enumerate() {
            for before in 0..=reach {
                let entry = width * ENTRIES + granule.wrapping_sub(before) as usize % ENTRIES;
                let count = &mut self.counts[entry];
                *count = if rings { *count + 1 } else { count.saturating_sub(1) };
                self.rings[entry].store(u8::from(*count > 0), Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(alarms: &Alarms, width: usize, address: u64) -> bool {
        alarms.rings[width * ENTRIES + (address / GRANULE) as usize % ENTRIES].load(Ordering::Relaxed) != 0
    }

    #[test]
    fn an_access_asks_if_it_can_reach_the_granule() {
        let mut alarms = Alarms::new();
        alarms.set(0x1_0008, true);
        let addresses = [0x1_0010, 0x1_0008, 0x1_0000, 0xfff8, 0xffc8, 0xffc0];
        let expected = [[0, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 0]];
        for (width, expected) in expected.into_iter().enumerate() {
            let rung = addresses.map(|address| u8::from(rings(&alarms, width, address)));
            assert_eq!(rung, expected, "width {width}");
        }
        alarms.set(0x1_0010, true);
        alarms.set(0x1_0008, false);
        assert!(rings(&alarms, 1, 0x1_0008) && !rings(&alarms, 0, 0x1_0008), "the next one is within reach");
        alarms.set(0x1_0010, false);
        assert!(alarms.rings.iter().all(|ring| ring.load(Ordering::Relaxed) == 0));
    }
}
