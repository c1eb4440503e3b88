//! Hearing a run: which pairs it has.

use super::cells::{Cells, Stamp, Visitor};
use super::collected::Collected;
use super::contexts::{CALLERS, NOWHERE, Place};
use super::gathered::{At, Gathered};
use super::groups::{Groups, LINE, Member, NOBODY};
use super::last::{LastAccesses, Past};
use super::nesting::{LoopsAround, Nesting};
use super::outlines::{Counted, Outline, Outlines};
use super::scope::{CodeRole, Scope};
use super::stamps::{Turns, UNPLACED, Who, Whos};
use super::sweeps::{Regard, Sweeps, pieces};
use super::{Deed, End};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use trace::stream::records::{Patterns, Records};
use trace::stream::{Access, Event, Listener, Site, Thread};

/// What is known of an instruction.
#[derive(Clone, Copy)]
struct SiteFacts {
    number: u32,
    role: CodeRole,
    is_executed: bool,
    /// Of those that come to the same memory, as far as is known.
    group: Member,
    /// The line of memory where it came to that last, and how much had been forgotten then.
    met_last: (u64, u64),
}

/// The last accesses of a run, by what is kept of them.
enum Heads {
    Nearest(Box<Cells>),
    TwoByTwo(Box<LastAccesses>),
}

/// Keeps the pairs of a run.
pub struct Collector {
    scope: Scope,
    /// The instructions that are looked at, if that is not all of them.
    among: Option<FxHashSet<u64>>,
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
    groups: Groups,
    /// How often memory has become another one.
    n_forgotten: u64,
    sweeps: Sweeps,
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

/// An access that may have to be looked at.
struct Coming {
    thread: Thread,
    stamp: Stamp,
    site: Site,
    reads: bool,
    writes: bool,
}

impl Collector {
    pub fn new(scope: Scope) -> Collector {
        Collector {
            scope,
            among: None,
            sites: Vec::new(),
            instructions: Vec::new(),
            numbers: FxHashMap::default(),
            last: Heads::Nearest(Box::default()),
            blocks: BTreeMap::new(),
            whos: Whos::default(),
            turns: Turns::default(),
            outlines: Outlines::default(),
            groups: Groups::default(),
            n_forgotten: 0,
            sweeps: Sweeps::default(),
            gathered: Gathered::default(),
            loops: None,
        }
    }

    /// Looks at these instructions only.
    pub fn among(self, instructions: impl IntoIterator<Item = u64>) -> Collector {
        Collector { among: Some(instructions.into_iter().collect()), ..self }
    }

    /// Looks at these instructions in a part of the memory that nobody else comes to.
    pub fn sweeping(self, instructions: impl IntoIterator<Item = u64>) -> Collector {
        Collector { sweeps: Sweeps::of(instructions), ..self }
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
        let pairs = self.gathered.seen(|number, deed| {
            let Place { pc, context } = self.instructions[number as usize];
            End { pc, deed, context }
        });
        let pc = |number: u32| self.instructions[number as usize].pc;
        let executed: BTreeSet<u64> =
            self.sites.iter().filter(|site| site.is_executed).map(|site| pc(site.number)).collect();
        let mut groups = self.groups;
        for (head, tail) in self.gathered.instructions() {
            groups.join(head, tail);
        }
        let (executed, meeting) = (executed.into_iter().collect(), groups.named(pc));
        let nesting = self.loops.map(|loops| loops.nesting);
        let (positions, contexts) = nesting.map(|nesting| (nesting.positions, nesting.contexts)).unwrap_or_default();
        let mut collected = Collected { pairs, accesses: self.turns.order(), executed, meeting, positions, contexts };
        collected.forget_unused_positions();
        collected
    }

