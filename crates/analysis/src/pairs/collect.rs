//! Hearing a run: which pairs it has.

use super::among::Among;
use super::contexts::{CALLERS, NOWHERE, Place, digest};
use super::last::{Heads, LastAccesses, Past};
use super::nesting::{Iteration, LoopsAround, Nesting};
use super::{Deed, End};
use crate::races::Suspects;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trace::stream::records::{Record, Records, Template};
use trace::stream::{Access, AccessKind, Event, Listener, Site, Thread};

/// How many bytes' addresses of a pair are kept, to tell variables apart.
const MOST_PLACES: usize = 4;
/// How many pairs of threads are kept of a pair.
const MOST_DIRECTIONS: usize = 64;
/// How many occurrences of a pair are kept with their iterations.
const MOST_OCCURRENCES: usize = 256;

/// The position of accesses whose iterations nobody asked for.
const UNPLACED: u32 = u32::MAX;

/// What is of no concern.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Code whose accesses are not looked at.
    pub ignored_code: Vec<Range<u64>>,
    /// Code that synchronises: its locked instructions are not looked at.
    pub synchronising_code: Vec<Range<u64>>,
    /// Memory that belongs to libraries alone.
    pub ignored_memory: Vec<Range<u64>>,
}

impl Scope {
    fn is_in(ranges: &[Range<u64>], address: u64) -> bool {
        ranges.iter().any(|range| range.contains(&address))
    }

    pub(super) fn ignores_code(&self, pc: u64) -> bool {
        Scope::is_in(&self.ignored_code, pc)
    }

    pub(super) fn ignores_memory(&self, address: u64) -> bool {
        Scope::is_in(&self.ignored_memory, address)
    }

    /// Whether locked instructions of this code are not looked at.
    pub(super) fn synchronises(&self, pc: u64) -> bool {
        Scope::is_in(&self.synchronising_code, pc)
    }

    /// Whether an access is to be looked at.
    pub(super) fn concerns(&self, pc: u64, address: u64, is_locked: bool) -> bool {
        let is_lock = is_locked && self.synchronises(pc);
        !is_lock && !self.ignores_code(pc) && !self.ignores_memory(address)
    }
}

/// An access of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    pub thread: Thread,
    /// Which of the thread's accesses and releases of blocks, counted from 1.
    pub ordinal: u64,
    /// Its place among all accesses of the run.
    pub order: u64,
}

/// Both ends of a pair, at one of the times when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    pub head: Moment,
    pub tail: Moment,
    /// The first byte that both access.
    pub address: u64,
}

impl Occurrence {
    pub fn direction(&self) -> (Thread, Thread) {
        (self.head.thread, self.tail.thread)
    }

    /// Whether this pair is there because `inner` is: it leads from the same thread to the same other one, and holds both
    /// ends of `inner` between its own.
    pub fn holds(&self, inner: &Occurrence) -> bool {
        let is_around = self.head.order <= inner.head.order && inner.tail.order <= self.tail.order;
        self.direction() == inner.direction()
            && is_around
            && (self.head.order, self.tail.order) != (inner.head.order, inner.tail.order)
    }
}

/// An occurrence with the iterations that its ends are in, by numbers of [`Collected::positions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The first one there.
    pub occurrence: Occurrence,
    pub head: u32,
    pub tail: u32,
}

impl Placed {
    /// Whether both have their ends in the same iterations of the same threads.
    fn is_like(&self, other: &Placed) -> bool {
        let place = |placed: &Placed| (placed.occurrence.direction(), placed.head, placed.tail);
        place(self) == place(other)
    }
}

/// A pair of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenPair {
    pub head: End,
    pub tail: End,
    /// When it first came.
    pub first: Occurrence,
    pub times: u64,
    /// From which thread to which, in ascending order; not all if there are very many.
    pub directions: Vec<(Thread, Thread)>,
    /// When it first came from other threads or to other ones than at first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<Occurrence>,
    /// A few of the addresses that it is about, in ascending order.
    pub places: Vec<u64>,
    /// The first ones that differ, if iterations were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub occurrences: Vec<Placed>,
}

