//! From a crash to the instructions that made the value it crashed on.
//!
//! The way back goes through copies, and through the arithmetic of the failing statement itself: a base and an index are
//! suspects, not their sum. A value of the program's own making begins where it was computed. One that was never meant for
//! its place begins with the store that put it there: when its bytes come from several stores, or it came in bulk and
//! from nothing that was computed as a whole.

use super::check::Check;
use super::sites::{Area, Sites};
use session::rerun::{Definition, Origins};
use std::collections::{BTreeMap, BTreeSet};

/// A way from the crash back to one of its origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trail {
    /// The definitions on the way, the latest first, the origin last.
    pub path: Vec<Definition>,
    /// Why it ends there.
    pub end: End,
    /// The way goes on beyond what is known.
    pub is_open: bool,
    /// What the memory check says of the origin.
    pub check: Check,
    /// Where on the path the values begin that count.
    pub root: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The value was computed there.
    Computed,
    /// The value was put there by a store that moves bytes, not this value.
    Moved,
    /// There is nothing known before.
    Older,
}

/// What a value that was used as an address looks like, the worst last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Suspicion {
    /// It leads to memory.
    Good,
    Index,
    Null,
    Wild,
}

/// How a run crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// By an access to memory.
    Access,
    /// By what it computed with.
    Operands,
    /// By going where there is no code.
    Jump,
    /// By itself, as this branch decided.
    Abort { branch: Option<u32> },
}

impl Trail {
    /// A way that is known up to its end.
    pub fn new(path: Vec<Definition>, end: End) -> Trail {
        Trail { path, end, is_open: false, check: Check::default(), root: 1 }
    }

    pub fn origin(&self) -> Option<&Definition> {
        self.path.last()
    }
}

/// A pointer that is smaller is null, with an offset.
pub const NULL_PAGE: u64 = 0x1_0000;
/// A loop's counter is copied not more often than this from one time to the next.
const MOST_COPIES: usize = 4;
/// What a value is taken to be as wide as, where no access tells.
const WORD: u64 = 8;

pub struct Chain<'a> {
    by_number: BTreeMap<u32, &'a Definition>,
    failure: &'a Definition,
    branch: Option<u32>,
    /// Nothing happened before what is known.
    is_whole: bool,
    sites: &'a Sites,
}

