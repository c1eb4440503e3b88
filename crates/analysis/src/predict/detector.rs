//! The listener that looks for the ingredients of all kinds of errors in one pass.

use super::comparators::{Comparison, Method};
use super::deeds::{Deed, Happening, Place, follow_any};
use super::descriptors::Descriptors;
use super::exploration::Explored;
use super::found::{Block, Collected, Kind, Predicted, Prediction, Suspicion};
use super::frames;
use super::locations::{Location, Locations, MOST_WATCHED};
use super::order::Order;
use super::parts::{LONGEST_ACCESS, Part, has_null, parts};
use super::runners::{Frame, Runners};
use super::scene::Scene;
use super::valued_records;
use crate::races::Flags;
use crate::races::blocks::Blocks;
use crate::races::cell::Slot;
use crate::races::shadow::GRANULE_SIZE;
use crate::races::shapes::{Concern, Shapes};
use crate::races::sites::{Classify, SiteClass, Sites};
use crate::races::suspects::Filter;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use trace::stream::records::{LONGEST_VALUE, Record, Records, Template};
use trace::stream::{Access, Event, Listener, Site, Thread, Values};

/// Where libraries are whose instructions nobody wants to hold a thread at.
pub type Libraries = Vec<Range<u64>>;

/// Predicts memory errors from a stream with values.
pub struct Detector {
    sites: Sites,
    libraries: Libraries,
    /// Of each site, whether it is in the program's own code.
    own: Vec<bool>,
    order: Order,
    runners: Runners,
    locations: Locations,
    blocks: Blocks,
    /// All blocks that were ever made, in order.
    made: Vec<Block>,
    /// Of each site, whether it has read a zero, and the program has lived with it.
    has_read_null: Vec<bool>,
    /// Where memory is contended; nothing for everywhere.
    contended: Option<Filter>,
    shapes: Shapes,
    uncompared_accesses: u64,
    collected: Collected,
    method: Method,
    /// Who gave back the block that began at an address, of those that are gone.
    released: FxHashMap<u64, Thread>,
    descriptors: Descriptors,
    /// What threads share of their stacks.
    shared: frames::Shared,
    /// Instructions that are trusted to have to do with flags.
    flags: Flags,
}

impl Detector {
    /// With what an [`Exploration`](super::Exploration) of the same stream has found. Other instructions than those that
    /// it names need not be told.
    pub fn new(explored: Explored, classify: Classify, libraries: Libraries) -> Detector {
        let mut contended = explored.contended.memory.map(Filter::new);
        if let Some(contended) = &mut contended {
            explored.surveyed.sync_memory.granules().for_each(|granule| contended.add(granule));
        }
        Detector {
            sites: Sites::new(classify),
            libraries,
            own: Vec::new(),
            order: Order::new(explored.surveyed),
            runners: Runners::default(),
            locations: Locations::watching(MOST_WATCHED),
            blocks: Blocks::default(),
            made: Vec::new(),
            has_read_null: Vec::new(),
            contended,
            shapes: Shapes::default(),
            uncompared_accesses: explored.contended.unwatched,
            collected: Collected::default(),
            method: Method::default(),
            released: FxHashMap::default(),
            descriptors: Descriptors::default(),
            shared: frames::Shared::default(),
            flags: Flags::default(),
        }
    }

    pub fn by(self, method: Method) -> Detector {
        Detector { method, ..self }
    }

    /// What these instructions read of flags orders what follows, as it did for the sieve.
    pub fn trusting(self, flags: Flags) -> Detector {
        Detector { flags, ..self }
    }

    /// Watches so many bytes of contended memory at a time, at most.
    pub fn watching(self, bytes: u64) -> Detector {
        Detector { locations: Locations::watching(bytes), ..self }
    }

