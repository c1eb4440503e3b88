//! What is remembered of a granule's accesses: 32 bytes for 8 of the guest's, and a list elsewhere where that is too
//! little.

use super::clock::Seen;
use serde::{Deserialize, Serialize};

/// A place in vector clocks, which one thread has at a time. 0 is nobody's.
pub type Slot = u16;

/// Stands for several threads in the mark of a cell that has a list.
const SEVERAL: Slot = Slot::MAX;
/// The number of slots that threads can have.
pub const MOST_SLOTS: usize = SEVERAL as usize - 1;

const TICK_BITS: u32 = 48;

/// What a side of a race did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[repr(u8)]
pub enum Action {
    #[default]
    Read,
    Write,
    /// Read and wrote, without a lock.
    Update,
    /// Accessed synchronisation memory, which races with nothing but its release.
    Atomic,
    /// Gave back the block of memory.
    Freed,
}

impl Action {
    #[inline]
    pub fn writes(self) -> bool {
        self != Action::Read
    }
}

/// Which tick of which slot.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stamp(u64);

impl Stamp {
    #[inline]
    pub fn new(slot: Slot, tick: u64) -> Stamp {
        Stamp(u64::from(slot) << TICK_BITS | tick)
    }

    #[inline]
    pub fn slot(self) -> Slot {
        (self.0 >> TICK_BITS) as Slot
    }

    #[inline]
    pub fn tick(self) -> u64 {
        self.0 & ((1 << TICK_BITS) - 1)
    }
}

/// One access, or neighbouring ones of the same instruction between two releases. Free where the mask is empty.
#[derive(Clone, Copy, Default, Debug)]
pub struct Entry {
    pub stamp: Stamp,
    /// The site's number; in the mark of a cell that has a list, the list's.
    pub site: u32,
    /// Which bytes of the granule.
    pub mask: u8,
    pub action: Action,
    /// Of the whole access; the largest number stands for all larger ones.
    pub size: u16,
}

impl Entry {
    fn mark(owner: Slot, list: u32) -> Entry {
        Entry { stamp: Stamp::new(owner, 0), site: list, ..Entry::default() }
    }

    fn is_free(&self) -> bool {
        self.mask == 0
    }
}

/// Who accesses, since when without a release, and what it has seen of the others.
#[derive(Clone, Copy)]
pub struct Viewpoint<'a> {
    pub now: Stamp,
    /// The first stamp after the last release.
    pub since: Stamp,
    pub seen: &'a Seen,
}

impl Viewpoint<'_> {
    /// Whether the entry is of this thread, after its last release.
    #[inline]
    fn is_recent(&self, stamp: Stamp) -> bool {
        stamp.0.wrapping_sub(self.since.0) <= self.now.0 - self.since.0
    }

    #[inline]
    fn is_mine(&self, stamp: Stamp) -> bool {
        stamp.slot() == self.now.slot()
    }

    fn has_seen(&self, stamp: Stamp) -> bool {
        self.is_mine(stamp) || stamp.tick() <= self.seen.tick_of(stamp.slot())
    }

    /// Whether a new access could be left out, since this one stands for it.
    #[inline]
    fn is_covered_by(&self, old: &Entry, mask: u8, writes: bool) -> bool {
        self.is_recent(old.stamp) && old.mask & mask == mask && (!writes || old.action.writes())
    }

    /// Whether both belong to one entry. Never of a free entry or a mark: no tick of a thread's is 0.
    fn extends(&self, new: &Entry, old: &Entry) -> bool {
        self.is_recent(old.stamp) && old.site == new.site && old.action == new.action && old.size == new.size
    }

    pub fn races(&self, new: &Entry, old: &Entry) -> bool {
        let both_matter = match new.action {
            Action::Read => old.action.writes(),
            Action::Atomic => old.action == Action::Freed,
            Action::Write | Action::Update | Action::Freed => true,
        };
        both_matter && old.mask & new.mask != 0 && !self.has_seen(old.stamp)
    }

    /// The bytes for which `old` still has to be remembered after `new`. A write replaces all; a read replaces the reads
    /// that it has seen, since who has seen it has seen them.
    fn left_of(&self, old: &Entry, new: &Entry) -> u8 {
        let replaced = match new.action {
            Action::Read => old.action == Action::Read && self.has_seen(old.stamp),
            Action::Atomic => old.action != Action::Freed,
            Action::Write | Action::Update | Action::Freed => true,
        };
        if replaced { old.mask & !new.mask } else { old.mask }
    }
}