pub fn number(text: &str) -> u64 {
    text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

fn memory(definition: &Definition) -> Option<(u64, u64)> {
    definition.memory.as_ref().map(|memory| (number(&memory.address), u64::from(memory.size)))
}

/// Where a copy read its value, if in memory.
fn read_from(definition: &Definition) -> Option<(u64, u64)> {
    let (address, size) = memory(definition)?;
    match definition.memory.as_ref()?.from.as_deref() {
        Some(from) => Some((number(from), size)),
        None => (!stores(definition)).then_some((address, size)),
    }
}

/// Whether a definition is a store.
pub fn stores(definition: &Definition) -> bool {
    definition.memory.as_ref().is_some_and(|memory| memory.writes)
}

/// The way to where a value was made. A constant means nothing before it is stored somewhere.
fn computed(path: &[Definition]) -> Vec<Definition> {
    let is_constant = path.last().is_some_and(|last| last.values.is_empty() && !stores(last));
    let stored = path.iter().rposition(stores).filter(|position| is_constant && *position > 0);
    path[..stored.map_or(path.len(), |position| position + 1)].to_vec()
}

/// What a store of two halves that were put together in a vector register wants of one of them: nothing if it wants the
/// other one.
fn half_of(definition: &Definition, number: u32, wanted: Wanted) -> Option<Wanted> {
    let size = memory(definition).map_or(0, |(_, size)| size);
    let [low, high] = definition.values.as_slice() else { return Some(Wanted { number, ..wanted }) };
    if size != 2 * WORD || wanted.offset % WORD + wanted.length > WORD {
        return Some(Wanted { number, ..wanted });
    }
    let half = if wanted.offset < WORD { *low } else { *high };
    (half == number).then_some(Wanted { number, offset: wanted.offset % WORD, length: wanted.length })
}

/// Each origin once: what came first is the first corruption.
fn once_each(mut trails: Vec<Trail>) -> Vec<Trail> {
    let mut seen = BTreeSet::new();
    trails.retain(|trail| trail.origin().is_none_or(|origin| seen.insert(origin.number)));
    trails.sort_by_key(|trail| trail.origin().map(|origin| origin.number));
    trails
}

/// Where on the way back one is.
#[derive(Clone, Copy)]
struct Wanted {
    number: u32,
    /// Which bytes of the definition's value count.
    offset: u64,
    length: u64,
}

impl<'a> Chain<'a> {
    pub fn new(origins: &'a Origins, is_whole: bool, sites: &'a Sites) -> Option<Chain<'a>> {
        let by_number = origins.definitions.iter().map(|definition| (definition.number, definition)).collect();
        Some(Chain {
            by_number,
            failure: origins.failure.as_ref()?,
            branch: origins.branches.first().copied(),
            is_whole,
            sites,
        })
    }

    /// The ways back, each origin once. Good pointers are no suspects beside bad ones.
    pub fn trails(&self, fault: Fault) -> Vec<Trail> {
        let roots = match fault {
            Fault::Access => &self.failure.addresses,
            Fault::Operands | Fault::Jump => &self.failure.values,
            Fault::Abort { branch } => return branch.map_or(Vec::new(), |branch| once_each(self.decided_by(branch))),
        };
        let mut trails = self.from(roots, std::slice::from_ref(self.failure));
        if trails.iter().all(|trail| trail.end == End::Older && !trail.is_open) {
            trails = self.without_value(trails);
        }
        let worst = trails.iter().map(|trail| self.suspicion(trail)).max();
        trails.retain(|trail| Some(self.suspicion(trail)) == worst);
        once_each(trails)
    }

    /// The ways back from what a branch compared.
    pub fn decided_by(&self, branch: u32) -> Vec<Trail> {
        let Some(&branch) = self.by_number.get(&branch) else { return Vec::new() };
        let path = [self.failure.clone(), branch.clone()];
        let compared = branch.values.iter().filter_map(|number| self.by_number.get(number));
        let roots: Vec<u32> = compared.flat_map(|compared| compared.values.iter().copied()).collect();
        self.from(&roots, &path)
    }

    /// The ways back from some definitions.
    fn from(&self, roots: &[u32], path: &[Definition]) -> Vec<Trail> {
        let mut trails = Vec::new();
        for &number in roots {
            let root = path.len();
            let mut found = Vec::new();
            self.follow(Wanted { number, offset: 0, length: WORD }, &mut path.to_vec(), &mut found);
            trails.extend(found.into_iter().map(|trail| Trail { root, ..trail }));
        }
        trails
    }

    /// Nobody has ever stored the value: then where it was read from is suspect, or else what led there.
    fn without_value(&self, trails: Vec<Trail>) -> Vec<Trail> {
        let mut others = Vec::new();
        for trail in &trails {
            let load = trail.path.iter().rposition(|step| step.memory.is_some());
            if let Some(position) = load.filter(|position| *position > 0) {
                others.extend(self.from(&trail.path[position].addresses, &trail.path[..=position]));
            }
        }
        if others.iter().all(|trail| trail.end == End::Older)
            && let Some(branch) = self.branch
        {
            others = self.decided_by(branch);
        }
        others.retain(|trail| trail.end != End::Older || trail.is_open);
        if others.is_empty() { trails } else { others }
    }

    /// How bad the value is that the failing statement took from a way.
    fn suspicion(&self, trail: &Trail) -> Suspicion {
        let leaf = trail.path.iter().skip(trail.root).find(|step| !self.is_arithmetic(step));
        let value = leaf.map_or(0, |leaf| number(&leaf.value));
        match value {
            _ if self.sites.is_mapped(value) => Suspicion::Good,
            // Of a null pointer and its index, the pointer is the wider one.
            0..NULL_PAGE if leaf.and_then(memory).is_some_and(|(_, size)| size < WORD) => Suspicion::Index,
            0..NULL_PAGE => Suspicion::Null,
            _ => Suspicion::Wild,
        }
    }

    /// Whether a definition computes the address that the failing statement uses.
    fn is_arithmetic(&self, definition: &Definition) -> bool {
        let is_near = definition.thread == self.failure.thread && definition.clock == self.failure.clock;
        let (pc, failing) = (number(&definition.pc), number(&self.failure.pc));
        let is_library = self.sites.is_in_c_library(failing);
        !definition.copies && !stores(definition) && (is_near || is_library) && self.sites.same_statement(pc, failing)
    }

    fn follow(&self, wanted: Wanted, path: &mut Vec<Definition>, trails: &mut Vec<Trail>) {
        let Some(&definition) = self.by_number.get(&wanted.number) else {
            return trails.push(self.unknown(path, true));
        };
        if path.len() > self.by_number.len() {
            return;
        }
        path.push(definition.clone());
        if definition.copies {
            self.follow_copy(definition, wanted, path, trails);
        } else if self.is_arithmetic(definition) && !definition.values.is_empty() {
            for &number in &definition.values {
                self.follow(Wanted { number, offset: 0, length: WORD }, path, trails);
            }
        } else if definition.system_call {
            trails.push(self.unknown(path, false));
        } else {
            trails.push(Trail::new(computed(path), End::Computed));
        }
        path.pop();
    }

    fn follow_copy(
        &self,
        definition: &Definition,
        wanted: Wanted,
        path: &mut Vec<Definition>,
        trails: &mut Vec<Trail>,
    ) {
        let bytes = read_from(definition).map(|(address, size)| {
            let offset = wanted.offset.min(size);
            (address + offset, wanted.length.min(size - offset))
        });
        let sources = self.sources(definition, wanted, bytes);
        match sources.as_slice() {
            [] => trails.push(self.unknown(path, false)),
            [only] => self.follow(*only, path, trails),
            // It came in bulk, from many places: whoever brought it here is to blame.
            _ if path.iter().skip(1).any(|step| self.is_bulk(step)) => trails.push(self.unknown(path, false)),
            // Nobody has stored the value as a whole: whoever stored a part of it is to blame.
            parts => {
                for part in parts {
                    let origin = self.by_number.get(&part.number).map(|definition| (*definition).clone());
                    let path = path.iter().cloned().chain(origin).collect();
                    trails.push(Trail::new(path, End::Moved));
                }
            }
        }
    }

    /// The definitions that the wanted bytes of a copy come from.
    fn sources(&self, definition: &Definition, wanted: Wanted, bytes: Option<(u64, u64)>) -> Vec<Wanted> {
        let mut sources = Vec::new();
        let mut whole = Vec::new();
        for &number in &definition.values {
            let stored = self.by_number.get(&number).filter(|source| stores(source)).and_then(|source| memory(source));
            let source = match (bytes, stored) {
                (Some((start, length)), Some((address, size))) => {
                    let first = start.max(address);
                    let end = (start + length).min(address + size);
                    if first >= end {
                        continue;
                    }
                    if end - first == length && size >= length {
                        whole.push(number);
                    }
                    Wanted { number, offset: first - address, length: end - first }
                }
                (Some((_, length)), None) => Wanted { number, offset: 0, length },
                (None, _) => match half_of(definition, number, wanted) {
                    Some(half) => half,
                    None => continue,
                },
            };
            sources.push(source);
        }
        if sources.len() > 1 {
            sources.retain(|source| source.number != 0);
        }
        // What was stored as a whole has been overwritten in part.
        if sources.len() > 1 && sources.iter().any(|source| !whole.contains(&source.number)) {
            sources.retain(|source| !whole.contains(&source.number));
        }
        sources
    }

    /// Whether a value was made of an earlier one by the same instruction: it counts.
    pub fn is_counter(&self, definition: &Definition) -> bool {
        let mut at = definition;
        for _ in 0..MOST_COPIES {
            let before =
                at.values.iter().filter_map(|number| self.by_number.get(number)).max_by_key(|before| before.number);
            match before {
                Some(before) if before.pc == definition.pc => return !definition.copies,
                Some(before) if before.copies => at = before,
                _ => return false,
            }
        }
        false
    }

    /// Whether a definition stores bytes, rather than one value.
    fn is_bulk(&self, definition: &Definition) -> bool {
        let size = memory(definition).map_or(0, |(_, size)| size);
        let pc = number(&definition.pc);
        // A library that keeps a register for its caller does not bring anything.
        let brings = self.sites.is_in_c_library(pc) && !self.sites.makes_stack_pointer(pc);
        stores(definition) && definition.copies && (!matches!(size, 4 | 8) || brings)
    }

    fn is_on_stack(&self, definition: &Definition) -> bool {
        memory(definition).is_some_and(|(address, _)| self.sites.area(address) == Area::Stack)
    }

    /// A way that ends in what is not known: the store that brought it is to blame, bulk before single values.
    fn unknown(&self, path: &[Definition], is_open: bool) -> Trail {
        let is_open = is_open && !self.is_whole;
        let behind = path.iter().enumerate().skip(1);
        let bulk = behind.clone().find(|(_, definition)| self.is_bulk(definition));
        // A variable on the stack that a value was read into is no more than a copy of it.
        let keeps = |definition: &Definition| stores(definition) && !self.is_on_stack(definition);
        let store = bulk.or_else(|| behind.rev().find(|(_, definition)| keeps(definition)));
        match store {
            Some((position, _)) => Trail { is_open, ..Trail::new(path[..=position].to_vec(), End::Moved) },
            None => Trail { is_open, ..Trail::new(path.to_vec(), End::Older) },
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