    pub fn into_predicted(self) -> Predicted {
        let null_readers = self.null_readers();
        let mut predicted = Predicted {
            unwatched_memory: self.locations.unwatched,
            uncompared_accesses: self.uncompared_accesses,
            unwatched_threads: self.order.unwatched(),
            ..self.collected.into_predicted()
        };
        let bears_null = |deed: &Deed| null_readers.contains(&deed.pc);
        predicted.pairs.retain(|pair| match pair.first() {
            Some(Prediction { kind: Kind::Null, late, .. }) => !bears_null(late),
            Some(Prediction { kind: Kind::Uninitialised, early, .. }) => !bears_null(early),
            _ => true,
        });
        predicted
    }

    /// Instructions that have read a zero.
    fn null_readers(&self) -> BTreeSet<u64> {
        let sites = self.has_read_null.iter().enumerate().filter(|(_, has_read)| **has_read);
        sites.map(|(site, _)| self.sites.place(site as u32).0).collect()
    }

    fn is_in_library(&self, pc: u64) -> bool {
        self.libraries.iter().any(|library| library.contains(&pc))
    }

    fn access(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        let Some(slot) = self.order.slot(thread) else { return };
        let tick = self.order.advance(slot);
        let (pc, _) = self.sites.place(access.site.0);
        let own_place = self.runners.of(thread).count(access.site, pc, access.kind);
        let is_own = self.own[access.site.0 as usize];
        if is_own {
            self.runners.of(thread).passed(own_place);
        }
        if self.order.is_alone() {
            if !self.locations.is_empty() {
                self.locations.forget_all();
            }
            return;
        }
        let class = self.sites.class(access.site);
        if class == SiteClass::Ignored || !self.concerns(thread, access, values) {
            return;
        }
        if class == SiteClass::Atomic || self.order.is_synchronisation(&self.blocks, access.address) {
            return self.synchronise(slot, access, is_own);
        }
        // Most of a large buffer is not watched.
        let n_watched = parts(access, values).filter(|part| self.is_watched(access.site, part)).count();
        if n_watched == 0 {
            return;
        }
        let runner = self.runners.of(thread);
        let place = if is_own { own_place } else { runner.own_call().unwrap_or(own_place) };
        let mut happening = runner.happening(thread, (slot, tick), (pc, place));
        for part in parts(access, values) {
            self.part(&part, &mut happening);
        }
    }

    /// Whether a record has to do with no memory that threads contend for, while there are others.
    fn is_of_no_concern(&mut self, record: &Record<'_>, records: &Records<'_>) -> bool {
        let Some(contended) = self.contended.as_ref().filter(|_| !self.order.is_alone()) else { return false };
        let shape = self.shapes.of(record.number, records.patterns, |_| Concern::Plain);
        !self.shapes.any_wanted(shape, record, records, contended)
    }

    /// The same as [`access`](Detector::access) for the accesses of such a record: they are counted, and read zeros.
    fn pass_over(&mut self, thread: Thread, record: &Record<'_>, records: &Records<'_>) {
        let Some(slot) = self.order.slot(thread) else { return };
        self.order.pass_over(slot, u64::from(record.accesses));
        let runner = self.runners.of(thread);
        let templates = records.patterns.templates(record.number).iter().zip(records.patterns.held(record.number));
        for (template, [before, _]) in templates {
            let Template { site, kind, size, .. } = *template;
            let place = runner.count(site, self.sites.place(site.0).0, kind);
            if self.own[site.0 as usize] {
                runner.passed(place);
            }
            let has_read_null = &mut self.has_read_null[site.0 as usize];
            if *has_read_null || !kind.reads() || self.sites.class(site) == SiteClass::Ignored {
                continue;
            }
            let is_null = before.bytes(record.words, size, &mut [0; LONGEST_VALUE]).is_some_and(has_null);
            let address = || template.address(record.words, records.fs_base);
            *has_read_null = is_null && !frames::is_on_stack(runner.frame.as_ref(), address());
        }
    }

