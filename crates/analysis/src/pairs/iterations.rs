//! Test procedure III at the level of loops: couples that come together in passing runs too, but with their accesses in
//! other iterations.

use super::collect::{Collected, Placed};
use super::coupled::{Couple, turning_couples, without_foretelling};
use super::nesting::are_in_step;
use super::runs::{PairKey, Runs, key_of};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Which forms a couple has in a run, a bit each: whether the accesses of each of both threads are in the same iterations.
type Forms = u8;
const FORMS: u8 = 4;

/// A run that was heard with the iterations of its pairs.
struct Iterated<'a> {
    run: &'a Collected,
    occurrences: FxHashMap<PairKey, &'a [Placed]>,
}

impl<'a> Iterated<'a> {
    fn new(run: &'a Collected) -> Iterated<'a> {
        let occurrences = run.pairs.iter().map(|pair| (key_of(pair), pair.occurrences.as_slice())).collect();
        Iterated { run, occurrences }
    }

    fn forms(&self, one: PairKey, other: PairKey) -> Forms {
        let of = |key: PairKey| self.occurrences.get(&key).copied().unwrap_or_default();
        let mut forms = 0;
        for there in of(one) {
            let back = of(other).iter().filter(|back| (back.from, back.to) == (there.to, there.from));
            for back in back {
                let first = self.are_in_step(there.head, back.tail);
                let second = self.are_in_step(there.tail, back.head);
                forms |= 1 << (u8::from(first) * 2 + u8::from(second));
            }
        }
        forms
    }

    fn are_in_step(&self, one: u32, other: u32) -> bool {
        let position = |number: u32| self.run.positions.get(number as usize).map_or(&[][..], Vec::as_slice);
        are_in_step(position(one), position(other))
    }
}

/// Test procedure III at the level of loops: couples with a form that at most `most` passing runs have, and none of them has
/// less often. `failing` and `passing` are the same runs as before, heard again with loops.
pub fn coupled_by_loops(runs: &Runs, failing: &Collected, passing: &[Collected], most: usize) -> Vec<Couple> {
    let failing = Iterated::new(failing);
    let passing: Vec<Iterated<'_>> = passing.iter().map(Iterated::new).collect();
    // How many passing runs have the rarest of its forms.
    let times = |couple: &Couple| {
        let (one, other) = (runs.key(couple.first), runs.key(couple.second));
        let mut times: BTreeMap<Forms, usize> = BTreeMap::new();
        let forms = failing.forms(one, other);
        times.extend((0..FORMS).map(|form| 1 << form).filter(|form| forms & form != 0).map(|form| (form, 0)));
        for run in &passing {
            if times.is_empty() {
                return None;
            }
            let known = run.forms(one, other);
            times.retain(|form, times| {
                *times += usize::from(known & form != 0);
                *times <= most
            });
        }
        times.into_values().min()
    };
    let counted = turning_couples(runs).into_iter().filter_map(|couple| Some((times(&couple)?, couple)));
    let counted: Vec<(usize, Couple)> = counted.collect();
    let fewest = counted.iter().map(|(times, _)| *times).min();
    let rarest = counted.into_iter().filter(|(times, _)| Some(*times) == fewest).map(|(_, couple)| couple);
    without_foretelling(runs, rarest.collect())
}
