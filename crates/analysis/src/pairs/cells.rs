//! Who accessed each byte last, of all threads: the heads of pairs that are still to come.
//!
//! A cell stands for four bytes, which mostly are accessed together; where they are not, it gives way to one for each byte. It has the
//! last write, and the last read since; if there are several readers, a list has all of them with the write. Everything is a few words, since there is a cell for
//! all memory that a run touches, and most accesses only put a new stamp over their thread's own last one.

use super::Deed;
use super::chunks::Chunks;
use std::ops::Range;
use trace::stream::Thread;

const GRANULE: u64 = 4;
/// Of a longer access, only so many granules are looked at.
const LONGEST: u64 = 1 << 17;
/// A chunk is for a megabyte.
const CHUNK: usize = (1 << 20) / GRANULE as usize;
/// One access tells a head once, as far as the last ones that it has told are concerned.
const REMEMBERED: usize = 8;

const WHO_BITS: u32 = 28;
const WHO_MASK: u64 = (1 << WHO_BITS) - 1;
/// Stands in the place of a last write: its cell is one for each byte.
const SPLIT: u64 = WHO_MASK;
/// Stands there too: there are several readers, and their list has the write.
const SEVERAL: u64 = WHO_MASK - 1;
/// Two threads have met here, and one of them wrote.
const SHARED: u64 = 1 << 63;
/// The numbers of those who make accesses are smaller.
pub(super) const MOST_WHOS: usize = SEVERAL as usize;
const MOST_ORDER: u64 = (1 << (63 - WHO_BITS)) - 1;

/// An access: the number of who made it by which instruction, and its place among all accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Stamp(u64);

impl Stamp {
    /// Who made it is not 0. Orders beyond 34 billion are all the same.
    #[inline]
    pub fn new(who: u32, order: u64) -> Stamp {
        Stamp(order.min(MOST_ORDER) << WHO_BITS | u64::from(who))
    }

    /// Not later than what comes after so many accesses, and later than all before; later than anything where orders are all the same.
    pub fn after(order: u64) -> Stamp {
        if order < MOST_ORDER { Stamp::new(0, order + 1) } else { Stamp(u64::MAX) }
    }

    #[inline]
    pub fn who(self) -> u32 {
        (self.0 & WHO_MASK) as u32
    }

    #[inline]
    pub fn order(self) -> u64 {
        (self.0 & !SHARED) >> WHO_BITS
    }

    fn is_none(self) -> bool {
        self.0 & WHO_MASK == 0
    }
}

/// The last write and the last read since: zero for none.
type Cell = [u64; 2];
const WRITE: usize = 0;
const READ: usize = 1;

/// A read among several, and the next reader's number. Readers are in the order of their first reads.
#[derive(Clone, Copy)]
struct Reader {
    stamp: Stamp,
    next: Option<u32>,
}

/// Several readers since a write.
#[derive(Clone, Copy)]
struct Several {
    write: u64,
    first: u32,
}

/// Who accesses, and whose the stamps are.
#[derive(Clone, Copy)]
pub(super) struct Visitor<'a> {
    pub thread: Thread,
    pub stamp: Stamp,
    /// What is at least as late is the thread's own, since nobody else has had the turn since.
    pub turn: Stamp,
    /// The threads of all who have made accesses, by their numbers.
    pub threads: &'a [Thread],
}

impl Visitor<'_> {
    #[inline]
    fn is_own(&self, stamp: u64) -> bool {
        self.threads[(stamp & WHO_MASK) as usize] == self.thread
    }

    fn is_other(&self, stamp: u64) -> bool {
        stamp & WHO_MASK != 0 && !self.is_own(stamp)
    }
}

/// Things that are made and given up all the time, by their numbers.
struct Slab<T> {
    things: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { things: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    fn add(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.things[number as usize] = thing;
                number
            }
            None => {
                self.things.push(thing);
                (self.things.len() - 1) as u32
            }
        }
    }
}

/// The last heads that an access has told.
#[derive(Default)]
struct Told {
    heads: Vec<(Stamp, Deed)>,
    /// How many it has told.
    n_told: usize,
}

impl Told {
    /// Another access begins.
    #[inline]
    fn reset(&mut self) {
        if self.n_told > 0 {
            self.heads.clear();
            self.n_told = 0;
        }
    }

