//! Test procedure III: two pairs that are known one by one, and never came together in a passing run.
//!
//! Pairs that the same runs have, with the same directions, are alike to this procedure; so groups of them are
//! compared, not pairs. Where there are more groups than can be, the rarest are.

use super::Deed;
use super::collected::Occurrence;
use super::runs::{Direction, DirectionsId, PairId, RunPairs, Runs};
use roaring::RoaringBitmap;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// More couples than these help nobody.
const MOST_COUPLES: usize = 20_000;
/// How many groups of pairs are compared with each other.
const MOST_GROUPS: usize = 4000;

/// How closely a passing run must match for a couple to count as known from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Both pairs, by their instructions.
    Pc,
    /// The same, with one pair from a thread to another and the other pair back.
    Tid,
    /// The same, with the accesses of each thread in the same iterations of loops, or in different ones.
    Loop,
    /// Both pairs, by their instructions: each a read of a third thread of what one of two others wrote.
    Third,
    /// Any of the others, by instructions and by who called.
    Context,
}

impl Level {
    fn is_of_instructions(self) -> bool {
        matches!(self, Level::Pc | Level::Third)
    }

    /// Whether pairs with these directions can be a couple: they lead from a thread to another and back, since all couples of the
    /// paper's table do; for a third thread, they lead to it from two others.
    fn fits(self, (from, to): Direction, other: Direction) -> bool {
        match self {
            Level::Third => other.1 == to && other.0 != from,
            Level::Pc | Level::Tid | Level::Loop | Level::Context => other == (to, from),
        }
    }
}

/// Two pairs of the failing run, in the order in which they came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Couple {
    pub first: PairId,
    pub second: PairId,
}

impl Couple {
    /// When both pairs came between threads that make them a couple.
    pub(super) fn occurrences(&self, runs: &Runs, level: Level) -> [(PairId, Option<Occurrence>); 2] {
        let mut both =
            runs.occurrences(self.first).flat_map(|one| runs.occurrences(self.second).map(move |other| (*one, *other)));
        let fitting = both.find(|(one, other)| level.fits(one.direction(), other.direction()));
        match fitting {
            Some((one, other)) => [(self.first, Some(one)), (self.second, Some(other))],
            None => [self.first, self.second].map(|pair| (pair, runs.first(pair).copied())),
        }
    }
}

/// Test procedure III at a level: couples that no passing run has, without those that only foretell others, in the order in
/// which they were complete.
///
/// Loops need more than [`Runs`] hold: see [`super::coupled_by_loops`]. Here they are judged as threads are.
pub fn coupled(runs: &Runs, level: Level) -> Vec<Couple> {
    let found = Comparison::new(runs, level).couples(Comparison::never_together);
    without_foretelling(runs, found)
}

/// Couples of the failing run that passing runs may have as well, at the level tid: what is to be looked at more closely.
pub fn turning_couples(runs: &Runs) -> Vec<Couple> {
    Comparison::new(runs, Level::Tid).couples(|_, _, _| true)
}

/// Two pairs by which a thread reads what two others wrote, and that no passing run has together: what it sees belongs to
/// neither of them.
pub fn mixtures(runs: &Runs) -> Vec<Couple> {
    let found = Comparison::new(runs, Level::Third).couples(Comparison::never_together);
    let is_read = |pair: PairId| (runs.key(pair).head.deed, runs.key(pair).tail.deed) == (Deed::Write, Deed::Read);
    let read = found.into_iter().filter(|couple| is_read(couple.first) && is_read(couple.second));
    without_foretelling(runs, read.collect())
}

/// For each passing run, how a pair came there.
type Profile = Vec<Option<DirectionsId>>;

/// Pairs that the same runs have, in the same directions.
pub(super) struct Group {
    /// How they came in the failing run.
    failing: DirectionsId,
    profile: Profile,
    /// In ascending order.
    pairs: Vec<PairId>,
}

struct Comparison<'a> {
    runs: &'a Runs,
    level: Level,
    groups: &'a [Group],
    /// Whether two sets of directions fit together, as far as it has been asked.
    fitting: FxHashMap<(DirectionsId, DirectionsId), bool>,
}