/// What was heard of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collected {
    /// In the order in which they first came.
    pub pairs: Vec<SeenPair>,
    /// How many accesses were looked at.
    pub accesses: u64,
    /// The instructions that made them, in ascending order.
    #[serde(default)]
    pub executed: Vec<u64>,
    /// Iterations of loops that threads were in, the outermost first, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub positions: Vec<Vec<Iteration>>,
    /// Where calls return to, the innermost first, if that was asked for: ends know them by their number, until
    /// [`settle_contexts`](Collected::settle_contexts).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<Vec<u64>>,
}

impl Collected {
    /// Forgets pairs whose iterations nobody asked for.
    pub fn keep_placed(&mut self) {
        self.pairs.retain(|pair| !pair.occurrences.is_empty());
        self.pairs.shrink_to_fit();
        self.executed = Vec::new();
    }

    /// Names the contexts of ends by what they are, so that those of different runs can be compared.
    pub fn settle_contexts(&mut self) {
        let contexts = std::mem::take(&mut self.contexts);
        for end in self.pairs.iter_mut().flat_map(|pair| [&mut pair.head, &mut pair.tail]) {
            end.context = contexts.get(end.context as usize).map_or(NOWHERE, |callers| digest(callers));
        }
    }
}

#[derive(Clone, Copy)]
struct SiteFacts {
    number: u32,
    is_ignored: bool,
    synchronises: bool,
    is_executed: bool,
}

/// Keeps the pairs of a run.
pub struct Collector {
    scope: Scope,
    /// By the stream's numbers.
    sites: Vec<SiteFacts>,
    /// Instructions, and the calls that led there, by the numbers that pairs know them by.
    instructions: Vec<Place>,
    numbers: FxHashMap<Place, u32>,
    last: Heads,
    blocks: BTreeMap<u64, u64>,
    ordinals: FxHashMap<Thread, u64>,
    /// Who accessed last, and how often it has by now.
    running: (Thread, u64),
    order: u64,
    gathered: Gathered,
    loops: Option<Loops>,
    /// What can have pairs, if that is known.
    among: Option<Among>,
}

/// What is kept where iterations are asked for.
struct Loops {
    nesting: Nesting,
    /// The instructions that they are asked for.
    sites: FxHashSet<u64>,
    /// Calls are asked for too.
    with_callers: bool,
}

/// Pairs by the numbers of their instructions.
#[derive(Default)]
struct Gathered {
    numbers: FxHashMap<(u32, Deed, u32, Deed), usize>,
    pairs: Vec<Raw>,
}

struct Raw {
    head: (u32, Deed),
    tail: (u32, Deed),
    first: Occurrence,
    times: u64,
    directions: Vec<(Thread, Thread)>,
    elsewhere: Vec<Occurrence>,
    places: Vec<u64>,
    occurrences: Vec<Placed>,
}

impl Gathered {
    fn add(&mut self, head: (Past, Deed), tail: (Past, Deed), address: u64) {
        let key = (head.0.number, head.1, tail.0.number, tail.1);
        let moment = |past: Past| Moment { thread: past.thread, ordinal: past.ordinal, order: past.order };
        let occurrence = Occurrence { head: moment(head.0), tail: moment(tail.0), address };
        let number = *self.numbers.entry(key).or_insert(self.pairs.len());
        if number == self.pairs.len() {
            self.pairs.push(Raw {
                head: (head.0.number, head.1),
                tail: (tail.0.number, tail.1),
                first: occurrence,
                times: 0,
                directions: Vec::new(),
                elsewhere: Vec::new(),
                places: Vec::new(),
                occurrences: Vec::new(),
            });
        }
        self.pairs[number].note(occurrence);
        if head.0.position != UNPLACED && tail.0.position != UNPLACED {
            self.pairs[number].place(Placed { occurrence, head: head.0.position, tail: tail.0.position });
        }
    }
}

impl Raw {
    fn place(&mut self, placed: Placed) {
        let is_news = self.occurrences.last().is_none_or(|last| !last.is_like(&placed));
        if self.occurrences.len() < MOST_OCCURRENCES && is_news {
            self.occurrences.push(placed);
        }
    }

    fn note(&mut self, occurrence: Occurrence) {
        self.times += 1;
        if let Err(place) = self.directions.binary_search(&occurrence.direction())
            && self.directions.len() < MOST_DIRECTIONS
        {
            self.directions.insert(place, occurrence.direction());
            if occurrence.direction() != self.first.direction() {
                self.elsewhere.push(occurrence);
            }
        }
        if let Err(place) = self.places.binary_search(&occurrence.address)
            && self.places.len() < MOST_PLACES
        {
            self.places.insert(place, occurrence.address);
        }
    }
}