    fn is_news(&mut self, head: (Stamp, Deed)) -> bool {
        if self.heads.contains(&head) {
            return false;
        }
        if self.heads.len() < REMEMBERED {
            self.heads.push(head);
        } else {
            self.heads[self.n_told % REMEMBERED] = head;
        }
        self.n_told += 1;
        true
    }
}

#[derive(Default)]
struct Lists {
    several: Slab<Several>,
    readers: Slab<Reader>,
}

impl Lists {
    fn of(&self, cell: &Cell) -> Option<Several> {
        let number = (cell[WRITE] & !SHARED) >> WHO_BITS;
        (cell[WRITE] & WHO_MASK == SEVERAL).then(|| self.several.things[number as usize])
    }

    /// The last write, without the mark of shared memory.
    fn write(&self, cell: &Cell) -> u64 {
        self.of(cell).map_or(cell[WRITE] & !SHARED, |several| several.write)
    }

    fn numbers(&self, first: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(first), |number| self.readers.things[*number as usize].next)
    }

    /// All last reads since the write, in the order of their threads' first ones.
    fn reads(&self, cell: &Cell, threads: &[Thread]) -> Vec<Stamp> {
        let last = Stamp(cell[READ]);
        let Some(several) = self.of(cell) else { return Vec::from_iter((!last.is_none()).then_some(last)) };
        let stamps = self.numbers(several.first).map(|number| self.readers.things[number as usize].stamp);
        // The last one of all is newer in the cell than in the list.
        let is_last = |stamp: &Stamp| threads[stamp.who() as usize] == threads[last.who() as usize];
        stamps.map(|stamp| if is_last(&stamp) { last } else { stamp }).collect()
    }

    /// Notes a read after one of another thread; says whether it is its thread's first since the write.
    #[cold]
    fn add(&mut self, cell: &mut Cell, visitor: &Visitor<'_>) -> bool {
        let several = self.of(cell).unwrap_or_else(|| {
            let first = self.readers.add(Reader { stamp: Stamp(cell[READ]), next: None });
            let several = Several { write: cell[WRITE] & !SHARED, first };
            let number = u64::from(self.several.add(several));
            cell[WRITE] = number << WHO_BITS | SEVERAL | cell[WRITE] & SHARED;
            several
        });
        let (last, mut tail, mut is_first) = (Stamp(cell[READ]), several.first, true);
        cell[READ] = visitor.stamp.0;
        let mut next = Some(several.first);
        while let Some(number) = next {
            let reader = &mut self.readers.things[number as usize];
            if visitor.threads[reader.stamp.who() as usize] == visitor.threads[last.who() as usize] {
                reader.stamp = last;
            }
            is_first &= !visitor.is_own(reader.stamp.0);
            (tail, next) = (number, reader.next);
        }
        if is_first {
            let number = self.readers.add(Reader { stamp: visitor.stamp, next: None });
            self.readers.things[tail as usize].next = Some(number);
        }
        is_first
    }

    fn free(&mut self, cell: &Cell) {
        let Some(several) = self.of(cell) else { return };
        let mut next = Some(several.first);
        while let Some(number) = next {
            next = self.readers.things[number as usize].next;
            self.readers.free.push(number);
        }
        self.several.free.push(((cell[WRITE] & !SHARED) >> WHO_BITS) as u32);
    }

    /// The same again, with a list of its own.
    fn copy(&mut self, cell: &Cell) -> Cell {
        let Some(several) = self.of(cell) else { return *cell };
        let numbers: Vec<u32> = self.numbers(several.first).collect();
        let mut next = None;
        for number in numbers.into_iter().rev() {
            let stamp = self.readers.things[number as usize].stamp;
            next = Some(self.readers.add(Reader { stamp, next }));
        }
        let first = next.unwrap_or(several.first);
        let number = u64::from(self.several.add(Several { first, ..several }));
        [number << WHO_BITS | SEVERAL | cell[WRITE] & SHARED, cell[READ]]
    }
}

