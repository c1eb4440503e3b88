//! Threads and their clocks.
//!
//! A thread has a slot in all clocks. It gives it up for a later thread whose creator has seen its end, since then all
//! of the first's accesses are before all of the second's, and one clock can count both.

use super::cell::{MOST_SLOTS, Slot, Stamp, Viewpoint};
use super::clock::{Moment, Passed, Seen};
use super::locks::{HeldLock, Locks};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::collections::VecDeque;
use trace::stream::Thread;

/// How many slots of seen threads are looked through for one that a new thread can have.
const TRIED_SLOTS: usize = 8;
/// How many epochs are remembered of each slot.
const REMEMBERED_EPOCHS: usize = 4096;

/// A thread in its slot.
pub struct Running {
    slot: Slot,
    /// Of its last access.
    tick: u64,
    /// The first tick after its last release.
    since: u64,
    seen: Seen,
    /// Whether something new was seen after the last release, or there was none yet.
    has_news: bool,
    pub locks: Locks,
    has_ended: bool,
    /// The first ticks of its epochs, which are what lies between two releases: the latest ones.
    epochs: VecDeque<u64>,
    /// The one that was asked for last, which neighbours in memory ask for again.
    known_epoch: Cell<Epoch>,
    lives: Vec<Life>,
}

/// What lies between two releases: its first tick, and that of the next.
#[derive(Clone, Copy, Default)]
struct Epoch {
    first: u64,
    next: u64,
}

impl Epoch {
    fn contains(self, tick: u64) -> bool {
        (self.first..self.next).contains(&tick)
    }
}

/// One thread's time in a slot.
struct Life {
    thread: Thread,
    /// The slot's tick before the thread's first access.
    base: u64,
    /// Ticks of this life that are no accesses.
    spent: Vec<u64>,
}

impl Running {
    fn new(slot: Slot, thread: Thread, seen: Seen) -> Running {
        let mut running = Running {
            slot,
            tick: 0,
            since: 1,
            seen,
            has_news: false,
            locks: Locks::default(),
            has_ended: false,
            epochs: VecDeque::new(),
            known_epoch: Cell::default(),
            lives: Vec::new(),
        };
        running.begin_life(thread);
        running
    }

    /// Another thread has the slot from now on.
    fn follow(&mut self, thread: Thread, seen: Seen) {
        self.seen = seen;
        self.has_ended = false;
        self.locks = Locks::default();
        self.begin_life(thread);
    }

    fn begin_life(&mut self, thread: Thread) {
        self.lives.push(Life { thread, base: self.tick, spent: Vec::new() });
        self.begin_epoch();
        self.has_news = true;
    }

    fn begin_epoch(&mut self) {
        self.since = self.tick + 1;
        if self.epochs.back() == Some(&self.since) {
            return;
        }
        if self.epochs.len() == REMEMBERED_EPOCHS {
            self.epochs.pop_front();
        }
        self.epochs.push_back(self.since);
    }

    #[inline]
    pub fn advance(&mut self, accesses: u64) {
        self.tick += accesses;
    }

    /// For who counts epochs instead of accesses: the tick of the one that the thread is in.
    pub fn enter_epoch(&mut self) -> u64 {
        self.tick = self.tick.max(self.since);
        self.tick
    }

    #[inline]
    pub fn tick(&self) -> u64 {
        self.tick
    }

    #[inline]
    fn view(&self) -> Viewpoint<'_> {
        Viewpoint { now: Stamp::new(self.slot, self.tick), since: Stamp::new(self.slot, self.since), seen: &self.seen }
    }

    fn epoch_of(&self, tick: u64) -> u64 {
        if tick >= self.since {
            return self.since;
        }
        let mut known = self.known_epoch.get();
        if !known.contains(tick) {
            let n_earlier = self.epochs.partition_point(|epoch| *epoch <= tick);
            let Some(index) = n_earlier.checked_sub(1) else { return tick };
            known =
                Epoch { first: self.epochs[index], next: self.epochs.get(n_earlier).copied().unwrap_or(self.since) };
            self.known_epoch.set(known);
        }
        known.first
    }

    /// What this thread passes on to others now. A moment's tick must tell it from earlier ones that had seen less, so
    /// a tick is spent where no access came between.
    pub fn release(&mut self) -> Moment {
        if self.has_news && self.tick < self.since {
            self.tick += 1;
            if let Some(life) = self.lives.last_mut() {
                life.spent.push(self.tick);
            }
        }
        self.has_news = false;
        self.begin_epoch();
        Moment { owner: self.slot, tick: self.tick, seen: self.seen.clone() }
    }

    pub fn acquire(&mut self, passed: &Passed) {
        let news = match passed {
            Passed::Nothing => false,
            Passed::One(moment) => self.see(moment),
            Passed::Many(seen) => self.seen.join(seen),
        };
        self.has_news |= news;
    }

    fn see(&mut self, moment: &Moment) -> bool {
        if moment.owner == self.slot || self.seen.tick_of(moment.owner) >= moment.tick {
            return false;
        }
        self.seen.join(&moment.seen);
        self.seen.raise(moment.owner, moment.tick)
    }

    /// Which thread a tick was of, and which of its accesses and releases of blocks it is, counted from 1.
    fn ordinal(&self, tick: u64) -> (Thread, u64) {
        let index = self.lives.partition_point(|life| life.base < tick).saturating_sub(1);
        let life = &self.lives[index];
        let spent = life.spent.partition_point(|spent| *spent < tick) as u64;
        (life.thread, tick - life.base - spent)
    }
}

