//! What threads hand to each other under locks: who reads a pointer under a lock that its writer held, as with a queue, depends on
//! all that the writer did before.
//!
//! The stream has no values here. So each plain read of the size of a pointer counts, except by instructions that are doubted, and
//! a second look ([`HandOverCheck`](crate::predict::HandOverCheck)) finds out which of the others have read something else.

use super::super::clock::Moment;
use super::super::shadow::GRANULE_SIZE;
use super::cells::Cell;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use trace::stream::{Access, AccessKind, Thread};

/// So many hatches at most: their numbers must not be taken for epochs.
const MOST_HATCHES: usize = (1 << 20) - 1;

/// Locks that a thread holds.
pub type Holding = Arc<Vec<u64>>;

/// The instructions that hand pointers over, as far as that can be told without values.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HandOvers {
    /// They read what others had written under the same lock, and what they did next was ordered by that.
    pub readers: BTreeSet<u64>,
    /// They wrote such things under locks.
    pub writers: BTreeSet<u64>,
}

/// Who wrote last, holding which locks, and what it had done by then.
pub struct Given {
    pub thread: Thread,
    holding: Holding,
    pub moment: Moment,
}

impl Given {
    fn shares_lock(&self, holding: &[u64]) -> bool {
        holding.iter().any(|object| self.holding.contains(object))
    }
}

/// Memory that something may be handed over through: a granule.
#[derive(Default)]
pub struct Hatch {
    /// What its cells would be without it.
    pub cells: [Cell; 2],
    pub given: Option<Given>,
}

/// Keeps the hatches of a sieve.
#[derive(Default)]
pub struct Hatches {
    /// Instructions that read numbers, too. Nothing if nothing is to be taken for handed over.
    doubted: Option<BTreeSet<u64>>,
    /// Of each site, whether it is doubted.
    is_doubted: Vec<bool>,
    reads: Vec<bool>,
    writes: Vec<bool>,
    /// By thread.
    holding: Vec<Holding>,
    /// The thread that is running, and whether it holds a lock.
    running: Thread,
    is_holding: bool,
    hatches: Vec<Hatch>,
    free: Vec<u32>,
}

impl Hatches {
    /// Trusts all instructions but these.
    pub fn doubting(doubted: BTreeSet<u64>) -> Hatches {
        Hatches { doubted: Some(doubted), ..Hatches::default() }
    }

    pub fn site(&mut self, site: usize, pc: u64) {
        let Some(doubted) = &self.doubted else { return };
        let length = self.is_doubted.len().max(site + 1);
        for sites in [&mut self.is_doubted, &mut self.reads, &mut self.writes] {
            sites.resize(length, false);
        }
        self.is_doubted[site] = doubted.contains(&pc);
    }

    pub fn locked(&mut self, thread: Thread, object: u64) {
        if self.doubted.is_some() {
            let length = self.holding.len().max(thread as usize + 1);
            self.holding.resize_with(length, Holding::default);
            Arc::make_mut(&mut self.holding[thread as usize]).push(object);
        }
    }

    pub fn unlocked(&mut self, thread: Thread, object: u64) {
        let Some(holding) = self.holding.get_mut(thread as usize) else { return };
        if let Some(position) = holding.iter().rposition(|held| *held == object) {
            Arc::make_mut(holding).remove(position);
        }
    }

    pub fn ended(&mut self, thread: Thread) {
        self.holding.get_mut(thread as usize).into_iter().for_each(|holding| *holding = Holding::default());
    }

    /// A thread is running.
    #[inline]
    pub fn enter(&mut self, thread: Thread) {
        self.running = thread;
        self.is_holding = self.holding.get(thread as usize).is_some_and(|holding| !holding.is_empty());
    }

    #[inline]
    pub fn is_holding(&self) -> bool {
        self.is_holding
    }

    /// Whether an access may give or take something.
    #[inline]
    pub fn is_handing(&self, access: &Access) -> bool {
        self.is_holding
            && matches!(access.kind, AccessKind::Read | AccessKind::Write)
            && u64::from(access.size) == GRANULE_SIZE
            && access.address % GRANULE_SIZE == 0
    }

    /// What the running thread takes by a read, if another has given it.
    pub fn take(&mut self, number: u32, site: usize) -> Option<&Moment> {
        let given = self.hatches[number as usize].given.as_ref()?;
        let holding = self.holding.get(self.running as usize)?;
        if given.thread == self.running || self.is_doubted[site] || !given.shares_lock(holding) {
            return None;
        }
        self.reads[site] = true;
        Some(&given.moment)
    }

    /// The running thread has written what others may take.
    pub fn give(&mut self, number: u32, site: usize, moment: Moment) {
        self.writes[site] = true;
        let holding = self.holding.get(self.running as usize).cloned().unwrap_or_default();
        self.hatches[number as usize].given = Some(Given { thread: self.running, holding, moment });
    }

    /// The number of a new one, unless there are too many.
    pub fn open(&mut self, cells: [Cell; 2]) -> Option<u32> {
        let hatch = Hatch { cells, given: None };
        if let Some(number) = self.free.pop() {
            self.hatches[number as usize] = hatch;
            return Some(number);
        }
        (self.hatches.len() < MOST_HATCHES).then(|| {
            self.hatches.push(hatch);
            self.hatches.len() as u32 - 1
        })
    }

    pub fn at(&mut self, number: u32) -> &mut Hatch {
        &mut self.hatches[number as usize]
    }

    /// No cell has this number any more.
    pub fn close(&mut self, number: u32) {
        self.hatches[number as usize] = Hatch::default();
        self.free.push(number);
    }

    /// What the cells of all hatches would be.
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
        self.hatches.iter().flat_map(|hatch| hatch.cells)
    }

    pub fn into_hand_overs(self, place: impl Fn(u32) -> u64) -> HandOvers {
        let pcs = |sites: &[bool]| {
            let known = (0..).zip(sites).filter(|(_, is_one)| **is_one);
            known.map(|(site, _)| place(site)).collect()
        };
        let readers: BTreeSet<u64> = pcs(&self.reads);
        let writers = if readers.is_empty() { BTreeSet::new() } else { pcs(&self.writes) };
        HandOvers { readers, writers }
    }
}
