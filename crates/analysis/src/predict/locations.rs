//! What happened to each piece of memory, as far as predictions need it.

use super::deeds::Happening;
use super::found::Block;
use super::order::LastWrite;
use super::pages::Pages;
use crate::races::shadow::GRANULE_SIZE;
use trace::stream::strips::{is_one_in, number_of};
use trace::stream::{Site, Thread};

/// So many bytes are watched at a time, unless somebody says otherwise.
pub const MOST_WATCHED: u64 = 4 << 20;
/// Of a large block that is given back, only its beginning is looked at.
const LONGEST_LOOK: u64 = 1 << 20;

/// The reads of so many instructions are remembered of a thread.
const MOST_READS: usize = 4;

/// An instruction makes so many locations known. Where it goes beyond, they are mostly like others, such as the bytes of a buffer:
/// of further ones, those on [a few strips](is_one_in) are watched, and those that another instruction makes known.
const FEW_LOCATIONS: u32 = 4096;

/// After so many writes to a location, one of so many is held against what others have read.
const MANY_WRITES: u32 = 4096;
const ONE_OF_MANY: u64 = 64;

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
    n_writes: u32,
    /// An instruction has read it that had not, or not of late.
    has_new_reader: bool,
    /// The last write of zero.
    pub null: Option<Box<Null>>,
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
            n_writes: 0,
            has_new_reader: false,
            null: None,
            touches: Vec::new(),
        }
    }

    /// Whether the next write is to be held against what others have read: of very many that do the same, a few show what all
    /// do.
    pub fn is_worth_a_look(&mut self) -> bool {
        self.n_writes = self.n_writes.wrapping_add(1);
        let is_one_of_many = self.n_writes <= MANY_WRITES || u64::from(self.n_writes).is_multiple_of(ONE_OF_MANY);
        std::mem::take(&mut self.has_new_reader) || is_one_of_many
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
                    self.has_new_reader |= touch.has_read(happening);
                }
            }
            None => {
                self.has_new_reader |= is_value_read;
                self.touches.push(Touch {
                    thread: happening.thread,
                    last: happening.clone(),
                    reads: if is_value_read { vec![happening.clone()] } else { Vec::new() },
                    has_written: writes,
                    last_wrote: writes,
                    earlier_wrote: None,
                });
            }
        }
    }
}

impl Touch {
    /// Notes a read. Whether its instruction is one that had not read, or not of late.
    fn has_read(&mut self, read: &Happening) -> bool {
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
        known.is_none()
    }
}

pub struct Locations {
    /// By granule: those that begin in it, in the order of their first accesses.
    granules: Pages<Vec<Location>>,
    most_granules: usize,
    /// How many each site has made known.
    n_made: Vec<u32>,
    pub unwatched: u64,
}

impl Locations {
    /// Watches so many bytes at most.
    pub fn watching(bytes: u64) -> Locations {
        let most_granules = usize::try_from(bytes / GRANULE_SIZE).unwrap_or(usize::MAX);
        Locations { granules: Pages::default(), most_granules, n_made: Vec::new(), unwatched: 0 }
    }

    /// What is known of an address, unless that is nothing.
    pub fn known(&mut self, address: u64) -> Option<&mut Location> {
        let locations = self.granules.known(address / GRANULE_SIZE)?;
        locations.iter_mut().find(|location| location.address == address)
    }

    /// Whether a location is to become known that an instruction has come to.
    pub fn is_wanted(&mut self, address: u64, site: Site) -> bool {
        let index = site.0 as usize;
        self.n_made.resize(self.n_made.len().max(index + 1), 0);
        let n_made = &mut self.n_made[index];
        let is_wanted = *n_made < FEW_LOCATIONS || is_one_in(ONE_OF_MANY as u32, number_of(address));
        *n_made = n_made.saturating_add(u32::from(is_wanted));
        is_wanted
    }

    /// Makes a location known that is not yet, in a block. Nothing if too much is known already.
    pub fn make(&mut self, address: u64, was_set: bool, block: Option<Block>) -> Option<&mut Location> {
        let Some(locations) = self.granules.at(address / GRANULE_SIZE, self.most_granules) else {
            self.unwatched += 1;
            return None;
        };
        locations.push(Location::new(address, was_set, block));
        locations.last_mut()
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

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: u64 = 0x7000_0000;

    #[test]
    fn of_a_large_buffer_a_part_is_watched_unless_others_come() {
        let mut locations = Locations::watching(MOST_WATCHED);
        let n_few = u64::from(FEW_LOCATIONS);
        let wanted = |locations: &mut Locations, site: u32, granules: std::ops::Range<u64>| {
            let addresses = granules.map(|granule| BUFFER + granule * GRANULE_SIZE);
            addresses.filter(|address| locations.is_wanted(*address, Site(site))).count() as u64
        };
        assert_eq!(wanted(&mut locations, 3, 0..n_few), n_few);
        let further = wanted(&mut locations, 3, n_few..17 * n_few);
        assert!((n_few / 8..n_few / 2).contains(&further), "{further} of {}", 16 * n_few);
        assert_eq!(wanted(&mut locations, 1, n_few..n_few + 9), 9, "another instruction");
    }

    #[test]
    fn of_very_many_writes_few_are_worth_a_look() {
        let mut location = Location::new(BUFFER, true, None);
        let looks = (0..MANY_WRITES + 64 * 8).filter(|_| location.is_worth_a_look()).count();
        assert_eq!(looks, MANY_WRITES as usize + 8);
        assert!(!location.is_worth_a_look());
        location.has_new_reader = true;
        assert!(location.is_worth_a_look());
        assert!(!location.is_worth_a_look(), "the reader has been seen");
    }
}
