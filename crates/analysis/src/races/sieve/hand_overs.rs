//! What threads hand to each other under locks: who reads a pointer under a lock that its writer held, as with a queue, depends on
//! all that the writer did before. So does who reads a [flag](super::flags) that it would have waited for otherwise.
//!
//! Values are told of few instructions. So a sieve that is told none notes which instructions read and write what has the size of a pointer in
//! this way, and what may be a flag. To one that is told the values of these, a pointer that is taken where it was given orders what follows, as it does to the
//! [`Detector`](crate::predict::Detector); nothing else does, but for flags of instructions that a [`HandOverCheck`](crate::predict::HandOverCheck) has
//! found to have to do with nothing else. What the sieve takes for an order must never be more than what the detector does, which has to be told of the same accesses: it is,
//! since memory through which something is handed over by an order that nothing else makes is contended.

use super::super::clock::Moment;
use super::super::shadow::GRANULE_SIZE;
use super::cells::Cell;
use super::flags::{FlagSeeker, Flags, places_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use trace::stream::{Access, AccessKind, Site, Thread};

/// So many hatches at most: their numbers must not be taken for epochs.
const MOST_HATCHES: usize = (1 << 20) - 1;

/// Locks that a thread holds.
pub type Holding = Arc<Vec<u64>>;

/// Instructions that hand something over.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HandOvers {
    /// They read what others had written under the same lock.
    pub readers: BTreeSet<u64>,
    /// They wrote it.
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
    /// By which instruction, if it may be a pointer.
    pointer_writer: Option<Site>,
    holding: Holding,
    /// Its instruction is trusted to write flags.
    is_flag: bool,
    /// Nothing if it is neither known to be a pointer nor a flag.
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

/// What a site is trusted to do to flags, of whatever size.
#[derive(Clone, Copy, Default)]
struct Trust {
    reads: bool,
    writes: bool,
}

/// Keeps the hatches of a sieve.
#[derive(Default)]
pub struct Hatches {
    /// Otherwise nothing is handed over.
    are_open: bool,
    flags: Flags,
    /// By site.
    trust: Vec<Trust>,
    /// Of each site, whether it has been seen to take what may be a pointer, or to give what was taken.
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
    /// Looks for instructions that may hand over something. What these do to flags orders what follows.
    pub fn trusting(flags: Flags) -> Hatches {
        Hatches { are_open: true, flags, ..Hatches::default() }
    }

    pub fn site(&mut self, site: usize, pc: u64) {
        let length = self.takes.len().max(site + 1);
        self.takes.resize(length, false);
        self.gives.resize(length, false);
        self.trust.resize(length, Trust::default());
        self.trust[site] = Trust { reads: self.flags.readers.contains(&pc), writes: self.flags.writers.contains(&pc) };
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
                let Trust { reads, writes } = self.trust[access.site.0 as usize];
                (reads || writes) && is_in_granule(access)
            }
            AccessKind::Atomic => false,
        }
    }

    /// What the running thread takes by a read, if another has given it there.
    fn given(&self, number: u32, access: &Access) -> Option<&Given> {
        let given = self.hatches[number as usize].given.as_ref()?;
        let holding = self.holding.get(self.running as usize)?;
        let is_given = given.thread != self.running && given.address == access.address && given.shares_lock(holding);
        is_given.then_some(given)
    }

    /// What comes with a flag that the running thread takes by a read.
    pub fn take(&mut self, number: u32, access: &Access) -> Option<&Moment> {
        let writer = self.given(number, access)?.pointer_writer.filter(|_| may_be_pointer(access));
        let site = access.site.0 as usize;
        if let Some(writer) = writer {
            self.takes[site] = true;
            self.gives[writer.0 as usize] = true;
        }
        let given = self.hatches[number as usize].given.as_ref();
        given.filter(|given| given.is_flag && self.trust[site].reads)?.moment.as_ref()
    }

    /// What comes with a pointer that the running thread has read.
    pub fn pointer_in(&self, number: u32, access: &Access) -> Option<&Moment> {
        self.given(number, access).filter(|_| may_be_pointer(access))?.moment.as_ref()
    }

    /// Whether a site is trusted to write flags.
    pub fn writes_flag(&self, site: Site) -> bool {
        self.trust[site.0 as usize].writes
    }

    /// The running thread has written what others may take.
    pub fn give(&mut self, number: u32, access: &Access) {
        let holding = self.holding.get(self.running as usize).cloned().unwrap_or_default();
        self.hatches[number as usize].given = Some(Given {
            thread: self.running,
            address: access.address,
            pointer_writer: may_be_pointer(access).then_some(access.site),
            holding,
            is_flag: self.writes_flag(access.site),
            moment: None,
        });
    }

    /// Whether nothing comes yet with what the running thread has just written.
    pub fn lacks_moment(&self, number: u32, access: &Access) -> bool {
        let given = self.hatches[number as usize].given.as_ref();
        may_be_pointer(access) && given.is_some_and(|given| given.moment.is_none())
    }

    /// What a thread had done comes with what it has just written.
    pub fn give_moment(&mut self, number: u32, moment: Moment) {
        if let Some(given) = &mut self.hatches[number as usize].given {
            given.moment = Some(moment);
        }
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
        let [readers, writers] = [&self.takes, &self.gives].map(|sites| places_of(sites, &place));
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
