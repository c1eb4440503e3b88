//! Test procedure III at the level of loops: couples that come together in passing runs too, but with their accesses in
//! other iterations.

use super::collect::{Collected, Placed};
use super::coupled::{Couple, turning_couples, without_foretelling};
use super::nesting::are_in_step;
use super::runs::{PairKey, Runs, key_of};
use rustc_hash::FxHashMap;

/// Which forms a couple has in a run, a bit each: whether the accesses of each of both threads are in the same iterations.
type Forms = u8;

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

/// Test procedure III at the level of loops. `failing` and `passing` are the same runs as before, heard again with loops.
pub fn coupled_by_loops(runs: &Runs, failing: &Collected, passing: &[Collected]) -> Vec<Couple> {
    let failing = Iterated::new(failing);
    let passing: Vec<Iterated<'_>> = passing.iter().map(Iterated::new).collect();
    let is_new = |couple: &Couple| {
        let (one, other) = (runs.key(couple.first), runs.key(couple.second));
        let mut forms = failing.forms(one, other);
        for run in &passing {
            if forms == 0 {
                return false;
            }
            forms &= !run.forms(one, other);
        }
        forms != 0
    };
    without_foretelling(runs, turning_couples(runs).into_iter().filter(is_new).collect())
}
