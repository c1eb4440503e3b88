//! Synchronisation objects: what their releases pass on to who acquires them.

use super::clock::{Moment, Passed};
use std::collections::BTreeMap;
use std::ops::Range;
use trace::stream::LockMode;

#[derive(Default, Debug)]
struct Object {
    /// From who held it exclusively, and from `Released`.
    by_all: Passed,
    /// From who shared it: only seen by who takes it exclusively.
    by_sharers: Passed,
}

#[derive(Default, Debug)]
pub struct Objects {
    objects: BTreeMap<u64, Object>,
}

impl Objects {
    pub fn unlock(&mut self, object: u64, mode: LockMode, moment: Moment) {
        let object = self.objects.entry(object).or_default();
        match mode {
            // Whoever gives it up had acquired all before.
            LockMode::Exclusive => *object = Object { by_all: Passed::One(moment), by_sharers: Passed::Nothing },
            LockMode::Shared => object.by_sharers.add(moment),
        }
    }

    pub fn release(&mut self, object: u64, moment: Moment) {
        self.objects.entry(object).or_default().by_all.add(moment);
    }

    /// What a thread acquires that takes a lock in this mode.
    pub fn passed(&self, object: u64, mode: LockMode) -> impl Iterator<Item = &Passed> {
        let object = self.objects.get(&object);
        let by_sharers = object.filter(|_| mode == LockMode::Exclusive).map(|object| &object.by_sharers);
        object.map(|object| &object.by_all).into_iter().chain(by_sharers)
    }

    pub fn forget(&mut self, object: u64) {
        self.objects.remove(&object);
    }

    pub fn forget_in(&mut self, range: Range<u64>) {
        let gone: Vec<u64> = self.objects.range(range).map(|(object, _)| *object).collect();
        for object in gone {
            self.objects.remove(&object);
        }
    }
}