impl Collector {
    pub fn new(scope: Scope) -> Collector {
        Collector {
            scope,
            sites: Vec::new(),
            instructions: Vec::new(),
            numbers: FxHashMap::default(),
            last: Heads::Nearest(LastAccesses::default()),
            blocks: BTreeMap::new(),
            ordinals: FxHashMap::default(),
            running: (0, 0),
            order: 0,
            gathered: Gathered::default(),
            loops: None,
            among: None,
        }
    }

    /// Keeps the iterations of these instructions' accesses too. The stream has to tell calls, returns and loops.
    pub fn with_loops(self, sites: FxHashSet<u64>, around: LoopsAround) -> Collector {
        Collector { loops: Some(Loops { nesting: Nesting::new(around), sites, with_callers: false }), ..self }
    }

    /// Tells instructions apart by who called. The stream has to tell calls and returns.
    pub fn with_contexts(self) -> Collector {
        let nesting = Nesting::new(Box::new(|_| Vec::new()));
        Collector { loops: Some(Loops { nesting, sites: FxHashSet::default(), with_callers: true }), ..self }
    }

    /// Passes over what cannot have pairs.
    pub fn among(self, shared: Option<Suspects>) -> Collector {
        Collector { among: shared.map(Among::new), ..self }
    }

    /// How many accesses and releases it has been told.
    pub fn n_accesses(&self) -> u64 {
        self.order
    }

    /// Looks at every two threads as if there were no others.
    pub fn two_by_two(self) -> Collector {
        Collector { last: Heads::TwoByTwo(LastAccesses::default()), ..self }
    }

    pub fn into_collected(self) -> Collected {
        let end = |(number, deed): (u32, Deed)| {
            let Place { pc, context } = self.instructions[number as usize];
            End { pc, deed, context }
        };
        let pairs = self.gathered.pairs.iter().map(|raw| SeenPair {
            head: end(raw.head),
            tail: end(raw.tail),
            first: raw.first,
            times: raw.times,
            directions: raw.directions.clone(),
            elsewhere: raw.elsewhere.clone(),
            places: raw.places.clone(),
            occurrences: raw.occurrences.clone(),
        });
        let pairs = pairs.collect();
        let executed = self.sites.iter().filter(|site| site.is_executed);
        let executed: BTreeSet<u64> = executed.map(|site| self.instructions[site.number as usize].pc).collect();
        let executed = executed.into_iter().collect();
        let nesting = self.loops.map(|loops| loops.nesting);
        let (positions, contexts) = nesting.map(|nesting| (nesting.positions, nesting.contexts)).unwrap_or_default();
        Collected { pairs, accesses: self.order, executed, positions, contexts }
    }

    /// Counts an access or a release.
    fn next(&mut self, thread: Thread, number: u32) -> Past {
        self.count(thread, 1);
        Past { thread, number, ordinal: self.running.1, order: self.order, position: UNPLACED }
    }

    /// Counts accesses of a thread.
    fn count(&mut self, thread: Thread, accesses: u64) {
        if self.running.0 != thread {
            self.ordinals.insert(self.running.0, self.running.1);
            self.running = (thread, self.ordinals.get(&thread).copied().unwrap_or(0));
        }
        self.running.1 += accesses;
        self.order += accesses;
    }

    /// The number of the iterations that an access is in.
    fn position(&mut self, thread: Thread, number: u32) -> u32 {
        let pc = self.instructions[number as usize].pc;
        match &mut self.loops {
            Some(loops) if loops.sites.contains(&pc) => loops.nesting.position(thread, pc),
            _ => UNPLACED,
        }
    }

    fn follow(&mut self, thread: Thread, event: &Event) {
        let Some(Loops { nesting, .. }) = &mut self.loops else { return };
        match *event {
            Event::LoopHeader { pc } => nesting.header(thread, pc),
            Event::Called { site, return_address, stack, .. } => nesting.called(thread, site, stack, return_address),
            Event::Returned { target } => nesting.returned(thread, target),
            _ => {}
        }
    }

