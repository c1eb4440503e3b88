//! The cells of memory: eight bytes for each four of the guest's, in chunks that are made when they are first needed.

use super::super::cell::Slot;
use super::super::shadow::{END, GRANULE_SIZE};
use super::epoch::{Epoch, LAST_SLOT, Now};
use std::collections::BTreeMap;
use std::ops::Range;

const CELL_SIZE_BITS: u32 = 2;
pub const CELL_SIZE: u64 = 1 << CELL_SIZE_BITS;
/// A chunk is for a megabyte. What is never touched of it takes no memory: the system hands out zeros by the page.
const CHUNK_BITS: u32 = 18;
const CHUNK: usize = 1 << CHUNK_BITS;
/// So much memory is one chunk's.
pub const CHUNK_SIZE: u64 = (CHUNK as u64) << CELL_SIZE_BITS;
/// The number of the chunk for all memory that is not watched. Nothing is remembered there.
const UNWATCHED: u32 = 0;
const LOOKED_UP: usize = 256;

/// What is remembered of four bytes, in a word that is zero for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cell(pub u64);

/// What a cell says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The last write, and who has read since.
    Plain { written: Epoch, readers: Epoch },
    /// Its granule is a suspect, so that nothing more has to be known.
    Suspect,
    /// Its block was given back.
    Freed,
    /// Some of it is synchronisation memory.
    Sync(Sync),
    /// Something may be handed over through its granule: what else is known is there, by this number.
    Hatch(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sync {
    /// Of what is known of its granule's.
    pub number: u32,
    /// The rest of it has been accessed before some of it was synchronisation.
    pub has_history: bool,
}

// No epoch of a write is that large, as writes have no lists.
const SUSPECT: u32 = (LAST_SLOT as u32 + 1) << 20;
const FREED: u32 = SUSPECT + 1;
const SYNC: u32 = SUSPECT + 2;
const SYNC_WITH_HISTORY: u32 = SUSPECT + 3;
const HATCH: u32 = SUSPECT + 4;

impl Cell {
    pub const SUSPECT: Cell = Cell((SUSPECT as u64) << 32);
    pub const FREED: Cell = Cell((FREED as u64) << 32);

    #[inline]
    pub fn plain(written: Epoch, readers: Epoch) -> Cell {
        Cell(u64::from(written.0) << 32 | u64::from(readers.0))
    }

    pub fn sync(sync: Sync) -> Cell {
        let upper = if sync.has_history { SYNC_WITH_HISTORY } else { SYNC };
        Cell(u64::from(upper) << 32 | u64::from(sync.number))
    }

    pub fn hatch(number: u32) -> Cell {
        Cell(u64::from(HATCH) << 32 | u64::from(number))
    }

    /// The number of the hatch that it is in.
    #[inline]
    pub fn hatch_number(self) -> Option<u32> {
        ((self.0 >> 32) as u32 == HATCH).then_some(self.0 as u32)
    }

    #[inline]
    pub fn state(self) -> State {
        let (upper, lower) = ((self.0 >> 32) as u32, self.0 as u32);
        match upper {
            SUSPECT => State::Suspect,
            FREED => State::Freed,
            HATCH => State::Hatch(lower),
            SYNC | SYNC_WITH_HISTORY => State::Sync(Sync { number: lower, has_history: upper == SYNC_WITH_HISTORY }),
            _ => State::Plain { written: Epoch(upper), readers: Epoch(lower) },
        }
    }

    /// Whether nobody else has been there.
    #[inline]
    fn is_of(self, slot: Slot) -> bool {
        [Epoch((self.0 >> 32) as u32), Epoch(self.0 as u32)].iter().all(|epoch| epoch.is_of(slot))
    }

    /// Whether another read in this epoch changes nothing. Who has seen the epoch of a write has seen its reads as well.
    #[inline]
    fn knows_read(self, now: &Now) -> bool {
        let (written, readers) = (Epoch((self.0 >> 32) as u32), Epoch(self.0 as u32));
        readers == now.epoch || written == now.epoch || now.is_in(readers)
    }

    /// Whether another write in this epoch changes nothing: nobody else has read since.
    #[inline]
    fn knows_write(self, now: Epoch) -> bool {
        self == Cell::plain(now, Epoch::NONE)
    }
}

/// Memory that is read or written.
#[derive(Clone, Copy)]
pub struct Span {
    pub address: u64,
    pub size: u32,
    pub writes: bool,
}

/// What some cells are to a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Nothing changes by one more access.
    Known,
    /// Nobody else has been there.
    Own,
    /// Others have been there, or it is synchronisation memory, or nothing is known of it.
    Others,
}

/// Cells of one chunk.
struct Place {
    chunk: usize,
    first: usize,
    last: usize,
}

/// The numbers of the cells that a range touches.
#[inline]
pub fn cells_of(address: u64, size: u64) -> Range<u64> {
    let end = address.saturating_add(size).min(END);
    address >> CELL_SIZE_BITS..end.div_ceil(1 << CELL_SIZE_BITS).max(address >> CELL_SIZE_BITS)
}

