//! The listener that looks for the ingredients of all four kinds of errors in one pass.

use super::deeds::{Happening, Place, excludes_any};
use super::found::{Block, Collected, Kind, Predicted, Suspicion};
use super::locations::{Location, Locations, Touch};
use super::order::{LastWrite, Order};
use super::runners::Runners;
use super::uses::{Uses, is_pointer};
use crate::races::Surveyed;
use crate::races::blocks::Blocks;
use crate::races::cell::Slot;
use crate::races::sites::{Classify, SiteClass, Sites};
use std::ops::Range;
use trace::stream::{Access, Event, Listener, Site, Thread, Values};

/// Where libraries are whose instructions nobody wants to hold a thread at.
pub type Libraries = Vec<Range<u64>>;

/// The longest access whose parts are looked at one by one.
const LONGEST_ACCESS: u64 = 256;
const POINTER_SIZE: u64 = 8;
/// What lies so near to a thread's innermost return address is its stack.
const STACK_REACH: u64 = 1 << 18;

/// Predicts memory errors from a stream with values.
pub struct Detector {
    sites: Sites,
    libraries: Libraries,
    order: Order,
    runners: Runners,
    locations: Locations,
    blocks: Blocks,
    /// All blocks that were ever made, in order.
    made: Vec<Block>,
    uses: Uses,
    collected: Collected,
    sections: u64,
}

/// A piece of an access, of the size of a pointer at most.
struct Part {
    address: u64,
    size: u64,
    /// What was there before, as far as it is known.
    before: Option<u64>,
    /// What is there after.
    after: Option<u64>,
    reads: bool,
    writes: bool,
}

impl Detector {
    /// With what a [`Survey`](crate::races::Survey) of the same stream has found.
    pub fn new(surveyed: Surveyed, classify: Classify, libraries: Libraries) -> Detector {
        Detector {
            sites: Sites::new(classify),
            libraries,
            order: Order::new(surveyed),
            runners: Runners::default(),
            locations: Locations::default(),
            blocks: Blocks::default(),
            made: Vec::new(),
            uses: Uses::default(),
            collected: Collected::default(),
            sections: 0,
        }
    }

    pub fn into_predicted(self) -> Predicted {
        Predicted {
            unwatched_memory: self.locations.unwatched,
            unwatched_threads: self.order.unwatched(),
            ..self.collected.into_predicted(&self.uses)
        }
    }

    fn is_in_library(&self, pc: u64) -> bool {
        self.libraries.iter().any(|library| library.contains(&pc))
    }

    fn access(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        let Some(slot) = self.order.slot(thread) else { return };
        let tick = self.order.advance(slot);
        let time = self.runners.of(thread).count(access);
        let (pc, _) = self.sites.place(access.site.0);
        let is_own = !self.is_in_library(pc);
        if is_own {
            self.runners.of(thread).passed(Place { pc, time });
        }
        if self.order.is_alone() {
            if !self.locations.is_empty() {
                self.locations.forget_all();
            }
            return;
        }
        self.uses.accessed(thread, pc, access.address);
        match self.sites.class(access.site) {
            SiteClass::Ignored => return,
            _ if self.is_on_own_stack(thread, access.address) => return,
            SiteClass::Atomic => return self.synchronise(slot, access, is_own),
            SiteClass::Plain if self.order.is_synchronisation(&self.blocks, access.address) => {
                return self.synchronise(slot, access, is_own);
            }
            SiteClass::Plain => {}
        }
        let runner = self.runners.of(thread);
        let own_place = Place { pc, time };
        let place = if is_own { own_place } else { runner.own_call().unwrap_or(own_place) };
        let happening = Happening {
            thread,
            slot,
            tick,
            pc,
            place,
            before: runner.before(place),
            locks: runner.locks.clone(),
            earlier_locks: None,
            frame: runner.frame.clone(),
            value: None,
        };
        for part in parts(access, values) {
            self.part(&part, &happening);
        }
    }

    /// The library's own synchronisation is told by events, and its locks order nothing.
    fn synchronise(&mut self, slot: Slot, access: &Access, is_own: bool) {
        if is_own {
            self.order.synchronise(slot, access);
        }
    }

