//! The guest's address space as the engine knows it: what is mapped where, and where new mappings go.
//!
//! The engine chooses every address that the guest leaves open, so a run sees the same addresses each time, whatever
//! the kernel's randomisation does to the engine itself. The model is pure bookkeeping: `syscalls::memory` makes the
//! calls. Kernel randomisation keeps the engine's own memory in [0x5555…, 0x5656…) and above 0x7efb…, which the
//! zones below avoid. They also lie where ThreadSanitizer's runtime lets programs be: it takes the rest of the address
//! space for itself, and refuses to run if it finds anything there.

use crate::ways::Ranges;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

pub const PAGE: u64 = 4096;

/// Where things go in the guest's address space.
#[derive(Clone, Copy, Debug)]
pub struct Zones {
    /// Shared libraries and other small file mappings, within reach of the code cache.
    pub near: (u64, u64),
    pub cache: u64,
    /// Where a relocatable program goes.
    pub program: u64,
    pub heap: (u64, u64),
    pub mappings: (u64, u64),
    /// Mappings that do not fit there.
    pub overflow: (u64, u64),
    /// Mappings that must lie in the low two gigabytes.
    pub low: (u64, u64),
    pub stack_top: u64,
}

impl Zones {
    /// The most room there is for translated code.
    pub const CACHE_SIZE: u64 = 512 << 20;

    /// For programs that may be placed anywhere.
    pub const RELOCATABLE: Zones = Zones {
        near: (0x5500_0000_0000, 0x5500_4000_0000),
        cache: 0x5500_4000_0000,
        program: 0x5500_6555_4000,
        heap: (0x5510_0000_0000, 0x5550_0000_0000),
        mappings: (0x7e80_0000_0000, 0x7ea0_0000_0000),
        overflow: (0x6000_0000_0000, 0x7d00_0000_0000),
        low: (0x1000_0000, 0x7000_0000),
        stack_top: 0x7eaf_ffff_f000,
    };

    /// For programs linked at a low address: libraries and the cache come close to them.
    pub const FIXED: Zones = Zones { near: (0x1800_0000, 0x4000_0000), cache: 0x4000_0000, ..Zones::RELOCATABLE };

    /// The layout for a program that occupies `span` if it is linked at a fixed address.
    pub fn for_program(fixed_span: Option<(u64, u64)>) -> Zones {
        match fixed_span {
            Some((_, end)) if end < Zones::FIXED.near.0 => Zones::FIXED,
            // A large or high fixed program: still right, only slower, since its data is out of reach.
            _ => Zones::RELOCATABLE,
        }
    }
}

/// Access rights as the kernel's `PROT_*` bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Protection(pub u32);

impl Protection {
    pub fn writable(self) -> bool {
        self.0 & libc::PROT_WRITE as u32 != 0
    }

    pub fn executable(self) -> bool {
        self.0 & libc::PROT_EXEC as u32 != 0
    }
}

/// One mapping of the guest's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    pub end: u64,
    pub protection: Protection,
    /// What is shared with other mappings, if changes are.
    pub shared: Option<Shared>,
}

impl Mapping {
    /// Whether the guest may write there, and nobody else does.
    pub fn is_private(&self) -> bool {
        self.shared.is_none() && self.protection.writable()
    }
}

/// A part of an object that several mappings may show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shared {
    /// The object: device and inode of a file.
    pub object: (u64, u64),
    /// What address zero would show of it: addresses of two mappings with equal object and `address - origin` are one.
    pub origin: u64,
}

impl Shared {
    /// In the place of a device: an object that has no file.
    pub const ANONYMOUS: u64 = u64::MAX;
}

pub struct GuestSpace {
    pub zones: Zones,
    mappings: BTreeMap<u64, Mapping>,
    /// The engine's own ranges among the guest's zones.
    reserved: Vec<Range<u64>>,
    /// The current program break and the lowest it may be.
    pub heap_end: u64,
    /// The executable mapping looked at last; translation asks for neighbours again and again.
    last_code: Cell<(u64, u64)>,
    /// Where mappings have changed since somebody asked, if somebody has.
    changes: Option<Ranges>,
}

