//! What is to blame, by all procedures together.

use super::coupled::{Couple, Level, coupled};
use super::procedures::{Missing, in_failure_and_rare, missing_in_failure, only_in_failure};
use super::runs::{PairId, Runs};

/// A pair is rare if not more than one passing run in so many has it.
const SELDOM: usize = 5;

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
}

impl Suspect {
    pub fn procedure(&self) -> Procedure {
        match self {
            Suspect::Pair(_) | Suspect::Between { .. } => Procedure::I,
            Suspect::Missing(_) => Procedure::II,
            Suspect::Couple(..) => Procedure::III,
        }
    }
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
