//! Test procedure III at the level of loops: couples that come together in passing runs too, but with their accesses in
//! other iterations.

use super::collected::{Collected, Occurrence, Placed};
use super::coupled::{Couple, turning_couples, without_foretelling};
use super::nesting::are_in_step;
use super::runs::{PairKey, Runs, key_of};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Which forms a couple has in a run, a bit each: whether the accesses of each of both threads are in the same iterations; and, if that is asked for,
/// whether the second pair comes after the first.
type Forms = u8;
const FORMS: u8 = 8;

/// What couples are told apart by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Apart {
    Iterations,
    /// And by which of the accesses of the thread that both pairs meet in comes first: where those of a failing run are several iterations apart, they are
    /// so in passing ones, too.
    Order,
}

/// A couple, and the occurrences of its pairs that came as no passing run has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InStep {
    pub couple: Couple,
    pub occurrences: [Occurrence; 2],
    /// How many passing runs have it like that, all the same.
    pub times: usize,
    /// What it was told apart by.
    pub apart: Apart,
}

/// A run that was heard with the iterations of its pairs.
struct Iterated<'a> {
    run: &'a Collected,
    apart: Apart,
    occurrences: FxHashMap<PairKey, &'a [Placed]>,
}

impl<'a> Iterated<'a> {
    fn new(run: &'a Collected, apart: Apart) -> Iterated<'a> {
        let occurrences = run.pairs.iter().map(|pair| (key_of(pair), pair.occurrences.as_slice())).collect();
        Iterated { run, apart, occurrences }
    }

    fn forms(&self, one: PairKey, other: PairKey) -> Forms {
        self.meetings(one, other).fold(0, |forms, (form, _)| forms | form)
    }

    /// Each form in which the pairs come, with where they do.
    fn meetings(&self, one: PairKey, other: PairKey) -> impl Iterator<Item = (Forms, [Occurrence; 2])> {
        let of = |key: PairKey| self.occurrences.get(&key).copied().unwrap_or_default();
        let (ones, others) = (of(one), of(other));
        ones.iter().flat_map(move |there| {
            let (from, to) = there.occurrence.direction();
            let back = others.iter().filter(move |back| back.occurrence.direction() == (to, from));
            back.map(move |back| (self.form(there, back), [there.occurrence, back.occurrence]))
        })
    }

    fn form(&self, there: &Placed, back: &Placed) -> Forms {
        let first = self.are_in_step(there.head, back.tail);
        let second = self.are_in_step(there.tail, back.head);
        let is_after = there.occurrence.tail.order < back.occurrence.head.order;
        1 << (u8::from(self.apart == Apart::Order && is_after) * 4 + u8::from(first) * 2 + u8::from(second))
    }

    fn are_in_step(&self, one: u32, other: u32) -> bool {
        let position = |number: u32| self.run.positions.get(number as usize).map_or(&[][..], Vec::as_slice);
        are_in_step(position(one), position(other))
    }
}

/// Test procedure III at the level of loops: couples with a form that at most `most` passing runs have, the rarest first.
/// `failing` and `passing` are the same runs as before, heard again with loops.
pub fn coupled_by_loops(
    runs: &Runs,
    failing: &Collected,
    passing: &[Collected],
    apart: Apart,
    most: usize,
) -> Vec<InStep> {
    let failing = Iterated::new(failing, apart);
    let passing: Vec<Iterated<'_>> = passing.iter().map(|run| Iterated::new(run, apart)).collect();
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
        times.into_iter().map(|(form, times)| (times, form)).min()
    };
    let counted = turning_couples(runs).into_iter().filter_map(|couple| Some((times(&couple)?, couple)));
    let mut counted: Vec<((usize, Forms), Couple)> = counted.collect();
    counted.sort_by_key(|((times, _), _)| *times);
    let rarest: BTreeMap<Couple, (usize, Forms)> = counted.iter().map(|(rarest, couple)| (*couple, *rarest)).collect();
    let equally_rare = counted.chunk_by(|((one, _), _), ((other, _), _)| one == other);
    let kept =
        equally_rare.flat_map(|couples| without_foretelling(runs, couples.iter().map(|(_, couple)| *couple).collect()));
    let with_occurrences = kept.filter_map(|couple| {
        let (times, form) = rarest[&couple];
        let mut meetings = failing.meetings(runs.key(couple.first), runs.key(couple.second));
        let occurrences = meetings.find(|(meeting, _)| *meeting == form)?.1;
        Some(InStep { couple, occurrences, times, apart })
    });
    with_occurrences.collect()
}