/// Puts a stamp over a thread's own ones, as far as these are all that there is. Doing so again does no harm.
#[inline]
fn renew_all(cells: &mut [Cell], writes: bool, visitor: &Visitor<'_>) -> Option<bool> {
    let is_own = |stamp: u64| {
        stamp & !SHARED >= visitor.turn.0 && stamp & WHO_MASK < SEVERAL
            || visitor.threads.get((stamp & WHO_MASK) as usize) == Some(&visitor.thread)
    };
    let mut met = 0;
    for cell in cells {
        if writes {
            if !is_own(cell[WRITE]) || cell[READ] != 0 && !is_own(cell[READ]) {
                return None;
            }
            let shared = cell[WRITE] & SHARED;
            *cell = [visitor.stamp.0 | shared, 0];
            met |= shared;
        } else {
            if !is_own(cell[READ]) {
                return None;
            }
            cell[READ] = visitor.stamp.0;
            met |= cell[WRITE] & SHARED;
        }
    }
    Some(met != 0)
}

/// Does what an access does to one cell. Gives whether threads have met there.
#[inline]
fn visit(
    cell: &mut Cell,
    deed: Deed,
    visitor: &Visitor<'_>,
    lists: &mut Lists,
    pair: &mut impl FnMut(Stamp, Deed),
) -> bool {
    if renew_all(std::slice::from_mut(cell), deed == Deed::Write, visitor).is_some() {
        return cell[WRITE] & SHARED != 0;
    }
    match deed {
        Deed::Read => {
            let is_first = cell[READ] == 0 || lists.add(cell, visitor);
            cell[READ] = visitor.stamp.0;
            let write = lists.write(cell);
            if is_first && visitor.is_other(write) {
                pair(Stamp(write), Deed::Write);
                cell[WRITE] |= SHARED;
            }
        }
        Deed::Write => {
            let met = overwrite(cell, visitor, lists, pair);
            let shared = if met { SHARED } else { cell[WRITE] & SHARED };
            *cell = [visitor.stamp.0 | shared, 0];
        }
    }
    cell[WRITE] & SHARED != 0
}

/// Tells the pairs of a write, and gives up who read before. Gives whether there were pairs.
fn overwrite(cell: &Cell, visitor: &Visitor<'_>, lists: &mut Lists, pair: &mut impl FnMut(Stamp, Deed)) -> bool {
    let reads = lists.reads(cell, visitor.threads);
    let mut met = false;
    for read in reads.iter().filter(|read| visitor.is_other(read.0)) {
        pair(*read, Deed::Read);
        met = true;
    }
    // Where one of both threads has read in between, that read is the nearer end.
    let write = lists.write(cell);
    let has_read = |of: Stamp| {
        let thread = visitor.threads[of.who() as usize];
        reads.iter().any(|read| visitor.threads[read.who() as usize] == thread)
    };
    if visitor.is_other(write) && !has_read(Stamp(write)) && !has_read(visitor.stamp) {
        pair(Stamp(write), Deed::Write);
        met = true;
    }
    lists.free(cell);
    met
}

#[derive(Default)]
pub(super) struct Cells {
    /// By granule.
    cells: Chunks<Cell, CHUNK>,
    split: Slab<[Cell; GRANULE as usize]>,
    lists: Lists,
    told: Told,
}

impl Cells {
    /// What most accesses are: one to memory that nobody but the same thread has accessed since it did so last. Gives whether threads have
    /// met there before; nothing if it may be another kind of access, and then it has to be told by [`access`](Cells::access).
    #[inline]
    pub fn renew(&mut self, (address, size): (u64, u64), writes: bool, visitor: &Visitor<'_>) -> Option<bool> {
        let (granule, end) = (address / GRANULE, address.saturating_add(size.max(1)));
        let cells = self.cells.row(granule, (end.div_ceil(GRANULE) - granule) as usize)?;
        let (mut at, mut met) = (address, false);
        for cell in cells {
            let next = end.min((at / GRANULE + 1) * GRANULE);
            if cell[WRITE] & WHO_MASK == SPLIT {
                let parts = &mut self.split.things[(cell[WRITE] >> WHO_BITS) as usize];
                let first = (at % GRANULE) as usize;
                met |= renew_all(&mut parts[first..first + (next - at) as usize], writes, visitor)?;
            } else if next - at == GRANULE {
                met |= renew_all(std::slice::from_mut(cell), writes, visitor)?;
            } else {
                return None;
            }
            at = next;
        }
        Some(met)
    }

