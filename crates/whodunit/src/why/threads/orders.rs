//! Plans that bring accesses about in another order.

use crate::predict::plans::{NEVER, entrance, hold, plan};
use crate::predict::verdicts::is_behind;
use analysis::neighbours::{Candidate, Entry};
use analysis::predict::{Deed, Place};
use session::rerun::Plan;

/// What the other thread did comes after all of the first's: the simplest plan first.
pub fn after(candidate: &Candidate<'_>) -> Vec<Plan> {
    let mut plans = Vec::new();
    // An update that is only moved in part is lost in the other order, too.
    let begins = candidate.between.first().copied().into_iter().chain(candidate.began);
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

/// Where a thread can be held: with no lock that the other needs for its deed, or with no lock at all.
fn entrances(deed: &Deed, other: &Deed) -> Vec<Place> {
    let nearest = entrance(deed, other);
    let outermost = deed.locks.iter().min_by_key(|held| held.section).map(|held| held.taken);
    let outermost = outermost.filter(|taken| taken.pc != 0 && *taken != nearest);
    std::iter::once(nearest).chain(outermost).collect()
}

/// What a thread has run when its deed is done: of a library's deeds, the call has come back.
fn passing(entry: &Entry) -> Place {
    let Deed { pc, place, callers, .. } = &entry.deed;
    if *pc == place.pc && !entry.is_release {
        return *place;
    }
    let back = callers.iter().find(|caller| is_behind(**caller, place.pc));
    back.map_or(*place, |back| Place { pc: *back, time: place.time })
}
