//! What is remembered of a granule's accesses: 32 bytes for 8 of the guest's, and a list elsewhere where that is too
//! little.

use super::clock::Seen;
use serde::{Deserialize, Serialize};
use trace::stream::AccessKind;

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
    const ALL: [Action; 5] = [Action::Read, Action::Write, Action::Update, Action::Atomic, Action::Freed];
}

impl From<AccessKind> for Action {
    #[inline]
    fn from(kind: AccessKind) -> Action {
        match kind {
            AccessKind::Read => Action::Read,
            AccessKind::Write => Action::Write,
            AccessKind::Update => Action::Update,
            AccessKind::Atomic => Action::Atomic,
        }
    }
}

/// Which tick of which slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
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

/// What an access was: its site's number, its action, its size, and which bytes of the granule it touched. One word,
/// since parts of it that are written one by one and read as a whole would stall the processor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct What(u64);

const MASK_SHIFT: u32 = 32;
const ACTION_SHIFT: u32 = 40;
const SIZE_SHIFT: u32 = 48;

impl What {
    /// The size is that of the whole access; the largest number stands for all larger ones.
    #[inline]
    pub fn new(site: u32, mask: u8, action: Action, size: u16) -> What {
        let parts = [(u64::from(mask), MASK_SHIFT), (action as u64, ACTION_SHIFT), (u64::from(size), SIZE_SHIFT)];
        What(parts.iter().fold(u64::from(site), |what, (part, shift)| what | part << shift))
    }

    #[inline]
    fn with_mask(self, mask: u8) -> What {
        What(self.0 & !(0xff << MASK_SHIFT) | u64::from(mask) << MASK_SHIFT)
    }
}

/// One access, or neighbouring ones of the same instruction between two releases. Free where the mask is empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Entry {
    pub stamp: Stamp,
    pub what: What,
}

impl Entry {
    /// The mark of a cell that has a list, with the list's number in place of a site's.
    fn mark(owner: Slot, list: u32) -> Entry {
        Entry { stamp: Stamp::new(owner, 0), what: What::new(list, 0, Action::Read, 0) }
    }

    #[inline]
    fn is_free(self) -> bool {
        self.mask() == 0
    }

    #[inline]
    pub fn site(self) -> u32 {
        self.what.0 as u32
    }

    #[inline]
    pub fn mask(self) -> u8 {
        (self.what.0 >> MASK_SHIFT) as u8
    }

    #[inline]
    pub fn is(self, action: Action) -> bool {
        self.what.0 >> ACTION_SHIFT & 0xff == action as u64
    }

    pub fn action(self) -> Action {
        Action::ALL.into_iter().find(|action| self.is(*action)).unwrap_or_default()
    }

    #[inline]
    pub fn writes(self) -> bool {
        !self.is(Action::Read)
    }

    pub fn size(self) -> u16 {
        (self.what.0 >> SIZE_SHIFT) as u16
    }

    pub fn at(self, stamp: Stamp) -> Entry {
        Entry { stamp, ..self }
    }

