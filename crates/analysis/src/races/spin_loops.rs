//! Synchronisation by waiting in a loop: a thread does the same accesses round after round, until another's write to a
//! place that it reads lets it leave.
//!
//! Values are not looked at. That the write let it leave is taken from this: the thread went round at least
//! [`ROUNDS`] times, and left within two rounds of the last write to a place that the loop reads and does not write
//! itself. A loop that works rather than waits touches other places from round to round.
//!
//! May miss: a wait that was over before it began, and loops of more than [`LONGEST_ROUND`] accesses.

use super::shadow::granules;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::stream::{Access, AccessKind, Site, Thread};

/// How many accesses a round may have. Waiting takes few, also with a call that yields.
pub const LONGEST_ROUND: u64 = 64;
/// How many rounds make a thread waiting.
const ROUNDS: u64 = 3;
/// The last accesses of sites are looked up by a few bits of their numbers, which are close together within a loop.
const REMEMBERED_SITES: usize = 128;

/// One side of ad-hoc synchronisation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdHocSide {
    pub thread: Thread,
    pub site: Site,
    /// Where the site's instruction is.
    pub pc: u64,
    /// Which of the thread's accesses and releases of blocks, counted from 1.
    pub ordinal: u64,
}

/// A thread waited in a loop for another's write to plain memory. The same two sites are told once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdHoc {
    /// Where it was first.
    pub address: u64,
    /// A read of the loop. Its ordinal is that of the first access after the loop.
    pub reader: AdHocSide,
    pub writer: AdHocSide,
    /// How many times it was seen.
    pub count: u64,
}

/// The last access of a site.
#[derive(Clone, Copy, Default)]
struct Last {
    site: u32,
    address: u64,
    /// Which access of the thread it was, from 1.
    position: u64,
}

/// A thread, and the loop that it may be in.
pub struct Runner {
    thread: Thread,
    /// How many accesses and releases of blocks it has made.
    ordinal: u64,
    /// How many accesses it has made of those that are looked at.
    position: u64,
    last: [Last; REMEMBERED_SITES],
    /// Accesses up to here belong to no loop that the thread can be in.
    since: u64,
    /// How many accesses ago each of the last `repeated` accesses was made before; 0 if they were not.
    round: u64,
    repeated: u64,
    /// The accesses of one round, as they are being collected.
    body: Vec<Access>,
    waiting: Option<Waiting>,
}

struct Waiting {
    /// The reads of places that the loop does not write.
    reads: Vec<Access>,
    round: u64,
    /// The last write of another thread to one of them.
    wake: Option<Wake>,
}

struct Wake {
    read: Access,
    writer: AdHocSide,
    /// Where the waiting thread was.
    position: u64,
}

impl Runner {
    fn new(thread: Thread) -> Runner {
        Runner {
            thread,
            ordinal: 0,
            position: 0,
            last: [Last::default(); REMEMBERED_SITES],
            since: 0,
            round: 0,
            repeated: 0,
            body: Vec::new(),
            waiting: None,
        }
    }

    #[inline]
    pub fn count(&mut self) {
        self.ordinal += 1;
    }

    /// Whether the access goes on with the round that the thread is in.
    #[inline]
    fn goes_round(&mut self, access: &Access) -> bool {
        self.position += 1;
        let last = &mut self.last[access.site.0 as usize % REMEMBERED_SITES];
        let new = Last { site: access.site.0, address: access.address, position: self.position };
        let old = std::mem::replace(last, new);
        let is_again = old.site == new.site && old.address == new.address && old.position > self.since;
        let distance = if is_again { self.position - old.position } else { 0 };
        // Mostly nothing is repeated, and nothing was: then nothing changes.
        if distance == self.round {
            return distance != 0;
        }
        self.round = if distance <= LONGEST_ROUND { distance } else { 0 };
        self.repeated = u64::from(self.round != 0);
        self.body.clear();
        false
    }

    /// Goes on in a round. Whether the thread counts as waiting from now on.
    fn go_round(&mut self, access: &Access) -> bool {
        let enough = self.round * (ROUNDS - 1);
        if self.repeated >= enough {
            return false;
        }
        self.repeated += 1;
        if self.repeated > enough - self.round {
            self.body.push(*access);
        }
        self.repeated == enough
    }

    /// Whether the round takes a lock by a locked instruction and gives it up: who asks under a lock does not spin.
    fn takes_lock(&self) -> bool {
        // Where in the round it begins is not known, so neither is which comes first.
        let writers = |of: &Access| self.body.iter().filter(|other| other.kind.writes() && overlap(other, of)).count();
        self.body.iter().any(|access| access.kind == AccessKind::Atomic && writers(access) > 1)
    }

    /// The reads of the round whose places it does not write.
    fn pure_reads(&self) -> Vec<Access> {
        if self.takes_lock() {
            return Vec::new();
        }
        let writes = |place: &Access| self.body.iter().any(|other| other.kind.writes() && overlap(other, place));
        self.body.iter().filter(|access| access.kind == AccessKind::Read && !writes(access)).copied().collect()
    }

