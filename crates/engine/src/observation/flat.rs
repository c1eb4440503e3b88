//! From records to plain accesses, many at a time: for listeners that want every access of a run and little else.
//!
//! What a unit's records have in common is worked out once: each access is then an addition. Whatever is out of the ordinary
//! (repeated instructions, accesses seen by the engine) goes the long way, by [`Events`](super::Events).

use super::{Batch, EventKind, Mark};
use crate::code::observe::{AccessKind as Seen, Catalogue, UnitFacts};
use crate::observation::step::{STEPPED, Stepped};
use std::ops::Range;
use trace::stream::{Access, AccessKind, Site};

/// Accesses are handed over by so many or a few more, which stay in the processor's nearest caches meanwhile.
const HANDED_OVER: usize = 1024;

/// An access of a unit, but for the base.
#[derive(Clone, Copy)]
struct Template {
    offset: i64,
    size: u32,
    site: Site,
    /// Index of the instruction in its unit.
    instruction: u16,
    word: u16,
    kind: AccessKind,
    through_fs: bool,
}

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
#[derive(Clone, Copy)]
struct Unit {
    /// Where its templates begin, and its marks.
    first: u32,
    first_mark: u32,
    marks: u16,
    is_ordinary: bool,
}

/// What a record's number stands for.
#[derive(Clone, Copy)]
struct Kind {
    /// The unit's templates, as far as its instructions ran.
    first: u32,
    accesses: u16,
    /// Its marks, all of them.
    marks: u16,
    first_mark: u32,
    words: u16,
    executed: u16,
    retracts: bool,
    is_ordinary: bool,
}

/// What is told of a batch.
pub trait Flat {
    fn accesses(&mut self, accesses: &[Access]);
    /// A marked instruction is about to run.
    fn marked(&mut self, pc: u64, mark: Mark, words: &[u64]);
    /// The number that stands for an instruction.
    fn site(&mut self, pc: u64) -> Site;
}

/// Reads batches of one run.
#[derive(Default)]
pub struct Flattener {
    templates: Vec<Template>,
    marks: Vec<Marked>,
    units: Vec<Unit>,
    kinds: Vec<Kind>,
    accesses: Vec<Access>,
    /// Pushes and pops are told too.
    with_pushes: bool,
}

impl Flattener {
    pub fn new(with_pushes: bool) -> Flattener {
        Flattener { with_pushes, ..Flattener::default() }
    }

    pub fn read(&mut self, batch: &Batch<'_>, to: &mut impl Flat) {
        self.learn(batch.catalogue, to);
        let mut rest = batch.words;
        let mut fs_base = batch.fs_base;
        let mut kind = self.kind(rest);
        while !rest.is_empty() {
            if let Some(ordinary) = kind.filter(|kind| kind.is_ordinary) {
                let (words, after) = rest.split_at(usize::from(ordinary.words));
                rest = after;
                kind = self.kind(rest);
                let executed = ordinary.executed - u16::from(kind.is_some_and(|next| next.retracts));
                self.tell(ordinary, executed, words, fs_base, to);
            } else {
                let length = self.length(rest);
                // What takes an instruction back stands behind it.
                let (_, after) = rest.split_at(length);
                let is_taken_back = self.kind(after).is_some_and(|next| next.retracts);
                let shown = if is_taken_back { length + self.length(after) } else { length };
                fs_base = self.go_the_long_way(batch, &rest[..shown], fs_base, to);
                rest = after;
                kind = self.kind(rest);
            }
        }
        self.hand_over(to);
    }

    /// Takes in units and records that are new in the catalogue.
    fn learn(&mut self, catalogue: &Catalogue, to: &mut impl Flat) {
        for unit in &catalogue.units()[self.units.len()..] {
            self.learn_unit(unit, to);
        }
        for record in &catalogue.records()[self.kinds.len()..] {
            let unit = self.units[record.unit as usize];
            let end = self.units.get(record.unit as usize + 1).map_or(self.templates.len(), |next| next.first as usize);
            let templates = &self.templates[unit.first as usize..end];
            self.kinds.push(Kind {
                first: unit.first,
                accesses: n_before(templates, record.executed),
                marks: unit.marks,
                first_mark: unit.first_mark,
                words: record.words,
                executed: record.executed,
                retracts: record.retracts,
                is_ordinary: unit.is_ordinary && !record.retracts,
            });
        }
    }