/// A granule's history. Either both entries are all there is, or the second marks that there is a list, and the first
/// is a copy of the list's latest entry, or free.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cell {
    latest: Entry,
    other: Entry,
}

impl Cell {
    /// A cell whose history is in a list. `latest` is what the list's last change added.
    pub fn listed(list: u32, entries: &[Entry], latest: Entry) -> Cell {
        let owner = match entries {
            [first, rest @ ..] if rest.iter().all(|entry| entry.stamp.slot() == first.stamp.slot()) => {
                first.stamp.slot()
            }
            _ => SEVERAL,
        };
        Cell { latest, other: Entry::mark(owner, list) }
    }

    /// A cell of at most two entries, the latest at the end.
    pub fn of(entries: &[Entry]) -> Option<Cell> {
        match entries {
            [] => Some(Cell::default()),
            [latest] => Some(Cell { latest: *latest, other: Entry::default() }),
            [other, latest] => Some(Cell { latest: *latest, other: *other }),
            _ => None,
        }
    }

    #[inline]
    pub fn list(&self) -> Option<u32> {
        (self.other.is_free() && self.other.stamp != Stamp::default()).then_some(self.other.site)
    }

    /// Whether an access would change nothing and race with nothing: one of the same thread since its last release
    /// stands for it, and if it writes, nobody else has read since.
    #[inline]
    pub fn knows(&self, view: &Viewpoint<'_>, mask: u8, writes: bool) -> bool {
        let (neighbour, covered) = if view.is_covered_by(&self.latest, mask, writes) {
            (&self.other, true)
        } else {
            (&self.latest, view.is_covered_by(&self.other, mask, writes))
        };
        covered && (!writes || neighbour.stamp.slot() == 0 || view.is_mine(neighbour.stamp))
    }

    /// Adds an access to a cell without a list. Tells those that it races with. Gives back all entries, the latest at
    /// the end, if they are too many.
    pub fn add(&mut self, view: &Viewpoint<'_>, new: Entry, races: &mut Vec<Entry>) -> Option<[Entry; 3]> {
        for old in [&mut self.other, &mut self.latest] {
            outdate(view, old, &new, races);
        }
        if view.extends(&new, &self.latest) {
            self.latest.mask |= new.mask;
        } else if view.extends(&new, &self.other) {
            self.other.mask |= new.mask;
            std::mem::swap(&mut self.latest, &mut self.other);
        } else if self.latest.is_free() {
            self.latest = new;
        } else if self.other.is_free() {
            self.other = std::mem::replace(&mut self.latest, new);
        } else {
            return Some([self.other, self.latest, new]);
        }
        None
    }

    /// The entries of a cell without a list, the latest at the end.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        [self.other, self.latest].into_iter().filter(|entry| !entry.is_free())
    }
}

/// Takes from an old entry what a new one replaces. Tells it if both race.
fn outdate(view: &Viewpoint<'_>, old: &mut Entry, new: &Entry, races: &mut Vec<Entry>) {
    if view.races(new, old) {
        races.push(*old);
    }
    old.mask = view.left_of(old, new);
    if old.is_free() {
        *old = Entry::default();
    }
}

/// Adds an access to a list of entries, the latest at the end. Tells those that it races with.
pub fn add_to_list(view: &Viewpoint<'_>, entries: &mut Vec<Entry>, new: Entry, races: &mut Vec<Entry>) {
    entries.retain_mut(|old| {
        outdate(view, old, &new, races);
        !old.is_free()
    });
    if new.action == Action::Atomic {
        return;
    }
    let merged = match entries.iter().position(|old| view.extends(&new, old)) {
        Some(index) => {
            let old = entries.remove(index);
            Entry { mask: old.mask | new.mask, ..old }
        }
        None => new,
    };
    entries.push(merged);
}