/// The same, of the granules that it touches.
pub fn cells_of_granules(address: u64, size: u64) -> Range<u64> {
    let end = address.saturating_add(size).min(END).div_ceil(GRANULE_SIZE) * GRANULE_SIZE;
    let start = address / GRANULE_SIZE * GRANULE_SIZE;
    cells_of(start, end.saturating_sub(start))
}

pub fn cells_of_granule(granule: u64) -> Range<u64> {
    cells_of(granule * GRANULE_SIZE, GRANULE_SIZE)
}

/// The granule that a cell belongs to.
pub fn granule_of(cell: u64) -> u64 {
    cell << CELL_SIZE_BITS >> GRANULE_SIZE.trailing_zeros()
}

/// Which bytes of its granule a cell has.
pub fn mask_of(cell: u64) -> u8 {
    0xf << (4 * (cell & 1))
}

/// Whether something holds for all of some cells. Most accesses are of one or two, and most neighbours have the same history.
#[inline(always)]
fn all(chunk: &Words, first: usize, last: usize, holds: impl Fn(Cell) -> bool) -> bool {
    let (start, end) = (chunk[first], chunk[last]);
    if !(holds(Cell(start)) && (start == end || holds(Cell(end)))) {
        return false;
    }
    let Some(between) = chunk.get(first..last).filter(|between| between.len() >= 2) else { return true };
    let differences = between.iter().fold(0, |differences, word| differences | (word ^ start));
    differences == 0 || between.iter().all(|word| holds(Cell(*word)))
}

type Words = [u64; CHUNK];

/// Cells, in pages of which those that were never touched take no memory. They are not even read: the system would have to give each page twice, and to
/// tell the other processors the second time.
struct Chunk {
    words: Box<Words>,
    /// A bit for each page.
    touched: [u64; TOUCHED],
}

/// So many cells are one page of the system's.
const PAGE: usize = 512;
/// So many words have a bit for each page of a chunk.
const TOUCHED: usize = CHUNK / PAGE / 64;

impl Chunk {
    fn fresh() -> Chunk {
        let words = vec![0; CHUNK].into_boxed_slice();
        let words = words.try_into().unwrap_or_else(|_| unreachable!("there are as many words as asked for"));
        Chunk { words, touched: [0; TOUCHED] }
    }

    #[inline(always)]
    fn is_touched(&self, cell: usize) -> bool {
        let page = cell / PAGE;
        self.touched[page / 64 % TOUCHED] >> (page % 64) & 1 != 0
    }

    #[inline]
    fn touch(&mut self, cells: Range<usize>) -> &mut [u64] {
        for page in cells.start / PAGE..cells.end.div_ceil(PAGE) {
            if !self.is_touched(page * PAGE) {
                self.touched[page / 64] |= 1 << (page % 64);
                self.words[page * PAGE..(page + 1) * PAGE].fill(0);
            }
        }
        &mut self.words[cells]
    }

    /// All that may not be empty.
    fn cells(&self) -> impl Iterator<Item = Cell> {
        let pages = (0..CHUNK).step_by(PAGE).filter(|first| self.is_touched(*first));
        pages.flat_map(|first| &self.words[first..first + PAGE]).map(|word| Cell(*word))
    }

    /// Empties some cells. Gives those back that were not empty.
    fn take(&mut self, cells: Range<usize>) -> Vec<Cell> {
        let mut taken = Vec::new();
        for page in cells.start / PAGE..cells.end.div_ceil(PAGE) {
            if self.is_touched(page * PAGE) {
                let part = cells.start.max(page * PAGE)..cells.end.min((page + 1) * PAGE);
                let filled = self.words[part].iter_mut().filter(|word| **word != 0);
                taken.extend(filled.map(|word| Cell(std::mem::take(word))));
            }
        }
        taken
    }
}

pub struct Cells {
    chunks: Vec<Chunk>,
    /// By the upper bits of an address: the number of its chunk.
    numbers: BTreeMap<u64, u32>,
    /// Chunks looked up a moment ago: the upper bits of an address, and the number.
    looked_up: [(u64, u32); LOOKED_UP],
    most_chunks: usize,
    unwatched: u64,
}

impl Cells {
    /// So many chunks at most. What lies beyond is as if nobody had ever been there.
    pub fn new(most_chunks: usize) -> Cells {
        let looked_up = [(u64::MAX, UNWATCHED); LOOKED_UP];
        Cells { chunks: vec![Chunk::fresh()], numbers: BTreeMap::new(), looked_up, most_chunks, unwatched: 0 }
    }

    /// How many times memory was asked for that is not watched.
    pub fn unwatched(&self) -> u64 {
        self.unwatched
    }

