//! Which pages of the guest a process may have written since it was last copied, and which instructions it may have run.
//!
//! A copy shares all private pages with its original, and a page that belongs to one process alone again was written by
//! it, or is new: the kernel tells that of every page in `/proc/self/pagemap`, without privileges. Code runs only if it
//! has been translated. Whatever is in doubt counts as written or run: memory that mappings show together, pages in swap,
//! mappings that have changed, all memory if the file cannot be read, and all code if translations were dropped.
//!
//! May miss: pages that the kernel has merged with equal ones, for a guest that asked for it.

use crate::code::cache::CodeCache;
use crate::debug::Place;
use crate::engine::Engine;
use crate::space::{GuestSpace, PAGE};
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// So much memory is looked at page by page when a process is copied; more would take too long.
const MOST_BYTES: u64 = 16 << 30;
/// Bits of the kernel's word for a page: in memory, in swap, of this process alone.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const EXCLUSIVE: u64 = 1 << 56;
const WORD: usize = 8;

/// Sorted ranges that do not touch each other.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        while let Some((&first, &last)) = self.0.range(..=end).next_back().filter(|&(_, &last)| last >= start) {
            self.0.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.0.insert(start, end);
    }

    pub fn touch(&self, range: &Range<u64>) -> bool {
        self.0.range(..range.end).next_back().is_some_and(|(_, &end)| end > range.start)
    }
}

/// What was written and run on the way of a process and of those that it is a copy of.
#[derive(Default)]
pub struct Ways {
    /// Each ends where a copy was made; the next one begins there.
    past: Vec<Way>,
    /// The guest has run since then.
    has_run: bool,
    /// What is translated ran on the last way, not on the next.
    is_stale: bool,
}

struct Way {
    end: Place,
    written: Ranges,
    /// Instructions among which are all that have run, in order; none if nobody knows.
    run: Option<Box<[u64]>>,
}

impl Ways {
    /// The guest is about to run. To know what runs on a way, its code is translated anew; copies do without, since
    /// most of them go a way that is known already.
    pub fn runs(&mut self, engine: &Engine) {
        self.has_run = true;
        if std::mem::take(&mut self.is_stale) {
            let mut world = engine.world();
            world.cache.flush();
            world.cache.begin_to_remember();
        }
    }

    /// To be called in a copy.
    pub fn is_copy(&mut self) {
        self.is_stale = false;
    }

    /// To be called right before a copy is made. A process that stands still writes nothing, though pages become its own
    /// when others that shared them write or end.
    pub fn end(&mut self, place: Place, world: &mut World) {
        let changed = world.space.take_changes();
        if !std::mem::take(&mut self.has_run) {
            return;
        }
        // Changes of mappings are noted from the first copy on, and nothing runs before.
        let mut written = changed.unwrap_or_default();
        add_written(&mut written, &world.space);
        let run = world.cache.remembered().map(|run| in_order(run.collect()));
        world.cache.begin_to_remember();
        self.is_stale = true;
        self.past.push(Way { end: place, written, run });
    }

    /// The ways behind the place of these events, clock and pc.
    fn behind(&self, since: (u64, u64, u64)) -> &[Way] {
        let coarse = (since.0, since.1);
        let first = match self.past.iter().position(|way| (way.end.event, way.end.clock, way.end.pc) == since) {
            Some(before) => before + 1,
            // Nothing was copied there; the way that leads past the place may be meant.
            None => self.past.partition_point(|way| (way.end.event, way.end.clock) < coarse),
        };
        &self.past[first..]
    }

    pub fn may_have_written(&self, range: &Range<u64>, since: (u64, u64, u64), space: &GuestSpace) -> bool {
        self.behind(since).iter().any(|way| way.written.touch(range))
            || self.has_run && may_be_written_now(range, space)
    }

    pub fn may_have_run(&self, breakpoints: &BTreeSet<u64>, since: (u64, u64, u64), cache: &CodeCache) -> bool {
        let meets = |run: &[u64]| breakpoints.iter().any(|pc| run.binary_search(pc).is_ok());
        self.behind(since).iter().any(|way| way.run.as_deref().is_none_or(meets))
            || self.has_run && cache.remembered().is_none_or(|mut run| run.any(|pc| breakpoints.contains(&pc)))
    }
}

fn in_order(mut addresses: Vec<u64>) -> Box<[u64]> {
    addresses.sort_unstable();
    addresses.dedup();
    addresses.into()
}

/// Whether the range may have been written since the last copy.
fn may_be_written_now(range: &Range<u64>, space: &GuestSpace) -> bool {
    let pages = range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE);
    let Ok(table) = PageTable::open() else { return true };
    let mut written = Ranges::default();
    let is_read = space.within(&pages).all(|(part, is_shared)| !is_shared && table.read(&part, &mut written).is_ok());
    !is_read || written.touch(range) || space.has_changed(range)
}