impl<'a> Comparison<'a> {
    fn new(runs: &'a Runs, level: Level) -> Comparison<'a> {
        Comparison { runs, level, groups: runs.groups(), fitting: FxHashMap::default() }
    }

    /// The couples of all groups that `is_wanted` says.
    fn couples(mut self, is_wanted: impl Fn(&mut Self, usize, usize) -> bool) -> Vec<Couple> {
        let mut couples = Vec::new();
        for one in 0..self.groups.len() {
            for other in one..self.groups.len() {
                if self.in_failure(one, other) && is_wanted(&mut self, one, other) {
                    self.couple_groups(one, other, &mut couples);
                }
                if couples.len() >= MOST_COUPLES {
                    break;
                }
            }
        }
        couples.sort_by_key(|couple| self.completed(couple));
        couples.truncate(MOST_COUPLES);
        couples
    }

    fn couple_groups(&self, one: usize, other: usize, couples: &mut Vec<Couple>) {
        let (firsts, seconds) = (&self.groups[one].pairs, &self.groups[other].pairs);
        for &first in firsts {
            for &second in seconds.iter().filter(|second| one != other || first < **second) {
                if couples.len() < MOST_COUPLES && self.runs.are_apart(first, second) {
                    couples.push(self.ordered(first, second));
                }
            }
        }
    }

    fn in_failure(&mut self, one: usize, other: usize) -> bool {
        self.fit(self.groups[one].failing, self.groups[other].failing)
    }

    fn never_together(&mut self, one: usize, other: usize) -> bool {
        (0..self.runs.n_passing()).all(|run| match (self.groups[one].profile[run], self.groups[other].profile[run]) {
            (Some(one), Some(other)) => !self.level.is_of_instructions() && !self.fit(one, other),
            _ => true,
        })
    }

    /// Whether two pairs with these directions can be a couple.
    fn fit(&mut self, one: DirectionsId, other: DirectionsId) -> bool {
        let (runs, level) = (self.runs, self.level);
        *self.fitting.entry((one, other)).or_insert_with(|| {
            let others = runs.directions(other);
            runs.directions(one).iter().any(|one| others.iter().any(|other| level.fits(*one, *other)))
        })
    }

    fn order_of(&self, pair: PairId) -> (u64, u64) {
        self.runs.first(pair).map_or((u64::MAX, u64::MAX), |first| (first.tail.order, first.head.order))
    }

    fn ordered(&self, one: PairId, other: PairId) -> Couple {
        let (first, second) = if self.order_of(one) <= self.order_of(other) { (one, other) } else { (other, one) };
        Couple { first, second }
    }

    fn completed(&self, couple: &Couple) -> ((u64, u64), (u64, u64), Couple) {
        (self.order_of(couple.second), self.order_of(couple.first), *couple)
    }
}

/// The pairs that are in the failing run and in some passing one, by how they came in all runs.
pub(super) fn groups(runs: &Runs) -> Vec<Group> {
    let common = runs.in_some_passing() & &runs.failing.present;
    let mut sorts: Vec<u32> = vec![0; common.len() as usize];
    for run in runs.passing.iter().chain([&runs.failing]) {
        tell_apart(&mut sorts, run, &common);
    }
    let mut groups: BTreeMap<u32, Vec<PairId>> = BTreeMap::new();
    for (id, sort) in common.iter().zip(sorts) {
        groups.entry(sort).or_default().push(id);
    }
    let mut groups: Vec<Vec<PairId>> = groups.into_values().collect();
    groups.sort_by_cached_key(|pairs| (runs.times_in_passing(pairs[0]), pairs[0]));
    groups.truncate(MOST_GROUPS);
    let group = |pairs: Vec<PairId>| {
        let failing = runs.failing.directions_of(pairs[0])?;
        Some(Group { failing, profile: profile(runs, pairs[0]), pairs })
    };
    groups.into_iter().filter_map(group).collect()
}

/// Gives pairs that a run has differently, or only one of, different numbers. Those that were different before stay so.
fn tell_apart(sorts: &mut [u32], run: &RunPairs, common: &RoaringBitmap) {
    let mut known: FxHashMap<(u32, Option<DirectionsId>), u32> = FxHashMap::default();
    // Neighbours mostly are alike.
    let mut last = None;
    let mut present = run.present.iter().zip(run.directions.iter().copied()).peekable();
    for (id, sort) in common.iter().zip(sorts) {
        while present.next_if(|(other, _)| *other < id).is_some() {}
        let directions = present.next_if(|(other, _)| *other == id).map(|(_, directions)| directions);
        let key = (*sort, directions);
        *sort = match last {
            Some((before, number)) if before == key => number,
            _ => {
                let fresh = known.len() as u32;
                *known.entry(key).or_insert(fresh)
            }
        };
        last = Some((key, *sort));
    }
}

fn profile(runs: &Runs, pair: PairId) -> Profile {
    runs.passing.iter().map(|run| run.directions_of(pair)).collect()
}

/// Drops couples with a pair by which a pair of another couple is predictable, the last ones first.
pub(super) fn without_foretelling(runs: &Runs, couples: Vec<Couple>) -> Vec<Couple> {
    let pairs: BTreeSet<PairId> = couples.iter().flat_map(|couple| [couple.first, couple.second]).collect();
    let foretold = foretold(runs, &pairs);
    let mut uses: BTreeMap<PairId, usize> = BTreeMap::new();
    for pair in couples.iter().flat_map(|couple| [couple.first, couple.second]) {
        *uses.entry(pair).or_default() += 1;
    }
    let mut kept = couples;
    let mut is_kept: Vec<bool> = vec![true; kept.len()];
    for (place, couple) in kept.iter().enumerate().rev() {
        let members = [couple.first, couple.second];
        let mut predicted = members.iter().filter_map(|member| foretold.get(member)).flatten();
        let is_dropped = predicted.any(|pair| !members.contains(pair) && uses.get(pair).is_some_and(|uses| *uses > 0));
        if is_dropped {
            is_kept[place] = false;
            members.iter().for_each(|member| {
                uses.entry(*member).and_modify(|uses| *uses -= 1);
            });
        }
    }
    let mut fates = is_kept.into_iter();
    kept.retain(|_| fates.next().unwrap_or(true));
    kept
}

/// For each pair, those that are predictable by it.
fn foretold(runs: &Runs, pairs: &BTreeSet<PairId>) -> BTreeMap<PairId, Vec<PairId>> {
    let mut foretold: BTreeMap<PairId, Vec<PairId>> = BTreeMap::new();
    let occurrences: Vec<_> = pairs.iter().filter_map(|id| Some((*id, *runs.first(*id)?))).collect();
    for (inner_id, inner) in &occurrences {
        let outer = occurrences.iter().filter(|(_, outer)| outer.holds(inner)).map(|(id, _)| *id);
        // Passing runs can gainsay it.
        let outer = outer.filter(|id| runs.times_together(*id, *inner_id) == runs.times_in_passing(*inner_id));
        foretold.insert(*inner_id, outer.collect());
    }
    foretold
}