    fn is_of_concern(&self, facts: SiteFacts, access: &Access) -> bool {
        let is_lock = facts.synchronises && access.kind == AccessKind::Atomic;
        !facts.is_ignored && !is_lock && !self.scope.ignores_memory(access.address)
    }

    fn access(&mut self, thread: Thread, access: &Access) {
        let facts = self.sites[access.site.0 as usize];
        let past = self.next(thread, facts.number);
        let is_passed_over = self.among.as_ref().is_some_and(|among| !among.has(access));
        if is_passed_over && facts.is_executed || !self.is_of_concern(facts, access) {
            return;
        }
        self.sites[access.site.0 as usize].is_executed = true;
        if is_passed_over {
            return;
        }
        let (position, number) = (self.position(thread, facts.number), self.called_from(thread, facts.number));
        let past = Past { position, number, ..past };
        let (size, gathered) = (u64::from(access.size), &mut self.gathered);
        if access.kind.reads() {
            let pair = |head, deed, at| gathered.add((head, deed), (past, Deed::Read), at);
            self.last.access(access.address, size, Deed::Read, past, pair);
        }
        if access.kind.writes() {
            let pair = |head, deed, at| gathered.add((head, deed), (past, Deed::Write), at);
            self.last.access(access.address, size, Deed::Write, past, pair);
        }
    }

    /// Whether a record makes no difference but that its accesses count.
    fn is_passed_over(&mut self, record: &Record<'_>, records: &Records<'_>) -> bool {
        let sites = &self.sites;
        let is_heard = |template: &Template| {
            let facts = sites[template.site.0 as usize];
            facts.is_executed || facts.is_ignored || facts.synchronises && template.kind == AccessKind::Atomic
        };
        self.among.as_mut().is_some_and(|among| among.passes_over(record, records, is_heard))
    }

    fn freed(&mut self, thread: Thread, address: u64, pc: u64) {
        let number = self.number_of(Place { pc, context: NOWHERE });
        let number = self.called_from(thread, number);
        let past = self.next(thread, number);
        let Some(size) = self.blocks.remove(&address) else { return };
        let gathered = &mut self.gathered;
        let pair = |head, deed, at| gathered.add((head, deed), (past, Deed::Write), at);
        self.last.overwrite(address, size, past, pair);
    }

    /// The number of an instruction among those of pairs. Releases have no site of their own in the stream.
    fn number_of(&mut self, place: Place) -> u32 {
        let fresh = self.instructions.len() as u32;
        let number = *self.numbers.entry(place).or_insert(fresh);
        if number == fresh {
            self.instructions.push(place);
        }
        number
    }

    /// The number of an instruction that a thread comes to by the calls that it is in, if these are asked for.
    fn called_from(&mut self, thread: Thread, number: u32) -> u32 {
        match &mut self.loops {
            Some(Loops { nesting, with_callers: true, .. }) => {
                let pc = self.instructions[number as usize].pc;
                let context = nesting.context(thread, CALLERS);
                self.number_of(Place { pc, context })
            }
            _ => number,
        }
    }
}

impl Listener for Collector {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        for access in accesses {
            self.access(thread, access);
        }
    }

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        let mut length = 0;
        for record in records.plain() {
            length += record.words.len();
            if self.is_passed_over(&record, records) {
                self.count(thread, u64::from(record.accesses));
                continue;
            }
            for template in records.patterns.templates(record.number) {
                self.access(thread, &template.access(record.words, records.fs_base));
            }
        }
        length
    }

    fn reads_records(&self) -> bool {
        self.among.is_some()
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        match *event {
            Event::Allocated { address, size, .. } => {
                self.blocks.insert(address, size);
                self.last.forget(address, size);
            }
            Event::Freed { address, site } => self.freed(thread, address, site),
            Event::Mapped { address, size } => self.last.forget(address, size),
            _ => self.follow(thread, event),
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        let number = self.number_of(Place { pc, context: NOWHERE });
        let (is_ignored, synchronises) = (self.scope.ignores_code(pc), self.scope.synchronises(pc));
        let nothing = SiteFacts { number: 0, is_ignored: true, synchronises: false, is_executed: false };
        self.sites.resize(self.sites.len().max(site.0 as usize + 1), nothing);
        self.sites[site.0 as usize] = SiteFacts { number, is_ignored, synchronises, is_executed: false };
    }
}
