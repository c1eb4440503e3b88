//! What happened to each piece of memory, as far as predictions need it.

use super::deeds::{Happening, Locks};
use super::found::Block;
use super::order::LastWrite;
use crate::races::shadow::{GRANULE_SIZE, granules};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use trace::stream::Thread;

/// So many bytes are watched at a time, unless somebody says otherwise.
pub const MOST_WATCHED: u64 = 4 << 20;
/// Of a large block that is given back, only its beginning is looked at.
const LONGEST_LOOK: u64 = 1 << 20;

/// The reads of so many instructions are remembered of a thread.
const MOST_READS: usize = 4;

/// One thread's part in the history of a location.
pub struct Touch {
    pub thread: Thread,
    /// The last access.
    pub last: Arc<Happening>,
    /// The last reads of something that is not zero, each by another instruction, the latest at the end.
    pub reads: Vec<Arc<Happening>>,
    pub has_written: bool,
    /// Whether the last access was a write, and the one before it, if there was one.
    pub last_wrote: bool,
    pub earlier_wrote: Option<bool>,
}

/// What the accesses from one address are to.
pub struct Location {
    pub address: u64,
    /// The block that it lies in: it ends with it.
    pub block: Option<Block>,
    /// Whether it held something when it was first seen.
    pub was_set: bool,
    /// The first write of something that is not zero, if the location was zero before.
    pub first: Option<Arc<Happening>>,
    pub last_write: Option<LastWrite>,
    /// The last write of zero, and what its thread wrote next.
    pub null: Option<(Arc<Happening>, Option<Arc<Happening>>)>,
    /// That write came to a pointer whose block its thread had given back.
    pub null_follows_release: bool,
    /// In the order of their first accesses.
    pub touches: Vec<Touch>,
}

impl Location {
    fn new(address: u64, was_set: bool, block: Option<Block>) -> Location {
        Location {
            address,
            block,
            was_set,
            first: None,
            last_write: None,
            null: None,
            null_follows_release: false,
            touches: Vec::new(),
        }
    }

    pub fn others(&self, thread: Thread) -> impl Iterator<Item = &Touch> {
        self.touches.iter().filter(move |touch| touch.thread != thread)
    }

    pub fn own(&self, thread: Thread) -> Option<&Touch> {
        self.touches.iter().find(|touch| touch.thread == thread)
    }

    /// The locks of the thread's last access.
    pub fn earlier_locks(&self, thread: Thread) -> Option<Locks> {
        self.own(thread).map(|touch| touch.last.locks.clone())
    }

    pub fn note(&mut self, happening: Arc<Happening>, writes: bool) {
        let is_value_read = !writes && happening.value.is_some_and(|value| value != 0);
        let known = self.touches.iter().position(|touch| touch.thread == happening.thread);
        let index = known.unwrap_or_else(|| {
            let (thread, last) = (happening.thread, happening.clone());
            let (reads, has_written, last_wrote) = (Vec::new(), false, writes);
            self.touches.push(Touch { thread, last, reads, has_written, last_wrote, earlier_wrote: None });
            self.touches.len() - 1
        });
        let touch = &mut self.touches[index];
        touch.has_written |= writes;
        touch.earlier_wrote = known.map(|_| touch.last_wrote);
        touch.last_wrote = writes;
        if is_value_read {
            touch.has_read(happening.clone());
        }
        touch.last = happening;
    }
}

impl Touch {
    fn has_read(&mut self, read: Arc<Happening>) {
        self.reads.retain(|old| old.pc != read.pc);
        if self.reads.len() == MOST_READS {
            self.reads.remove(0);
        }
        self.reads.push(read);
    }
}

pub struct Locations {
    granules: FxHashMap<u64, Vec<Location>>,
    most_granules: usize,
    pub unwatched: u64,
}

impl Locations {
    /// Watches so many bytes at most.
    pub fn watching(bytes: u64) -> Locations {
        let most_granules = usize::try_from(bytes / GRANULE_SIZE).unwrap_or(usize::MAX);
        Locations { granules: FxHashMap::default(), most_granules, unwatched: 0 }
    }

    /// What is known of an address; made up if it is new, in a block. Nothing if too much is known already.
    pub fn at(&mut self, address: u64, was_set: bool, block: impl FnOnce() -> Option<Block>) -> Option<&mut Location> {
        let granule = address / GRANULE_SIZE;
        if self.granules.len() >= self.most_granules && !self.granules.contains_key(&granule) {
            self.unwatched += 1;
            return None;
        }
        let locations = self.granules.entry(granule).or_default();
        let index = locations.iter().position(|location| location.address == address).unwrap_or_else(|| {
            locations.push(Location::new(address, was_set, block()));
            locations.len() - 1
        });
        locations.get_mut(index)
    }

    /// What is known of a range that is no longer what it was.
    pub fn take(&mut self, address: u64, size: u64) -> Vec<Location> {
        if self.granules.is_empty() {
            return Vec::new();
        }
        let range = granules(address, size.min(LONGEST_LOOK));
        let mut taken: Vec<Location> =
            range.filter_map(|(granule, _)| self.granules.remove(&granule)).flatten().collect();
        taken.sort_by_key(|location| location.address);
        taken
    }

    pub fn forget_all(&mut self) {
        self.granules.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.granules.is_empty()
    }
}
