//! The pairs of many runs, each pair with one number, as sets that can be compared.

use super::End;
use super::collected::{Collected, Occurrence, SeenPair};
use super::coupled::{self, Group};
use roaring::{RoaringBitmap, RoaringTreemap};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use trace::stream::Thread;

/// A pair among those of all runs.
pub type PairId = u32;

/// From which thread to which.
pub type Direction = (Thread, Thread);

/// What makes two pairs of different runs the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PairKey {
    pub head: End,
    pub tail: End,
}

impl PairKey {
    pub fn reversed(self) -> PairKey {
        PairKey { head: self.tail, tail: self.head }
    }
}

/// A set of directions that pairs have in common, by number.
pub(super) type DirectionsId = u32;

/// What is kept of a pair once for all runs.
struct Facts {
    key: PairKey,
    /// As the first run told that had it; the failing one, if that has it.
    places: Vec<u64>,
    /// When it first came in the first passing run that has it.
    passing: Option<Occurrence>,
}

/// One run's pairs.
#[derive(Default)]
pub(super) struct RunPairs {
    pub present: RoaringBitmap,
    /// Of each pair that is present, in the order of their numbers.
    pub directions: Vec<DirectionsId>,
    /// Instructions whose accesses it made.
    pub executed: RoaringTreemap,
}

impl RunPairs {
    pub fn directions_of(&self, pair: PairId) -> Option<DirectionsId> {
        let place = self.present.contains(pair).then(|| self.present.rank(pair) as usize - 1);
        place.and_then(|place| self.directions.get(place).copied())
    }
}

/// A failing run, and the passing runs that it is compared with.
#[derive(Default)]
pub struct Runs {
    ids: FxHashMap<PairKey, PairId>,
    facts: Vec<Facts>,
    direction_ids: FxHashMap<Vec<Direction>, DirectionsId>,
    direction_sets: Vec<Vec<Direction>>,
    pub(super) failing: RunPairs,
    pub(super) passing: Vec<RunPairs>,
    /// When the failing run's pairs first came.
    first: FxHashMap<PairId, Occurrence>,
    /// When those of them that come between several threads first did, besides.
    elsewhere: FxHashMap<PairId, Vec<Occurrence>>,
    /// The pairs of further failing runs, which have a say in what is told first.
    further: Vec<RoaringBitmap>,
    /// What procedure III compares, at each of its levels; made when it is first wanted, for the passing runs that there are.
    groups: OnceLock<Vec<Group>>,
}

impl Runs {
    pub fn new(failing: &Collected) -> Runs {
        let mut runs = Runs::default();
        runs.failing = runs.run_pairs(failing, |_, _| {});
        runs.first = failing.pairs.iter().map(|pair| (runs.ids[&key_of(pair)], pair.first)).collect();
        let several = failing.pairs.iter().filter(|pair| !pair.elsewhere.is_empty());
        runs.elsewhere = several.map(|pair| (runs.ids[&key_of(pair)], pair.elsewhere.clone())).collect();
        runs
    }

    /// Another run that failed. What is to blame is looked for in the first one.
    pub fn add_failing(&mut self, run: &Collected) {
        let pairs = self.run_pairs(run, |_, _| {});
        self.further.push(pairs.present);
    }

    pub fn add_passing(&mut self, run: &Collected) {
        let pairs = self.run_pairs(run, |facts, pair| {
            facts.passing.get_or_insert(pair.first);
        });
        self.passing.push(pairs);
        self.groups.take();
    }

    fn run_pairs(&mut self, run: &Collected, note: impl Fn(&mut Facts, &SeenPair)) -> RunPairs {
        let mut next: PairId = 0;
        let mut last: (&[Direction], DirectionsId) = (&[], self.intern_directions(&[]));
        let numbered = run.pairs.iter().map(|pair| {
            // Runs have their pairs in about the same order, so the next number is worth a look before any table is.
            let is_next = self.facts.get(next as usize).is_some_and(|facts| facts.key == key_of(pair));
            let id = if is_next { next } else { self.intern(pair) };
            next = id + 1;
            note(&mut self.facts[id as usize], pair);
            // Neighbours mostly have the same.
            if last.0 != pair.directions {
                last = (&pair.directions, self.intern_directions(&pair.directions));
            }
            (id, last.1)
        });
        let mut numbered: Vec<(PairId, DirectionsId)> = numbered.collect();
        numbered.sort_unstable();
        // A hand-made run may name a pair twice.
        numbered.dedup_by_key(|(id, _)| *id);
        let (ids, directions): (Vec<PairId>, Vec<DirectionsId>) = numbered.into_iter().unzip();
        RunPairs { present: ids.into_iter().collect(), directions, executed: run.executed.iter().copied().collect() }
    }

    fn intern(&mut self, pair: &SeenPair) -> PairId {
        let key = key_of(pair);
        let fresh = self.facts.len() as PairId;
        let id = *self.ids.entry(key).or_insert(fresh);
        if id == fresh {
            self.facts.push(Facts { key, places: pair.places.clone(), passing: None });
        }
        id
    }