    /// The cells of a span, if they are in one chunk, which was looked up a moment ago, and somebody has touched their pages.
    #[inline(always)]
    fn place(&self, span: &Span) -> Option<Place> {
        let first = span.address >> CELL_SIZE_BITS;
        let last = span.address.wrapping_add(u64::from(span.size)).wrapping_sub(1) >> CELL_SIZE_BITS;
        let upper = first >> CHUNK_BITS;
        let (known, number) = self.looked_up[upper as usize % LOOKED_UP];
        let is_there = known == upper && last >> CHUNK_BITS == upper;
        let (first, last) = (first as usize % CHUNK, last as usize % CHUNK);
        let chunk = self.chunks.get(number as usize).filter(|_| is_there)?;
        (chunk.is_touched(first) && chunk.is_touched(last)).then_some(Place { chunk: number as usize, first, last })
    }

    /// What the cells of a span are to the thread that accesses them now.
    #[inline(always)]
    pub fn standing(&self, now: &Now, span: &Span) -> Standing {
        let Some(Place { chunk, first, last }) = self.place(span) else { return Standing::Others };
        let Some(Chunk { words: chunk, .. }) = self.chunks.get(chunk) else { return Standing::Others };
        let is_known = match span.writes {
            false => all(chunk, first, last, |cell| cell.knows_read(now)),
            true => all(chunk, first, last, |cell| cell.knows_write(now.epoch)),
        };
        if is_known {
            Standing::Known
        } else if all(chunk, first, last, |cell| cell.is_of(now.slot)) {
            Standing::Own
        } else {
            Standing::Others
        }
    }

    /// Notes an access to cells that are the thread's own or known.
    #[inline]
    pub fn note(&mut self, now: &Now, span: &Span) {
        let Some(Place { chunk, first, last }) = self.place(span) else { return };
        let Some(words) = self.chunks.get_mut(chunk).and_then(|chunk| chunk.words.get_mut(first..=last)) else {
            return;
        };
        for word in words {
            if span.writes {
                *word = Cell::plain(now.epoch, Epoch::NONE).0;
            } else if !Cell(*word).knows_read(now) {
                *word = *word >> 32 << 32 | u64::from(now.epoch.0);
            }
        }
    }

    /// The cells of a range, made if need be, up to the end of its first chunk.
    #[inline]
    pub fn touch(&mut self, cells: Range<u64>) -> &mut [u64] {
        let upper = cells.start >> CHUNK_BITS;
        let (known, number) = self.looked_up[upper as usize % LOOKED_UP];
        let number = if known == upper { number } else { self.look_up(upper) };
        let first = cells.start as usize % CHUNK;
        let length = (cells.end - cells.start).min((CHUNK - first) as u64) as usize;
        let cells = self.chunks[number as usize].touch(first..first + length);
        if number == UNWATCHED {
            cells.fill(0);
            self.unwatched += 1;
        }
        cells
    }

    /// Whether anything is remembered of a cell.
    pub fn is_watched(&mut self, cell: u64) -> bool {
        let upper = cell >> CHUNK_BITS;
        let (known, number) = self.looked_up[upper as usize % LOOKED_UP];
        (if known == upper { number } else { self.look_up(upper) }) != UNWATCHED
    }

    pub fn get(&mut self, cell: u64) -> Cell {
        Cell(self.touch(cell..cell + 1)[0])
    }

    pub fn set(&mut self, cell: u64, new: Cell) {
        self.touch(cell..cell + 1)[0] = new.0;
    }

    fn look_up(&mut self, upper: u64) -> u32 {
        let number = match self.numbers.get(&upper) {
            Some(number) => *number,
            None if self.chunks.len() > self.most_chunks => return UNWATCHED,
            None => {
                self.chunks.push(Chunk::fresh());
                self.numbers.insert(upper, self.chunks.len() as u32 - 1);
                self.chunks.len() as u32 - 1
            }
        };
        self.looked_up[upper as usize % LOOKED_UP] = (upper, number);
        number
    }

    /// The parts of a range whose chunks there are, each in one chunk.
    pub fn known_parts(&self, cells: Range<u64>) -> Vec<Range<u64>> {
        let first = cells.start >> CHUNK_BITS;
        let uppers = first..cells.end.div_ceil(CHUNK as u64).max(first);
        let part = |upper: u64| cells.start.max(upper << CHUNK_BITS)..cells.end.min((upper + 1) << CHUNK_BITS);
        self.numbers.range(uppers).map(|(upper, _)| part(*upper)).collect()
    }

    /// Forgets a part. Gives the cells back that were not empty.
    pub fn take(&mut self, part: Range<u64>) -> Vec<Cell> {
        let length = (part.end - part.start) as usize;
        let first = part.start as usize % CHUNK;
        let number = self.look_up(part.start >> CHUNK_BITS);
        let chunk = &mut self.chunks[number as usize];
        let taken = chunk.take(first..first + length);
        if length == CHUNK {
            *chunk = Chunk::fresh();
        }
        taken
    }

    /// All cells that there are.
    pub fn iter(&self) -> impl Iterator<Item = Cell> {
        self.chunks.iter().flat_map(Chunk::cells)
    }

    /// How many chunks there are.
    pub fn n_chunks(&self) -> usize {
        self.chunks.len()
    }
}
