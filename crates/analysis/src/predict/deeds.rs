//! What a thread did to memory, with all that is needed to make it happen at another time.

use super::runners::Frame;
use crate::races::cell::Slot;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trace::stream::{LockMode, Thread};

/// An instruction, and which of the thread's executions of it is meant, counted from 1 since the thread's clock showed something. It is 0 where that is not known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Place {
    pub pc: u64,
    pub time: u64,
    #[serde(default)]
    pub since: u64,
}

impl Place {
    /// The place of an execution that is counted from the thread's start.
    pub const fn new(pc: u64, time: u64) -> Place {
        Place { pc, time, since: 0 }
    }

    /// Whether it is an execution that cannot be told apart from others.
    pub fn is_unclear(&self) -> bool {
        self.pc != 0 && self.time == 0
    }
}

/// A lock that was held, in one of its critical sections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Held {
    pub object: u64,
    pub mode: LockMode,
    /// Tells the lock's critical sections apart.
    pub section: u64,
    /// The call that took it.
    pub taken: Place,
    /// What the thread did before that call.
    pub before: Place,
}

/// The locks that a thread holds and the calls that it is in, shared by all that it does meanwhile.
#[derive(Debug, Default)]
pub struct Circumstances {
    pub locks: Vec<Held>,
    pub frame: Option<Arc<Frame>>,
}

/// An access, or the release of a block.
#[derive(Debug)]
pub struct Happening {
    pub thread: Thread,
    pub slot: Slot,
    pub tick: u64,
    /// The instruction itself.
    pub pc: u64,
    /// Where a thread can be held: the instruction, or the program's call of the library that it is in.
    pub place: Place,
    /// What the thread did before.
    pub before: Place,
    pub circumstances: Arc<Circumstances>,
    /// Those of the thread's access to the same memory before this one.
    pub earlier: Option<Arc<Circumstances>>,
    /// What was read or written, if it is known.
    pub value: Option<u64>,
}

/// The same for who makes findings of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Deed {
    pub thread: Thread,
    pub pc: u64,
    pub place: Place,
    pub before: Place,
    pub locks: Vec<Held>,
    /// Return addresses, the innermost first.
    pub callers: Vec<u64>,
    pub value: Option<u64>,
}

/// Stacks are told up to so many callers.
const MOST_CALLERS: usize = 32;

impl Clone for Happening {
    fn clone(&self) -> Happening {
        let (circumstances, earlier) = (self.circumstances.clone(), self.earlier.clone());
        Happening { circumstances, earlier, ..*self }
    }

    /// Mostly a thread does the same again under the same circumstances, so that no counts of references change.
    fn clone_from(&mut self, source: &Happening) {
        follow(&mut self.circumstances, &source.circumstances);
        follow_any(&mut self.earlier, source.earlier.as_ref());
        let Happening { thread, slot, tick, pc, place, before, value, .. } = *source;
        (self.thread, self.slot, self.tick, self.pc) = (thread, slot, tick, pc);
        (self.place, self.before, self.value) = (place, before, value);
    }
}

/// Makes a reference one to something else, if it is not already.
pub fn follow<T>(reference: &mut Arc<T>, other: &Arc<T>) {
    if !Arc::ptr_eq(reference, other) {
        reference.clone_from(other);
    }
}

pub fn follow_any<T>(reference: &mut Option<Arc<T>>, other: Option<&Arc<T>>) {
    match (reference, other) {
        (Some(reference), Some(other)) => follow(reference, other),
        (reference, other) => *reference = other.cloned(),
    }
}

impl Happening {
    pub fn locks(&self) -> &[Held] {
        &self.circumstances.locks
    }

    pub fn told(&self) -> Deed {
        let callers = Frame::callers(self.circumstances.frame.as_ref()).take(MOST_CALLERS).collect();
        Deed {
            thread: self.thread,
            pc: self.pc,
            place: self.place,
            before: self.before,
            locks: self.locks().to_vec(),
            callers,
            value: self.value,
        }
    }

    /// Whether this and the thread's access before it are in one critical section of a lock that the other holds too: then
    /// the other cannot come between them.
    pub fn is_shielded_from(&self, other: &Happening) -> bool {
        self.earlier.as_ref().is_some_and(|earlier| shares_section(&earlier.locks, self.locks(), other.locks()))
    }

    /// Whether this and a later deed of the same thread are in one critical section of a lock that the other holds too.
    pub fn is_joined_against(&self, later: &Happening, other: &Happening) -> bool {
        shares_section(self.locks(), later.locks(), other.locks())
    }
}

fn shares_section(one: &[Held], next: &[Held], other: &[Held]) -> bool {
    one.iter().any(|held| next.iter().any(|same| same.section == held.section) && conflicts(held, other))
}

fn conflicts(held: &Held, others: &[Held]) -> bool {
    others.iter().any(|other| held.excludes(other))
}

impl Held {
    /// Whether both cannot be held by different threads at the same time.
    pub fn excludes(&self, other: &Held) -> bool {
        self.object == other.object && (self.mode == LockMode::Exclusive || other.mode == LockMode::Exclusive)
    }
}

impl Deed {
    /// The first taken of the locks that keep this thread and the other's deed apart.
    pub fn barred_by(&self, other: &Deed) -> Option<&Held> {
        let barring = self.locks.iter().filter(|held| conflicts(held, &other.locks));
        barring.min_by_key(|held| held.section)
    }
}

pub fn excludes_any(locks: &[Held], others: &[Held]) -> bool {
    locks.iter().any(|held| conflicts(held, others))
}
