//! The predictions, each pair of instructions once, with a few of its occurrences.

use super::deeds::{Deed, Happening};
use super::uses::{Lookup, Used};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::stream::Thread;

/// How many pairs of instructions are kept.
const MOST_PAIRS: usize = 4096;

/// After so many occurrences of a pair, one of so many is looked at.
const MANY: u64 = 4096;
const ONE_OF_MANY: u64 = 64;

/// How many occurrences of each are kept. Most changes of a value do no harm, whenever they come.
fn most_occurrences(kind: Kind) -> usize {
    if kind == Kind::Inconsistent { 2 } else { 4 }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Null,
    Dangling,
    /// The same with an object on a stack, whose frame is left.
    Left,
    /// The same with a descriptor, which is closed.
    Closed,
    Overflow,
    Uninitialised,
    /// A pointer is read between the release of its block and its being cleared, and the block is given back again.
    DoubleFree,
    /// A read of something else than what went before was based on.
    Inconsistent,
    /// What the comparators tell, which need not be fatal.
    Race,
    Atomicity,
}

/// A block of the heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Block {
    pub address: u64,
    pub size: u64,
    /// Where the function that made it returned to.
    pub site: u64,
}

/// Two deeds that would be fatal in this order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Prediction {
    pub kind: Kind,
    /// The memory that both are about: what both access, or the block that is given back; or the descriptor.
    pub address: u64,
    pub size: u64,
    /// The block that it lies in.
    pub block: Option<Block>,
    /// The deed that has to come first.
    pub early: Deed,
    /// The deed that has to come next.
    pub late: Deed,
    /// What would have made it good again, by the thread of `early`: it has to come after `late`.
    pub renewal: Option<Deed>,
    /// Whether the run had both in this order, and was saved by the renewal.
    pub was_renewed: bool,
}

/// What a detector has found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Predicted {
    /// By kind, then in the order of first occurrence; occurrences of one pair of instructions stand together.
    pub pairs: Vec<Vec<Prediction>>,
    /// How the instructions that read indices look something up by them.
    pub lookups: BTreeMap<u64, Lookup>,
    /// Pairs of instructions that were too many to keep.
    pub further_pairs: u64,
    /// Memory that was not watched, since it was too much, in units of 8 bytes.
    pub unwatched_memory: u64,
    /// Accesses whose memory was not compared among threads, since there was too much of it.
    pub uncompared_accesses: u64,
    /// Threads that could not be watched, since there were too many at once.
    pub unwatched_threads: u64,
}

#[derive(Default)]
pub struct Collected {
    numbers: FxHashMap<(Kind, u64, u64), usize>,
    pairs: Vec<Pair>,
    /// Predictions whose renewal has not come yet, by address and thread.
    open: BTreeMap<(u64, Thread), Vec<(usize, usize)>>,
    further_pairs: u64,
}

/// What is kept of two instructions.
#[derive(Default)]
struct Pair {
    kept: Vec<Kept>,
    n_occurrences: u64,
}

impl Pair {
    /// Whether an occurrence that takes the place of the latest one is to be passed over: of very many, one of the last is as
    /// good as the last.
    fn passes_over(&self) -> bool {
        self.n_occurrences > MANY && !self.n_occurrences.is_multiple_of(ONE_OF_MANY)
    }
}

/// A prediction to be kept, if it is of a new kind.
pub struct Suspicion<'a> {
    pub kind: Kind,
    pub address: u64,
    pub size: u64,
    pub block: Option<Block>,
    pub early: &'a Happening,
    pub late: &'a Happening,
    pub renewal: Option<&'a Happening>,
}

/// A prediction that a later occurrence may replace.
struct Kept {
    kind: Kind,
    address: u64,
    size: u64,
    block: Option<Block>,
    early: Happening,
    late: Happening,
    renewal: Option<Happening>,
    was_renewed: bool,
}