    /// The same for other bytes; free if there are none.
    #[inline]
    pub fn with_mask(self, mask: u8) -> Entry {
        if mask == 0 { Entry::default() } else { Entry { what: self.what.with_mask(mask), ..self } }
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
    /// Whether the entry is of this thread, after its last release. None of it can be later than now.
    #[inline]
    fn is_recent(&self, stamp: Stamp) -> bool {
        stamp.0 >= self.since.0 && self.is_mine(stamp)
    }

    #[inline]
    fn is_mine(&self, stamp: Stamp) -> bool {
        stamp.slot() == self.since.slot()
    }

    fn has_seen(&self, stamp: Stamp) -> bool {
        self.is_mine(stamp) || stamp.tick() <= self.seen.tick_of(stamp.slot())
    }

    /// Whether a new access could be left out, since this one stands for it.
    #[inline]
    fn is_covered_by(&self, old: Entry, mask: u8, writes: bool) -> bool {
        self.is_recent(old.stamp) && old.mask() & mask == mask && (!writes || old.writes())
    }

    /// Whether both belong to one entry. Never of a free entry or a mark: no tick of a thread's is 0.
    #[inline]
    fn extends(&self, new: Entry, old: Entry) -> bool {
        self.is_recent(old.stamp) && old.what.with_mask(0) == new.what.with_mask(0)
    }

    #[inline]
    fn races(&self, new: Entry, old: Entry) -> bool {
        old.mask() & new.mask() != 0
            && (new.writes() || old.writes())
            && !self.has_seen(old.stamp)
            && (!new.is(Action::Atomic) || old.is(Action::Freed))
    }

    /// What still has to be remembered of `old` after `new`. A write replaces all; a read replaces the reads that it
    /// has seen, since who has seen it has seen them.
    #[inline]
    fn left_of(&self, old: Entry, new: Entry) -> Entry {
        let is_replaced = if new.writes() {
            !new.is(Action::Atomic) || !old.is(Action::Freed)
        } else {
            !old.writes() && self.has_seen(old.stamp)
        };
        if is_replaced { old.with_mask(old.mask() & !new.mask()) } else { old }
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
    /// A cell whose history is in a list, the latest at the end.
    pub fn listed(list: u32, entries: &[Entry]) -> Cell {
        let owner = match entries {
            [first, rest @ ..] if rest.iter().all(|entry| entry.stamp.slot() == first.stamp.slot()) => {
                first.stamp.slot()
            }
            _ => SEVERAL,
        };
        Cell { latest: entries.last().copied().unwrap_or_default(), other: Entry::mark(owner, list) }
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
        (self.other.is_free() && self.other.stamp != Stamp::default()).then_some(self.other.site())
    }

    /// Whether an access would change nothing and race with nothing: one of the same thread since its last release
    /// stands for it, and if it writes, nobody else has read since.
    #[inline]
    pub fn knows(&self, view: &Viewpoint<'_>, mask: u8, writes: bool) -> bool {
        let (neighbour, covered) = if view.is_covered_by(self.latest, mask, writes) {
            (self.other, true)
        } else {
            (self.latest, view.is_covered_by(self.other, mask, writes))
        };
        covered && (!writes || neighbour.stamp.slot() == 0 || view.is_mine(neighbour.stamp))
    }

    /// Adds an access to a cell without a list. Tells those that it races with. Gives back all entries, the latest at
    /// the end, if they are too many.
    #[inline(always)]
    pub fn add(&mut self, view: &Viewpoint<'_>, new: Entry, races: &mut Vec<Entry>) -> Option<[Entry; 3]> {
        let other = outdated(view, self.other, new, races);
        let latest = outdated(view, self.latest, new, races);
        let (other, latest) = if view.extends(new, latest) {
            (other, latest.with_mask(latest.mask() | new.mask()))
        } else if view.extends(new, other) {
            (latest, other.with_mask(other.mask() | new.mask()))
        } else if latest.is_free() {
            (other, new)
        } else if other.is_free() {
            (latest, new)
        } else {
            return Some([other, latest, new]);
        };
        *self = Cell { latest, other };
        None
    }

    /// The entries of a cell without a list, the latest at the end.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        [self.other, self.latest].into_iter().filter(|entry| !entry.is_free())
    }
}

/// What is left of an old entry after a new one. Tells it if both race.
#[inline(always)]
fn outdated(view: &Viewpoint<'_>, old: Entry, new: Entry, races: &mut Vec<Entry>) -> Entry {
    if old.is_free() {
        return old;
    }
    if view.races(new, old) {
        races.push(old);
    }
    view.left_of(old, new)
}

/// Adds an access to a list of entries, the latest at the end. Tells those that it races with.
pub fn add_to_list(view: &Viewpoint<'_>, entries: &mut Vec<Entry>, new: Entry, races: &mut Vec<Entry>) {
    entries.retain_mut(|old| {
        *old = outdated(view, *old, new, races);
        !old.is_free()
    });
    if new.is(Action::Atomic) {
        return;
    }
    let merged = match entries.iter().position(|old| view.extends(new, *old)) {
        Some(index) => {
            let old = entries.remove(index);
            old.with_mask(old.mask() | new.mask())
        }
        None => new,
    };
    entries.push(merged);
}
