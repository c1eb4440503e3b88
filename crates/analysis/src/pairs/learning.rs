//! What the first runs tell about all others: which instructions are worth hearing in these.

use super::collected::{Collected, SeenPair};
use super::places::MeetingPlaces;
use super::runs::{PairKey, key_of};
use super::visitors::Visitors;
use std::collections::{BTreeMap, BTreeSet};

/// A run with fewer accesses than these is heard as a whole.
const FEW_ACCESSES: u64 = 500_000;

/// There are hardly more than so many accesses for each event of a thread's clock.
const MOST_FOR_EACH: u64 = 20;

/// Whether a run has few accesses, by how far the clocks of its threads came.
pub fn is_short(clock: u64) -> bool {
    clock <= FEW_ACCESSES / MOST_FOR_EACH
}

impl MeetingPlaces {
    /// Whether it is worth finding out who comes there, before the run is heard.
    pub fn are_of_long_run(&self) -> bool {
        self.accesses > FEW_ACCESSES
    }
}

/// After so many passing runs, it is known which instructions can meet others, and which pairs all runs have.
pub const ENOUGH_PASSING: usize = 6;

/// Learns from the first runs which instructions are worth hearing in the rest, where runs are long.
///
/// The procedures look for pairs that some runs have and others lack. All that they ask of a passing run is whether it has the pairs of the failing
/// one, or those that all passing runs have. Both kinds are among what the first runs show. Of the others, only what comes between two accesses can
/// matter. So memory where threads met in any of the first runs is looked at with all instructions that came to it from then on; but not if
/// each of its pairs is in each of the first runs. These are taken to be in the rest, too.
#[derive(Default)]
pub struct Learning {
    /// What was found out before the failing run was heard, if that is long.
    visitors: Option<Visitors>,
    n_passing: usize,
    /// Instructions that come to the same memory, in any of the first runs.
    groups: Vec<BTreeSet<u64>>,
    /// The pairs of the first runs.
    pairs: BTreeMap<PairKey, Known>,
}

/// What is known of a pair.
struct Known {
    pair: SeenPair,
    /// How many of the first runs have it.
    times: usize,
    /// The failing run does.
    is_in_failing: bool,
}

impl Learning {
    /// Knows who comes to memory at which threads meet, if the failing run is long.
    pub fn new(visitors: Option<Visitors>) -> Learning {
        Learning { visitors, ..Learning::default() }
    }

    pub fn add_failing(&mut self, run: &Collected) {
        self.add(run);
        self.pairs.values_mut().for_each(|known| known.is_in_failing = true);
    }

    pub fn add_passing(&mut self, run: &Collected) {
        if self.visitors.is_some() && self.n_passing < ENOUGH_PASSING {
            self.n_passing += 1;
            self.add(run);
        }
    }

    fn add(&mut self, run: &Collected) {
        for group in &run.meeting {
            self.join(group.iter().copied().collect());
        }
        for pair in &run.pairs {
            let fresh = || Known { pair: pair.clone(), times: 0, is_in_failing: false };
            let known = self.pairs.entry(key_of(pair)).or_insert_with(fresh);
            known.times += 1;
            known.pair.directions.extend(&pair.directions);
            known.pair.directions.sort_unstable();
            known.pair.directions.dedup();
        }
    }

    /// These instructions come to the same memory.
    fn join(&mut self, mut group: BTreeSet<u64>) {
        self.groups.retain_mut(|other| {
            let is_apart = other.is_disjoint(&group);
            if !is_apart {
                group.append(other);
            }
            is_apart
        });
        self.groups.push(group);
    }

    fn knows(&self) -> bool {
        self.visitors.is_some() && self.n_passing >= ENOUGH_PASSING
    }

    /// All instructions that can meet others, as far as is known.
    pub fn meeting(&self) -> Option<BTreeSet<u64>> {
        let visiting = self.visitors.as_ref().map(|visitors| &visitors.instructions);
        if self.knows() { Some(self.groups.iter().flatten().copied().collect()) } else { visiting.cloned() }
    }

    /// Those that go over a lot of memory.
    pub fn sweeping(&self) -> BTreeSet<u64> {
        self.visitors.as_ref().map(|visitors| visitors.sweeping.clone()).unwrap_or_default()
    }

    /// Those of them that come to memory whose pairs some runs have and others lack, if that is known. What was heard of a run with these
    /// alone has to be [completed](Learning::complete).
    pub fn varying(&self) -> Option<BTreeSet<u64>> {
        self.knows().then(|| {
            let varying = self.pairs.iter().filter(|(key, known)| !self.is_assumed(key, known));
            let ends: BTreeSet<u64> = varying.flat_map(|(key, _)| [key.head.pc, key.tail.pc]).collect();
            self.groups.iter().filter(|group| !group.is_disjoint(&ends)).flatten().copied().collect()
        })
    }

    /// Whether later runs are taken to have a pair: if all first runs have it; and if any passing one of them has that begins with an
    /// instruction that sweeps, since it may be in others where nobody looked.
    fn is_assumed(&self, key: &PairKey, known: &Known) -> bool {
        let is_in_passing = known.times > usize::from(known.is_in_failing);
        known.times == self.n_passing + 1 || is_in_passing && self.sweeps(key.head.pc)
    }