impl GuestSpace {
    pub fn new(zones: Zones) -> GuestSpace {
        GuestSpace {
            zones,
            mappings: BTreeMap::new(),
            reserved: Vec::new(),
            heap_end: zones.heap.0,
            last_code: Cell::new((0, 0)),
            changes: None,
        }
    }

    /// Where mappings have changed since the last call; nobody knows at the first.
    pub fn take_changes(&mut self) -> Option<Ranges> {
        self.changes.replace(Ranges::default())
    }

    /// What is shown there is no longer what it was.
    pub fn note_change(&mut self, range: Range<u64>) {
        if let Some(changes) = &mut self.changes {
            changes.insert(range);
        }
    }

    pub fn has_changed(&self, range: &Range<u64>) -> bool {
        self.changes.as_ref().is_none_or(|changes| changes.touch(range))
    }

    /// The mapped parts of the range, and whether others may show the same memory.
    pub fn within<'a>(&'a self, range: &'a Range<u64>) -> impl Iterator<Item = (Range<u64>, bool)> + 'a {
        let parts = self.overlapping(range.clone());
        parts.map(|(start, mapping)| (start.max(range.start)..mapping.end.min(range.end), mapping.shared.is_some()))
    }

    pub fn reserve(&mut self, range: Range<u64>) {
        self.reserved.push(range);
    }

    /// Whether the range touches the engine's own memory.
    pub fn is_reserved(&self, range: &Range<u64>) -> bool {
        self.reserved.iter().any(|own| own.start < range.end && range.start < own.end)
    }

    /// The mapping that contains `address`, with its start.
    pub fn find(&self, address: u64) -> Option<(u64, Mapping)> {
        let (&start, &mapping) = self.mappings.range(..=address).next_back()?;
        (address < mapping.end).then_some((start, mapping))
    }

    pub fn is_free(&self, range: &Range<u64>) -> bool {
        !self.is_reserved(range) && self.overlapping(range.clone()).next().is_none()
    }

