//! A first look at a run: which memory threads share so that it can have pairs.
//!
//! Pairs need two threads and a write. Of each granule, this keeps the one thread that has been there, or that several have; it
//! reads records, and costs a fraction of what telling pairs does. What is forgotten where memory becomes another is just what
//! a [`Collector`] forgets, so that no granule with a pair is missing. Different bytes of a granule are one to it.

use super::collect::{Collected, Collector, Scope};
use super::last::{GRANULE, LONGEST};
use super::words::{Word, Words};
use crate::races::Suspects;
use crate::races::shapes::{Concern, Shape, Shapes};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::stream::records::{Patterns, Records, Template};
use trace::stream::{Access, AccessKind, Event, Listener, Site, Thread};

/// A run with fewer accesses than these is told at once.
const FEW_ACCESSES: u64 = 500_000;

/// What a first look has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Look {
    /// The run is short: all its pairs.
    Pairs(Collected),
    /// The granules that can have pairs.
    Shared(Suspects),
}

/// Looks at a run, and keeps its pairs as long as it is short.
pub struct FirstLook {
    collector: Option<Collector>,
    sharing: Sharing,
}

impl FirstLook {
    pub fn new(collector: Collector, scope: Scope) -> FirstLook {
        FirstLook { collector: Some(collector), sharing: Sharing::new(scope) }
    }

    pub fn into_look(self) -> Look {
        match self.collector {
            Some(collector) => Look::Pairs(collector.into_collected()),
            None => Look::Shared(self.sharing.into_shared()),
        }
    }
}

impl Listener for FirstLook {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        self.sharing.accesses(thread, accesses);
        if let Some(collector) = &mut self.collector {
            collector.accesses(thread, accesses);
        }
        self.collector.take_if(|collector| collector.n_accesses() > FEW_ACCESSES);
    }

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        if self.collector.is_some() { 0 } else { self.sharing.records(thread, records) }
    }

    fn reads_records(&self) -> bool {
        self.collector.is_none()
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.sharing.event(thread, event);
        if let Some(collector) = &mut self.collector {
            collector.event(thread, event);
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sharing.site(site, pc);
        if let Some(collector) = &mut self.collector {
            collector.site(site, pc);
        }
    }
}

// The word of a granule is nothing, one of these, or a thread that has been there alone, shifted by two, and whether it has
// written.
const READ_BY_SEVERAL: Word = 1;
const SHARED: Word = 2;
const THREAD_SHIFT: u32 = 2;
const WRITTEN: Word = 1;

/// The word of a thread that has read.
fn own(thread: Thread) -> Word {
    (thread + 1) << THREAD_SHIFT
}

/// The word after one more access.
fn after(word: Word, own: Word, writes: bool) -> Word {
    let mine = own | if writes { WRITTEN } else { 0 };
    match word {
        0 => mine,
        SHARED => SHARED,
        READ_BY_SEVERAL => {
            if writes {
                SHARED
            } else {
                READ_BY_SEVERAL
            }
        }
        _ if word >> THREAD_SHIFT == own >> THREAD_SHIFT => word | mine,
        _ if writes || word & WRITTEN != 0 => SHARED,
        _ => READ_BY_SEVERAL,
    }
}

/// A part of a site's nature that records do not tell.
#[derive(Clone, Copy)]
struct SiteFacts {
    is_ignored: bool,
    synchronises: bool,
}

impl SiteFacts {
    fn concern(self, kind: AccessKind) -> Concern {
        if self.is_ignored || self.synchronises && kind == AccessKind::Atomic { Concern::None } else { Concern::Plain }
    }
}

/// Finds the granules that can have pairs.
pub struct Sharing {
    scope: Scope,
    sites: Vec<SiteFacts>,
    shapes: Shapes,
    words: Words,
    blocks: BTreeMap<u64, u64>,
    shared: FxHashSet<u64>,
}

impl Sharing {
    pub fn new(scope: Scope) -> Sharing {
        Sharing {
            scope,
            sites: Vec::new(),
            shapes: Shapes::default(),
            words: Words::default(),
            blocks: BTreeMap::new(),
            shared: FxHashSet::default(),
        }
    }

    pub fn into_shared(self) -> Suspects {
        let is_ignored = |granule: u64| {
            let last = granule * GRANULE + (GRANULE - 1);
            self.scope.ignores_memory(granule * GRANULE) && self.scope.ignores_memory(last)
        };
        Suspects::new(self.shared.into_iter().filter(|granule| !is_ignored(*granule)))
    }

    #[inline]
    fn shape(&mut self, number: u32, patterns: &Patterns) -> Shape {
        let sites = &self.sites;
        let concern = |template: &Template| sites[template.site.0 as usize].concern(template.kind);
        self.shapes.of(number, patterns, concern)
    }

    #[inline]
    fn touch(&mut self, own: Word, (address, size): (u64, u64), writes: bool) {
        let (mut first, last) = granules_of(address, size);
        while first <= last {
            let words = self.words.from(first, last);
            let length = words.len() as u64;
            for (granule, word) in (first..).zip(words) {
                let is_known = *word == own | WRITTEN || *word == own && !writes || *word == SHARED;
                if !is_known {
                    *word = after(*word, own, writes);
                    if *word == SHARED {
                        self.shared.insert(granule);
                    }
                }
            }
            first += length;
        }
    }

    /// A release writes what has been accessed.
    fn freed(&mut self, thread: Thread, address: u64) {
        let Some(size) = self.blocks.remove(&address) else { return };
        let own = own(thread);
        for (granule, word) in self.words.known(address, size).filter(|(_, word)| **word != 0) {
            *word = after(*word, own, true);
            if *word == SHARED {
                self.shared.insert(granule);
            }
        }
    }

    fn forget(&mut self, address: u64, size: u64) {
        self.words.known(address, size).for_each(|(_, word)| *word = 0);
    }
}

impl Listener for Sharing {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        for access in accesses {
            let facts = self.sites[access.site.0 as usize];
            if facts.concern(access.kind) == Concern::Plain {
                self.touch(own(thread), (access.address, u64::from(access.size)), access.kind.writes());
            }
        }
    }

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        let (own, mut length) = (own(thread), 0);
        for record in records.plain() {
            for index in self.shape(record.number, records.patterns).parts() {
                let part = self.shapes.part(index);
                let address = part.address(record.words, records.fs_base);
                self.touch(own, (address, u64::from(part.size)), part.writes);
            }
            length += record.words.len();
        }
        length
    }

    fn reads_records(&self) -> bool {
        true
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        match *event {
            Event::Allocated { address, size, .. } => {
                self.blocks.insert(address, size);
                self.forget(address, size);
            }
            Event::Freed { address, .. } => self.freed(thread, address),
            Event::Mapped { address, size } => self.forget(address, size),
            _ => {}
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        let unknown = SiteFacts { is_ignored: true, synchronises: false };
        self.sites.resize(self.sites.len().max(site.0 as usize + 1), unknown);
        let (is_ignored, synchronises) = (self.scope.ignores_code(pc), self.scope.synchronises(pc));
        self.sites[site.0 as usize] = SiteFacts { is_ignored, synchronises };
    }
}

/// The first and the last granule of some memory that is looked at.
#[inline]
fn granules_of(address: u64, size: u64) -> (u64, u64) {
    let (first, last) = (address / GRANULE, address.saturating_add(size.max(1) - 1) / GRANULE);
    (first, last.min(first.saturating_add(LONGEST)))
}