    fn woken(&mut self, write: &Access, writer: AdHocSide) {
        let position = self.position;
        let Some(waiting) = &mut self.waiting else { return };
        if let Some(read) = waiting.reads.iter().find(|read| overlap(read, write)).copied() {
            waiting.wake = Some(Wake { read, writer, position });
        }
    }
}

fn overlap(one: &Access, other: &Access) -> bool {
    one.address < other.address.saturating_add(u64::from(other.size))
        && other.address < one.address.saturating_add(u64::from(one.size))
}

#[derive(Default)]
pub struct SpinLoops {
    /// By thread. One that is running is not here.
    runners: Vec<Option<Box<Runner>>>,
    /// By granule: who waits for a write to it.
    watched: BTreeMap<u64, Vec<Thread>>,
    known: FxHashMap<(Site, Site), usize>,
    pub found: Vec<AdHoc>,
}

impl SpinLoops {
    /// The thread that is about to run. It has to be put back.
    pub fn take(&mut self, thread: Thread) -> Box<Runner> {
        let known = self.runners.get_mut(thread as usize).and_then(Option::take);
        known.unwrap_or_else(|| Box::new(Runner::new(thread)))
    }

    pub fn put_back(&mut self, runner: Box<Runner>) {
        let index = runner.thread as usize;
        if self.runners.len() <= index {
            self.runners.resize_with(index + 1, || None);
        }
        self.runners[index] = Some(runner);
    }

    /// Looks at an access. Gives the place that let the thread leave a loop.
    #[inline]
    pub fn access(&mut self, runner: &mut Runner, access: &Access) -> Option<Access> {
        if access.kind.writes() && !self.watched.is_empty() {
            self.wake(runner, access);
        }
        if runner.goes_round(access) {
            if runner.waiting.is_none() && runner.go_round(access) {
                self.wait(runner);
            }
            None
        } else if runner.waiting.is_some() {
            self.leave(runner)
        } else {
            None
        }
    }

    /// The thread has made so many accesses that no loop of concern makes.
    pub fn pass_over(&mut self, runner: &mut Runner, accesses: u64) {
        runner.ordinal += accesses;
        runner.position += accesses;
        self.interrupt(runner);
    }

    /// The thread did something that no waiting loop does.
    pub fn interrupt(&mut self, runner: &mut Runner) {
        if let Some(waiting) = runner.waiting.take() {
            self.unwatch(runner.thread, &waiting);
        }
        runner.round = 0;
        runner.repeated = 0;
        runner.body.clear();
        runner.since = runner.position;
    }

    fn wait(&mut self, runner: &mut Runner) {
        let reads = runner.pure_reads();
        for (granule, _) in reads.iter().flat_map(|read| granules(read.address, u64::from(read.size))) {
            self.watched.entry(granule).or_default().push(runner.thread);
        }
        runner.waiting = Some(Waiting { reads, round: runner.round, wake: None });
    }

    fn wake(&mut self, runner: &Runner, write: &Access) {
        let writer = AdHocSide { thread: runner.thread, site: write.site, pc: 0, ordinal: runner.ordinal };
        let mut written = granules(write.address, u64::from(write.size)).map(|(granule, _)| granule);
        let Some(first) = written.next() else { return };
        let last = written.last().unwrap_or(first);
        for thread in self.watched.range(first..=last).flat_map(|(_, threads)| threads) {
            if let Some(other) = self.runners.get_mut(*thread as usize).and_then(Option::as_mut) {
                other.woken(write, writer);
            }
        }
    }

    /// The thread has left its loop. Tells the place of the write that let it go, if it left soon after one.
    fn leave(&mut self, runner: &mut Runner) -> Option<Access> {
        let waiting = runner.waiting.take()?;
        self.unwatch(runner.thread, &waiting);
        let wake = waiting.wake.filter(|wake| runner.position - wake.position <= 2 * waiting.round)?;
        let reader = AdHocSide { thread: runner.thread, site: wake.read.site, pc: 0, ordinal: runner.ordinal };
        let sites = (reader.site, wake.writer.site);
        let index = *self.known.entry(sites).or_insert(self.found.len());
        if index == self.found.len() {
            self.found.push(AdHoc { address: wake.read.address, reader, writer: wake.writer, count: 0 });
        }
        self.found[index].count += 1;
        Some(wake.read)
    }

    fn unwatch(&mut self, thread: Thread, waiting: &Waiting) {
        for (granule, _) in waiting.reads.iter().flat_map(|read| granules(read.address, u64::from(read.size))) {
            if let Some(threads) = self.watched.get_mut(&granule) {
                threads.retain(|other| *other != thread);
                if threads.is_empty() {
                    self.watched.remove(&granule);
                }
            }
        }
    }
}
