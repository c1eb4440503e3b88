//! Flags that threads wait for under locks: as long as a thread reads that something is not done, it gives the lock up and waits
//! for a condition, and then reads again.
//!
//! A wait is one call that gives a lock up and takes it again: both have the same return address. The *stretch* of a critical section
//! that ends by a wait has read what the thread waits for, shortly before. The sieve sees no values, so it only notes which instructions
//! may read and write such things; a [`HandOverCheck`](crate::predict::HandOverCheck) finds out which of them do.

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trace::stream::Thread;

/// So many of a thread's last reads are looked at when it waits: conditions are short, and are tested last.
const LAST_READS: usize = 16;

/// So many of all threads' last writes are looked at when a call turns out to wait for the first time: what ended the wait is among them.
const LAST_WRITES: usize = 256;

/// So many granules that were waited for are remembered.
const MOST_AWAITED: usize = 1 << 16;

/// Instructions that have to do with flags.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Flags {
    /// They read what threads wait for.
    pub readers: BTreeSet<u64>,
    /// They write it under locks.
    pub writers: BTreeSet<u64>,
    /// The return addresses of calls that wait.
    pub waits: BTreeSet<u64>,
}

impl Flags {
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    pub fn instructions(&self) -> impl Iterator<Item = u64> {
        self.readers.union(&self.writers).copied()
    }

    /// Whether all others are among these.
    pub fn include(&self, others: &Flags) -> bool {
        self.readers.is_superset(&others.readers) && self.writers.is_superset(&others.writers)
    }
}

/// The last accesses of some: sites and granules.
struct Last<const MOST: usize> {
    ring: [(u32, u64); MOST],
    length: usize,
}

impl<const MOST: usize> Default for Last<MOST> {
    fn default() -> Last<MOST> {
        Last { ring: [(0, 0); MOST], length: 0 }
    }
}

impl<const MOST: usize> Last<MOST> {
    #[inline]
    fn add(&mut self, site: u32, granule: u64) {
        self.ring[self.length % MOST] = (site, granule);
        self.length += 1;
    }

    fn all(&self) -> &[(u32, u64)] {
        &self.ring[..self.length.min(MOST)]
    }
}

/// What a thread has read of late.
#[derive(Default)]
struct Lately {
    reads: Last<LAST_READS>,
    /// The lock that was given up last, and where.
    given_up: Option<(u64, u64)>,
    /// Granules that it had read before it waited, and may read again now.
    awaited: Vec<u64>,
}

/// Looks for instructions that may read and write flags.
#[derive(Default)]
pub struct FlagSeeker {
    /// By thread.
    lately: Vec<Lately>,
    /// By site.
    reads: Vec<bool>,
    writes: Vec<bool>,
    written: Last<LAST_WRITES>,
    waits: BTreeSet<u64>,
    awaited: FxHashSet<u64>,
}

impl FlagSeeker {
    /// A thread has taken a lock; whether it held none before.
    pub fn locked(&mut self, thread: Thread, (object, site): (u64, u64), is_first: bool) {
        let length = self.lately.len().max(thread as usize + 1);
        self.lately.resize_with(length, Lately::default);
        let lately = &mut self.lately[thread as usize];
        if lately.given_up.take() == Some((object, site)) {
            self.has_waited(thread, site);
            return;
        }
        lately.awaited.clear();
        if is_first {
            lately.reads.length = 0;
        }
    }

    pub fn unlocked(&mut self, thread: Thread, object: u64, site: u64) {
        let Some(lately) = self.lately.get_mut(thread as usize) else { return };
        lately.given_up = Some((object, site));
        // That others write what ends the wait comes before it is over.
        if self.waits.contains(&site) {
            self.waits_for_last_reads(thread);
        }
    }

    /// A wait is over.
    fn has_waited(&mut self, thread: Thread, site: u64) {
        if !self.waits.insert(site) {
            return;
        }
        self.waits_for_last_reads(thread);
        for (site, granule) in self.written.all() {
            if self.awaited.contains(granule) {
                set(&mut self.writes, *site as usize);
            }
        }
    }

    fn waits_for_last_reads(&mut self, thread: Thread) {
        let lately = &mut self.lately[thread as usize];
        lately.awaited = lately.reads.all().iter().map(|(_, granule)| *granule).collect();
        lately.reads.all().iter().for_each(|(site, _)| set(&mut self.reads, *site as usize));
        lately.reads.length = 0;
        if self.awaited.len() < MOST_AWAITED {
            self.awaited.extend(&lately.awaited);
        }
    }

    /// A thread that holds a lock reads.
    #[inline]
    pub fn read(&mut self, thread: Thread, site: u32, granule: u64) {
        let Some(lately) = self.lately.get_mut(thread as usize) else { return };
        lately.reads.add(site, granule);
        // Compilers test the condition of a loop by one instruction before it and by another in it.
        if !lately.awaited.is_empty() && lately.awaited.contains(&granule) {
            set(&mut self.reads, site as usize);
        }
    }

    /// A thread that holds a lock writes.
    #[inline]
    pub fn written(&mut self, site: u32, granule: u64) {
        self.written.add(site, granule);
        if !self.awaited.is_empty() && self.awaited.contains(&granule) {
            set(&mut self.writes, site as usize);
        }
    }

    pub fn into_flags(self, place: impl Fn(u32) -> u64) -> Flags {
        let [readers, writers] = [&self.reads, &self.writes].map(|sites| places_of(sites, &place));
        if writers.is_empty() { Flags::default() } else { Flags { readers, writers, waits: self.waits } }
    }
}

/// Where the instructions are of sites for which something holds.
pub fn places_of(sites: &[bool], place: impl Fn(u32) -> u64) -> BTreeSet<u64> {
    (0..).zip(sites).filter(|(_, holds)| **holds).map(|(site, _)| place(site)).collect()
}

fn set(sites: &mut Vec<bool>, site: usize) {
    sites.resize(sites.len().max(site + 1), false);
    sites[site] = true;
}
