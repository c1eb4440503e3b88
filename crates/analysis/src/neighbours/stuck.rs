//! Threads that wait at the end of a run: for what, and which locks they hold meanwhile.

use crate::predict::Libraries;
use crate::predict::deeds::{Held, Place};
use crate::predict::runners::{Frame, Runners};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use trace::stream::{Access, AccessKind, Event, Listener, Site, Thread};

/// Stacks are told up to so many callers.
const MOST_CALLERS: usize = 32;
/// No lock is larger: the word that a thread waits at is inside of it.
const LARGEST_LOCK: u64 = 64;

/// A thread at the end of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stuck {
    pub thread: Thread,
    /// The lock that it tried last, if that is held, or else where its last atomic access went: who waits has tried before.
    pub word: u64,
    /// The program's call that waits.
    pub call: Place,
    pub callers: Vec<u64>,
    pub locks: Vec<Held>,
}

impl Stuck {
    /// The lock of another thread, or of its own, that this one waits for.
    pub fn wants<'a>(&self, of: &'a Stuck) -> Option<&'a Held> {
        of.locks.iter().find(|held| held.object == self.word)
    }
}

/// Threads that wait for each other's locks, each for one of the next and the last one for one of the first.
pub fn ring(stuck: &[Stuck]) -> Vec<&Stuck> {
    for start in stuck {
        let mut way = vec![start];
        while let Some(next) = way.last().and_then(|at| stuck.iter().find(|other| at.wants(other).is_some())) {
            if let Some(position) = way.iter().position(|known| known.thread == next.thread) {
                return way.split_off(position);
            }
            way.push(next);
        }
    }
    Vec::new()
}

/// A thread that waits for something else than a lock while it holds one, and those that wait for that lock: whoever should
/// wake it may be among them.
pub fn blockade(stuck: &[Stuck]) -> Vec<&Stuck> {
    let waits_for_lock = |one: &Stuck| stuck.iter().any(|other| one.wants(other).is_some());
    let holders = stuck.iter().filter(|holder| !waits_for_lock(holder));
    let mut blockades = holders.map(|holder| {
        let waiting = stuck.iter().filter(|other| other.wants(holder).is_some());
        std::iter::once(holder).chain(waiting).collect::<Vec<&Stuck>>()
    });
    blockades.find(|blockade| blockade.len() > 1).unwrap_or_default()
}

/// Keeps who holds which locks, and where they wait.
pub struct Waiting {
    libraries: Libraries,
    runners: Runners,
    words: BTreeMap<Thread, u64>,
}

impl Waiting {
    pub fn new(libraries: Libraries) -> Waiting {
        Waiting { libraries, runners: Runners::default(), words: BTreeMap::new() }
    }

    /// Those that have synchronised, and have not ended since.
    pub fn into_stuck(mut self) -> Vec<Stuck> {
        let words = std::mem::take(&mut self.words);
        let stuck = |(thread, word)| {
            let runner = self.runners.of(thread);
            let callers = Frame::callers(runner.frame.as_ref()).take(MOST_CALLERS).collect();
            let call = runner.own_call().unwrap_or_default();
            Stuck { thread, word, call, callers, locks: runner.locks.to_vec() }
        };
        let mut all: Vec<Stuck> = words.into_iter().map(stuck).collect();
        let held: BTreeSet<u64> = all.iter().flat_map(|stuck| &stuck.locks).map(|held| held.object).collect();
        for stuck in &mut all {
            let lock = held.range(..=stuck.word).next_back().filter(|lock| stuck.word - **lock < LARGEST_LOCK);
            stuck.word = lock.copied().unwrap_or(stuck.word);
        }
        all
    }
}

impl Listener for Waiting {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        if let Some(access) = accesses.iter().rfind(|access| access.kind == AccessKind::Atomic) {
            self.words.insert(thread, access.address);
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.runners.hear(thread, event, &self.libraries);
        if *event == Event::Ended {
            self.words.remove(&thread);
        }
    }

    fn site(&mut self, _: Site, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::stream::LockMode;

    fn stuck(thread: Thread, word: u64, held: &[u64]) -> Stuck {
        let lock = |object: &u64| {
            let (taken, before) = (Place::default(), Place::default());
            Held { object: *object, mode: LockMode::Exclusive, section: 1, taken, before }
        };
        Stuck { thread, word, call: Place::default(), callers: Vec::new(), locks: held.iter().map(lock).collect() }
    }

    fn threads(stuck: &[Stuck]) -> Vec<Thread> {
        ring(stuck).iter().map(|stuck| stuck.thread).collect()
    }

    #[test]
    fn threads_that_wait_for_each_other_are_a_ring() {
        let joins = stuck(1, 0x9000, &[]);
        assert_eq!(threads(&[joins.clone(), stuck(2, 0x200, &[0x100]), stuck(3, 0x100, &[0x200])]), [2, 3]);
        assert_eq!(threads(&[joins.clone(), stuck(2, 0x100, &[0x100])]), [2], "one that waits for itself");
        assert_eq!(threads(&[joins, stuck(2, 0x308, &[0x100]), stuck(3, 0x100, &[0x200])]), [] as [Thread; 0]);
    }

    #[test]
    fn who_waits_with_a_lock_blocks_those_who_wait_for_it() {
        let joins = stuck(1, 0x9000, &[0x100]);
        let idle = stuck(5, 0x7000, &[]);
        let all = [idle, stuck(2, 0x100, &[]), joins, stuck(3, 0x100, &[0x200])];
        assert_eq!(ring(&all), [] as [&Stuck; 0]);
        let threads: Vec<Thread> = blockade(&all).iter().map(|stuck| stuck.thread).collect();
        assert_eq!(threads, [1, 2, 3]);
        assert!(blockade(&all[..1]).is_empty(), "nobody waits for a lock");
    }

    #[test]
    fn who_only_waits_for_the_ring_is_not_in_it() {
        let waits = stuck(4, 0x100, &[]);
        assert_eq!(threads(&[waits, stuck(2, 0x200, &[0x100]), stuck(3, 0x100, &[0x200])]), [2, 3]);
    }
}
