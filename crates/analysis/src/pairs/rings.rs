//! Test procedure III with three pairs: a ring of threads, each of which leads to the next, in iterations in which no passing
//! run has all three.
//!
//! LOCON's section 3.3 says how bugs of more than two pairs show, and leaves them out. Two pairs of two threads are such a ring,
//! too, and are looked at before ([`super::coupled_by_loops`]).

use super::collected::{Collected, Occurrence, Placed};
use super::nesting::are_in_step;
use super::runs::{Direction, PairId, PairKey, Runs, key_of};
use std::collections::{BTreeMap, BTreeSet};
use trace::stream::Thread;

/// More pairs than these are not looked at.
const MOST_PAIRS: usize = 2000;
/// How many ways from pair to pair are tried in a run. Where that is not enough, nobody knows what a run has.
const MOST_STEPS: usize = 5_000_000;
/// More rings than these help nobody.
const MOST_RINGS: usize = 20;

/// Three pairs of the failing run that lead round three threads, and when each of them came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    pub pairs: [PairId; 3],
    pub occurrences: [Occurrence; 3],
}

/// The pairs of a ring, whichever thread comes first.
type Shape = [PairKey; 3];

/// Pairs of the failing run that passing runs know, too, and that can be part of a ring: whose iterations are wanted.
pub fn turning_pairs(runs: &Runs) -> BTreeSet<PairId> {
    let known = runs.in_some_passing();
    let failing: BTreeMap<PairId, _> = runs.failing_directions().into_iter().collect();
    let directions = || failing.iter().filter(|(id, _)| known.contains(**id));
    let edges: BTreeSet<Direction> = directions().flat_map(|(_, set)| runs.directions(*set).iter().copied()).collect();
    let turns = |&(from, to): &Direction| {
        let onwards = edges.range((to, 0)..=(to, Thread::MAX));
        onwards.into_iter().any(|(_, third)| *third != from && edges.contains(&(*third, from)))
    };
    let turning = directions().filter(|(_, set)| runs.directions(**set).iter().any(turns)).map(|(id, _)| *id);
    turning.take(MOST_PAIRS).collect()
}

/// Rings of the failing run that no passing run has, in the order in which they were complete. The runs are the same as before,
/// heard with the iterations of the pairs that can turn.
pub fn rings(runs: &Runs, failing: &Collected, passing: &[Collected]) -> Vec<Ring> {
    let turning: BTreeMap<PairKey, PairId> = turning_pairs(runs).into_iter().map(|id| (runs.key(id), id)).collect();
    let Some(mut found) = Circle::new(failing, &turning).rings() else { return Vec::new() };
    for run in passing {
        if found.is_empty() {
            break;
        }
        let Some(known) = Circle::new(run, &turning).rings() else { return Vec::new() };
        found.retain(|shape, _| !known.contains_key(shape));
    }
    let ring =
        |(shape, occurrences): (Shape, [Occurrence; 3])| Ring { pairs: shape.map(|key| turning[&key]), occurrences };
    let mut found: Vec<Ring> = found.into_iter().map(ring).collect();
    found.sort_by_key(|ring| ring.occurrences.map(|occurrence| occurrence.tail.order).into_iter().max());
    found.truncate(MOST_RINGS);
    found
}

/// A way from a thread to another.
#[derive(Clone, Copy)]
struct Edge {
    key: PairKey,
    placed: Placed,
}

impl Edge {
    fn from(&self) -> Thread {
        self.placed.occurrence.head.thread
    }

    fn to(&self) -> Thread {
        self.placed.occurrence.tail.thread
    }
}

/// The ways of a run.
struct Circle<'a> {
    run: &'a Collected,
    edges: BTreeMap<Thread, Vec<Edge>>,
    steps: usize,
}

impl<'a> Circle<'a> {
    fn new(run: &'a Collected, turning: &BTreeMap<PairKey, PairId>) -> Circle<'a> {
        let mut edges: BTreeMap<Thread, Vec<Edge>> = BTreeMap::new();
        for pair in run.pairs.iter().filter(|pair| turning.contains_key(&key_of(pair))) {
            for placed in &pair.occurrences {
                let edge = Edge { key: key_of(pair), placed: *placed };
                edges.entry(edge.from()).or_default().push(edge);
            }
        }
        Circle { run, edges, steps: 0 }
    }

    /// The rings of the run, each where it first came; nothing if there is too much to look at.
    fn rings(mut self) -> Option<BTreeMap<Shape, [Occurrence; 3]>> {
        let mut found: BTreeMap<Shape, [Occurrence; 3]> = BTreeMap::new();
        let firsts: Vec<Edge> = self.edges.values().flatten().copied().collect();
        // Every ring has one thread with the lowest number.
        for first in firsts.iter().filter(|first| first.from() < first.to()) {
            for second in self.onwards(first)?.into_iter().filter(|second| second.to() > first.from()) {
                let thirds = self.onwards(&second)?;
                for third in thirds.into_iter().filter(|third| third.to() == first.from() && self.lead(third, first)) {
                    let ring = [*first, second, third];
                    if are_apart(&ring) {
                        let turned = turned(ring);
                        let shape = turned.map(|edge| edge.key);
                        found.entry(shape).or_insert(turned.map(|edge| edge.placed.occurrence));
                    }
                }
            }
        }
        Some(found)
    }

    /// Where it goes on from a way, in the same iterations.
    fn onwards(&mut self, edge: &Edge) -> Option<Vec<Edge>> {
        let next = self.edges.get(&edge.to()).map_or(&[][..], Vec::as_slice);
        self.steps += next.len();
        let followed = || next.iter().filter(|next| next.to() != edge.from() && self.lead(edge, next));
        (self.steps <= MOST_STEPS).then(|| followed().copied().collect())
    }

    /// Whether a way ends in the iterations in which the next begins.
    fn lead(&self, edge: &Edge, next: &Edge) -> bool {
        let position = |number: u32| self.run.positions.get(number as usize).map_or(&[][..], Vec::as_slice);
        are_in_step(position(edge.placed.tail), position(next.placed.head))
    }
}

/// Whether the pairs of a ring are about three variables.
fn are_apart(ring: &[Edge; 3]) -> bool {
    let places: BTreeSet<u64> = ring.iter().map(|edge| edge.placed.occurrence.address).collect();
    places.len() == ring.len()
}

/// The same ring from that pair on which makes it the same whichever thread comes first.
fn turned(ring: [Edge; 3]) -> [Edge; 3] {
    let [one, two, three] = ring;
    let turns = [[one, two, three], [two, three, one], [three, one, two]];
    turns.into_iter().min_by_key(|turn| turn.map(|edge| edge.key)).unwrap_or(ring)
}