    fn is_on_own_stack(&mut self, thread: Thread, address: u64) -> bool {
        let innermost = self.runners.of(thread).frame.as_ref().map(|frame| frame.slot());
        innermost.is_some_and(|slot| address.wrapping_sub(slot.wrapping_sub(STACK_REACH)) < 2 * STACK_REACH)
    }

    fn part(&mut self, part: &Part, happening: &Happening) {
        let was_set = part.before != Some(0);
        let Some(location) = self.locations.at(part.address, was_set) else { return };
        let earlier_locks = location.earlier_locks(happening.thread);
        let at = Happening { earlier_locks, ..happening.clone() };
        let (blocks, made) = (&self.blocks, self.made.as_slice());
        let mut scene = Scene { order: &mut self.order, collected: &mut self.collected, blocks, made };
        if part.reads {
            if let Some(value) = part.before {
                let is_shared = location.others(at.thread).next().is_some();
                self.uses.read(at.thread, at.pc, value, is_shared);
            }
            let read = Happening { value: part.before, ..at.clone() };
            scene.read(location, part, &read);
            location.note(read, false);
        }
        if part.writes {
            let written = Happening { value: part.after, ..at };
            scene.write(location, part, &written);
            location.note(written, true);
        }
    }

    fn freed(&mut self, thread: Thread, slot: Slot, address: u64, site: u64) {
        let tick = self.order.advance(slot);
        let Some(block) = self.blocks.free(address) else { return };
        let runner = self.runners.of(thread);
        let place = runner.freeing_call(site);
        let free = Happening {
            thread,
            slot,
            tick,
            pc: place.pc,
            place,
            before: runner.before(place),
            locks: runner.locks.clone(),
            earlier_locks: None,
            frame: runner.frame.clone(),
            value: None,
        };
        for location in self.locations.take(address, block.size) {
            self.collected.forget(location.address);
            for touch in location.others(thread).filter(|touch| !self.order.is_before(&touch.last, slot)) {
                let (early, late) = (&free, &touch.last);
                let kind = Kind::Dangling;
                let (size, block) = (block.size, made_as(&self.made, block.number));
                self.collected.add(&Suspicion { kind, address, size, block, early, late, renewal: None });
            }
        }
    }

    fn mapped(&mut self, address: u64, size: u64) {
        self.locations.take(address, size);
        self.blocks.forget_in(address..address.saturating_add(size));
    }
}

/// What a piece of memory's history is judged by.
struct Scene<'a> {
    order: &'a mut Order,
    collected: &'a mut Collected,
    blocks: &'a Blocks,
    made: &'a [Block],
}

