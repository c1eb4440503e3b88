//! From records to plain accesses, many at a time: for listeners that want every access of a run and little else.
//!
//! What a unit's records have in common is worked out once: each access is then an addition. Whatever is out of the ordinary
//! (repeated instructions, marks, accesses seen by the engine) goes the long way, by [`Events`](super::Events).

use super::{Batch, EventKind, Mark};
use crate::code::observe::{AccessKind as Seen, Catalogue, UnitFacts};
use crate::observation::step::{STEPPED, Stepped};
use trace::stream::{Access, AccessKind, Site};

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

/// What a record's number stands for.
#[derive(Clone, Copy)]
struct Kind {
    /// The unit's templates, as far as its instructions ran.
    first: u32,
    accesses: u16,
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
    /// Where the templates of a unit begin, and whether its records are ordinary.
    units: Vec<(u32, bool)>,
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
        while let Some(&number) = rest.first() {
            if let Some(kind) = self.kinds.get(number as usize).copied().filter(|kind| kind.is_ordinary) {
                let (words, after) = rest.split_at(usize::from(kind.words));
                rest = after;
                self.add(kind, words, fs_base, self.is_taken_back(after));
            } else {
                let length = self.length(rest);
                // What takes an instruction back stands behind it.
                let (_, after) = rest.split_at(length);
                let shown = if self.is_taken_back(after) { length + self.length(after) } else { length };
                fs_base = self.go_the_long_way(batch, &rest[..shown], fs_base, to);
                rest = &rest[length..];
            }
        }
        self.hand_over(to);
    }

    /// Takes in units and records that are new in the catalogue.
    fn learn(&mut self, catalogue: &Catalogue, to: &mut impl Flat) {
        for unit in &catalogue.units()[self.units.len()..] {
            let first = self.templates.len() as u32;
            self.units.push((first, is_ordinary(unit)));
            for facts in &unit.accesses {
                if facts.is_push_or_pop && !self.with_pushes {
                    continue;
                }
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
        }
        for record in &catalogue.records()[self.kinds.len()..] {
            let (first, is_ordinary) = self.units[record.unit as usize];
            let end = self.units.get(record.unit as usize + 1).map_or(self.templates.len(), |next| next.0 as usize);
            let templates = &self.templates[first as usize..end];
            let accesses = templates.partition_point(|template| template.instruction < record.executed);
            self.kinds.push(Kind {
                first,
                accesses: accesses as u16,
                words: record.words,
                executed: record.executed,
                retracts: record.retracts,
                is_ordinary: is_ordinary && !record.retracts,
            });
        }
    }

    fn is_taken_back(&self, after: &[u64]) -> bool {
        after.first().and_then(|&next| self.kinds.get(next as usize)).is_some_and(|next| next.retracts)
    }

    fn length(&self, words: &[u64]) -> usize {
        if words[0] == STEPPED {
            return words.len() - Stepped::split(words).1.len();
        }
        usize::from(self.kinds[words[0] as usize].words)
    }

    fn add(&mut self, kind: Kind, words: &[u64], fs_base: u64, is_taken_back: bool) {
        let templates = &self.templates[kind.first as usize..][..usize::from(kind.accesses)];
        let told = if is_taken_back {
            templates.partition_point(|template| template.instruction + 1 < kind.executed)
        } else {
            templates.len()
        };
        self.accesses.extend(templates[..told].iter().map(|template| {
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
    !unit.repeats && unit.sites.iter().all(|site| site.mark.is_none() && site.fs_base.is_none())
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
