//! What threads hand to each other under locks: who reads a pointer under a lock that its writer held, as with a queue, depends on
//! all that the writer did before. So does who reads a [flag](super::flags) that it would have waited for otherwise.
//!
//! The sieve looks at no values. So it only notes which instructions read and write what has the size of a pointer in this way, and what may be
//! a flag. A [`HandOverCheck`](crate::predict::HandOverCheck) finds out which of them read nothing but pointers, or flags, and to a sieve that
//! is told to trust these they order what follows: if what was given and what is taken have the same address.

use super::super::clock::Moment;
use super::super::shadow::GRANULE_SIZE;
use super::cells::Cell;
use super::flags::{FlagSeeker, Flags, places_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use trace::stream::{Access, AccessKind, Thread};

/// So many hatches at most: their numbers must not be taken for epochs.
const MOST_HATCHES: usize = (1 << 20) - 1;

/// Locks that a thread holds.
pub type Holding = Arc<Vec<u64>>;

/// Instructions that hand something over.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HandOvers {
    /// They read what others had written under the same lock.
    pub readers: BTreeSet<u64>,
    /// They wrote what may be such things under locks.
    pub writers: BTreeSet<u64>,
    /// Others, or the same, that have to do with flags.
    pub flags: Flags,
}

impl HandOvers {
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.flags.readers.is_empty()
    }

    /// Whether all others are among these.
    pub fn include(&self, others: &HandOvers) -> bool {
        let includes_writers = self.writers.is_superset(&others.writers);
        let includes_flags = self.flags.writers.is_superset(&others.flags.writers);
        includes_writers && includes_flags && self.include_readers_of(others)
    }

    /// The same of who reads.
    pub fn include_readers_of(&self, others: &HandOvers) -> bool {
        self.readers.is_superset(&others.readers) && self.flags.readers.is_superset(&others.flags.readers)
    }

    pub fn instructions(&self) -> BTreeSet<u64> {
        self.readers.union(&self.writers).copied().chain(self.flags.instructions()).collect()
    }
}

/// Who wrote last, holding which locks, and what it had done by then.
pub struct Given {
    pub thread: Thread,
    address: u64,
    holding: Holding,
    /// Nothing if the instruction is not trusted.
    moment: Option<Moment>,
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

/// What a site is trusted to do.
#[derive(Clone, Copy, Default)]
struct Trust {
    takes: bool,
    gives: bool,
    /// It has to do with flags, of whatever size.
    is_of_flag: bool,
}

/// Keeps the hatches of a sieve.
#[derive(Default)]
pub struct Hatches {
    /// Otherwise nothing is handed over.
    are_open: bool,
    trusted: HandOvers,
    /// By site.
    trust: Vec<Trust>,
    /// Of each site, whether it has been seen to take or give.
    takes: Vec<bool>,
    gives: Vec<bool>,
    seeker: FlagSeeker,
    /// By thread.
    holding: Vec<Holding>,
    /// The thread that is running, and whether it holds a lock.
    running: Thread,
    is_holding: bool,
    hatches: Vec<Hatch>,
    free: Vec<u32>,
}

impl Hatches {
    /// Looks for instructions that may hand over something. What these do orders what follows.
    pub fn trusting(trusted: HandOvers) -> Hatches {
        Hatches { are_open: true, trusted, ..Hatches::default() }
    }

    pub fn site(&mut self, site: usize, pc: u64) {
        let length = self.takes.len().max(site + 1);
        self.takes.resize(length, false);
        self.gives.resize(length, false);
        self.trust.resize(length, Trust::default());
        let HandOvers { readers, writers, flags } = &self.trusted;
        let (reads_flag, writes_flag) = (flags.readers.contains(&pc), flags.writers.contains(&pc));
        self.trust[site] = Trust {
            takes: readers.contains(&pc) || reads_flag,
            gives: writers.contains(&pc) || writes_flag,
            is_of_flag: reads_flag || writes_flag,
        };
    }

    /// A thread has taken a lock, by a call with this return address.
    pub fn locked(&mut self, thread: Thread, object: u64, call: u64) {
        if !self.are_open {
            return;
        }
        let length = self.holding.len().max(thread as usize + 1);
        self.holding.resize_with(length, Holding::default);
        let holding = Arc::make_mut(&mut self.holding[thread as usize]);
        self.seeker.locked(thread, (object, call), holding.is_empty());
        holding.push(object);
    }

    pub fn unlocked(&mut self, thread: Thread, object: u64, call: u64) {
        self.seeker.unlocked(thread, object, call);
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

    /// The program's own code accesses what may be a flag.
    #[inline]
    pub fn heed(&mut self, access: &Access) {
        let (site, granule) = (access.site.0, access.address / GRANULE_SIZE);
        match access.kind {
            _ if !is_in_granule(access) => {}
            AccessKind::Read => self.seeker.read(self.running, site, granule),
            AccessKind::Write | AccessKind::Update => self.seeker.written(site, granule),
            AccessKind::Atomic => {}
        }
    }

    /// Whether an access may give or take something.
    #[inline]
    pub fn is_handing(&self, access: &Access) -> bool {
        if !self.is_holding {
            return false;
        }
        match access.kind {
            AccessKind::Read | AccessKind::Write if may_be_pointer(access) => true,
            AccessKind::Read | AccessKind::Write | AccessKind::Update => {
                self.trust[access.site.0 as usize].is_of_flag && is_in_granule(access)
            }
            AccessKind::Atomic => false,
        }
    }

    /// What the running thread takes by a read, if another has given it there.
    pub fn take(&mut self, number: u32, access: &Access) -> Option<&Moment> {
        let given = self.hatches[number as usize].given.as_ref()?;
        let holding = self.holding.get(self.running as usize)?;
        if given.thread == self.running || given.address != access.address || !given.shares_lock(holding) {
            return None;
        }
        let site = access.site.0 as usize;
        self.takes[site] |= may_be_pointer(access);
        given.moment.as_ref().filter(|_| self.trust[site].takes)
    }

    /// Whether what a site gives orders what follows.
    pub fn orders(&self, site: usize) -> bool {
        self.trust[site].gives
    }

    /// The running thread has written what others may take.
    pub fn give(&mut self, number: u32, access: &Access, moment: Option<Moment>) {
        self.gives[access.site.0 as usize] |= may_be_pointer(access);
        let holding = self.holding.get(self.running as usize).cloned().unwrap_or_default();
        let (thread, address) = (self.running, access.address);
        self.hatches[number as usize].given = Some(Given { thread, address, holding, moment });
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
        let readers = places_of(&self.takes, &place);
        let writers = if readers.is_empty() { BTreeSet::new() } else { places_of(&self.gives, &place) };
        HandOvers { readers, writers, flags: self.seeker.into_flags(place) }
    }
}

#[inline]
fn may_be_pointer(access: &Access) -> bool {
    u64::from(access.size) == GRANULE_SIZE && access.address.is_multiple_of(GRANULE_SIZE)
}

#[inline]
fn is_in_granule(access: &Access) -> bool {
    access.address % GRANULE_SIZE + u64::from(access.size) <= GRANULE_SIZE
}
