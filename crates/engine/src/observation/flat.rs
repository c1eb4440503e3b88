//! From records to plain accesses, many at a time: for listeners that want every access of a run and little else.
//!
//! What a unit's records have in common is worked out once: each access is then an addition. Whatever is out of the ordinary
//! (repeated instructions, accesses seen by the engine) goes the long way, by [`Events`](super::Events). Who can read records
//! is offered them before they are taken apart.

use super::transfers::{Call, Transfers};
use super::{Batch, Event, EventKind, Mark};
use crate::code::observe::{AccessKind as Seen, Catalogue, Held as HeldWhere, SiteKind, Target, UnitFacts};
use crate::observation::step::{STEPPED, Stepped};
use std::ops::Range;
use trace::stream::records::{Held, Nature, Pattern, Patterns, Records, Template};
use trace::stream::{Access, AccessKind, Site};

/// Accesses are handed over by so many or a few more, which stay in the processor's nearest caches meanwhile.
const HANDED_OVER: usize = 1024;

/// A mark of a unit.
#[derive(Clone, Copy)]
struct Marked {
    pc: u64,
    instruction: u16,
    /// How many of the unit's accesses come before it.
    after: u16,
    /// Where its words begin.
    word: u16,
    mark: Mark,
}

/// What the records of a unit have in common.
#[derive(Clone)]
struct Unit {
    /// Where its templates begin, and its marks.
    first: u32,
    first_mark: u32,
    marks: u16,
    /// It has calls or returns that somebody wants.
    calls: bool,
    /// Which, if it has nothing else to tell.
    only_transfers: Range<u32>,
    is_ordinary: bool,
}

/// What a record's number stands for, beside its pattern.
#[derive(Clone)]
struct Kind {
    /// Its unit's marks, all of them.
    marks: u16,
    executed: u16,
    first_mark: u32,
    /// Its unit's calls and returns, if it has some that are wanted and nothing else.
    only_transfers: Range<u32>,
    is_ordinary: bool,
}

/// What is told of a batch.
pub trait Flat {
    fn accesses(&mut self, accesses: &[Access]);
    /// Takes in some of the plain records at the front and gives how many words they have.
    fn records(&mut self, _records: &Records<'_>) -> usize {
        0
    }
    /// Whether it makes sense to offer records.
    fn reads_records(&self) -> bool {
        false
    }
    /// A marked instruction is about to run.
    fn marked(&mut self, pc: u64, mark: Mark, words: &[u64]);
    /// A thread has called a function, in a record that is not offered since nothing else is in it.
    fn called(&mut self, _call: Call) {}
    /// The same for a return.
    fn returned(&mut self, _target: u64) {}
    /// What is not offered as a record or not taken, where values and calls are wanted too.
    fn detail(&mut self, _event: &Event<'_>) {}
    /// The number that stands for an instruction.
    fn site(&mut self, pc: u64) -> Site;
}

/// Reads batches of one run.
#[derive(Default)]
pub struct Flattener {
    patterns: Patterns,
    /// Of each template: the index of the instruction in its unit.
    instructions: Vec<u16>,
    marks: Vec<Marked>,
    transfers: Transfers,
    units: Vec<Unit>,
    kinds: Vec<Kind>,
    accesses: Vec<Access>,
    /// Pushes and pops are told too.
    with_pushes: bool,
    /// Records have values, and what nobody takes as a record is told by its events.
    in_detail: bool,
    /// Calls and returns are told, so that records with some are not plain.
    with_calls: bool,
}

impl Flattener {
    pub fn new(with_pushes: bool) -> Flattener {
        Flattener { with_pushes, ..Flattener::default() }
    }

    /// For who wants values, and maybe calls, and can read records.
    pub fn in_detail(with_calls: bool) -> Flattener {
        Flattener { in_detail: true, with_calls, ..Flattener::default() }
    }

