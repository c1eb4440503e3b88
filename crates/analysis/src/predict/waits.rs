//! Which instructions read flags that threads wait for under locks, by the values that they read.
//!
//! A thread that reads `done` under a lock, waits for a condition as long as it is 0, and reads it again after each wait, goes on
//! only after another thread has set it. So what it does then comes after what that one did before. An instruction that reads such a
//! flag, or a few that read it before and after a wait, which count as one, are trusted if all that has been seen of them agrees:
//!
//! - What was read before a wait was read again after it, before the lock was given up.
//! - No value has led to a wait one time and beyond it another time.
//! - Whenever one of them read what another thread had written under the same lock, the value before that would have led to a wait, as
//!   it has somewhere in this run, and the value that was read did not.
//!
//! So a read that ended in a wait orders nothing. Nor does one of a counter that others go on counting, or one beside which
//! something else ends the wait, such as `taken == queued && !closed`, as soon as that shows.
//!
//! May wrongly trust: who reads several things before it waits, of which each came with a value of its own in this run by luck; who reads
//! a value in this run only where it waits, but would not elsewhere; and who waits up to a time that was not over in this run. Not covered:
//! who asks again and again under a lock without a wait; waits that are no calls of pthread's; and counters of which the last one counts.

use crate::races::Flags;
use std::collections::{BTreeMap, BTreeSet};
use trace::stream::Thread;

/// Flags have few values. Beyond so many, it is none.
const MOST_VALUES: usize = 32;

/// So many reads are kept of a stretch of a critical section. Who reads more is not trusted.
const MOST_READS: usize = 64;

/// A flag that was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Read {
    pub pc: u64,
    pub address: u64,
    pub value: u64,
}

/// What another thread had written under the same lock, over what, before it was read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taken {
    pub writer: u64,
    pub old: u64,
    pub new: u64,
}

/// A thread in critical sections.
#[derive(Default)]
struct Waiter {
    /// The locks that it holds, and how many of the reads came before each.
    held: Vec<(u64, usize)>,
    reads: Vec<Read>,
    /// What it had read when it gave up a lock to wait, and has not read since.
    awaited: Vec<Read>,
    /// That lock.
    lock: u64,
}

/// What is known of an instruction, or of several that count as one.
#[derive(Clone, Default)]
struct Reader {
    waiting: BTreeSet<u64>,
    passing: BTreeSet<u64>,
    taken: BTreeSet<Taken>,
    is_doubted: bool,
}

impl Reader {
    fn give_up_if_many(&mut self) {
        let most = self.waiting.len().max(self.passing.len()).max(self.taken.len());
        if most > MOST_VALUES {
            *self = Reader { is_doubted: true, ..Reader::default() };
        }
    }

    fn join(&mut self, other: &Reader) {
        self.waiting.extend(&other.waiting);
        self.passing.extend(&other.passing);
        self.taken.extend(&other.taken);
        self.is_doubted |= other.is_doubted;
    }

    fn is_trusted(&self) -> bool {
        let is_order = |taken: &Taken| self.waiting.contains(&taken.old) && !self.waiting.contains(&taken.new);
        !self.is_doubted && self.waiting.is_disjoint(&self.passing) && self.taken.iter().all(is_order)
    }
}

/// Finds the instructions to trust.
pub struct Waits {
    /// The return addresses of calls that wait.
    waits: BTreeSet<u64>,
    waiters: BTreeMap<Thread, Waiter>,
    readers: BTreeMap<u64, Reader>,
    /// Which instruction has read before a wait, and which has read the same after it.
    again: BTreeSet<(u64, u64)>,
}

impl Waits {
    pub fn by(waits: BTreeSet<u64>) -> Waits {
        Waits { waits, waiters: BTreeMap::new(), readers: BTreeMap::new(), again: BTreeSet::new() }
    }