    fn learn_unit(&mut self, unit: &UnitFacts, to: &mut impl Flat) {
        let (first, first_mark) = (self.templates.len(), self.marks.len());
        for facts in unit.accesses.iter().filter(|facts| self.with_pushes || !facts.is_push_or_pop) {
            let site = to.site(unit.sites[usize::from(facts.instruction)].pc);
            self.templates.push(Template {
                offset: facts.offset,
                size: facts.size,
                site,
                instruction: facts.instruction,
                word: facts.word,
                kind: facts.kind.into(),
                through_fs: facts.through_fs,
            });
        }
        for (instruction, site) in (0..).zip(&unit.sites) {
            if let Some((mark, word)) = site.mark {
                let after = n_before(&self.templates[first..], instruction);
                self.marks.push(Marked { pc: site.pc, instruction, after, word, mark });
            }
        }
        let marks = (self.marks.len() - first_mark) as u16;
        let is_ordinary = is_ordinary(unit);
        self.units.push(Unit { first: first as u32, first_mark: first_mark as u32, marks, is_ordinary });
    }

    /// What the first record is, if it is one of a unit's.
    #[inline]
    fn kind(&self, words: &[u64]) -> Option<Kind> {
        self.kinds.get(*words.first()? as usize).copied()
    }

    fn length(&self, words: &[u64]) -> usize {
        if words[0] == STEPPED {
            return words.len() - Stepped::split(words).1.len();
        }
        usize::from(self.kinds[words[0] as usize].words)
    }

    /// Tells an ordinary record, of which so many instructions count.
    #[inline]
    fn tell(&mut self, kind: Kind, executed: u16, words: &[u64], fs_base: u64, to: &mut impl Flat) {
        let first = kind.first as usize;
        let accesses = if executed == kind.executed {
            kind.accesses
        } else {
            n_before(&self.templates[first..][..usize::from(kind.accesses)], executed)
        };
        let mut told = 0;
        if kind.marks != 0 {
            told = self.tell_marks(kind, executed, words, fs_base, to);
        }
        self.add(first + told..first + usize::from(accesses), words, fs_base);
        if self.accesses.len() >= HANDED_OVER {
            self.hand_over(to);
        }
    }

    /// Tells the marks of a record, each with the accesses before it. Gives how many these were.
    fn tell_marks(&mut self, kind: Kind, executed: u16, words: &[u64], fs_base: u64, to: &mut impl Flat) -> usize {
        let mut told = 0;
        for index in kind.first_mark..kind.first_mark + u32::from(kind.marks) {
            let marked = self.marks[index as usize];
            if marked.instruction >= executed {
                break;
            }
            let (first, after) = (kind.first as usize, usize::from(marked.after));
            self.add(first + told..first + after, words, fs_base);
            told = after;
            self.hand_over(to);
            to.marked(marked.pc, marked.mark, &words[usize::from(marked.word)..][..marked.mark.words()]);
        }
        told
    }

    #[inline]
    fn add(&mut self, templates: Range<usize>, words: &[u64], fs_base: u64) {
        self.accesses.extend(self.templates[templates].iter().map(|template| {
            // The word 0 is the record's number, which stands for no base.
            let base = if template.word == 0 { 0 } else { words[usize::from(template.word)] };
            let segment = if template.through_fs { fs_base } else { 0 };
            let address = base.wrapping_add_signed(template.offset).wrapping_add(segment);
            Access { address, size: template.size, site: template.site, kind: template.kind }
        }));
    }

    /// Tells one record by its events; returns the FS base behind it.
    fn go_the_long_way(&mut self, batch: &Batch<'_>, words: &[u64], fs_base: u64, to: &mut impl Flat) -> u64 {
        let one = Batch { words, fs_base, ..*batch };
        let mut events = one.events();
        for event in events.by_ref() {
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

/// How many of a unit's accesses are of instructions before this one.
fn n_before(templates: &[Template], instruction: u16) -> u16 {
    templates.partition_point(|template| template.instruction < instruction) as u16
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
