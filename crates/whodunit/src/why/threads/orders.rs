//! Plans that bring accesses about in another order.

use crate::predict::plans::{NEVER, entrance, hold, plan};
use crate::predict::verdicts::is_behind;
use crate::rerun::outcomes;
use analysis::neighbours::{Candidate, Entry, History};
use analysis::predict::{Deed, Place};
use session::rerun::{Memory, Plan, Step};
use std::collections::BTreeMap;

/// What the other thread did comes after all of the first's: the simplest plan first.
pub fn after(candidate: &Candidate<'_>) -> Vec<Plan> {
    let mut plans = Vec::new();
    // An update that is only moved in part is lost in the other order, too.
    let mut begins: Vec<&Entry> = candidate.between.first().copied().into_iter().chain(candidate.began).collect();
    let began_alike = candidate.began.zip(candidate.first).is_some_and(|(one, other)| one.deed.pc == other.deed.pc);
    if began_alike {
        begins.reverse();
    }
    for begin in begins {
        for place in entrances(&begin.deed, &candidate.last.deed) {
            plans.extend(plan([Some(hold(&begin.deed, place, (&candidate.last.deed, passing(candidate.last))))]));
        }
    }
    plans
}

/// What the other thread did comes when nobody else has anything left to do.
pub fn at_last(candidate: &Candidate<'_>) -> Option<Plan> {
    let begin = candidate.between.first()?;
    let place = entrances(&begin.deed, &candidate.last.deed).pop()?;
    plan([Some(hold(&begin.deed, place, (&candidate.last.deed, NEVER)))])
}

/// What the other thread did comes before all of the first's.
pub fn before(candidate: &Candidate<'_>) -> Vec<Plan> {
    let (Some(first), Some(end)) = (candidate.first, candidate.between.last()) else { return Vec::new() };
    let mut places = entrances(&first.deed, &end.deed);
    if candidate.joins.is_some() {
        // Of two pieces of memory, the other thread needs the locks of both.
        places.reverse();
    }
    places.into_iter().filter_map(|place| plan([Some(hold(&first.deed, place, (&end.deed, passing(end))))])).collect()
}

/// Holds threads to the order in which they came.
pub fn as_recorded(candidate: &Candidate<'_>) -> Vec<Step> {
    let begin = candidate.between.first().zip(candidate.first);
    let between = begin.map(|(begin, first)| held_until(begin, first));
    let last = candidate.between.last().map(|end| held_until(candidate.last, end));
    between.into_iter().chain(last).collect()
}

/// Holds a thread before its deed until the other one's is done.
fn held_until(late: &Entry, early: &Entry) -> Step {
    hold(&late.deed, entrance(&late.deed, &early.deed), (&early.deed, passing(early)))
}

/// An order that came about several times does so no more: each thread that takes part begins when the one before it is done.
pub fn one_by_one(history: &History, candidate: &Candidate<'_>) -> Option<Plan> {
    let told = candidate.first.into_iter().chain([candidate.interloper(), candidate.last]);
    let instructions: Vec<u64> = told.map(|entry| entry.deed.pc).collect();
    let mut begins: BTreeMap<u32, &Entry> = BTreeMap::new();
    for entry in history.entries.iter().filter(|entry| instructions.contains(&entry.deed.pc)) {
        begins.entry(entry.deed.thread).or_insert(entry);
    }
    let mut begins: Vec<&Entry> = begins.into_values().collect();
    begins.sort_by_key(|begin| begin.number);
    let first = begins.first()?;
    let late = begins.iter().skip(1).map(|begin| hold(&begin.deed, outermost(&begin.deed), (&first.deed, NEVER)));
    let steps: Vec<Step> = late.collect();
    (!steps.is_empty()).then(|| Plan { limit: Some(outcomes::LIMIT), ..Plan::new(steps) })
}

/// A read comes when another thread has changed what it reads.
pub fn when_changed(read: &Entry, history: &History) -> Vec<Plan> {
    let (address, size) = (format!("{:#x}", history.watched.address), history.watched.size);
    let until = |place: Place| Step::Await {
        thread: read.deed.thread,
        before: format!("{:#x}", place.pc),
        time: place.time,
        changed: Memory { address: address.clone(), size },
    };
    let mut places = vec![read.deed.place, outermost(&read.deed)];
    places.dedup();
    places.into_iter().filter_map(|place| plan([Some(until(place))])).collect()
}

/// Where a thread has no lock yet.
fn outermost(deed: &Deed) -> Place {
    let first = deed.locks.iter().min_by_key(|held| held.section).map(|held| held.taken);
    first.filter(|taken| taken.pc != 0).unwrap_or(deed.place)
}

/// Where a thread can be held: with no lock that the other needs for its deed, or with no lock at all.
fn entrances(deed: &Deed, other: &Deed) -> Vec<Place> {
    let nearest = entrance(deed, other);
    let outermost = Some(outermost(deed)).filter(|place| *place != nearest && *place != deed.place);
    std::iter::once(nearest).chain(outermost).collect()
}

/// What a thread has run when its deed is done: of a library's deeds, the call has come back.
fn passing(entry: &Entry) -> Place {
    let Deed { pc, place, callers, .. } = &entry.deed;
    if *pc == place.pc && !entry.is_release {
        return *place;
    }
    let back = callers.iter().find(|caller| is_behind(**caller, place.pc));
    back.map_or(*place, |back| Place { pc: *back, ..*place })
}
