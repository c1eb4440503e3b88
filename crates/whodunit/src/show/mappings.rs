//! Which file was mapped where, as the events of a log tell it.
//!
//! May miss: mappings that `mremap` has moved.

use std::collections::BTreeMap;
use std::rc::Rc;

use trace::event::{Call, Map};
use trace::{Digest, Event};

const PAGE: u64 = 4096;
const PROT_EXEC: u64 = 4;
const MPROTECT: u32 = 10;
const MUNMAP: u32 = 11;

/// A file as it was when recorded.
pub struct RecordedFile {
    pub path: Vec<u8>,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub modified: i64,
    pub checksum: Option<Digest>,
}

#[derive(Clone)]
pub struct Region {
    pub start: u64,
    pub end: u64,
    pub executable: bool,
    /// The file's id, and the place in it that `start` shows.
    pub file: Option<(u32, u64)>,
}

/// Clones share what is known of files.
#[derive(Clone, Default)]
pub struct Mappings {
    files: BTreeMap<u32, Rc<RecordedFile>>,
    /// By start; they never overlap.
    regions: BTreeMap<u64, Region>,
}

impl Mappings {
    pub fn apply(&mut self, event: &Event<'_>) {
        match event {
            Event::File(file) => {
                let (size, modified, checksum) = (file.size, file.modified, file.checksum);
                self.files
                    .insert(file.id, Rc::new(RecordedFile { path: file.path.to_vec(), size, modified, checksum }));
            }
            Event::Map(map) => self.map(map),
            Event::Call(call) if call.result == 0 => self.change(call),
            _ => {}
        }
    }

    pub fn regions(&self) -> impl Iterator<Item = &Region> {
        self.regions.values()
    }

    pub fn region_at(&self, address: u64) -> Option<&Region> {
        let (_, region) = self.regions.range(..=address).next_back()?;
        (address < region.end).then_some(region)
    }

    pub fn file(&self, id: u32) -> Option<&Rc<RecordedFile>> {
        self.files.get(&id)
    }

    fn map(&mut self, map: &Map<'_>) {
        let (start, end) = range(map.address, map.length);
        self.clear(start, end);
        let executable = u64::from(map.protection) & PROT_EXEC != 0;
        let file = map.file.map(|part| (part.id, part.offset));
        self.insert(Region { start, end, executable, file });
    }

    fn change(&mut self, call: &Call<'_>) {
        let Some([address, length, protection, ..]) = call.arguments else { return };
        let (start, end) = range(address, length);
        match call.number {
            MUNMAP => drop(self.clear(start, end)),
            MPROTECT => {
                for region in self.clear(start, end) {
                    self.insert(Region { executable: protection & PROT_EXEC != 0, ..region });
                }
            }
            _ => {}
        }
    }

    fn insert(&mut self, region: Region) {
        if region.start < region.end {
            self.regions.insert(region.start, region);
        }
    }

    /// Takes out all between two addresses, and leaves what regions have outside of them.
    fn clear(&mut self, start: u64, end: u64) -> Vec<Region> {
        let overlapping = self.regions.range(..end).rev().take_while(|(_, region)| region.end > start);
        let starts: Vec<u64> = overlapping.map(|(start, _)| *start).collect();
        let taken: Vec<Region> = starts.iter().filter_map(|start| self.regions.remove(start)).collect();
        for region in &taken {
            self.insert(region.part(region.start, start.min(region.end)));
            self.insert(region.part(end.max(region.start), region.end));
        }
        taken.iter().map(|region| region.part(start.max(region.start), end.min(region.end))).collect()
    }
}

impl Region {
    fn part(&self, start: u64, end: u64) -> Region {
        let skipped = start.saturating_sub(self.start);
        let file = self.file.map(|(id, offset)| (id, offset.saturating_add(skipped)));
        Region { start, end, executable: self.executable, file }
    }
}

/// Whole pages, as the kernel maps them.
fn range(address: u64, length: u64) -> (u64, u64) {
    let end = address.saturating_add(length);
    (address, end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::List;
    use trace::event::FilePart;

    fn map(mappings: &mut Mappings, address: u64, length: u64, protection: u32, file: Option<FilePart>) {
        mappings.apply(&Event::Map(Map { thread: 1, address, length, protection, flags: 2, file, content: None }));
    }

    fn call(mappings: &mut Mappings, number: u32, arguments: [u64; 6], result: i64) {
        let arguments = Some(arguments);
        mappings.apply(&Event::Call(Call { thread: 1, clock: 0, number, result, arguments, effects: List::EMPTY }));
    }

    fn shown(mappings: &Mappings) -> Vec<(u64, u64, bool, Option<u64>)> {
        mappings.regions().map(|r| (r.start, r.end, r.executable, r.file.map(|(_, offset)| offset))).collect()
    }

    #[test]
    fn later_mappings_replace_earlier_ones() {
        let mut mappings = Mappings::default();
        map(&mut mappings, 0x10000, 0x5000, 1, Some(FilePart { id: 1, offset: 0x1000 }));
        map(&mut mappings, 0x12000, 0xfff, 5, None);
        let expected = [
            (0x10000, 0x12000, false, Some(0x1000)),
            (0x12000, 0x13000, true, None),
            (0x13000, 0x15000, false, Some(0x4000)),
        ];
        assert_eq!(shown(&mappings), expected);
        assert_eq!(mappings.region_at(0x12fff).map(|region| region.start), Some(0x12000));
        assert!(mappings.region_at(0x15000).is_none() && mappings.region_at(0xffff).is_none());
    }

    #[test]
    fn unmapping_and_protecting() {
        let mut mappings = Mappings::default();
        map(&mut mappings, 0x10000, 0x4000, 1, Some(FilePart { id: 1, offset: 0 }));
        call(&mut mappings, MPROTECT, [0x11000, 0x1000, 5, 0, 0, 0], 0);
        call(&mut mappings, MUNMAP, [0x12000, 0x1000, 0, 0, 0, 0], 0);
        call(&mut mappings, MUNMAP, [0x10000, 0x1000, 0, 0, 0, 0], -22);
        let expected = [
            (0x10000, 0x11000, false, Some(0)),
            (0x11000, 0x12000, true, Some(0x1000)),
            (0x13000, 0x14000, false, Some(0x3000)),
        ];
        assert_eq!(shown(&mappings), expected);
    }

    #[test]
    fn senseless_ranges_are_harmless() {
        let mut mappings = Mappings::default();
        map(&mut mappings, u64::MAX, u64::MAX, 5, Some(FilePart { id: 1, offset: u64::MAX }));
        map(&mut mappings, 0, u64::MAX, 5, Some(FilePart { id: 1, offset: u64::MAX }));
        map(&mut mappings, 0x1000, 0, 5, None);
        call(&mut mappings, MUNMAP, [u64::MAX - 1, 5, 0, 0, 0, 0], 0);
        assert!(mappings.region_at(0x1234).is_some());
    }
}