    /// Whether an access is to memory that others contend for. What is synchronisation is among it.
    fn concerns(&mut self, thread: Thread, access: &Access, values: Values<'_>) -> bool {
        let is_contended = self.is_contended(access);
        let is_null = access.kind.reads() && values.before.is_some_and(has_null);
        if !is_contended && !is_null {
            return false;
        }
        if frames::is_on_stack(self.runners.of(thread).frame.as_ref(), access.address) {
            if !is_contended {
                return false;
            }
            self.shared.add(access.address);
        }
        if is_null {
            self.has_read_null[access.site.0 as usize] = true;
        }
        is_contended
    }

    fn is_contended(&self, access: &Access) -> bool {
        let size = u64::from(access.size).clamp(1, LONGEST_ACCESS);
        self.contended.as_ref().is_none_or(|contended| contended.wants(access.address, size))
    }

    /// The library's own synchronisation is told by events, and its locks order nothing.
    fn synchronise(&mut self, slot: Slot, access: &Access, is_own: bool) {
        if is_own {
            self.order.synchronise(slot, access);
        }
    }

    /// Whether a piece of memory that an instruction has come to is watched, maybe from now on.
    fn is_watched(&mut self, site: Site, part: &Part) -> bool {
        if self.locations.known(part.address).is_some() {
            return true;
        }
        if !self.locations.is_wanted(part.address, site) {
            return false;
        }
        let block = self.blocks.number_at(part.address).and_then(|number| made_as(&self.made, number));
        self.locations.make(part.address, part.before != Some(0), block).is_some()
    }

    fn part(&mut self, part: &Part, happening: &mut Happening) {
        let Some(location) = self.locations.known(part.address) else { return };
        let own = location.own(happening.thread);
        follow_any(&mut happening.earlier, own.map(|touch| &touch.last.circumstances));
        if self.method != Method::Fatal {
            return compare(self.method, &self.order, &mut self.collected, location, part, happening);
        }
        let (order, collected) = (&mut self.order, &mut self.collected);
        let mut scene = Scene { order, collected, released: &self.released, flags: &self.flags };
        if part.reads {
            happening.value = part.before;
            scene.read(location, part, happening);
            location.note(happening, false);
        }
        if part.writes {
            happening.value = part.after;
            scene.write(location, part, happening);
            location.note(happening, true);
        }
    }

    fn freed(&mut self, thread: Thread, slot: Slot, address: u64, site: u64) {
        let tick = self.order.advance(slot);
        let Some(block) = self.blocks.free(address) else { return };
        self.released.insert(address, thread);
        let place = self.runners.of(thread).freeing_call(site);
        let free = self.by_call(thread, slot, tick, place);
        let (size, made) = (block.size, made_as(&self.made, block.number));
        for location in self.locations.take(address, block.size) {
            self.over(&location, &free, (Kind::Dangling, address, size, made));
        }
    }

    /// What the thread does by a call that it has made.
    fn by_call(&mut self, thread: Thread, slot: Slot, tick: u64, place: Place) -> Happening {
        self.runners.of(thread).happening(thread, (slot, tick), (place.pc, place))
    }

    /// A location is no more, and others may come to it too late.
    fn over(&mut self, location: &Location, early: &Happening, what: (Kind, u64, u64, Option<Block>)) {
        self.collected.forget(location.address);
        if self.method != Method::Fatal {
            return;
        }
        let (kind, address, size, block) = what;
        for touch in location.others(early.thread).filter(|touch| !self.order.is_before(&touch.last, early.slot)) {
            let late = &touch.last;
            self.collected.add(&Suspicion { kind, address, size, block, early, late, renewal: None });
        }
    }