    /// An access; tells each pair that it is the tail of, with the first byte that both ends access. Gives whether threads have
    /// met at any of the bytes.
    #[inline]
    pub fn access(
        &mut self,
        (address, size): (u64, u64),
        deed: Deed,
        visitor: &Visitor<'_>,
        mut pair: impl FnMut(Stamp, Deed, u64),
    ) -> bool {
        let told = &mut self.told;
        told.reset();
        let mut is_shared = false;
        let mut at = address;
        let end = address.saturating_add(size.clamp(1, LONGEST * GRANULE));
        while at < end {
            let granule = at / GRANULE;
            let next = end.min((granule + 1) * GRANULE);
            let bytes = (at % GRANULE) as usize..(next - granule * GRANULE) as usize;
            let cell = self.cells.at(granule);
            let (lists, split) = (&mut self.lists, &mut self.split);
            if bytes.len() == GRANULE as usize && cell[WRITE] & WHO_MASK != SPLIT {
                let mut heard = |head: Stamp, deed| {
                    if told.is_news((head, deed)) {
                        pair(head, deed, at);
                    }
                };
                is_shared |= visit(cell, deed, visitor, lists, &mut heard);
            } else {
                let mut heard = |head: Stamp, deed, byte: usize| {
                    if told.is_news((head, deed)) {
                        pair(head, deed, granule * GRANULE + byte as u64);
                    }
                };
                is_shared |= visit_bytes(cell, bytes, deed, visitor, (lists, split), &mut heard);
            }
            at = next;
        }
        is_shared
    }

    /// Writes the bytes of a range that anybody has accessed.
    pub fn overwrite(
        &mut self,
        (address, size): (u64, u64),
        visitor: &Visitor<'_>,
        mut pair: impl FnMut(Stamp, Deed, u64),
    ) {
        let end = address.saturating_add(size.max(1));
        let (lists, split, told) = (&mut self.lists, &mut self.split, &mut self.told);
        told.reset();
        self.cells.for_each_known(address / GRANULE..=(end - 1) / GRANULE, |granule, cell| {
            let base = granule * GRANULE;
            let bytes = address.saturating_sub(base) as usize..(end - base).min(GRANULE) as usize;
            let parts = parts_of(cell, lists, split).iter_mut().enumerate();
            for (byte, part) in parts.filter(|(byte, part)| bytes.contains(byte) && **part != [0; 2]) {
                visit(part, Deed::Write, visitor, lists, &mut |head, deed| {
                    if told.is_news((head, deed)) {
                        pair(head, deed, base + byte as u64);
                    }
                });
            }
        });
    }

    /// The memory is another one from now on.
    pub fn forget(&mut self, address: u64, size: u64) {
        let (lists, split) = (&mut self.lists, &mut self.split);
        let end = address.saturating_add(size.max(1));
        self.cells.for_each_known(address / GRANULE..=(end - 1) / GRANULE, |_, cell| {
            if cell[WRITE] & WHO_MASK == SPLIT {
                let number = (cell[WRITE] >> WHO_BITS) as u32;
                split.things[number as usize].iter().for_each(|part| lists.free(part));
                split.free.push(number);
            } else {
                lists.free(cell);
            }
            *cell = [0; 2];
        });
    }
}

type Parts = Slab<[Cell; GRANULE as usize]>;

/// The cells of single bytes, which take the place of one for all of them.
fn parts_of<'a>(cell: &mut Cell, lists: &mut Lists, split: &'a mut Parts) -> &'a mut [Cell; GRANULE as usize] {
    if cell[WRITE] & WHO_MASK != SPLIT {
        let parts = [*cell, lists.copy(cell), lists.copy(cell), lists.copy(cell)];
        *cell = [u64::from(split.add(parts)) << WHO_BITS | SPLIT, 0];
    }
    &mut split.things[(cell[WRITE] >> WHO_BITS) as usize]
}

fn visit_bytes(
    cell: &mut Cell,
    bytes: Range<usize>,
    deed: Deed,
    visitor: &Visitor<'_>,
    (lists, split): (&mut Lists, &mut Parts),
    pair: &mut impl FnMut(Stamp, Deed, usize),
) -> bool {
    let is_whole = bytes.len() == GRANULE as usize;
    let parts = parts_of(cell, lists, split);
    let mut is_shared = false;
    for byte in bytes {
        is_shared |= visit(&mut parts[byte], deed, visitor, lists, &mut |head, deed| pair(head, deed, byte));
    }
    if is_whole && deed == Deed::Write {
        let shared = if is_shared { SHARED } else { 0 };
        split.free.push((cell[WRITE] >> WHO_BITS) as u32);
        *cell = [visitor.stamp.0 | shared, 0];
    }
    is_shared
}