impl Collected {
    pub fn add(&mut self, suspicion: &Suspicion<'_>) {
        // Who cannot be told apart from others cannot be held.
        if [suspicion.early, suspicion.late].iter().any(|deed| deed.place.is_unclear()) {
            return;
        }
        let key = (suspicion.kind, suspicion.early.pc, suspicion.late.pc);
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None if self.pairs.len() == MOST_PAIRS => {
                self.further_pairs += 1;
                return;
            }
            None => {
                self.numbers.insert(key, self.pairs.len());
                self.pairs.push(Pair::default());
                self.pairs.len() - 1
            }
        };
        let pair = &mut self.pairs[number];
        pair.n_occurrences += 1;
        let passes_over = pair.passes_over();
        let occurrences = &mut pair.kept;
        let most = most_occurrences(suspicion.kind);
        let place = match suspicion.kind {
            _ if occurrences.len() < most => occurrences.len(),
            // The larger an index has become, the likelier it is out of bounds.
            Kind::Overflow => match smallest(occurrences).filter(|(_, value)| suspicion.early.value > *value) {
                Some((place, _)) => place,
                None => return,
            },
            _ if passes_over => return,
            // The first, and the latest: what goes on between may look different in the beginning and in the end.
            _ => most - 1,
        };
        match occurrences.get_mut(place) {
            Some(old) => old.follow(suspicion),
            None => occurrences.push(suspicion.kept()),
        }
        if suspicion.renewal.is_none() && suspicion.kind == Kind::Null {
            let open = self.open.entry((suspicion.address, suspicion.early.thread)).or_default();
            if open.last() != Some(&(number, place)) {
                open.push((number, place));
            }
        }
    }

    /// A thread has written to memory again.
    pub fn renewed(&mut self, address: u64, by: &Happening) {
        let Some(open) = self.open.remove(&(address, by.thread)) else { return };
        for (number, place) in open {
            if let Some(prediction) = self.pairs[number].kept.get_mut(place)
                && prediction.renewal.is_none()
            {
                prediction.renewal = Some(by.clone());
            }
        }
    }

    /// Nobody asks for what happens at this address any longer.
    pub fn forget(&mut self, address: u64) {
        while let Some((open, _)) = self.open.range((address, 0)..=(address, Thread::MAX)).next() {
            let open = *open;
            self.open.remove(&open);
        }
    }

    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// In the order of their kinds.
    pub fn into_predicted(self) -> Predicted {
        let told = |pair: Pair| pair.kept.iter().map(Kept::told).collect();
        let mut pairs: Vec<Vec<Prediction>> = self.pairs.into_iter().map(told).collect();
        pairs.sort_by_key(|pair| pair.first().map(|prediction| prediction.kind));
        Predicted { pairs, further_pairs: self.further_pairs, ..Predicted::default() }
    }
}

impl Predicted {
    /// Keeps what the program's own behaviour does not speak against.
    pub fn keep_used(&mut self, used: Used) {
        let is_likely = |prediction: &Prediction| match prediction.kind {
            Kind::Null => used.dereferenced.contains(&prediction.late.pc),
            Kind::Overflow => used.indices.contains_key(&prediction.late.pc),
            _ => true,
        };
        self.pairs.retain(|pair| pair.first().is_some_and(is_likely));
        self.lookups = used.indices;
    }
}

/// The occurrence that is given up first, and the value of its index.
fn smallest(occurrences: &[Kept]) -> Option<(usize, Option<u64>)> {
    let values = occurrences.iter().map(|kept| kept.early.value).enumerate();
    // The first stays: after it, the threads do least that the run did not show.
    values.skip(1).min_by_key(|(_, value)| *value)
}

impl Suspicion<'_> {
    fn kept(&self) -> Kept {
        Kept {
            kind: self.kind,
            address: self.address,
            size: self.size,
            block: self.block,
            early: self.early.clone(),
            late: self.late.clone(),
            renewal: self.renewal.cloned(),
            was_renewed: self.renewal.is_some(),
        }
    }
}

impl Kept {
    /// Another occurrence takes its place.
    fn follow(&mut self, suspicion: &Suspicion<'_>) {
        (self.address, self.size, self.block) = (suspicion.address, suspicion.size, suspicion.block);
        self.early.clone_from(suspicion.early);
        self.late.clone_from(suspicion.late);
        self.renewal = suspicion.renewal.cloned();
        self.was_renewed = suspicion.renewal.is_some();
    }

    fn told(&self) -> Prediction {
        Prediction {
            kind: self.kind,
            address: self.address,
            size: self.size,
            block: self.block,
            early: self.early.told(),
            late: self.late.told(),
            renewal: self.renewal.as_ref().map(|renewal| renewal.told()),
            was_renewed: self.was_renewed,
        }
    }
}
