//! What threads hand to each other under locks: who reads a pointer under a lock that its writer held, as with a queue, depends on
//! all that the writer did before. So does who reads a [flag](super::flags) that it would have waited for otherwise.
//!
//! The stream has no values here. So a first sieve only notes which instructions read and write what has the size of a pointer in
//! this way, and what may be a flag. A [`HandOverCheck`](crate::predict::HandOverCheck) finds out which of them read nothing but pointers,
//! or flags, and to a second sieve these order what follows: if what was given and what is taken have the same address.

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

    pub fn instructions(&self) -> BTreeSet<u64> {
        self.readers.union(&self.writers).copied().chain(self.flags.instructions()).collect()
    }
}

/// Who wrote last, holding which locks, and what it had done by then.
pub struct Given {
    pub thread: Thread,
    address: u64,
    holding: Holding,
    /// Nothing while it is only looked who gives and takes.
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

#[derive(Default)]
enum Seeking {
    /// Nothing is handed over.
    #[default]
    Off,
    /// Which instructions may hand over something is to be found out.
    Any,
    /// These do.
    Only(HandOvers),
}

/// Keeps the hatches of a sieve.
#[derive(Default)]
pub struct Hatches {
    seeking: Seeking,
    /// Of each site, whether it takes or gives: whether it has been seen to, or is trusted to.
    takes: Vec<bool>,
    gives: Vec<bool>,
    /// Whether it is trusted to have to do with flags, of whatever size.
    flags: Vec<bool>,
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
    /// Looks for instructions that may hand over something.
    pub fn seeking() -> Hatches {
        Hatches { seeking: Seeking::Any, ..Hatches::default() }
    }

    /// What these instructions hand over orders what follows.
    pub fn of(trusted: HandOvers) -> Hatches {
        Hatches { seeking: Seeking::Only(trusted), ..Hatches::default() }
    }

    pub fn site(&mut self, site: usize, pc: u64) {
        let length = self.takes.len().max(site + 1);
        self.takes.resize(length, false);
        self.gives.resize(length, false);
        self.flags.resize(length, false);
        if let Seeking::Only(HandOvers { readers, writers, flags }) = &self.seeking {
            self.takes[site] = readers.contains(&pc) || flags.readers.contains(&pc);
            self.gives[site] = writers.contains(&pc) || flags.writers.contains(&pc);
            self.flags[site] = flags.readers.contains(&pc) || flags.writers.contains(&pc);
        }
    }

    /// A thread has taken a lock, by a call with this return address.
    pub fn locked(&mut self, thread: Thread, object: u64, call: u64) {
        if matches!(self.seeking, Seeking::Off) {
            return;
        }
        let length = self.holding.len().max(thread as usize + 1);
        self.holding.resize_with(length, Holding::default);
        let holding = Arc::make_mut(&mut self.holding[thread as usize]);
        if matches!(self.seeking, Seeking::Any) {
            self.seeker.locked(thread, (object, call), holding.is_empty());
        }
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

    /// Whether it is to be looked for instructions that may have to do with flags, while the running thread holds a lock.
    #[inline]
    pub fn is_heeding(&self) -> bool {
        self.is_holding && matches!(self.seeking, Seeking::Any)
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
        let is_pointer = u64::from(access.size) == GRANULE_SIZE && access.address.is_multiple_of(GRANULE_SIZE);
        match access.kind {
            AccessKind::Read | AccessKind::Write if is_pointer => true,
            AccessKind::Read | AccessKind::Write | AccessKind::Update => {
                self.flags[access.site.0 as usize] && is_in_granule(access)
            }
            AccessKind::Atomic => false,
        }
    }

    /// What the running thread takes by a read from an address, if another has given it there.
    pub fn take(&mut self, number: u32, site: usize, address: u64) -> Option<&Moment> {
        let given = self.hatches[number as usize].given.as_ref()?;
        let holding = self.holding.get(self.running as usize)?;
        if given.thread == self.running || given.address != address || !given.shares_lock(holding) {
            return None;
        }
        if matches!(self.seeking, Seeking::Any) {
            self.takes[site] = true;
        }
        given.moment.as_ref().filter(|_| self.takes[site])
    }

    /// Whether what a site writes is given to others.
    pub fn gives(&self, site: usize) -> bool {
        matches!(self.seeking, Seeking::Any) || self.gives[site]
    }

    /// Whether what is given orders what follows.
    pub fn orders(&self) -> bool {
        matches!(self.seeking, Seeking::Only(_))
    }

    /// The running thread has written to an address what others may take.
    pub fn give(&mut self, number: u32, site: usize, (address, moment): (u64, Option<Moment>)) {
        self.gives[site] = true;
        let holding = self.holding.get(self.running as usize).cloned().unwrap_or_default();
        self.hatches[number as usize].given = Some(Given { thread: self.running, address, holding, moment });
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
fn is_in_granule(access: &Access) -> bool {
    access.address % GRANULE_SIZE + u64::from(access.size) <= GRANULE_SIZE
}