    pub fn read(&mut self, batch: &Batch<'_>, to: &mut impl Flat) {
        self.learn(batch.catalogue, to);
        let offers_records = to.reads_records();
        let mut rest = batch.words;
        let mut fs_base = batch.fs_base;
        while !rest.is_empty() {
            if let Some(after) = self.with_calls.then(|| self.tell_transfers(rest, to)).flatten() {
                rest = after;
                continue;
            }
            if offers_records {
                self.hand_over(to);
                let taken = to.records(&Records { words: rest, fs_base, patterns: &self.patterns });
                rest = &rest[taken..];
            }
            let Some(number) = rest.first() else { break };
            let kind = self.kinds.get(*number as usize).filter(|kind| kind.is_ordinary && !self.in_detail).cloned();
            let (_, after) = rest.split_at(self.length(rest));
            let is_taken_back = self.patterns.of(after).is_some_and(|next| next.nature == Nature::Retracting);
            if let Some(ordinary) = kind {
                self.tell(ordinary, is_taken_back, rest, fs_base, to);
            } else {
                // What takes an instruction back stands behind it.
                let unread = if is_taken_back { &after[self.length(after)..] } else { after };
                fs_base = self.go_the_long_way(batch, &rest[..rest.len() - unread.len()], fs_base, to);
            }
            rest = after;
        }
        self.hand_over(to);
    }

