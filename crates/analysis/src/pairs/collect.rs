//! Hearing a run: which pairs it has.

use super::cells::{Cells, LONGEST, Stamp, Visitor, whole_granules};
use super::contexts::{CALLERS, NOWHERE, Place, digest};
use super::groups::Groups;
use super::last::{LastAccesses, Past};
use super::nesting::{Iteration, LoopsAround, Nesting};
use super::outlines::{Heard, Outline, Outlines};
use super::stamps::{Turns, UNPLACED, Who, Whos};
use super::stretch::{Done, Row, Single, Stretch};
use super::touched::{Span, Touched};
use super::{Deed, End};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trace::stream::records::Records;
use trace::stream::{Access, AccessKind, Event, Listener, Site, Thread};

/// How many bytes' addresses of a pair are kept, to tell variables apart.
const MOST_PLACES: usize = 4;
/// How many pairs of threads are kept of a pair.
const MOST_DIRECTIONS: usize = 64;
/// How many occurrences of a pair are kept with their iterations.
const MOST_OCCURRENCES: usize = 256;

/// How many pairs are looked up without a table.
const REMEMBERED: usize = 1 << 12;

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
    /// Those that met others, or came to memory where threads had met: what comes to the same memory is together, in ascending order.
    #[serde(default)]
    pub meeting: Vec<Vec<u64>>,
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

/// What is known of an instruction.
#[derive(Clone, Copy)]
struct SiteFacts {
    number: u32,
    is_ignored: bool,
    synchronises: bool,
    is_executed: bool,
}

impl SiteFacts {
    fn concerns(&self, kind: AccessKind) -> bool {
        !(self.is_ignored || self.synchronises && kind == AccessKind::Atomic)
    }
}

/// The last accesses of a run, by what is kept of them.
enum Heads {
    Nearest(Box<Nearest>),
    TwoByTwo(Box<LastAccesses>),
}

/// What is kept of all accesses.
///
/// Of what a thread does in one turn, only its first accesses to a byte can be tails of pairs, and the cells are told these as they come. Only the
/// last ones can be heads, and the cells are told these when the turn is over.
#[derive(Default)]
struct Nearest {
    cells: Cells,
    touched: Touched,
    stretch: Stretch,
    groups: Groups,
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
    whos: Whos,
    turns: Turns,
    outlines: Outlines,
    gathered: Gathered,
    loops: Option<Loops>,
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
struct Gathered {
    numbers: FxHashMap<(u32, Deed, u32, Deed), usize>,
    pairs: Vec<Raw>,
    /// Pairs that came a moment ago: by whom, and their numbers.
    lately: Vec<(Meeting, usize)>,
}

/// Who met whom, by numbers of [`Whos`].
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Meeting {
    head: u32,
    tail: u32,
    head_writes: bool,
    tail_writes: bool,
}

impl Meeting {
    fn hash(self) -> usize {
        let deeds = usize::from(self.head_writes) << 1 | usize::from(self.tail_writes);
        (self.head as usize).wrapping_mul(0x9e37_79b1) ^ (self.tail as usize) << 2 ^ deeds
    }
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

impl Default for Gathered {
    fn default() -> Gathered {
        let nobody = (Meeting::default(), usize::MAX);
        Gathered { numbers: FxHashMap::default(), pairs: Vec::new(), lately: vec![nobody; REMEMBERED] }
    }
}

impl Gathered {
    #[inline]
    fn add(&mut self, head: (Stamp, Deed), tail: (Stamp, Deed), address: u64, whos: &Whos, turns: &Turns) {
        let (head_writes, tail_writes) = (head.1 == Deed::Write, tail.1 == Deed::Write);
        let meeting = Meeting { head: head.0.who(), tail: tail.0.who(), head_writes, tail_writes };
        let place = meeting.hash() % REMEMBERED;
        match self.lately[place] {
            // By the same threads.
            (before, number) if before == meeting => {
                let pair = &mut self.pairs[number];
                pair.times += 1;
                pair.add_place(address);
            }
            _ => {
                let number = self.note(head, tail, address, whos, turns);
                if whos.of(tail.0).position == UNPLACED {
                    self.lately[place] = (meeting, number);
                }
            }
        }
    }

