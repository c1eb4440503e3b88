//! What is to blame, by all procedures together.

use super::collected::Occurrence;
use super::coupled::{Couple, Level, coupled};
use super::iterations::InStep;
use super::procedures::{Missing, in_failure_and_rare, missing_in_failure, only_in_failure};
use super::rings::Ring;
use super::runs::{PairId, Runs};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A pair is rare if not more than one passing run in so many has it.
pub const SELDOM: usize = 5;
/// After how many passing runs it is of interest what is left.
const STEPS: [usize; 12] = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100];

/// A test procedure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Procedure {
    I,
    II,
    III,
}

/// Something that may be to blame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Suspect {
    /// Procedure I: a pair that only the failing run has; or that hardly any passing one has, if all procedures find nothing.
    Pair(PairId),
    /// Two such pairs, between which an access of the one's thread lies between two of the other's.
    Between { into: PairId, back: PairId },
    /// Procedure II.
    Missing(Missing),
    /// Procedure III.
    Couple(Couple, Level),
    /// The same at the level of loops, where it matters when pairs come.
    InStep(InStep),
    /// The same with three pairs.
    Ring(Ring),
}

/// Without the couples in iterations that more passing runs have than others.
pub fn rarest(found: &[Suspect]) -> Vec<Suspect> {
    let times = |suspect: &Suspect| match suspect {
        Suspect::InStep(couple) => Some(couple.times),
        _ => None,
    };
    let fewest = found.iter().filter_map(times).min();
    found.iter().filter(|suspect| times(suspect).is_none_or(|times| Some(times) == fewest)).cloned().collect()
}

impl Suspect {
    pub fn procedure(&self) -> Procedure {
        match self {
            Suspect::Pair(_) | Suspect::Between { .. } => Procedure::I,
            Suspect::Missing(_) => Procedure::II,
            Suspect::Couple(..) | Suspect::InStep(_) | Suspect::Ring(_) => Procedure::III,
        }
    }

    /// Whether it rests on something that is missing though it could have come.
    pub fn is_faint(&self) -> bool {
        matches!(self, Suspect::Missing(missing) if missing.has_come_to_both)
    }

    /// Its pairs, and when each of them came in the failing run.
    pub fn pairs(&self, runs: &Runs) -> Vec<(PairId, Option<Occurrence>)> {
        let first = |pair: PairId| (pair, runs.first(pair).copied());
        match *self {
            Suspect::Pair(pair) => vec![first(pair)],
            Suspect::Between { into: one, back: other } => vec![first(one), first(other)],
            Suspect::Couple(couple, level) => couple.occurrences(runs, level).to_vec(),
            Suspect::Missing(missing) => vec![(missing.original, None)],
            Suspect::InStep(InStep { couple, occurrences: [one, other], .. }) => {
                vec![(couple.first, Some(one)), (couple.second, Some(other))]
            }
            Suspect::Ring(Ring { pairs, occurrences }) => pairs.into_iter().zip(occurrences.map(Some)).collect(),
        }
    }

    /// How many of the further failing runs have it.
    fn times_in_further_failures(&self, runs: &Runs) -> usize {
        match *self {
            Suspect::Missing(missing) => runs.n_further_failures() - runs.times_in_further_failures(missing.original),
            _ => {
                let times = self.pairs(runs).into_iter().map(|(pair, _)| runs.times_in_further_failures(pair));
                times.min().unwrap_or(0)
            }
        }
    }
}

/// Puts those first that most of the further failing runs have, too.
pub fn sharpen(runs: &Runs, suspects: &mut [Suspect]) {
    suspects.sort_by_cached_key(|suspect| Reverse(suspect.times_in_further_failures(runs)));
}

/// How many suspects are left after so many passing runs, for a few numbers of them.
pub fn narrowing(runs: &mut Runs, asked: Option<Procedure>) -> Vec<(usize, usize)> {
    let all = runs.n_passing();
    let numbers: BTreeSet<usize> = STEPS.into_iter().filter(|number| *number < all).chain([all]).collect();
    numbers.into_iter().map(|number| (number, runs.with_first(number, |runs| suspects(runs, asked).len()))).collect()
}

/// The most likely first. Without `asked`, procedure I alone if it finds anything, else II and III: a run that ended too soon
/// lacks much, so what II finds does not rule III out.
pub fn suspects(runs: &Runs, asked: Option<Procedure>) -> Vec<Suspect> {
    match asked {
        Some(Procedure::I) => first(runs),
        Some(Procedure::II) => missing_in_failure(runs).into_iter().map(Suspect::Missing).collect(),
        Some(Procedure::III) => third(runs),
        None => {
            let only = first(runs);
            if !only.is_empty() {
                return only;
            }
            let mut suspects = suspects(runs, Some(Procedure::II));
            suspects.extend(third(runs));
            suspects
        }
    }
}

fn third(runs: &Runs) -> Vec<Suspect> {
    let at = |level| coupled(runs, level).into_iter().map(move |couple| Suspect::Couple(couple, level));
    let by_instruction: Vec<Suspect> = at(Level::Pc).collect();
    if by_instruction.is_empty() { at(Level::Tid).collect() } else { by_instruction }
}

fn first(runs: &Runs) -> Vec<Suspect> {
    joined(runs, only_in_failure(runs))
}

/// Where no procedure finds anything: pairs that hardly any passing run has, the rarest first. A run can pass by luck with
/// the pairs of a failure, when two wrongs make a right.
pub fn rare(runs: &Runs) -> Vec<Suspect> {
    let mut pairs: Vec<(usize, PairId)> = in_failure_and_rare(runs, runs.n_passing() / SELDOM);
    pairs.sort_by_key(|(times, id)| (*times, runs.first(*id).map(|first| first.tail.order), *id));
    joined(runs, pairs.into_iter().map(|(_, id)| id).collect())
}

/// Puts pairs together that lead into a thread's accesses and back.
fn joined(runs: &Runs, mut pairs: Vec<PairId>) -> Vec<Suspect> {
    let mut suspects = Vec::new();
    while !pairs.is_empty() {
        let into = pairs.remove(0);
        let back = pairs.iter().position(|other| leads_back(runs, into, *other));
        suspects.push(match back.map(|place| pairs.remove(place)) {
            Some(back) => Suspect::Between { into, back },
            None => Suspect::Pair(into),
        });
    }
    suspects
}

/// Whether the second pair starts with the access that the first ends with, and leads back to its thread.
fn leads_back(runs: &Runs, into: PairId, back: PairId) -> bool {
    let (Some(first), Some(second)) = (runs.first(into), runs.first(back)) else { return false };
    let (from, to) = first.direction();
    runs.key(into).tail == runs.key(back).head
        && second.direction() == (to, from)
        && first.tail.order <= second.tail.order
        && !runs.are_apart(into, back)
}
