//! Histories that are too long for a cell.
//!
//! Memory that several threads read has the same history granule after granule, so lists without synchronisation memory
//! are shared: equal ones are one, and a change makes another. For that their stamps are those of epochs, not of single
//! accesses. Lists with synchronisation memory are one granule's own.

use super::cell::{Entry, Stamp, What};
use super::clock::Passed;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;

/// How many changes of lists are remembered, so that the next granule's is found without comparing lists.
const REMEMBERED: usize = 256;

/// Bytes that were accessed together, and what their writers pass on to their readers.
pub struct Part {
    pub mask: u8,
    pub passed: Passed,
}

#[derive(Default)]
pub struct List {
    /// The latest at the end.
    pub entries: Vec<Entry>,
    /// Bytes that are synchronisation, in parts that do not overlap.
    pub parts: Vec<Part>,
    /// How many cells have it.
    users: u32,
    /// How many lists had this number before.
    generation: u32,
}

impl List {
    pub fn sync_mask(&self) -> u8 {
        self.parts.iter().fold(0, |mask, part| mask | part.mask)
    }
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
    shared: FxHashMap<Box<[Entry]>, u32>,
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
    pub fn share(&mut self, entries: Vec<Entry>) -> u32 {
        if let Some(list) = self.shared.get(entries.as_slice()) {
            self.lists[*list as usize].users += 1;
            return *list;
        }
        let key = entries.clone().into_boxed_slice();
        let list = self.add(entries, Vec::new());
        self.shared.insert(key, list);
        list
    }

    /// A list for one cell, which may be changed. It must have parts.
    pub fn add(&mut self, entries: Vec<Entry>, parts: Vec<Part>) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.lists.push(List::default());
            self.lists.len() as u32 - 1
        });
        let list = &mut self.lists[number as usize];
        *list = List { entries, parts, users: 1, generation: list.generation };
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
            self.shared.remove(list.entries.as_slice());
        }
        *list = List { generation: list.generation.wrapping_add(1), ..List::default() };
        self.free.push(number);
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
        let of_entries = |list: &List| 2 * list.entries.capacity() * size_of::<Entry>();
        let sizes = self
            .lists
            .iter()
            .map(|list| size_of::<List>() + of_entries(list) + list.parts.capacity() * size_of::<Part>());
        sizes.sum()
    }
}

fn place(change: &Change) -> usize {
    FxBuildHasher.hash_one(change) as usize % REMEMBERED
}
