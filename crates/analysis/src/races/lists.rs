//! Histories that are too long for a cell.
//!
//! Memory that several threads read has the same history granule after granule, so lists without synchronisation memory
//! are shared: equal ones are one, and a change makes another. For that their stamps are those of epochs, not of single
//! accesses. Lists with synchronisation memory are one granule's own.

use super::cell::{Entry, Stamp, What};
use super::parts::Parts;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;

/// How many changes of lists are remembered, so that the next granule's is found without comparing lists.
const REMEMBERED: usize = 256;

#[derive(Default)]
pub struct List {
    /// The latest at the end.
    pub entries: Vec<Entry>,
    /// The bytes that are synchronisation.
    pub parts: Parts,
    /// How many cells have it.
    users: u32,
    /// How many lists had this number before.
    generation: u32,
    /// Of a shared one: the next whose entries have the same hash.
    next: Option<u32>,
}

/// What an access makes of a list: it depends on the list, the access, and since when its thread has not released.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Change {
    pub list: u32,
    pub since: Stamp,
    pub what: What,
}

#[derive(Clone, Copy)]
struct Remembered {
    change: Change,
    generation: u32,
    result: u32,
    result_generation: u32,
}

pub struct Lists {
    lists: Vec<List>,
    free: Vec<u32>,
    /// By a hash of their entries, the first of the shared lists that have it.
    shared: FxHashMap<u64, u32>,
    remembered: Vec<Option<Remembered>>,
}

impl Lists {
    pub fn new() -> Lists {
        Lists { lists: Vec::new(), free: Vec::new(), shared: FxHashMap::default(), remembered: vec![None; REMEMBERED] }
    }

    pub fn get(&self, list: u32) -> &List {
        &self.lists[list as usize]
    }

    /// To change a list that has parts.
    pub fn own(&mut self, list: u32) -> &mut List {
        &mut self.lists[list as usize]
    }

    /// The list of these entries, for one more cell.
    pub fn share(&mut self, entries: &[Entry]) -> u32 {
        let hash = FxBuildHasher.hash_one(entries);
        let first = self.shared.get(&hash).copied();
        let mut same_hash = std::iter::successors(first, |number| self.get(*number).next);
        if let Some(number) = same_hash.find(|number| self.get(*number).entries == entries) {
            self.lists[number as usize].users += 1;
            return number;
        }
        let number = self.add(entries);
        self.lists[number as usize].next = first;
        self.shared.insert(hash, number);
        number
    }

    /// A list for one cell, which may be changed. It must get parts.
    pub fn add(&mut self, entries: &[Entry]) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.lists.push(List::default());
            self.lists.len() as u32 - 1
        });
        let list = &mut self.lists[number as usize];
        list.entries.extend_from_slice(entries);
        list.users = 1;
        number
    }

    /// A cell has the list no longer.
    pub fn release(&mut self, number: u32) {
        let list = &mut self.lists[number as usize];
        list.users -= 1;
        if list.users > 0 {
            return;
        }
        if list.parts.is_empty() {
            self.unlink(number);
        }
        // The next list with this number has the memory of its entries.
        let list = &mut self.lists[number as usize];
        list.entries.clear();
        list.parts = Parts::default();
        list.next = None;
        list.generation = list.generation.wrapping_add(1);
        self.free.push(number);
    }

    /// Takes a list out of those that can be found by their entries. Some without parts are not among them.
    fn unlink(&mut self, number: u32) {
        let hash = FxBuildHasher.hash_one(self.get(number).entries.as_slice());
        let next = self.get(number).next;
        let Some(&first) = self.shared.get(&hash) else { return };
        if first == number {
            match next {
                Some(next) => self.shared.insert(hash, next),
                None => self.shared.remove(&hash),
            };
            return;
        }
        let mut same_hash = std::iter::successors(Some(first), |other| self.get(*other).next);
        if let Some(before) = same_hash.find(|other| self.get(*other).next == Some(number)) {
            self.lists[before as usize].next = next;
        }
    }

    /// What came of the same change before, for one more cell.
    pub fn recall(&mut self, change: Change) -> Option<u32> {
        let known = self.remembered[place(&change)]?;
        let is_current = known.change == change
            && known.generation == self.get(change.list).generation
            && known.result_generation == self.get(known.result).generation;
        is_current.then(|| {
            self.lists[known.result as usize].users += 1;
            known.result
        })
    }

    pub fn remember(&mut self, change: Change, result: u32) {
        let generation = self.get(change.list).generation;
        let result_generation = self.get(result).generation;
        self.remembered[place(&change)] = Some(Remembered { change, generation, result, result_generation });
    }

    /// How much memory the lists take, in bytes.
    pub fn size(&self) -> usize {
        let sizes = self
            .lists
            .iter()
            .map(|list| list.entries.capacity() * size_of::<Entry>() + list.parts.size() + size_of::<List>());
        sizes.sum::<usize>() + self.shared.capacity() * size_of::<(u64, u32)>()
    }
}

fn place(change: &Change) -> usize {
    FxBuildHasher.hash_one(change) as usize % REMEMBERED
}