    /// Tells a record in which there is nothing but calls and returns, and gives what is behind it.
    #[inline]
    fn tell_transfers<'a>(&self, words: &'a [u64], to: &mut impl Flat) -> Option<&'a [u64]> {
        let kind = self.kinds.get(words[0] as usize).filter(|kind| !kind.only_transfers.is_empty())?;
        let after = &words[usize::from(self.patterns.patterns[words[0] as usize].words)..];
        let is_taken_back = self.patterns.of(after).is_some_and(|next| next.nature == Nature::Retracting);
        let executed = kind.executed - u16::from(is_taken_back);
        self.transfers.tell(kind.only_transfers.clone(), executed, words, to);
        Some(after)
    }

    /// Takes in units and records that are new in the catalogue.
    fn learn(&mut self, catalogue: &Catalogue, to: &mut impl Flat) {
        for unit in &catalogue.units()[self.units.len()..] {
            self.learn_unit(unit, to);
        }
        for record in &catalogue.records()[self.kinds.len()..] {
            let unit = &self.units[record.unit as usize];
            let end =
                self.units.get(record.unit as usize + 1).map_or(self.instructions.len(), |next| next.first as usize);
            let accesses = n_before(&self.instructions[unit.first as usize..end], record.executed);
            let is_ordinary = unit.is_ordinary && !record.retracts;
            let nature = match (record.retracts, is_ordinary && unit.marks == 0 && !unit.calls) {
                (true, _) => Nature::Retracting,
                (false, true) => Nature::Plain,
                (false, false) => Nature::Special,
            };
            self.patterns.patterns.push(Pattern { first: unit.first, accesses, words: record.words, nature });
            self.kinds.push(Kind {
                marks: unit.marks,
                executed: record.executed,
                first_mark: unit.first_mark,
                only_transfers: if record.retracts { 0..0 } else { unit.only_transfers.clone() },
                is_ordinary,
            });
        }
    }

    fn learn_unit(&mut self, unit: &UnitFacts, to: &mut impl Flat) {
        let (first, first_mark) = (self.instructions.len(), self.marks.len());
        for facts in unit.accesses.iter().filter(|facts| self.with_pushes || !facts.is_push_or_pop) {
            let site = to.site(unit.sites[usize::from(facts.instruction)].pc);
            self.instructions.push(facts.instruction);
            self.patterns.templates.push(Template {
                offset: facts.offset,
                size: facts.size,
                site,
                word: facts.word,
                kind: facts.kind.into(),
                through_fs: facts.through_fs,
            });
            if self.in_detail {
                self.patterns.held.push([facts.before.into(), facts.after.into()]);
            }
        }
        for (instruction, site) in (0..).zip(&unit.sites) {
            if let Some((mark, word)) = site.mark {
                let after = n_before(&self.instructions[first..], instruction);
                self.marks.push(Marked { pc: site.pc, instruction, after, word, mark });
            }
        }
        let marks = (self.marks.len() - first_mark) as u16;
        let is_ordinary = is_ordinary(unit);
        let calls = self.with_calls && calls(unit);
        let only_transfers = if calls { self.transfers.learn(unit).unwrap_or_default() } else { 0..0 };
        let (first, first_mark) = (first as u32, first_mark as u32);
        self.units.push(Unit { first, first_mark, marks, calls, only_transfers, is_ordinary });
    }

    fn length(&self, words: &[u64]) -> usize {
        if words[0] == STEPPED {
            return words.len() - Stepped::split(words).1.len();
        }
        usize::from(self.patterns.patterns[words[0] as usize].words)
    }

    /// Tells an ordinary record, whose last instruction may be taken back.
    #[inline]
    fn tell(&mut self, kind: Kind, is_taken_back: bool, words: &[u64], fs_base: u64, to: &mut impl Flat) {
        let pattern = self.patterns.patterns[words[0] as usize];
        let first = pattern.first as usize;
        let executed = kind.executed - u16::from(is_taken_back);
        let accesses = match is_taken_back {
            false => pattern.accesses,
            true => n_before(&self.instructions[first..][..usize::from(pattern.accesses)], executed),
        };
        let mut told = 0;
        if kind.marks != 0 {
            told = self.tell_marks(kind, first, executed, words, fs_base, to);
        }
        self.add(first + told..first + usize::from(accesses), words, fs_base);
        if self.accesses.len() >= HANDED_OVER {
            self.hand_over(to);
        }
    }

    /// Tells the marks of a record, each with the accesses before it. Gives how many these were.
    fn tell_marks(
        &mut self,
        kind: Kind,
        first: usize,
        executed: u16,
        words: &[u64],
        fs_base: u64,
        to: &mut impl Flat,
    ) -> usize {
        let mut told = 0;
        for index in kind.first_mark..kind.first_mark + u32::from(kind.marks) {
            let marked = self.marks[index as usize];
            if marked.instruction >= executed {
                break;
            }
            let after = usize::from(marked.after);
            self.add(first + told..first + after, words, fs_base);
            told = after;
            self.hand_over(to);
            to.marked(marked.pc, marked.mark, &words[usize::from(marked.word)..][..marked.mark.words()]);
        }
        told
    }

    #[inline]
    fn add(&mut self, templates: Range<usize>, words: &[u64], fs_base: u64) {
        let templates = self.patterns.templates[templates].iter();
        self.accesses.extend(templates.map(|template| template.access(words, fs_base)));
    }

    /// Tells one record by its events; returns the FS base behind it.
    fn go_the_long_way(&mut self, batch: &Batch<'_>, words: &[u64], fs_base: u64, to: &mut impl Flat) -> u64 {
        let one = Batch { words, fs_base, ..*batch };
        let mut events = one.events();
        for event in events.by_ref() {
            if self.in_detail {
                to.detail(&event);
                continue;
            }
            match event.kind {
                EventKind::Access(access) if self.with_pushes || !access.is_push_or_pop => {
                    let site = to.site(event.pc);
                    let size = access.size.min(u64::from(u32::MAX)) as u32;
                    self.accesses.push(Access { address: access.address, size, site, kind: access.kind.into() });
                }
                EventKind::Marked { mark, words } => {
                    self.hand_over(to);
                    to.marked(event.pc, mark, words);
                }
                EventKind::Access(_)
                | EventKind::Entry { .. }
                | EventKind::Branch { .. }
                | EventKind::Call { .. }
                | EventKind::Return { .. } => {}
            }
        }
        events.fs_base()
    }

    fn hand_over(&mut self, to: &mut impl Flat) {
        if !self.accesses.is_empty() {
            to.accesses(&self.accesses);
            self.accesses.clear();
        }
    }
}

fn is_ordinary(unit: &UnitFacts) -> bool {
    !unit.repeats && unit.sites.iter().all(|site| site.fs_base.is_none())
}

fn calls(unit: &UnitFacts) -> bool {
    let is_told = |kind, target| matches!(kind, SiteKind::Call | SiteKind::Return) && target != Target::Unknown;
    unit.sites.iter().any(|site| is_told(site.kind, site.target))
}

/// How many accesses are of instructions before this one.
fn n_before(instructions: &[u16], instruction: u16) -> u16 {
    instructions.partition_point(|other| *other < instruction) as u16
}

impl From<Seen> for AccessKind {
    fn from(seen: Seen) -> AccessKind {
        match seen {
            Seen::Load => AccessKind::Read,
            Seen::Store => AccessKind::Write,
            Seen::Update => AccessKind::Update,
            Seen::Atomic => AccessKind::Atomic,
        }
    }
}

impl From<HeldWhere> for Held {
    fn from(held: HeldWhere) -> Held {
        match held {
            HeldWhere::Nowhere => Held::Nowhere,
            HeldWhere::Word(word) => Held::Word(word),
            HeldWhere::Constant(value) => Held::Constant(value),
        }
    }
}