impl Scene<'_> {
    fn read(&mut self, location: &Location, part: &Part, read: &Happening) {
        let is_something = part.before.is_some_and(|value| value != 0);
        if is_something {
            self.uninitialised(location, part, read);
            self.renewed_null(location, part, read);
        }
        // Numbers under a lock are read for many reasons; a pointer is read for what it points to.
        let is_pointer = part.before.is_some_and(is_pointer);
        if let Some(write) = location.last_write.as_ref().filter(|write| is_pointer && write.thread != read.thread) {
            self.order.depend(read.slot, &read.locks, write);
        }
    }

    /// Only another thread has initialised what is read, and nothing makes the reader wait for that.
    fn uninitialised(&mut self, location: &Location, part: &Part, read: &Happening) {
        let Some(first) = location.first.as_ref().filter(|first| first.thread != read.thread) else { return };
        let has_written = location.own(read.thread).is_some_and(|own| own.has_written);
        let is_seen = |touch: &Touch| touch.has_written && self.order.is_before(&touch.last, read.slot);
        if has_written || self.order.is_before(first, read.slot) || location.touches.iter().any(is_seen) {
            return;
        }
        self.suspect(Kind::Uninitialised, part, read, first, None);
    }

    /// The pointer was NULL for a while, and the reader came when it had been renewed.
    fn renewed_null(&mut self, location: &Location, part: &Part, read: &Happening) {
        let Some((null, Some(renewal))) = &location.null else { return };
        let is_possible = part.size == POINTER_SIZE
            && null.thread != read.thread
            && !self.order.is_before(renewal, read.slot)
            && !null.is_joined_against(renewal, read)
            && !read.is_shielded_from(null);
        if is_possible {
            self.suspect(Kind::Null, part, null, read, Some(renewal));
        }
    }

    fn write(&mut self, location: &mut Location, part: &Part, write: &Happening) {
        if self.collected.is_open() {
            self.collected.renewed(part.address, write);
        }
        let is_null = part.after == Some(0);
        for read in location.others(write.thread).flat_map(|touch| &touch.reads) {
            if self.order.is_before(read, write.slot) {
                continue;
            }
            if is_null && part.size == POINTER_SIZE && !read.is_shielded_from(write) {
                self.suspect(Kind::Null, part, write, read, None);
            }
            if is_null || part.before == part.after {
                continue;
            }
            if !excludes_any(&read.locks, &write.locks) {
                self.suspect(Kind::Overflow, part, write, read, None);
            }
            if !read.is_shielded_from(write) {
                self.suspect(Kind::Inconsistent, part, write, read, None);
            }
        }
        if let Some((null, renewal @ None)) = &mut location.null
            && null.thread == write.thread
        {
            *renewal = Some(write.clone());
        }
        if is_null && part.size == POINTER_SIZE {
            location.null = Some((write.clone(), None));
        }
        if !is_null && !location.was_set && location.first.is_none() {
            location.first = Some(write.clone());
        }
        let moment = self.order.now(write.slot);
        location.last_write = Some(LastWrite { thread: write.thread, locks: write.locks.clone(), moment });
    }

    fn suspect(&mut self, kind: Kind, part: &Part, early: &Happening, late: &Happening, renewal: Option<&Happening>) {
        let block = self.blocks.number_at(part.address).and_then(|number| made_as(self.made, number));
        let (address, size) = (part.address, part.size);
        self.collected.add(&Suspicion { kind, address, size, block, early, late, renewal });
    }
}

/// A block by its number, which is counted from 1.
fn made_as(made: &[Block], number: u64) -> Option<Block> {
    made.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
}

/// The pieces of an access that are looked at.
fn parts(access: &Access, values: Values<'_>) -> impl Iterator<Item = Part> {
    let size = u64::from(access.size).min(LONGEST_ACCESS);
    let kind = access.kind;
    let number = |bytes: Option<&[u8]>, from: u64, to: u64| {
        let bytes = bytes.and_then(|bytes| bytes.get(from as usize..to as usize))?;
        Some(bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    (0..size).step_by(POINTER_SIZE as usize).map(move |from| {
        let to = (from + POINTER_SIZE).min(size);
        let before = number(values.before, from, to);
        let after = if kind.writes() { number(values.after, from, to) } else { before };
        Part {
            address: access.address.wrapping_add(from),
            size: to - from,
            before,
            after,
            reads: kind.reads(),
            writes: kind.writes(),
        }
    })
}

impl Listener for Detector {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        for access in accesses {
            self.access(thread, access, Values::default());
        }
    }

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        self.access(thread, access, values);
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        let Some(slot) = self.order.slot(thread) else { return };
        self.order.event(slot, thread, event);
        match *event {
            Event::Called { site, return_address, stack, .. } => {
                let is_own = !self.is_in_library(site);
                self.runners.of(thread).called(site, stack, return_address, is_own);
            }
            Event::Returned { target } => self.runners.of(thread).returned(target),
            Event::Locked { object, mode, site } => {
                self.sections += 1;
                self.runners.of(thread).locked(object, mode, site, self.sections);
            }
            Event::Unlocked { object, .. } => self.runners.of(thread).unlocked(object),
            Event::Allocated { address, size, site } => {
                self.locations.take(address, size);
                self.blocks.allocate(address, size);
                self.made.push(Block { address, size, site });
            }
            Event::Freed { address, site } => self.freed(thread, slot, address, site),
            Event::Mapped { address, size } => self.mapped(address, size),
            Event::Ended => {
                self.runners.ended(thread);
                self.uses.ended(thread);
            }
            _ => {}
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sites.name(site, pc);
    }
}
