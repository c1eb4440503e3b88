//! A race detector that is right by inspection: every access is kept for every byte, with the whole vector clock.

use super::streams::{Done, Stream};
use std::collections::{BTreeMap, BTreeSet};
use trace::stream::{Access, Event, LockMode, Thread};

/// Memory from here on is atomic variables of four bytes.
pub const ATOMICS: u64 = 0x10_0000;

type Clock = BTreeMap<Thread, u64>;

fn join(clock: &mut Clock, other: &Clock) {
    for (thread, time) in other {
        let mine = clock.entry(*thread).or_default();
        *mine = (*mine).max(*time);
    }
}

/// An access, named by its step in the stream.
struct Kept {
    step: usize,
    thread: Thread,
    writes: bool,
    time: u64,
}

#[derive(Default)]
pub struct Oracle {
    clocks: BTreeMap<Thread, Clock>,
    objects: BTreeMap<u64, (Clock, Clock)>,
    held: BTreeMap<(Thread, u64), (u32, LockMode)>,
    bytes: BTreeMap<u64, Vec<Kept>>,
    /// All pairs of steps that race.
    pub pairs: BTreeSet<(usize, usize)>,
    /// For each byte that races, the first step that does so with an earlier one.
    pub first_by_byte: BTreeMap<u64, usize>,
}

impl Oracle {
    pub fn of(stream: &Stream) -> Oracle {
        let mut oracle = Oracle::default();
        for (step, (thread, done)) in stream.steps.iter().enumerate() {
            // Every step is a moment of its own.
            *oracle.clock(*thread).entry(*thread).or_default() += 1;
            match done {
                Done::Access(access) if access.address >= ATOMICS => oracle.atomic(*thread, access),
                Done::Access(access) => {
                    for byte in access.address..access.address + u64::from(access.size) {
                        oracle.touch(step, *thread, byte, access.kind.writes());
                    }
                }
                Done::Event(event) => oracle.event(*thread, event),
            }
        }
        oracle
    }

    fn clock(&mut self, thread: Thread) -> &mut Clock {
        self.clocks.entry(thread).or_default()
    }

    fn touch(&mut self, step: usize, thread: Thread, byte: u64, writes: bool) {
        let clock = self.clock(thread).clone();
        let kept = self.bytes.entry(byte).or_default();
        for old in kept.iter().filter(|old| old.thread != thread && (writes || old.writes)) {
            if clock.get(&old.thread).is_none_or(|seen| *seen < old.time) {
                self.pairs.insert((old.step, step));
                self.first_by_byte.entry(byte).or_insert(step);
            }
        }
        kept.push(Kept { step, thread, writes, time: clock[&thread] });
    }

    fn atomic(&mut self, thread: Thread, access: &Access) {
        if access.kind.reads() {
            let passed = self.objects.entry(access.address).or_default().0.clone();
            join(self.clock(thread), &passed);
        }
        if access.kind.writes() {
            let now = self.clock(thread).clone();
            self.objects.insert(access.address, (now, Clock::new()));
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        let now = self.clock(thread).clone();
        match *event {
            Event::Created { child } => join(self.clock(child), &now),
            Event::Joined { other } => {
                let end = self.clock(other).clone();
                join(self.clock(thread), &end);
            }
            Event::Locked { object, mode, .. } => {
                self.held.entry((thread, object)).or_insert((0, mode)).0 += 1;
                let (by_all, by_sharers) = self.objects.entry(object).or_default().clone();
                join(self.clock(thread), &by_all);
                if mode == LockMode::Exclusive {
                    join(self.clock(thread), &by_sharers);
                }
            }
            Event::Unlocked { object, .. } => self.unlock(thread, object, &now),
            Event::Released { object, .. } => join(&mut self.objects.entry(object).or_default().0, &now),
            Event::Acquired { object, .. } => {
                let passed = self.objects.entry(object).or_default().0.clone();
                join(self.clock(thread), &passed);
            }
            _ => {}
        }
    }

    fn unlock(&mut self, thread: Thread, object: u64, now: &Clock) {
        let Some((count, mode)) = self.held.get_mut(&(thread, object)) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        let passed = self.objects.entry(object).or_default();
        join(if *mode == LockMode::Exclusive { &mut passed.0 } else { &mut passed.1 }, now);
        self.held.remove(&(thread, object));
    }
}
