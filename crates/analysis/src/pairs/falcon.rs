//! Falcon as a comparator: short patterns of accesses to one location, ranked by how rarely passing runs have them.
//!
//! After Park, Vuduc and Harrold (ICSE 2010), as LOCON's section 6 describes it: a window of the last accesses to each
//! location; patterns are conflicting accesses of two threads that follow each other, and unserialisable ones, where another
//! thread's access lies between two of one thread's. The score of a pattern is the Jaccard index of having it and failing.
//!
//! May miss: patterns wider than the window; a thread's read right after its own write, which is dropped; patterns that a
//! failing run does not come to; all that is about two variables. These are its known limits, and it is here for comparison.

use super::collected::Moment;
use super::scope::Scope;
use super::{Deed, End};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::stream::{Access, AccessKind, Event, Listener, Site, Thread};

/// How many accesses of a location are remembered.
const WINDOW: usize = 5;

/// The accesses of a pattern, in their order: of two threads in turn.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Pattern(pub Vec<End>);

/// A pattern of a run, when it first came.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SeenPattern {
    pub pattern: Pattern,
    pub moments: Vec<Moment>,
    pub address: u64,
}

/// A pattern of the failing run with its score.
#[derive(Clone, PartialEq, Debug)]
pub struct Ranked<'a> {
    pub seen: &'a SeenPattern,
    /// How many passing runs have it.
    pub in_passing: usize,
    /// One over one more than those.
    pub score: f64,
}

/// The patterns of one failing run, the most suspicious first, then in the order in which they came.
pub fn ranked<'a>(failing: &'a [SeenPattern], passing: &[Vec<SeenPattern>]) -> Vec<Ranked<'a>> {
    let mut counts: BTreeMap<&Pattern, usize> = BTreeMap::new();
    for seen in passing.iter().flatten() {
        *counts.entry(&seen.pattern).or_default() += 1;
    }
    let mut ranked: Vec<Ranked<'a>> = failing
        .iter()
        .map(|seen| {
            let in_passing = counts.get(&seen.pattern).copied().unwrap_or(0);
            Ranked { seen, in_passing, score: 1.0 / (1 + in_passing) as f64 }
        })
        .collect();
    ranked.sort_by_key(|ranked| ranked.in_passing);
    ranked
}

#[derive(Clone, Copy)]
struct Entry {
    end: End,
    moment: Moment,
}

/// Hears a run and keeps its patterns.
pub struct Windows {
    scope: Scope,
    pcs: Vec<u64>,
    windows: FxHashMap<u64, Vec<Entry>>,
    ordinals: FxHashMap<Thread, u64>,
    order: u64,
    /// In the order in which they came.
    found: Vec<SeenPattern>,
    known: FxHashMap<Pattern, ()>,
}

impl Windows {
    pub fn new(scope: Scope) -> Windows {
        Windows {
            scope,
            pcs: Vec::new(),
            windows: FxHashMap::default(),
            ordinals: FxHashMap::default(),
            order: 0,
            found: Vec::new(),
            known: FxHashMap::default(),
        }
    }

    pub fn into_found(self) -> Vec<SeenPattern> {
        self.found
    }

    fn count(&mut self, thread: Thread) -> Moment {
        let ordinal = self.ordinals.entry(thread).or_default();
        *ordinal += 1;
        self.order += 1;
        Moment { thread, ordinal: *ordinal, order: self.order }
    }

    fn access(&mut self, thread: Thread, access: &Access) {
        let moment = self.count(thread);
        let pc = self.pcs.get(access.site.0 as usize).copied().unwrap_or(0);
        if !self.scope.concerns(pc, access.address, access.kind == AccessKind::Atomic) {
            return;
        }
        for (deed, happens) in [(Deed::Read, access.kind.reads()), (Deed::Write, access.kind.writes())] {
            if happens {
                self.enter(access.address, Entry { end: End::new(pc, deed), moment });
            }
        }
    }

    fn enter(&mut self, address: u64, entry: Entry) {
        let window = self.windows.entry(address).or_default();
        if let Some(last) = window.last().filter(|last| last.moment.thread == entry.moment.thread) {
            if last.end.deed == Deed::Write && entry.end.deed == Deed::Read {
                return;
            }
            if last.end.deed == entry.end.deed {
                window.pop();
            }
        }
        let patterns = patterns(window, entry);
        if window.len() == WINDOW {
            window.remove(0);
        }
        window.push(entry);
        for entries in patterns {
            self.note(address, &entries);
        }
    }

    fn note(&mut self, address: u64, entries: &[Entry]) {
        let pattern = Pattern(entries.iter().map(|entry| entry.end).collect());
        if self.known.insert(pattern.clone(), ()).is_none() {
            let moments = entries.iter().map(|entry| entry.moment).collect();
            self.found.push(SeenPattern { pattern, moments, address });
        }
    }
}

/// The patterns that an access completes.
fn patterns(window: &[Entry], last: Entry) -> Vec<Vec<Entry>> {
    let Some((between, before)) = window.split_last() else { return Vec::new() };
    if between.moment.thread == last.moment.thread {
        return Vec::new();
    }
    let mut found = Vec::new();
    if between.end.deed == Deed::Write || last.end.deed == Deed::Write {
        found.push(vec![*between, last]);
    }
    let own = before.iter().rev().find(|entry| entry.moment.thread == last.moment.thread);
    if let Some(own) = own.filter(|own| is_unserialisable(own.end.deed, between.end.deed, last.end.deed)) {
        found.push(vec![*own, *between, last]);
    }
    found
}

fn is_unserialisable(before: Deed, between: Deed, after: Deed) -> bool {
    match between {
        Deed::Write => !(before == Deed::Write && after == Deed::Write),
        Deed::Read => before == Deed::Write && after == Deed::Write,
    }
}

impl Listener for Windows {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        for access in accesses {
            self.access(thread, access);
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        if let Event::Freed { .. } = event {
            self.count(thread);
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.pcs.resize(self.pcs.len().max(site.0 as usize + 1), 0);
        self.pcs[site.0 as usize] = pc;
    }
}