    fn note(&mut self, head: (Stamp, Deed), tail: (Stamp, Deed), address: u64, whos: &Whos, turns: &Turns) -> usize {
        let (head_who, tail_who) = (whos.of(head.0), whos.of(tail.0));
        let moment = |who: Who, stamp: Stamp| turns.moment(who.thread, stamp.order());
        let occurrence = Occurrence { head: moment(head_who, head.0), tail: moment(tail_who, tail.0), address };
        let key = (head_who.number, head.1, tail_who.number, tail.1);
        let number = *self.numbers.entry(key).or_insert(self.pairs.len());
        if number == self.pairs.len() {
            self.pairs.push(Raw {
                head: (head_who.number, head.1),
                tail: (tail_who.number, tail.1),
                first: occurrence,
                times: 0,
                directions: Vec::new(),
                elsewhere: Vec::new(),
                places: Vec::new(),
                occurrences: Vec::new(),
            });
        }
        self.pairs[number].note(occurrence);
        if head_who.position != UNPLACED && tail_who.position != UNPLACED {
            self.pairs[number].place(Placed { occurrence, head: head_who.position, tail: tail_who.position });
        }
        number
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
        self.add_place(occurrence.address);
    }

    #[inline]
    fn add_place(&mut self, address: u64) {
        if self.places.len() < MOST_PLACES
            && let Err(place) = self.places.binary_search(&address)
        {
            self.places.insert(place, address);
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
            last: Heads::Nearest(Box::default()),
            blocks: BTreeMap::new(),
            whos: Whos::default(),
            turns: Turns::default(),
            outlines: Outlines::default(),
            gathered: Gathered::default(),
            loops: None,
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

    /// Looks at every two threads as if there were no others.
    pub fn two_by_two(self) -> Collector {
        Collector { last: Heads::TwoByTwo(Box::default()), ..self }
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
        let pc = |number: u32| self.instructions[number as usize].pc;
        let executed: BTreeSet<u64> =
            self.sites.iter().filter(|site| site.is_executed).map(|site| pc(site.number)).collect();
        let mut groups = match self.last {
            Heads::Nearest(nearest) => nearest.groups,
            Heads::TwoByTwo(_) => Groups::default(),
        };
        for pair in &self.gathered.pairs {
            groups.join(pair.head.0, pair.tail.0);
        }
        let (executed, meeting) = (executed.into_iter().collect(), groups.named(pc));
        let nesting = self.loops.map(|loops| loops.nesting);
        let (positions, contexts) = nesting.map(|nesting| (nesting.positions, nesting.contexts)).unwrap_or_default();
        Collected { pairs, accesses: self.turns.order(), executed, meeting, positions, contexts }
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

    /// A thread does something: if it is another one than before, that one's turn is over.
    #[inline]
    fn enter(&mut self, thread: Thread) {
        if self.turns.running() != thread {
            self.settle();
        }
    }

    fn access(&mut self, thread: Thread, access: &Access) {
        self.turns.count(thread, 1);
        let facts = &mut self.sites[access.site.0 as usize];
        if !facts.concerns(access.kind) {
            return;
        }
        facts.is_executed = true;
        let number = facts.number;
        let who = Who { thread, position: self.position(thread, number), number: self.called_from(thread, number) };
        let (order, size) = (self.turns.order(), u64::from(access.size).clamp(1, LONGEST));
        let (reads, writes) = (access.kind.reads(), access.kind.writes());
        let span = Span { address: access.address, size, reads, writes };
        if let Heads::Nearest(nearest) = &mut self.last {
            nearest.stretch.add_single(Single { who, order, span });
        }
        self.hear(who, order, span);
    }

    /// Hears an access: its first bytes in this turn, or all if every two threads are looked at.
    fn hear(&mut self, who: Who, order: u64, span: Span) {
        let (mut reads, mut writes) = (span.reads, span.writes);
        if let Heads::Nearest(nearest) = &mut self.last {
            let fresh = nearest.touched.touch(span);
            (reads, writes) = (fresh.reads, fresh.writes);
            if fresh.is_met {
                nearest.touched.join(span, who.number, &mut nearest.groups);
            }
        }
        let deeds = [reads.then_some(Deed::Read), writes.then_some(Deed::Write)];
        deeds.into_iter().flatten().for_each(|deed| self.visit(who, order, span, deed));
    }

    fn visit(&mut self, who: Who, order: u64, span: Span, deed: Deed) {
        let stamp = Stamp::new(self.whos.number(who), order);
        let (gathered, scope, whos, turns) = (&mut self.gathered, &self.scope, &self.whos, &self.turns);
        let mut pair = |head: Stamp, head_deed: Deed, at: u64| {
            if !scope.ignores_memory(at) {
                gathered.add((head, head_deed), (stamp, deed), at, whos, turns);
            }
        };
        match &mut self.last {
            Heads::Nearest(nearest) => {
                let visitor = Visitor { thread: who.thread, stamp, threads: whos.threads() };
                if nearest.cells.access((span.address, span.size), deed, &visitor, pair) {
                    nearest.touched.meet(span, who.number, &mut nearest.groups);
                }
            }
            Heads::TwoByTwo(last) => {
                let past = Past { thread: who.thread, stamp };
                last.access(span.address, span.size, deed, past, |head, deed, at| pair(head.stamp, deed, at));
            }
        }
    }

    /// Whether a record does nothing that its thread has not done before in this turn.
    #[inline]
    fn is_known(&mut self, outline: Outline, words: &[u64], fs_base: u64) -> bool {
        let Heads::Nearest(nearest) = &mut self.last else { return false };
        let Nearest { touched, groups, .. } = &mut **nearest;
        self.outlines.parts(outline).iter_mut().all(|part| {
            let span = part.memory.span(words, fs_base);
            let is_known = touched.is_known(span, part.group);
            if is_known == Some(true) {
                let members = part.numbers.iter().map(|number| touched.join(span, *number, groups));
                part.group = members.last();
            }
            is_known.is_some()
        })
    }

    fn hear_record(&mut self, thread: Thread, outline: Outline, words: &[u64], fs_base: u64) {
        let before = self.turns.order() - u64::from(outline.accesses);
        for index in 0..self.outlines.heard(outline).len() {
            let heard: Heard = self.outlines.heard(outline)[index];
            let who = Who { thread, number: heard.number, position: UNPLACED };
            self.hear(who, before + u64::from(heard.order), heard.span(words, fs_base));
        }
    }

    fn settle_if_long(&mut self) {
        if matches!(&self.last, Heads::Nearest(nearest) if nearest.stretch.is_long()) {
            self.settle();
        }
    }

    /// Tells the cells the last accesses of the thread whose turn is over.
    fn settle(&mut self) {
        let Heads::Nearest(nearest) = &mut self.last else { return };
        let mut stretch = std::mem::take(&mut nearest.stretch);
        for done in stretch.backwards() {
            if nearest.touched.is_empty() {
                break;
            }
            match done {
                Done::Single(single) => nearest.settle(single, &mut self.whos),
                Done::Row(row) => {
                    nearest.settle_row(&stretch, row, self.turns.running(), &mut self.outlines, &mut self.whos);
                }
            }
        }
        stretch.clear();
        nearest.stretch = stretch;
    }

    fn freed(&mut self, thread: Thread, address: u64, pc: u64) {
        let number = self.number_of(Place { pc, context: NOWHERE });
        let number = self.called_from(thread, number);
        self.turns.count(thread, 1);
        let Some(size) = self.blocks.remove(&address) else { return };
        let stamp = Stamp::new(self.whos.number(Who { thread, number, position: UNPLACED }), self.turns.order());
        let (gathered, whos, turns) = (&mut self.gathered, &self.whos, &self.turns);
        let mut pair = |head, deed, at| gathered.add((head, deed), (stamp, Deed::Write), at, whos, turns);
        match &mut self.last {
            Heads::Nearest(nearest) => {
                let Nearest { cells, touched, groups, .. } = &mut **nearest;
                let visitor = Visitor { thread, stamp, threads: whos.threads() };
                touched.forget(address..=address.saturating_add(size.max(1) - 1), false);
                cells.overwrite((address, size), &visitor, |head, deed, at| {
                    touched.meet(Span { address: at, size: 1, reads: false, writes: true }, number, groups);
                    pair(head, deed, at);
                });
            }
            Heads::TwoByTwo(last) => {
                let past = Past { thread, stamp };
                last.overwrite(address, size, past, |head, deed, at| pair(head.stamp, deed, at));
            }
        }
    }

    fn forget(&mut self, address: u64, size: u64) {
        match &mut self.last {
            Heads::Nearest(nearest) => {
                nearest.touched.forget(whole_granules(address, size), true);
                nearest.cells.forget(address, size);
            }
            Heads::TwoByTwo(last) => last.forget(address, size),
        }
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

impl Nearest {
    fn settle(&mut self, Single { who, order, span }: &Single, whos: &mut Whos) {
        let Nearest { cells, touched, .. } = self;
        let stamp = Stamp::new(whos.number(*who), *order);
        // An update writes after it has read.
        if span.writes {
            touched.take_last_writes(*span, |at, size, was_read| cells.renew_write((at, size), stamp, was_read));
        }
        if span.reads {
            touched.take_last_reads(*span, |at, size| cells.renew_read((at, size), stamp));
        }
    }

    fn settle_row(&mut self, stretch: &Stretch, row: &Row, thread: Thread, outlines: &mut Outlines, whos: &mut Whos) {
        let mut order = row.order;
        for words in stretch.records_backwards(row) {
            if self.touched.is_empty() {
                return;
            }
            let outline = outlines.known(words[0] as u32);
            order -= u64::from(outline.accesses);
            let mut parts = outlines.parts(outline).iter();
            if !parts.any(|part| self.touched.is_sought(part.memory.span(words, row.fs_base))) {
                continue;
            }
            for heard in outlines.heard(outline).iter().rev() {
                let who = Who { thread, number: heard.number, position: UNPLACED };
                let (order, span) = (order + u64::from(heard.order), heard.span(words, row.fs_base));
                self.settle(&Single { who, order, span }, whos);
            }
        }
    }
}

impl Listener for Collector {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        self.enter(thread);
        for access in accesses {
            self.access(thread, access);
        }
        self.settle_if_long();
    }

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        self.enter(thread);
        let (mut length, mut n_records) = (0, 0);
        for record in records.plain() {
            let sites = &mut self.sites;
            let outline = self.outlines.of(record.number, records.patterns, |template| {
                let facts = &mut sites[template.site.0 as usize];
                let concerns = facts.concerns(template.kind);
                facts.is_executed |= concerns;
                concerns.then_some(facts.number)
            });
            self.turns.count(thread, u64::from(record.accesses));
            if let Heads::Nearest(nearest) = &mut self.last {
                nearest.stretch.begin(length);
            }
            (length, n_records) = (length + record.words.len(), n_records + 1);
            if !self.is_known(outline, record.words, records.fs_base) {
                self.hear_record(thread, outline, record.words, records.fs_base);
            }
        }
        if let Heads::Nearest(nearest) = &mut self.last {
            nearest.stretch.add_row(&records.words[..length], n_records, records.fs_base, self.turns.order());
        }
        self.settle_if_long();
        length
    }

    fn reads_records(&self) -> bool {
        self.loops.is_none()
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.enter(thread);
        match *event {
            Event::Allocated { address, size, .. } => {
                self.blocks.insert(address, size);
                self.forget(address, size);
            }
            Event::Freed { address, site } => self.freed(thread, address, site),
            Event::Mapped { address, size } => self.forget(address, size),
            _ => self.follow(thread, event),
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        let number = self.number_of(Place { pc, context: NOWHERE });
        let (is_ignored, synchronises) = (self.scope.ignores_code(pc), self.scope.synchronises(pc));
        let nothing = SiteFacts { number: 0, is_ignored: true, synchronises: false, is_executed: false };
        self.sites.resize(self.sites.len().max(site.0 as usize + 1), nothing);
        self.sites[site.0 as usize] = SiteFacts { number, is_ignored, synchronises, ..nothing };
    }
}
