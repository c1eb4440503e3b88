//! The races that were found, each once.

use super::cell::Action;
pub use super::locks::HeldLock;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use trace::stream::{Access, Site, Thread};

/// How many races are kept.
const MOST_RACES: usize = 1000;
/// How many occurrences of each race are kept, so that stacks can be told apart.
const MOST_INSTANCES: usize = 8;

/// One of the two accesses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Side {
    pub thread: Thread,
    /// Where the instruction is.
    pub pc: u64,
    /// Its number in the stream; nothing for the release of a block.
    pub site: Option<Site>,
    pub action: Action,
    /// Of the access, in bytes; 65535 for all larger ones.
    pub size: u32,
    /// Which of the thread's accesses and releases of blocks, counted from 1. Mostly it is the very access; where a
    /// granule's history is long, or neighbouring bytes were accessed one by one, an earlier one with no release by its
    /// thread in between: see [`Side::is`].
    pub ordinal: u64,
    /// In ascending order. Nothing if it was too long ago.
    pub locks: Option<Vec<HeldLock>>,
}

impl Side {
    /// Whether this is an access of the side's thread: the first for which it holds is the one.
    pub fn is(&self, address: u64, ordinal: u64, access: &Access) -> bool {
        ordinal >= self.ordinal
            && self.site == Some(access.site)
            && [Action::from(access.kind), Action::Atomic].contains(&self.action)
            && address.checked_sub(access.address).is_some_and(|offset| offset < u64::from(access.size))
    }
}

/// Two accesses that nothing orders, in the order in which they came.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Instance {
    /// The first byte that both access.
    pub address: u64,
    pub first: Side,
    pub second: Side,
}

/// All occurrences of a race between two instructions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Race {
    /// The first of all, then the first ones that differ in address or order, a few in all.
    pub instances: Vec<Instance>,
    /// Whether each side has come first. If both are the same instruction: whether each of two threads has.
    pub both_orders: bool,
    /// How many times accesses raced. What repeats between two releases counts once.
    pub count: u64,
}

/// The result of a race detector.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// In the order of their first occurrences.
    pub races: Vec<Race>,
    /// Pairs of instructions that race as well, but were too many to keep.
    pub further_races: u64,
    /// Threads that could not be watched, since there were too many at once.
    pub unwatched_threads: u64,
}

/// The numbers of both sites, in the order of the accesses.
type Pair = (u32, u32);

/// What is known of a pair of sites.
#[derive(Clone, Copy)]
struct Known {
    /// Where in `races`, if it is kept.
    index: Option<usize>,
    /// Whether the first occurrence had them in the other order.
    is_reversed: bool,
}

#[derive(Default)]
pub struct Collected {
    known: FxHashMap<Pair, Known>,
    pub found: Found,
}

impl Collected {
    /// Counts an occurrence, and asks for more about it if it is to be kept: racy programs may race millions of times.
    pub fn add(&mut self, pair: Pair, threads: (Thread, Thread), address: u64, describe: impl FnOnce() -> Instance) {
        let known = match self.known.get(&pair) {
            Some(known) => *known,
            None => self.insert(pair),
        };
        let Some(index) = known.index else { return };
        let race = &mut self.found.races[index];
        race.count += 1;
        let is_reversed = known.is_reversed || (pair.0 == pair.1 && race.is_between(threads.1, threads.0));
        if race.wants(address, is_reversed) {
            race.instances.push(describe());
        }
        race.both_orders |= is_reversed;
    }

    fn insert(&mut self, (first, second): Pair) -> Known {
        let index = (self.found.races.len() < MOST_RACES).then_some(self.found.races.len());
        match index {
            Some(_) => self.found.races.push(Race { instances: Vec::new(), both_orders: false, count: 0 }),
            None => self.found.further_races += 1,
        }
        self.known.insert((second, first), Known { index, is_reversed: true });
        let known = Known { index, is_reversed: false };
        self.known.insert((first, second), known);
        known
    }
}

impl Race {
    /// Whether an occurrence differs from those kept.
    fn wants(&self, address: u64, is_reversed: bool) -> bool {
        let is_elsewhere = self.instances.iter().all(|kept| kept.address != address);
        (is_reversed && !self.both_orders) || (is_elsewhere && self.instances.len() < MOST_INSTANCES)
    }

    /// Whether the first occurrence was between these threads, in this order.
    fn is_between(&self, first: Thread, second: Thread) -> bool {
        let kept = self.instances.first();
        kept.is_some_and(|kept| (kept.first.thread, kept.second.thread) == (first, second))
    }
}