    pub fn into_trusted(mut self) -> Flags {
        let threads: Vec<Thread> = self.waiters.keys().copied().collect();
        threads.into_iter().for_each(|thread| self.end_stretch(thread, 0));
        let families = self.families();
        let mut joined: BTreeMap<u64, Reader> = BTreeMap::new();
        for (pc, reader) in &self.readers {
            joined.entry(families[pc]).or_default().join(reader);
        }
        let trusted =
            self.readers.iter().filter(|(pc, reader)| !reader.taken.is_empty() && joined[&families[pc]].is_trusted());
        let mut flags = Flags::default();
        for (pc, reader) in trusted {
            flags.readers.insert(*pc);
            flags.writers.extend(reader.taken.iter().map(|taken| taken.writer));
        }
        flags
    }

    /// The first of the instructions that each one counts as one with.
    fn families(&self) -> BTreeMap<u64, u64> {
        let mut families: BTreeMap<u64, u64> = self.readers.keys().map(|pc| (*pc, *pc)).collect();
        loop {
            let mut is_news = false;
            for (one, other) in &self.again {
                let first = families[one].min(families[other]);
                is_news |= families[one] != first || families[other] != first;
                families.extend([(*one, first), (*other, first)]);
            }
            if !is_news {
                return families;
            }
        }
    }

    fn reader(&mut self, pc: u64) -> &mut Reader {
        self.readers.entry(pc).or_default()
    }

    /// Something about an instruction is not known, or speaks against it.
    pub fn doubt(&mut self, pc: u64) {
        self.reader(pc).is_doubted = true;
    }

    pub fn has_taken(&mut self, pc: u64, taken: Taken) {
        let reader = self.reader(pc);
        reader.taken.insert(taken);
        reader.give_up_if_many();
    }

    pub fn has_read(&mut self, thread: Thread, read: Read) {
        self.reader(read.pc);
        let waiter = self.waiters.entry(thread).or_default();
        let (again, awaited): (Vec<Read>, Vec<Read>) =
            waiter.awaited.iter().partition(|awaited| awaited.address == read.address);
        waiter.awaited = awaited;
        let start = waiter.held.last().map(|(_, start)| (*start).min(waiter.reads.len()));
        match start {
            None => self.has_passed(read),
            Some(start) if waiter.reads[start..].contains(&read) => {}
            Some(_) if waiter.reads.len() < MOST_READS => waiter.reads.push(read),
            Some(_) => self.doubt(read.pc),
        }
        for before in again {
            let reader = self.reader(before.pc);
            reader.waiting.insert(before.value);
            reader.give_up_if_many();
            self.again.insert((before.pc, read.pc));
        }
    }

    fn has_passed(&mut self, read: Read) {
        let reader = self.reader(read.pc);
        reader.passing.insert(read.value);
        reader.give_up_if_many();
    }

    pub fn locked(&mut self, thread: Thread, object: u64) {
        let waiter = self.waiters.entry(thread).or_default();
        waiter.held.push((object, waiter.reads.len()));
    }

    /// A thread gives up a lock, by a call with this return address.
    pub fn unlocked(&mut self, thread: Thread, object: u64, call: u64) {
        let is_wait = self.waits.contains(&call);
        let waiter = self.waiters.entry(thread).or_default();
        let Some(position) = waiter.held.iter().rposition(|(held, _)| *held == object) else { return };
        let (_, start) = waiter.held.remove(position);
        let mut forgotten = Vec::new();
        if is_wait || waiter.lock == object {
            forgotten = std::mem::take(&mut waiter.awaited);
        }
        if is_wait {
            waiter.awaited = waiter.reads.split_off(start.min(waiter.reads.len()));
            waiter.lock = object;
        } else {
            self.end_stretch(thread, start);
        }
        forgotten.into_iter().for_each(|read| self.doubt(read.pc));
    }

    /// A thread has gone on after these reads.
    fn end_stretch(&mut self, thread: Thread, start: usize) {
        let Some(waiter) = self.waiters.get_mut(&thread) else { return };
        let reads = waiter.reads.split_off(start.min(waiter.reads.len()));
        reads.into_iter().for_each(|read| self.has_passed(read));
    }

    pub fn ended(&mut self, thread: Thread) {
        self.end_stretch(thread, 0);
        let forgotten = self.waiters.remove(&thread).map(|waiter| waiter.awaited);
        forgotten.into_iter().flatten().for_each(|read| self.doubt(read.pc));
    }
}