    fn sweeps(&self, pc: u64) -> bool {
        self.visitors.as_ref().is_some_and(|visitors| visitors.sweeping.contains(&pc))
    }

    /// Adds the pairs that all first runs have to what was heard of another one, as far as that was not listened to.
    pub fn complete(&self, run: &mut Collected, heard: &BTreeSet<u64>) {
        let unheard = |key: &PairKey| !heard.contains(&key.head.pc) && !heard.contains(&key.tail.pc);
        let assumed = self.pairs.iter().filter(|(key, known)| self.is_assumed(key, known) && unheard(key));
        run.pairs.extend(assumed.map(|(_, known)| known.pair.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::{Deed, End, Moment, Occurrence};

    fn pair(head: u64, tail: u64, direction: (u32, u32)) -> SeenPair {
        let moment = |thread| Moment { thread, ordinal: 1, order: 1 };
        SeenPair {
            head: End::new(head, Deed::Write),
            tail: End::new(tail, Deed::Read),
            first: Occurrence { head: moment(direction.0), tail: moment(direction.1), address: 0 },
            times: 1,
            directions: vec![direction],
            elsewhere: Vec::new(),
            places: Vec::new(),
            occurrences: Vec::new(),
        }
    }

    fn run(pairs: Vec<SeenPair>, meeting: &[&[u64]]) -> Collected {
        let meeting = meeting.iter().map(|group| group.to_vec()).collect();
        Collected { pairs, meeting, ..Collected::default() }
    }

    #[test]
    fn memory_whose_pairs_all_runs_have_is_left_alone() {
        let failing = run(vec![pair(1, 2, (1, 2)), pair(5, 6, (1, 2))], &[&[1, 2], &[5, 6]]);
        let visitors = Visitors { instructions: (1..=9).collect(), sweeping: [2].into() };
        let mut learning = Learning::new(Some(visitors));
        learning.add_failing(&failing);
        assert_eq!(learning.meeting(), Some((1..=9).collect()));
        for number in 0..ENOUGH_PASSING {
            assert_eq!(learning.varying(), None);
            let direction = if number == 0 { (2, 1) } else { (1, 2) };
            let group: &[u64] = if number == 3 { &[5, 7] } else { &[5] };
            learning.add_passing(&run(vec![pair(1, 2, direction)], &[&[1, 2, 3], group]));
        }
        assert_eq!(learning.meeting(), Some([1, 2, 3, 5, 6, 7].into()));
        let varying: BTreeSet<u64> = [5, 6, 7].into();
        assert_eq!(learning.varying(), Some(varying.clone()));
        let mut later = run(vec![pair(5, 6, (2, 1))], &[]);
        learning.complete(&mut later, &varying);
        let told: Vec<_> = later.pairs.iter().map(|pair| (pair.head.pc, pair.directions.clone())).collect();
        assert_eq!(told, [(5, vec![(2, 1)]), (1, vec![(1, 2), (2, 1)])]);
    }

    #[test]
    fn what_sweeping_instructions_do_in_some_passing_runs_is_assumed_of_all() {
        let visitors = Visitors { instructions: (1..=6).collect(), sweeping: [1, 3, 4].into() };
        let failing =
            run(vec![pair(1, 2, (1, 2)), pair(3, 4, (1, 2)), pair(5, 6, (1, 2))], &[&[1, 2], &[3, 4], &[5, 6]]);
        let mut learning = Learning::new(Some(visitors));
        learning.add_failing(&failing);
        for number in 0..ENOUGH_PASSING {
            let pairs = if number == 4 { vec![pair(1, 2, (1, 2)), pair(5, 6, (1, 2))] } else { Vec::new() };
            learning.add_passing(&run(pairs, &[]));
        }
        let varying: BTreeSet<u64> = [3, 4, 5, 6].into();
        assert_eq!(learning.varying(), Some(varying.clone()), "nothing is assumed of what only the failing run has");
        let mut later = run(Vec::new(), &[]);
        learning.complete(&mut later, &varying);
        assert_eq!(later.pairs, [pair(1, 2, (1, 2))]);
    }

    #[test]
    fn short_runs_are_heard_as_a_whole() {
        let failing = run(vec![pair(1, 2, (1, 2))], &[&[1, 2]]);
        let mut learning = Learning::new(None);
        learning.add_failing(&failing);
        (0..ENOUGH_PASSING).for_each(|_| learning.add_passing(&failing));
        assert_eq!((learning.meeting(), learning.varying()), (None, None));
        let places = |accesses| MeetingPlaces { ranges: Vec::new(), accesses };
        assert!(places(FEW_ACCESSES + 1).are_of_long_run() && !places(FEW_ACCESSES).are_of_long_run());
        assert!(is_short(FEW_ACCESSES / MOST_FOR_EACH) && !is_short(FEW_ACCESSES / MOST_FOR_EACH + 1));
    }
}