    /// A thread has left frames, and with them what others may know of.
    fn left(&mut self, thread: Thread, slot: Slot, before: Option<Arc<Frame>>) {
        let Some(frame) = frames::left(before, self.runners.of(thread).frame.as_ref()) else { return };
        let addresses = self.shared.left_with(&frame);
        if addresses.is_empty() {
            return;
        }
        let tick = self.order.advance(slot);
        let leaving = self.by_call(thread, slot, tick, frame.call());
        for address in addresses {
            for location in self.locations.take(address, GRANULE_SIZE) {
                self.over(&location, &leaving, (Kind::Left, location.address, GRANULE_SIZE, None));
            }
        }
    }

    fn used(&mut self, thread: Thread, slot: Slot, descriptor: u64) {
        if self.order.is_alone() || self.method != Method::Fatal {
            return self.descriptors.forget_all();
        }
        let tick = self.order.advance(slot);
        let call = self.runners.of(thread).own_call().unwrap_or_default();
        let by = self.by_call(thread, slot, tick, call);
        self.descriptors.used(descriptor, by);
    }

    fn closed(&mut self, thread: Thread, slot: Slot, descriptor: u64) {
        let uses = self.descriptors.closed(descriptor);
        if uses.is_empty() {
            return;
        }
        let tick = self.order.advance(slot);
        let call = self.runners.of(thread).own_call().unwrap_or_default();
        let early = &self.by_call(thread, slot, tick, call);
        let is_open = |late: &&Happening| late.thread != thread && !self.order.is_before(late, slot);
        for late in uses.iter().filter(is_open) {
            let (kind, address, size, block) = (Kind::Closed, descriptor, 0, None);
            self.collected.add(&Suspicion { kind, address, size, block, early, late, renewal: None });
        }
    }

    fn mapped(&mut self, address: u64, size: u64) {
        self.locations.take(address, size);
        self.blocks.forget_in(address..address.saturating_add(size));
    }
}

fn compare(
    method: Method,
    order: &Order,
    collected: &mut Collected,
    location: &mut Location,
    part: &Part,
    access: &Happening,
) {
    for writes in [part.reads.then_some(false), part.writes.then_some(true)].into_iter().flatten() {
        Comparison { location, size: part.size, access, writes, order, collected }.by(method);
        location.note(access, writes);
    }
}

/// A block by its number, which is counted from 1.
pub fn made_as(made: &[Block], number: u64) -> Option<Block> {
    made.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
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

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        let mut length = 0;
        for record in records.plain() {
            length += record.words.len();
            if self.is_of_no_concern(&record, records) {
                self.pass_over(thread, &record, records);
                continue;
            }
            valued_records::tell(&record, records, |access, values| self.access(thread, access, values));
        }
        length
    }

    fn reads_records(&self) -> bool {
        true
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        let Some(slot) = self.order.slot(thread) else { return };
        self.order.event(slot, thread, event);
        let before = (!self.shared.is_empty()).then(|| self.runners.of(thread).frame.clone()).flatten();
        self.runners.hear(thread, event, &self.libraries);
        match *event {
            Event::Returned { .. } if before.is_some() => self.left(thread, slot, before),
            Event::Used { descriptor } => self.used(thread, slot, descriptor),
            Event::Closed { descriptor } => self.closed(thread, slot, descriptor),
            Event::Allocated { address, size, site } => {
                self.locations.take(address, size);
                self.released.remove(&address);
                self.blocks.allocate(address, size);
                self.made.push(Block { address, size, site });
            }
            Event::Freed { address, site } => self.freed(thread, slot, address, site),
            Event::Mapped { address, size } => self.mapped(address, size),
            _ => {}
        }
    }

    fn passed_over(&mut self, thread: Thread, site: u64, calls: u64) {
        self.runners.of(thread).count_calls(site, calls);
    }

    fn whole_since(&mut self, thread: Thread, clock: Option<u64>) {
        self.runners.of(thread).count_since(clock);
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sites.name(site, pc);
        let length = self.own.len().max(site.0 as usize + 1);
        self.own.resize(length, false);
        self.has_read_null.resize(length, false);
        self.own[site.0 as usize] = !self.is_in_library(pc);
    }
}