fn add_written(written: &mut Ranges, space: &GuestSpace) {
    let table = PageTable::open();
    let mut left = MOST_BYTES;
    for (range, is_shared) in space.within(&(0..u64::MAX)) {
        let length = range.end - range.start;
        let is_read =
            length <= left && !is_shared && table.as_ref().is_ok_and(|table| table.read(&range, written).is_ok());
        if is_read {
            left -= length;
        } else {
            written.insert(range);
        }
    }
}

/// The kernel's table of the pages of this process.
struct PageTable(File);

impl PageTable {
    /// A copy of a process has another one than its original.
    fn open() -> io::Result<PageTable> {
        File::open("/proc/self/pagemap").map(PageTable)
    }

    /// Adds those pages of the range that were written.
    fn read(&self, range: &Range<u64>, written: &mut Ranges) -> io::Result<()> {
        const AT_ONCE: u64 = 8192;
        let mut buffer = vec![0; AT_ONCE as usize * WORD];
        let last = range.end.div_ceil(PAGE);
        let mut page = range.start / PAGE;
        while page < last {
            let count = (last - page).min(AT_ONCE);
            let words = &mut buffer[..count as usize * WORD];
            self.0.read_exact_at(words, page * WORD as u64)?;
            let found = (page..).zip(words.chunks_exact(WORD)).filter(|(_, word)| is_written(word));
            for (page, _) in found {
                written.insert(page * PAGE..(page + 1) * PAGE);
            }
            page += count;
        }
        Ok(())
    }
}

fn is_written(word: &[u8]) -> bool {
    let word = word.try_into().map_or(u64::MAX, u64::from_le_bytes);
    word & SWAPPED != 0 || word & PRESENT != 0 && word & EXCLUSIVE != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{Protection, Zones};

    #[test]
    fn ranges_that_meet_become_one() {
        let mut ranges = Ranges::default();
        for range in [10..20, 40..50, 20..30, 5..6, 28..41, 60..60] {
            ranges.insert(range);
        }
        assert_eq!(ranges.0, BTreeMap::from([(5, 6), (10, 50)]));
        ranges.insert(0..100);
        assert_eq!(ranges.0, BTreeMap::from([(0, 100)]));
    }

    #[test]
    fn ranges_touch_what_they_hold_a_part_of() {
        let mut ranges = Ranges::default();
        ranges.insert(10..20);
        ranges.insert(30..40);
        assert!([0..11, 19..21, 12..13, 0..100, 20..31].iter().all(|range| ranges.touch(range)));
        assert!([0..10, 20..30, 40..50].iter().all(|range| !ranges.touch(range)));
    }

    #[test]
    fn pages_are_written_if_they_belong_to_one_process_or_may() {
        let word = |bits: u64| is_written(&bits.to_le_bytes());
        assert!(word(PRESENT | EXCLUSIVE | 5) && word(SWAPPED));
        assert!(!word(0) && !word(PRESENT | 5) && !word(EXCLUSIVE));
    }

    fn place(event: u64, clock: u64, pc: u64) -> Place {
        Place { event, clock, thread: 1, pc }
    }

    #[test]
    fn only_ways_behind_a_place_count() {
        let mut first = Ranges::default();
        first.insert(0x1000..0x2000);
        let mut second = Ranges::default();
        second.insert(0x5000..0x6000);
        let way = |end, written| Way { end, written, run: None };
        let past = vec![way(place(3, 10, 7), first), way(place(3, 20, 7), second)];
        let ways = Ways { past, ..Ways::default() };
        let space = GuestSpace::new(Zones::RELOCATABLE);
        let since = |since, address: u64| ways.may_have_written(&(address..address + 8), since, &space);
        assert!(since((0, 0, 0), 0x1ff8) && since((0, 0, 0), 0x5000) && !since((0, 0, 0), 0x3000));
        assert!(!since((3, 10, 7), 0x1000) && since((3, 10, 7), 0x5000));
        // Nothing ends at this place itself, so it may lie before the one with the same clock.
        assert!(since((3, 10, 8), 0x1000) && !since((3, 11, 0), 0x1000));
        assert!(!since((3, 20, 7), 0x5000));
    }

    #[test]
    fn changed_mappings_and_pages_of_this_process_alone_count_as_written() {
        let memory = vec![1u8; 3 * PAGE as usize];
        let start = (memory.as_ptr() as u64).next_multiple_of(PAGE);
        let (first, second) = (start..start + 8, start + PAGE..start + PAGE + 8);
        let mut space = GuestSpace::new(Zones::RELOCATABLE);
        assert!(may_be_written_now(&first, &space), "nobody has asked for changes yet");
        space.take_changes();
        assert!(!may_be_written_now(&first, &space));
        space.insert(start..start + PAGE, Protection(3), None);
        assert!(space.has_changed(&first) && !space.has_changed(&second));
        space.take_changes();
        // No other process has the page.
        assert!(may_be_written_now(&first, &space) && !may_be_written_now(&second, &space));
        let mut written = Ranges::default();
        add_written(&mut written, &space);
        assert!(written.touch(&first) && !written.touch(&second));
    }
}