#[derive(Default)]
pub struct Threads {
    /// By slot, less one.
    running: Vec<Running>,
    slots: FxHashMap<Thread, Slot>,
    /// Who was asked for last.
    latest: Option<(Thread, Slot)>,
    /// The clocks of threads when they ended.
    ends: FxHashMap<Thread, Moment>,
    /// Slots of ended threads whose end somebody has seen, the latest at the end.
    seen_ends: Vec<Slot>,
    live: usize,
    unwatched: u64,
    /// One thread runs and has seen all that the others did.
    alone: bool,
}

impl Threads {
    /// The thread's slot. Nothing if there were too many at once.
    #[inline]
    pub fn slot(&mut self, thread: Thread) -> Option<Slot> {
        match self.latest {
            Some((latest, slot)) if latest == thread => Some(slot),
            _ => self.look_up(thread),
        }
    }

    fn look_up(&mut self, thread: Thread) -> Option<Slot> {
        let slot = match self.slots.get(&thread) {
            Some(&slot) => (slot != 0).then_some(slot),
            None => self.begin(thread, Seen::default(), None),
        }?;
        self.latest = Some((thread, slot));
        Some(slot)
    }

    #[inline]
    pub fn at(&mut self, slot: Slot) -> &mut Running {
        &mut self.running[usize::from(slot) - 1]
    }

    #[inline]
    pub fn view(&self, slot: Slot) -> Viewpoint<'_> {
        self.running[usize::from(slot) - 1].view()
    }

    /// The first stamp of the epoch that a stamp is in, if that is still known; else the stamp itself.
    pub fn epoch_of(&self, stamp: Stamp) -> Stamp {
        Stamp::new(stamp.slot(), self.running[usize::from(stamp.slot()) - 1].epoch_of(stamp.tick()))
    }

    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// Threads that were not looked at, since there were too many.
    pub fn unwatched(&self) -> u64 {
        self.unwatched
    }

    pub fn create(&mut self, parent: Slot, child: Thread) {
        let moment = self.at(parent).release();
        let reused = self.reusable(&moment.seen);
        let mut seen = moment.seen;
        seen.raise(moment.owner, moment.tick);
        self.begin(child, seen, reused);
    }

    pub fn end(&mut self, slot: Slot, thread: Thread) {
        let running = self.at(slot);
        if !running.has_ended {
            running.has_ended = true;
            let end = running.release();
            self.ends.insert(thread, end);
            self.live -= 1;
        }
    }

    pub fn join(&mut self, slot: Slot, other: Thread) {
        let Some(end) = self.ends.get(&other).cloned() else { return };
        self.seen_ends.push(end.owner);
        self.at(slot).acquire(&Passed::One(end));
        self.alone = self.live == 1 && self.has_seen_all(slot);
    }

    fn has_seen_all(&self, slot: Slot) -> bool {
        let seen = &self.running[usize::from(slot) - 1].seen;
        self.running.iter().all(|other| other.slot == slot || seen.tick_of(other.slot) >= other.tick)
    }

    /// A slot whose last thread's end has been seen by a clock.
    fn reusable(&mut self, seen: &Seen) -> Option<Slot> {
        let tried = self.seen_ends.iter().enumerate().rev().take(TRIED_SLOTS);
        let index = tried
            .filter(|(_, slot)| {
                let running = &self.running[usize::from(**slot) - 1];
                running.has_ended && seen.tick_of(**slot) >= running.tick
            })
            .map(|(index, _)| index)
            .next()?;
        Some(self.seen_ends.remove(index))
    }

    fn begin(&mut self, thread: Thread, seen: Seen, reused: Option<Slot>) -> Option<Slot> {
        if self.slots.contains_key(&thread) {
            return None;
        }
        let slot = match reused {
            Some(slot) => {
                self.at(slot).follow(thread, seen);
                slot
            }
            None if self.running.len() == MOST_SLOTS => {
                self.unwatched += 1;
                self.slots.insert(thread, 0);
                return None;
            }
            None => {
                let slot = self.running.len() as Slot + 1;
                self.running.push(Running::new(slot, thread, seen));
                slot
            }
        };
        self.slots.insert(thread, slot);
        self.live += 1;
        self.alone = self.live == 1 && self.running.len() == 1;
        Some(slot)
    }

    /// Gives a running thread another slot, which it has seen all of its first in.
    pub fn renew(&mut self, slot: Slot) -> Slot {
        let old = self.at(slot);
        let Some(thread) = old.lives.last().map(|life| life.thread) else { return slot };
        let mut seen = old.seen.clone();
        seen.raise(slot, old.tick);
        let locks = std::mem::take(&mut old.locks);
        let new = self.running.len() as Slot + 1;
        self.running.push(Running { locks, ..Running::new(new, thread, seen) });
        self.slots.insert(thread, new);
        self.latest = None;
        new
    }

    /// The thread and ordinal that a stamp stands for.
    pub fn ordinal(&self, stamp: Stamp) -> (Thread, u64) {
        self.running[usize::from(stamp.slot()) - 1].ordinal(stamp.tick())
    }

    /// The locks that were held at a stamp, if that is still known.
    pub fn locks_at(&self, stamp: Stamp) -> Option<Vec<HeldLock>> {
        let running = &self.running[usize::from(stamp.slot()) - 1];
        let life = running.lives.last()?;
        if stamp.tick() <= life.base { None } else { running.locks.at(stamp.tick()) }
    }
}
