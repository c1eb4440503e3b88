//! What happened to each piece of memory, as far as predictions need it.

use super::deeds::Happening;
use super::found::Block;
use super::order::LastWrite;
use super::pages::Pages;
use crate::races::shadow::GRANULE_SIZE;
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
    pub last: Happening,
    /// The last reads of something that is not zero, each by another instruction, the latest at the end.
    pub reads: Vec<Happening>,
    pub has_written: bool,
    /// Whether the last access was a write, and the one before it, if there was one.
    pub last_wrote: bool,
    pub earlier_wrote: Option<bool>,
}

/// A write of zero.
pub struct Null {
    pub write: Happening,
    /// What its thread wrote next.
    pub renewal: Option<Happening>,
    /// It came to a pointer whose block its thread had given back.
    pub follows_release: bool,
}

/// What the accesses from one address are to.
pub struct Location {
    pub address: u64,
    /// The block that it lies in: it ends with it.
    pub block: Option<Block>,
    /// Whether it held something when it was first seen.
    pub was_set: bool,
    /// The first write of something that is not zero, if the location was zero before.
    pub first: Option<Box<Happening>>,
    pub last_write: Option<LastWrite>,
    /// The last write of zero.
    pub null: Option<Box<Null>>,
    /// In the order of their first accesses.
    pub touches: Vec<Touch>,
}

impl Location {
    fn new(address: u64, was_set: bool, block: Option<Block>) -> Location {
        Location { address, block, was_set, first: None, last_write: None, null: None, touches: Vec::new() }
    }

    pub fn others(&self, thread: Thread) -> impl Iterator<Item = &Touch> {
        self.touches.iter().filter(move |touch| touch.thread != thread)
    }

    pub fn own(&self, thread: Thread) -> Option<&Touch> {
        self.touches.iter().find(|touch| touch.thread == thread)
    }

    pub fn note(&mut self, happening: &Happening, writes: bool) {
        let is_value_read = !writes && happening.value.is_some_and(|value| value != 0);
        match self.touches.iter_mut().find(|touch| touch.thread == happening.thread) {
            Some(touch) => {
                touch.has_written |= writes;
                touch.earlier_wrote = Some(touch.last_wrote);
                touch.last_wrote = writes;
                touch.last.clone_from(happening);
                if is_value_read {
                    touch.has_read(happening);
                }
            }
            None => self.touches.push(Touch {
                thread: happening.thread,
                last: happening.clone(),
                reads: if is_value_read { vec![happening.clone()] } else { Vec::new() },
                has_written: writes,
                last_wrote: writes,
                earlier_wrote: None,
            }),
        }
    }
}

impl Touch {
    fn has_read(&mut self, read: &Happening) {
        let known = self.reads.iter().rposition(|old| old.pc == read.pc);
        // The one that is replaced comes to the end.
        let replaced = known.or_else(|| (self.reads.len() == MOST_READS).then_some(0));
        if let Some(replaced) = replaced {
            self.reads[replaced..].rotate_left(1);
        }
        match self.reads.last_mut().filter(|_| replaced.is_some()) {
            Some(last) => last.clone_from(read),
            None => self.reads.push(read.clone()),
        }
    }
}

pub struct Locations {
    /// By granule: those that begin in it, in the order of their first accesses.
    granules: Pages<Vec<Location>>,
    most_granules: usize,
    pub unwatched: u64,
}

impl Locations {
    /// Watches so many bytes at most.
    pub fn watching(bytes: u64) -> Locations {
        let most_granules = usize::try_from(bytes / GRANULE_SIZE).unwrap_or(usize::MAX);
        Locations { granules: Pages::default(), most_granules, unwatched: 0 }
    }

    /// What is known of an address; made up if it is new, in a block. Nothing if too much is known already.
    pub fn at(&mut self, address: u64, was_set: bool, block: impl FnOnce() -> Option<Block>) -> Option<&mut Location> {
        let most_granules = self.most_granules;
        let Some(locations) = self.granules.at(address / GRANULE_SIZE, most_granules) else {
            self.unwatched += 1;
            return None;
        };
        let index = locations.iter().position(|location| location.address == address).unwrap_or_else(|| {
            locations.push(Location::new(address, was_set, block()));
            locations.len() - 1
        });
        locations.get_mut(index)
    }

    /// What is known of a range that is no longer what it was.
    pub fn take(&mut self, address: u64, size: u64) -> Vec<Location> {
        let end = address.saturating_add(size.min(LONGEST_LOOK));
        if self.is_empty() || end == address {
            return Vec::new();
        }
        let mut taken = self.granules.take(address / GRANULE_SIZE..=(end - 1) / GRANULE_SIZE);
        taken.iter_mut().for_each(|locations| locations.sort_by_key(|location| location.address));
        taken.into_iter().flatten().collect()
    }

    pub fn forget_all(&mut self) {
        self.granules = Pages::default();
    }

    pub fn is_empty(&self) -> bool {
        self.granules.is_empty()
    }
}