    fn intern_directions(&mut self, directions: &[Direction]) -> DirectionsId {
        if let Some(id) = self.direction_ids.get(directions) {
            return *id;
        }
        let id = self.direction_sets.len() as DirectionsId;
        self.direction_ids.insert(directions.to_vec(), id);
        self.direction_sets.push(directions.to_vec());
        id
    }

    /// The pairs that procedure III compares.
    pub(super) fn groups(&self) -> &[Group] {
        self.groups.get_or_init(|| coupled::groups(self))
    }

    pub fn n_passing(&self) -> usize {
        self.passing.len()
    }

    /// How many different pairs there are in all runs.
    pub fn n_pairs(&self) -> usize {
        self.facts.len()
    }

    pub fn key(&self, id: PairId) -> PairKey {
        self.facts[id as usize].key
    }

    pub fn places(&self, id: PairId) -> &[u64] {
        &self.facts[id as usize].places
    }

    /// When a pair first came in the failing run.
    pub fn first(&self, id: PairId) -> Option<&Occurrence> {
        self.first.get(&id)
    }

    /// When it first came from each thread to each other one.
    pub(super) fn occurrences(&self, id: PairId) -> impl Iterator<Item = &Occurrence> {
        self.first(id).into_iter().chain(self.elsewhere.get(&id).into_iter().flatten())
    }

    /// The same in the first passing run that has it.
    pub fn first_in_passing(&self, id: PairId) -> Option<&Occurrence> {
        self.facts[id as usize].passing.as_ref()
    }

    pub(super) fn passing_order(&self, id: PairId) -> Option<u64> {
        self.first_in_passing(id).map(|first| first.tail.order)
    }

    pub fn is_in_failure(&self, key: PairKey) -> bool {
        self.ids.get(&key).is_some_and(|id| self.failing.present.contains(*id))
    }

    /// Whether the failing run made an access of an instruction.
    pub fn has_executed(&self, pc: u64) -> bool {
        self.failing.executed.contains(pc)
    }

    /// Whether any passing run made the accesses of both ends: only such a run can tell that a pair is uncommon. The releases of
    /// blocks are not known by instruction, so nobody can tell.
    pub(super) fn is_in_reached_code(&self, id: PairId) -> bool {
        let key = self.key(id);
        let ends = [key.head.pc, key.tail.pc];
        let reaches = |run: &RunPairs| ends.iter().all(|pc| !self.has_executed(*pc) || run.executed.contains(*pc));
        self.passing.iter().any(reaches)
    }

    /// How many of the further failing runs have a pair.
    pub(super) fn times_in_further_failures(&self, id: PairId) -> usize {
        self.further.iter().filter(|present| present.contains(id)).count()
    }

    pub fn n_further_failures(&self) -> usize {
        self.further.len()
    }

    /// What is found with the first passing runs alone.
    pub fn with_first<T>(&mut self, number: usize, find: impl FnOnce(&Runs) -> T) -> T {
        let rest = self.passing.split_off(number.min(self.passing.len()));
        self.groups.take();
        let found = find(self);
        self.passing.extend(rest);
        self.groups.take();
        found
    }

    /// How many passing runs have a pair.
    pub fn times_in_passing(&self, id: PairId) -> usize {
        self.passing.iter().filter(|run| run.present.contains(id)).count()
    }

    /// How many passing runs have two pairs both.
    pub fn times_together(&self, one: PairId, other: PairId) -> usize {
        self.passing.iter().filter(|run| run.present.contains(one) && run.present.contains(other)).count()
    }

    /// Whether two pairs are about different variables, as far as is known.
    pub fn are_apart(&self, one: PairId, other: PairId) -> bool {
        let places = self.places(other);
        self.places(one).iter().all(|place| !places.contains(place))
    }

    pub(super) fn directions(&self, id: DirectionsId) -> &[Direction] {
        &self.direction_sets[id as usize]
    }

    /// The directions of the failing run's pairs, by pair.
    pub(super) fn failing_directions(&self) -> FxHashMap<PairId, DirectionsId> {
        self.failing.present.iter().zip(self.failing.directions.iter().copied()).collect()
    }

    /// The union of all passing runs.
    pub(super) fn in_some_passing(&self) -> RoaringBitmap {
        let mut union = RoaringBitmap::new();
        self.passing.iter().for_each(|run| union |= &run.present);
        union
    }

    /// What every passing run has; nothing without passing runs.
    pub(super) fn in_every_passing(&self) -> RoaringBitmap {
        let mut runs = self.passing.iter();
        let mut common = runs.next().map(|run| run.present.clone()).unwrap_or_default();
        runs.for_each(|run| common &= &run.present);
        common
    }
}

pub(super) fn key_of(pair: &SeenPair) -> PairKey {
    PairKey { head: pair.head, tail: pair.tail }
}
