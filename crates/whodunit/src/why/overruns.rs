//! What else the statements of stray stores have overrun, and those beside the first: all of it is left out at once, and what came
//! first is to blame.
//!
//! A statement that goes too far once mostly goes further; and where a loop goes too far, all of its statements do, whether the
//! failure depends on them or not. May miss: statements whose pointers were made long before.

use super::chain::{End, Trail, number};
use super::check::{Check, Checks};
use super::slice::Slice;
use crate::study::overruns::Store;
use session::rerun::{Accessed, Definition, Point};

/// So many stores are left out at once.
const MOST_STORES: usize = 1024;
/// So many other statements of the function are looked at.
const MOST_BESIDE: usize = 4;

/// Adds the overruns of the statements that the ways lead to, and of those beside the first; the earliest comes first.
pub fn add(trails: &mut Vec<Trail>, checks: &Checks<'_>) {
    let others = other_statements(trails);
    add_of_first(trails, checks);
    for (store, check, end) in others {
        append(trails, &store, &check, &checks.overruns(&store, end).overruns);
    }
}

fn add_of_first(trails: &mut Vec<Trail>, checks: &Checks<'_>) {
    let Some(first) = trails.first() else { return };
    let (Some(store), Some(end)) = (first.origin().cloned(), first.check.end) else { return };
    let found = checks.overruns(&store, end);
    let mut earliest = found.overruns.iter().map(|store| store.order).min();
    let check = Check { class: first.check.class, ..Check::default() };
    append(trails, &store, &check, &found.overruns);
    for other in found.before.iter().take(MOST_BESIDE) {
        let Some((beside, check, end)) = judged(&store, other, checks) else { continue };
        let overruns = checks.overruns(&beside, end).overruns;
        append(trails, &beside, &Check { class: check.class, ..Check::default() }, &overruns);
        let Some(first) = overruns.iter().min_by_key(|store| store.order) else { continue };
        if earliest.is_none_or(|earliest| first.order < earliest) {
            earliest = Some(first.order);
            put_first(trails, at(&beside, first), check);
        }
    }
}

/// A stray store of each instruction but the first way's, and what it went beyond the end of.
fn other_statements(trails: &[Trail]) -> Vec<(Definition, Check, u64)> {
    let mut found: Vec<(Definition, Check, u64)> = Vec::new();
    let first = trails.first().and_then(Trail::origin).map(|origin| &origin.pc);
    for trail in trails {
        let (Some(store), Some(end)) = (trail.origin(), trail.check.end) else { continue };
        let is_known = Some(&store.pc) == first || found.iter().any(|(known, ..)| known.pc == store.pc);
        if !is_known && found.len() < MOST_BESIDE {
            found.push((store.clone(), Check { class: trail.check.class, ..Check::default() }, end));
        }
    }
    found
}

/// Adds a way to each store that none leads to yet.
fn append(trails: &mut Vec<Trail>, like: &Definition, check: &Check, stores: &[Store]) {
    let failure: Vec<Definition> = trails[0].path.first().cloned().into_iter().collect();
    for store in stores {
        let definition = at(like, store);
        if trails.len() < MOST_STORES
            && !trails.iter().filter_map(Trail::origin).any(|known| is_same(known, &definition))
        {
            let path = failure.iter().cloned().chain([definition]).collect();
            trails.push(Trail { check: check.clone(), ..Trail::new(path, End::Moved) });
        }
    }
}

/// A store came first, though the failure does not depend on it: its way goes by the store that was known.
fn put_first(trails: &mut Vec<Trail>, store: Definition, check: Check) {
    trails.retain(|trail| !trail.origin().is_some_and(|known| is_same(known, &store)));
    let mut path = trails[0].path.clone();
    path.push(store);
    trails.insert(0, Trail { check, ..Trail::new(path, End::Moved) });
}

/// The definition of a store that is known by how often its instruction has stored.
fn at(like: &Definition, store: &Store) -> Definition {
    let address = format!("{:#x}", store.address);
    let memory = Accessed { address, size: store.size, writes: true, from: None, overwrites: None, return_below: None };
    // Counted from the beginning of the thread.
    Definition { pc: format!("{:#x}", store.pc), clock: 0, time: store.time, memory: Some(memory), ..like.clone() }
}

fn is_same(one: &Definition, other: &Definition) -> bool {
    let address = |definition: &Definition| definition.memory.as_ref().map(|memory| memory.address.clone());
    one.pc == other.pc && address(one) == address(other)
}

/// Whether a store that came not long before another one went astray, too: what it was, and where what it was meant for ends.
fn judged(near: &Definition, store: &Store, checks: &Checks<'_>) -> Option<(Definition, Check, u64)> {
    let (thread, pc) = (Some(near.thread), Some(format!("{:#x}", store.pc)));
    let there = checks.stopped(Point { event: None, thread, clock: None, at: pc, time: store.time }, None)?;
    let behind = Some(format!("{:#x}", checks.sites.behind(store.pc)?));
    let point = Point { event: None, thread, clock: Some(there.clock), at: behind, time: 1 };
    let origins = checks.stopped(point, Some((near.thread, there.clock)))?.origins?;
    let stored = origins.failure.clone().filter(|stored| number(&stored.pc) == store.pc)?;
    let check = checks.stores(&[&stored], &Slice::new(&origins, checks.sites)).pop()?;
    let end = check.end.filter(|_| check.class.is_some())?;
    Some((stored, check, end))
}
