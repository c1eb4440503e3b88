//! What is kept of a run that was heard: its pairs, and when they came.

use super::End;
use super::contexts::{NOWHERE, digest};
use super::nesting::Iteration;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize, Serializer};
use trace::stream::Thread;

/// An access of a run. Written down without the names of its fields: there are many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Moment {
    pub thread: Thread,
    /// Which of the thread's accesses and releases of blocks, counted from 1.
    pub ordinal: u64,
    /// Its place among all accesses of the run.
    pub order: u64,
}

/// Both ends of a pair, at one of the times when it came. Written down like a [`Moment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Occurrence {
    pub head: Moment,
    pub tail: Moment,
    /// The first byte that both access.
    pub address: u64,
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.thread, self.ordinal, self.order).serialize(serializer)
    }
}

impl Serialize for Occurrence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.head, self.tail, self.address).serialize(serializer)
    }
}

impl Occurrence {
    pub fn direction(&self) -> (Thread, Thread) {
        (self.head.thread, self.tail.thread)
    }

    /// Whether this pair is there because `inner` is: it leads from the same thread to the same other one, and holds both
    /// ends of `inner` between its own.
    pub fn holds(&self, inner: &Occurrence) -> bool {
        let is_around = self.head.order <= inner.head.order && inner.tail.order <= self.tail.order;
        self.direction() == inner.direction()
            && is_around
            && (self.head.order, self.tail.order) != (inner.head.order, inner.tail.order)
    }
}

/// An occurrence with the iterations that its ends are in, by numbers of [`Collected::positions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The first one there.
    pub occurrence: Occurrence,
    pub head: u32,
    pub tail: u32,
}

impl Placed {
    /// Whether both have their ends in the same iterations of the same threads.
    pub(super) fn is_like(&self, other: &Placed) -> bool {
        let place = |placed: &Placed| (placed.occurrence.direction(), placed.head, placed.tail);
        place(self) == place(other)
    }
}

/// A pair of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenPair {
    pub head: End,
    pub tail: End,
    /// When it first came.
    pub first: Occurrence,
    pub times: u64,
    /// From which thread to which, in ascending order; not all if there are very many.
    pub directions: Vec<(Thread, Thread)>,
    /// When it first came from other threads or to other ones than at first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<Occurrence>,
    /// A few of the addresses that it is about, in ascending order.
    pub places: Vec<u64>,
    /// The first ones that differ, if iterations were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub occurrences: Vec<Placed>,
}

/// What was heard of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collected {
    /// In the order in which they first came.
    pub pairs: Vec<SeenPair>,
    /// How many accesses were looked at.
    pub accesses: u64,
    /// The instructions that made them, in ascending order.
    #[serde(default)]
    pub executed: Vec<u64>,
    /// Those that met others, or came to memory where threads had met: what comes to the same memory is together, in ascending order.
    #[serde(default)]
    pub meeting: Vec<Vec<u64>>,
    /// Iterations of loops that threads were in, the outermost first, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub positions: Vec<Vec<Iteration>>,
    /// Where calls return to, the innermost first, if that was asked for: ends know them by their number, until
    /// [`settle_contexts`](Collected::settle_contexts).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<Vec<u64>>,
}

impl Collected {
    /// Forgets pairs whose iterations nobody asked for.
    pub fn keep_placed(&mut self) {
        self.pairs.retain(|pair| !pair.occurrences.is_empty());
        self.pairs.shrink_to_fit();
        self.executed = Vec::new();
    }

    /// Keeps those positions that an occurrence is in, which are few of those that a run has.
    pub(super) fn forget_unused_positions(&mut self) {
        let mut positions = Vec::new();
        let mut numbers = FxHashMap::default();
        for placed in self.pairs.iter_mut().flat_map(|pair| &mut pair.occurrences) {
            for position in [&mut placed.head, &mut placed.tail] {
                let old = std::mem::take(&mut self.positions[*position as usize]);
                *position = *numbers.entry(*position).or_insert_with(|| {
                    positions.push(old);
                    positions.len() as u32 - 1
                });
            }
        }
        self.positions = positions;
    }

    /// Names the contexts of ends by what they are, so that those of different runs can be compared.
    pub fn settle_contexts(&mut self) {
        let contexts = std::mem::take(&mut self.contexts);
        for end in self.pairs.iter_mut().flat_map(|pair| [&mut pair.head, &mut pair.tail]) {
            end.context = contexts.get(end.context as usize).map_or(NOWHERE, |callers| digest(callers));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occurrences_are_read_as_they_were_written() {
        let moment = |number: u64| Moment { thread: number as Thread, ordinal: 10 * number, order: 100 * number };
        let occurrence = Occurrence { head: moment(1), tail: moment(2), address: 0x1000 };
        let text = serde_json::to_string(&occurrence).expect("it can be written");
        assert_eq!(text, "[[1,10,100],[2,20,200],4096]");
        assert_eq!(serde_json::from_str::<Occurrence>(&text).ok(), Some(occurrence));
    }
}
