//! Test procedures I and II: pairs that only the failing run has, and pairs that only it lacks.

use super::Occurrence;
use super::runs::{PairId, PairKey, Runs};
use roaring::RoaringBitmap;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use trace::stream::Thread;

/// Test procedure I: pairs of the failing run that no passing run has, without those that only foretell another one of them,
/// in the order in which they came. What came of the failure comes later than its cause, and code that no passing run has come
/// to last of all: there is nothing to compare it with, be it that the input was another.
pub fn only_in_failure(runs: &Runs) -> Vec<PairId> {
    let candidates = &runs.failing.present - runs.in_some_passing();
    let occurrences = candidates.iter().filter_map(|id| Some((id, *runs.first(id)?))).collect();
    let mut kept = without_foretelling(occurrences);
    kept.sort_by_cached_key(|(id, occurrence)| {
        (!runs.is_in_reached_code(*id), occurrence.tail.order, occurrence.head.order, *id)
    });
    kept.into_iter().map(|(id, _)| id).collect()
}

/// Pairs of the failing run that at most so many passing runs have, without those that only foretell others, each with how
/// many have it.
pub(super) fn in_failure_and_rare(runs: &Runs, most: usize) -> Vec<(usize, PairId)> {
    let presence = Presence::of(runs);
    let times = |id: PairId| presence.of_pair(id).iter().map(|word| word.count_ones() as usize).sum::<usize>();
    let rare = runs.failing.present.iter().filter(|id| times(*id) <= most);
    let kept = without_foretelling(rare.filter_map(|id| Some((id, *runs.first(id)?))).collect());
    kept.into_iter().map(|(id, _)| (times(id), id)).collect()
}

/// Drops every pair that lies within another one of the same direction: the outer one is predictable by it, and would not
/// be here if the inner one were to blame.
fn without_foretelling(occurrences: Vec<(PairId, Occurrence)>) -> Vec<(PairId, Occurrence)> {
    let mut by_direction: BTreeMap<(Thread, Thread), Vec<(PairId, Occurrence)>> = BTreeMap::new();
    for (id, occurrence) in occurrences {
        by_direction.entry(occurrence.direction()).or_default().push((id, occurrence));
    }
    by_direction.into_values().flat_map(outermost).collect()
}

/// Of pairs with one direction, those that lie in no other.
fn outermost(mut pairs: Vec<(PairId, Occurrence)>) -> Vec<(PairId, Occurrence)> {
    pairs.sort_by_key(|(id, occurrence)| (occurrence.head.order, Reverse(occurrence.tail.order), *id));
    // Every pair that can hold one comes before it, so the widest of those that were met tells.
    let mut widest: Option<Occurrence> = None;
    pairs.retain(|(_, occurrence)| {
        let is_held = widest.is_some_and(|outer| outer.holds(occurrence));
        if widest.is_none_or(|outer| outer.tail.order < occurrence.tail.order) {
            widest = Some(*occurrence);
        }
        !is_held
    });
    pairs
}

/// A pair that the failing run should have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// As passing runs have it.
    pub original: PairId,
    /// The pair to blame.
    pub reversed: PairKey,
    /// The pair that it always came with in passing runs, and without which it matters nothing. None if every passing run
    /// has the original.
    pub partner: Option<PairId>,
    /// The failing run came to the access that it lacks, too, if maybe at another time.
    pub has_come_to_both: bool,
}

/// Test procedure II: pairs that all passing runs have, or that always came with another one there, and that the failing run
/// lacks. In the order in which the originals came in passing runs, those last of which the failing run came to both accesses.
pub fn missing_in_failure(runs: &Runs) -> Vec<Missing> {
    let always = runs.in_every_passing();
    let missing = |original, partner| {
        let reversed = runs.key(original).reversed();
        Missing { original, reversed, partner, has_come_to_both: runs.has_executed(reversed.tail.pc) }
    };
    let mut found: Vec<Missing> =
        (&always - &runs.failing.present).iter().map(|original| missing(original, None)).collect();
    for group in groups_that_come_together(runs, &always) {
        let (present, absent): (Vec<PairId>, Vec<PairId>) =
            group.iter().partition(|id| runs.failing.present.contains(**id));
        for original in absent {
            let partner = present.iter().copied().find(|partner| runs.are_apart(original, *partner));
            found.extend(partner.map(|partner| missing(original, Some(partner))));
        }
    }
    found.retain(|missing| !runs.is_in_failure(missing.reversed) && runs.has_executed(missing.reversed.head.pc));
    found.sort_by_key(|missing| (missing.has_come_to_both, runs.passing_order(missing.original), missing.original));
    found
}

/// Pairs outside of `always` that exactly the same passing runs have, in the order in which they came there.
fn groups_that_come_together(runs: &Runs, always: &RoaringBitmap) -> Vec<Vec<PairId>> {
    let mut groups: FxHashMap<Vec<u64>, Vec<PairId>> = FxHashMap::default();
    let presence = Presence::of(runs);
    for id in (&runs.in_some_passing() - always).iter() {
        groups.entry(presence.of_pair(id).to_vec()).or_default().push(id);
    }
    let mut groups: Vec<Vec<PairId>> = groups.into_values().filter(|group| group.len() > 1).collect();
    groups.iter_mut().for_each(|group| group.sort_by_key(|id| (runs.passing_order(*id), *id)));
    // The order of the table is never seen.
    groups.sort();
    groups
}

/// Which passing runs have each pair, a bit a run.
pub(super) struct Presence {
    words: usize,
    bits: Vec<u64>,
}

impl Presence {
    pub fn of(runs: &Runs) -> Presence {
        let words = runs.n_passing().div_ceil(64).max(1);
        let mut bits = vec![0; words * runs.n_pairs()];
        for (number, run) in runs.passing.iter().enumerate() {
            for id in &run.present {
                bits[id as usize * words + number / 64] |= 1 << (number % 64);
            }
        }
        Presence { words, bits }
    }

    pub fn of_pair(&self, id: PairId) -> &[u64] {
        &self.bits[id as usize * self.words..][..self.words]
    }
}