    /// Mappings that touch the range, with their starts.
    fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Mapping)> + '_ {
        let (start, end) = (range.start, range.end);
        let first = self.mappings.range(..=start).next_back().map_or(start, |(&first, _)| first);
        self.mappings
            .range(first..end)
            .filter(move |(_, mapping)| mapping.end > start)
            .map(|(&start, &mapping)| (start, mapping))
    }

    /// Makes the borders of `range` borders of mappings.
    fn split(&mut self, at: u64) {
        if let Some((start, mapping)) = self.find(at)
            && start < at
        {
            self.mappings.insert(start, Mapping { end: at, ..mapping });
            self.mappings.insert(at, mapping);
        }
    }

    pub fn remove(&mut self, range: Range<u64>) {
        self.note_change(range.clone());
        self.last_code.set((0, 0));
        self.split(range.start);
        self.split(range.end);
        let gone: Vec<u64> = self.mappings.range(range).map(|(&start, _)| start).collect();
        for start in gone {
            self.mappings.remove(&start);
        }
    }

    pub fn insert(&mut self, range: Range<u64>, protection: Protection, shared: Option<Shared>) {
        self.remove(range.clone());
        self.mappings.insert(range.start, Mapping { end: range.end, protection, shared });
    }

    pub fn protect(&mut self, range: Range<u64>, protection: Protection) {
        self.note_change(range.clone());
        self.last_code.set((0, 0));
        self.split(range.start);
        self.split(range.end);
        for (_, mapping) in self.mappings.range_mut(range) {
            mapping.protection = protection;
        }
    }

    /// The highest free place of `length` bytes in the zone.
    pub fn find_high(&self, zone: (u64, u64), length: u64, alignment: u64) -> Option<u64> {
        let mut end = zone.1;
        loop {
            let start = end.checked_sub(length)? & !(alignment - 1);
            if start < zone.0 {
                return None;
            }
            match self.last_obstacle(start..start + length) {
                None => return Some(start),
                Some(obstacle) => end = obstacle,
            }
        }
    }

    /// Where a mapping goes for which any place is good.
    pub fn find_place(&self, length: u64, alignment: u64) -> Option<u64> {
        let Zones { mappings, overflow, .. } = self.zones;
        self.find_high(mappings, length, alignment).or_else(|| self.find_high(overflow, length, alignment))
    }

    /// The lowest free place of `length` bytes in the zone.
    pub fn find_low(&self, zone: (u64, u64), length: u64) -> Option<u64> {
        let mut start = zone.0;
        loop {
            let end = start.checked_add(length)?;
            if end > zone.1 {
                return None;
            }
            match self.first_obstacle_end(start..end) {
                None => return Some(start),
                Some(obstacle) => start = obstacle,
            }
        }
    }

    fn obstacles(&self, range: Range<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
        let own = self.reserved.iter().map(|own| (own.start, own.end));
        let (start, end) = (range.start, range.end);
        let reserved = own.filter(move |own| own.0 < end && start < own.1);
        self.overlapping(range).map(|(start, mapping)| (start, mapping.end)).chain(reserved)
    }

    fn last_obstacle(&self, range: Range<u64>) -> Option<u64> {
        self.obstacles(range).map(|(start, _)| start).min()
    }

    fn first_obstacle_end(&self, range: Range<u64>) -> Option<u64> {
        self.obstacles(range).map(|(_, end)| end).max()
    }

    /// The executable range that contains `pc`, joined with executable neighbours.
    pub fn code_around(&self, pc: u64) -> Option<(u64, u64)> {
        let (start, end) = self.last_code.get();
        if (start..end).contains(&pc) {
            return Some((start, end));
        }
        let (start, mapping) = self.find(pc)?;
        if !mapping.protection.executable() {
            return None;
        }
        let mut end = mapping.end;
        while let Some(next) = self.mappings.get(&end).filter(|next| next.protection.executable()) {
            end = next.end;
        }
        self.last_code.set((start, end));
        Some((start, end))
    }

    /// Other addresses that show the same memory as `address`.
    pub fn aliases(&self, address: u64) -> Vec<u64> {
        let Some((_, Mapping { shared: Some(shared), .. })) = self.find(address) else { return Vec::new() };
        let offset = address.wrapping_sub(shared.origin);
        let at = |(&start, mapping): (&u64, &Mapping)| {
            let theirs = mapping.shared.filter(|theirs| theirs.object == shared.object)?;
            let alias = theirs.origin.wrapping_add(offset);
            ((start..mapping.end).contains(&alias) && alias != address).then_some(alias)
        };
        self.mappings.iter().filter_map(at).collect()
    }

    /// Executable ranges that show parts of the same object.
    pub fn code_of(&self, object: (u64, u64)) -> Vec<Range<u64>> {
        let shows = |mapping: &Mapping| mapping.shared.is_some_and(|shared| shared.object == object);
        self.mappings
            .iter()
            .filter(|(_, mapping)| mapping.protection.executable() && shows(mapping))
            .map(|(&start, mapping)| start..mapping.end)
            .collect()
    }

    /// Writable ranges that show something shared; anonymous memory only if it is wanted.
    pub fn shared_ranges(&self, anonymous: bool) -> Vec<Range<u64>> {
        let is_wanted = |shared: Shared| anonymous || shared.object.0 != Shared::ANONYMOUS;
        self.mappings
            .iter()
            .filter(|(_, mapping)| mapping.protection.writable() && mapping.shared.is_some_and(is_wanted))
            .map(|(&start, mapping)| start..mapping.end)
            .collect()
    }

    /// Where the guest may write and nobody else does, neighbours joined.
    pub fn private_ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (&start, mapping) in self.mappings.iter().filter(|(_, mapping)| mapping.is_private()) {
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = mapping.end,
                _ => ranges.push(start..mapping.end),
            }
        }
        ranges
    }

    /// Mappings that show parts of the object, by where they begin.
    pub fn views_of(&self, object: (u64, u64)) -> Vec<(u64, Mapping)> {
        let shows = |mapping: &Mapping| mapping.shared.is_some_and(|shared| shared.object == object);
        self.mappings.iter().filter(|(_, mapping)| shows(mapping)).map(|(&start, &mapping)| (start, mapping)).collect()
    }

    #[cfg(test)]
    fn mappings(&self) -> impl Iterator<Item = (u64, Mapping)> + '_ {
        self.mappings.iter().map(|(&start, &mapping)| (start, mapping))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ_WRITE: Protection = Protection(3);
    const READ_EXECUTE: Protection = Protection(5);

    fn space() -> GuestSpace {
        GuestSpace::new(Zones::RELOCATABLE)
    }

    fn listing(space: &GuestSpace) -> Vec<(u64, u64, u32)> {
        space.mappings().map(|(start, mapping)| (start, mapping.end, mapping.protection.0)).collect()
    }

    #[test]
    fn a_hole_splits_a_mapping() {
        let mut space = space();
        space.insert(0x1000..0x9000, READ_WRITE, None);
        space.remove(0x3000..0x5000);
        assert_eq!(listing(&space), [(0x1000, 0x3000, 3), (0x5000, 0x9000, 3)]);
        assert!(space.find(0x3000).is_none());
        assert!(space.find(0x2fff).is_some());
    }

    #[test]
    fn protecting_the_middle_makes_three_mappings() {
        let mut space = space();
        space.insert(0x1000..0x9000, READ_WRITE, None);
        space.protect(0x3000..0x5000, READ_EXECUTE);
        assert_eq!(listing(&space), [(0x1000, 0x3000, 3), (0x3000, 0x5000, 5), (0x5000, 0x9000, 3)]);
    }

    #[test]
    fn mapping_over_replaces() {
        let mut space = space();
        space.insert(0x1000..0x4000, READ_WRITE, None);
        space.insert(0x2000..0x6000, READ_EXECUTE, None);
        assert_eq!(listing(&space), [(0x1000, 0x2000, 3), (0x2000, 0x6000, 5)]);
    }

    #[test]
    fn searches_go_round_mappings_and_reserved_ranges() {
        let mut space = space();
        space.insert(0x8000..0xa000, READ_WRITE, None);
        space.reserve(0x5000..0x6000);
        assert_eq!(space.find_high((0x1000, 0xa000), 0x2000, PAGE), Some(0x6000));
        assert_eq!(space.find_high((0x1000, 0xa000), 0x3000, PAGE), Some(0x2000));
        assert_eq!(space.find_high((0x1000, 0xa000), 0x5000, PAGE), None);
        assert_eq!(space.find_low((0x1000, 0x10000), 0x4000), Some(0x1000));
        assert_eq!(space.find_low((0x2000, 0x10000), 0x4000), Some(0xa000));
    }

    #[test]
    fn what_does_not_fit_goes_elsewhere() {
        let space = space();
        let Zones { mappings, overflow, .. } = space.zones;
        assert_eq!(space.find_place(PAGE, PAGE), Some(mappings.1 - PAGE));
        assert_eq!(space.find_place(1 << 40, PAGE), Some(overflow.1 - (1 << 40)));
        assert_eq!(space.find_place(1 << 46, PAGE), None);
    }

    #[test]
    fn private_ranges_join_neighbours() {
        let mut space = space();
        space.insert(0x1000..0x2000, READ_WRITE, None);
        space.insert(0x2000..0x3000, READ_WRITE, None);
        space.insert(0x3000..0x4000, READ_EXECUTE, None);
        let shared = Shared { object: (1, 1), origin: 0 };
        space.insert(0x4000..0x5000, READ_WRITE, Some(shared));
        space.insert(0x5000..0x6000, READ_WRITE, None);
        assert_eq!(space.private_ranges(), [0x1000..0x3000, 0x5000..0x6000]);
    }

    #[test]
    fn code_ranges_join_executable_neighbours_only() {
        let mut space = space();
        space.insert(0x1000..0x2000, READ_EXECUTE, None);
        space.insert(0x2000..0x3000, READ_EXECUTE, None);
        space.insert(0x3000..0x4000, READ_WRITE, None);
        assert_eq!(space.code_around(0x1fff), Some((0x1000, 0x3000)));
        assert_eq!(space.code_around(0x3000), None);
        space.protect(0x2000..0x3000, READ_WRITE);
        assert_eq!(space.code_around(0x1fff), Some((0x1000, 0x2000)));
    }
}