    /// The number of the iterations that an access is in.
    fn position(&mut self, thread: Thread, number: u32) -> u32 {
        let pc = self.instructions[number as usize].pc;
        match &mut self.loops {
            Some(loops) if loops.sites.contains(&pc) => loops.nesting.position(thread, pc).unwrap_or(UNPLACED),
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

    fn access(&mut self, thread: Thread, access: &Access) {
        self.turns.count(thread, 1);
        let facts = &mut self.sites[access.site.0 as usize];
        if !facts.role.concerns(access.kind) {
            return;
        }
        facts.is_executed = true;
        let number = facts.number;
        let who = Who { thread, position: self.position(thread, number), number: self.called_from(thread, number) };
        let (stamp, site) = (Stamp::new(self.whos.number(who), self.turns.order()), access.site);
        let coming = Coming { thread, stamp, site, reads: access.kind.reads(), writes: access.kind.writes() };
        self.hear(&coming, (access.address, u64::from(access.size)));
    }

    /// Looks at an access, as far as that is worth it.
    #[inline]
    fn hear(&mut self, coming: &Coming, place: (u64, u64)) {
        match self.sweeps.come(coming.site, place) {
            Regard::None => {}
            Regard::InPart => pieces(place.0, place.1).for_each(|piece| self.hear_piece(coming, piece)),
            regard => self.look(coming, place, regard == Regard::Whole),
        }
    }

    fn hear_piece(&mut self, coming: &Coming, piece: (u64, u64)) {
        let regard = self.sweeps.come(coming.site, piece);
        if regard != Regard::None {
            self.look(coming, piece, regard == Regard::Whole);
        }
    }

    #[inline]
    fn look(&mut self, coming: &Coming, place: (u64, u64), is_sure: bool) {
        match self.renew(coming, place) {
            Some(false) => {}
            Some(true) => self.meet(coming.site, place),
            None => self.visit(coming, place, is_sure),
        }
    }

    /// See [`Cells::renew`].
    #[inline]
    fn renew(&mut self, coming: &Coming, place: (u64, u64)) -> Option<bool> {
        let Heads::Nearest(cells) = &mut self.last else { return None };
        let (thread, stamp, turn) = (coming.thread, coming.stamp, self.turns.start());
        cells.renew(place, coming.writes, &Visitor { thread, stamp, turn, threads: self.whos.threads() })
    }

    fn visit(&mut self, coming: &Coming, place: (u64, u64), is_sure: bool) {
        let Coming { thread, stamp, site, reads, writes } = *coming;
        let deeds = [reads.then_some(Deed::Read), writes.then_some(Deed::Write)];
        for deed in deeds.into_iter().flatten() {
            let (gathered, scope, whos, turns) = (&mut self.gathered, &self.scope, &self.whos, &self.turns);
            let mut pair = |head: Stamp, head_deed: Deed, address: u64| {
                if !scope.ignores_memory(address) {
                    gathered.add((head, head_deed), (stamp, deed), At { address, is_sure }, whos, turns);
                }
            };
            match &mut self.last {
                Heads::Nearest(cells) => {
                    let visitor = Visitor { thread, stamp, turn: turns.start(), threads: whos.threads() };
                    if cells.access(place, deed, &visitor, pair) {
                        self.meet(site, place);
                    }
                }
                Heads::TwoByTwo(last) => {
                    let past = Past { thread, stamp };
                    last.access(place.0, place.1, deed, past, |head, deed, at| pair(head.stamp, deed, at));
                }
            }
        }
    }

    /// An instruction comes to memory where threads have met.
    #[inline]
    fn meet(&mut self, site: Site, place: (u64, u64)) {
        let facts = &mut self.sites[site.0 as usize];
        let is_in_line = place.0 % LINE + place.1 <= LINE;
        if facts.met_last != (place.0 / LINE, self.n_forgotten) || !is_in_line {
            facts.met_last = (place.0 / LINE, self.n_forgotten);
            facts.group = self.groups.come(facts.group, facts.number, place);
        }
    }

    fn freed(&mut self, thread: Thread, address: u64, pc: u64) {
        let number = self.number_of(Place { pc, context: NOWHERE });
        let number = self.called_from(thread, number);
        self.turns.count(thread, 1);
        let Some(size) = self.blocks.remove(&address) else { return };
        let stamp = Stamp::new(self.whos.number(Who { thread, number, position: UNPLACED }), self.turns.order());
        let (gathered, sweeps, whos, turns) = (&mut self.gathered, &mut self.sweeps, &self.whos, &self.turns);
        let mut pair = |head, deed, address| {
            let at = At { address, is_sure: sweeps.is_known(address) };
            gathered.add((head, deed), (stamp, Deed::Write), at, whos, turns);
        };
        match &mut self.last {
            Heads::Nearest(cells) => {
                let visitor = Visitor { thread, stamp, turn: turns.start(), threads: whos.threads() };
                cells.overwrite((address, size), &visitor, pair);
            }
            Heads::TwoByTwo(last) => {
                let past = Past { thread, stamp };
                last.overwrite(address, size, past, |head, deed, at| pair(head.stamp, deed, at));
            }
        }
    }

    fn forget(&mut self, address: u64, size: u64) {
        self.n_forgotten += 1;
        self.sweeps.forget(address, size);
        match &mut self.last {
            Heads::Nearest(cells) => {
                cells.forget(address, size);
                self.groups.forget(address, size);
            }
            Heads::TwoByTwo(last) => last.forget(address, size),
        }
    }

    #[inline]
    fn outline(&mut self, pattern: u32, patterns: &Patterns) -> Outline {
        let (sites, sweeps) = (&mut self.sites, &self.sweeps);
        self.outlines.of(pattern, patterns, |template| {
            let facts = &mut sites[template.site.0 as usize];
            let concerns = facts.role.concerns(template.kind);
            facts.is_executed |= concerns;
            concerns.then(|| Counted { number: facts.number, is_sweeping: sweeps.is_sweeping(template.site) })
        })
    }

    /// The spans of a record that are to be looked at, by their bits.
    #[inline]
    fn live_spans(&self, outline: &Outline, words: &[u64], fs_base: u64) -> u64 {
        let sweeps = &self.sweeps;
        self.outlines.live_spans(outline, words, fs_base, |first, last| sweeps.are_passed(first, last))
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
            let outline = self.outline(record.number, records.patterns);
            self.turns.count(thread, u64::from(record.accesses));
            let live = self.live_spans(&outline, record.words, records.fs_base);
            if live == 0 {
                continue;
            }
            let whos = &mut self.whos;
            self.outlines
                .take_up(record.number, thread, |number| whos.number(Who { thread, number, position: UNPLACED }));
            let before = self.turns.order() - u64::from(record.accesses);
            for index in outline.heard() {
                let heard = self.outlines.heard(index);
                if heard.span & live == 0 {
                    continue;
                }
                let place = (heard.address(record.words, records.fs_base), u64::from(heard.size));
                let (stamp, site) = (Stamp::new(heard.who, before + u64::from(heard.order)), heard.site);
                let coming = Coming { thread, stamp, site, reads: heard.reads, writes: heard.writes };
                self.hear(&coming, place);
            }
        }
        length
    }

    fn reads_records(&self) -> bool {
        self.loops.is_none()
    }

    fn event(&mut self, thread: Thread, event: &Event) {
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
        let mut role = self.scope.role(pc);
        role.is_ignored |= self.among.as_ref().is_some_and(|among| !among.contains(&pc));
        let nothing = SiteFacts {
            number: 0,
            role: CodeRole::IGNORED,
            is_executed: false,
            group: NOBODY,
            met_last: (u64::MAX, 0),
        };
        self.sites.resize(self.sites.len().max(site.0 as usize + 1), nothing);
        self.sites[site.0 as usize] = SiteFacts { number, role, ..nothing };
        self.sweeps.add_site(site, pc);
    }
}
