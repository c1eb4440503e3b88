//! The pairs of a run while it is heard.

use super::cells::Stamp;
use super::collected::{Occurrence, Placed, SeenPair};
use super::stamps::{Turns, UNPLACED, Who, Whos};
use super::{Deed, End};
use rustc_hash::FxHashMap;
use trace::stream::Thread;

/// How many bytes' addresses of a pair are kept, to tell variables apart.
const MOST_PLACES: usize = 4;
/// How many pairs of threads are kept of a pair.
const MOST_DIRECTIONS: usize = 64;
/// How many occurrences of a pair are kept with their iterations.
const MOST_OCCURRENCES: usize = 256;

/// A pair that was heard by chance only counts if it came so often: it would be heard in other runs, too.
const TIMES_BY_CHANCE: u64 = 4;

/// How many pairs are looked up without a table.
const REMEMBERED: usize = 1 << 12;

/// Pairs by the numbers of their instructions.
pub(super) struct Gathered {
    numbers: FxHashMap<(u32, Deed, u32, Deed), usize>,
    pairs: Vec<Raw>,
    /// Pairs that came a moment ago: by whom, and their numbers.
    lately: Vec<(Meeting, usize)>,
}

/// Who met whom, by numbers of [`Whos`].
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Meeting {
    head: u32,
    tail: u32,
    head_writes: bool,
    tail_writes: bool,
}

impl Meeting {
    fn hash(self) -> usize {
        let deeds = usize::from(self.head_writes) << 1 | usize::from(self.tail_writes);
        (self.head as usize).wrapping_mul(0x9e37_79b1) ^ (self.tail as usize) << 2 ^ deeds
    }
}

struct Raw {
    head: (u32, Deed),
    tail: (u32, Deed),
    first: Occurrence,
    times: u64,
    /// Not by chance: all accesses to its memory were looked at.
    is_sure: bool,
    directions: Vec<(Thread, Thread)>,
    elsewhere: Vec<Occurrence>,
    places: Vec<u64>,
    occurrences: Vec<Placed>,
}

/// Where two accesses met.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub address: u64,
    /// Everybody who came there was looked at.
    pub is_sure: bool,
}

impl Default for Gathered {
    fn default() -> Gathered {
        let nobody = (Meeting::default(), usize::MAX);
        Gathered { numbers: FxHashMap::default(), pairs: Vec::new(), lately: vec![nobody; REMEMBERED] }
    }
}

impl Gathered {
    /// In the order in which they first came. `end` tells an end by the number of its instruction.
    pub fn seen(&self, end: impl Fn(u32, Deed) -> End) -> Vec<SeenPair> {
        let told = self.pairs.iter().filter(|raw| raw.is_sure || raw.times >= TIMES_BY_CHANCE);
        let seen = told.map(|raw| SeenPair {
            head: end(raw.head.0, raw.head.1),
            tail: end(raw.tail.0, raw.tail.1),
            first: raw.first,
            times: raw.times,
            directions: raw.directions.clone(),
            elsewhere: raw.elsewhere.clone(),
            places: raw.places.clone(),
            occurrences: raw.occurrences.clone(),
        });
        seen.collect()
    }

    /// The numbers of the instructions of each pair.
    pub fn instructions(&self) -> impl Iterator<Item = (u32, u32)> {
        self.pairs.iter().map(|raw| (raw.head.0, raw.tail.0))
    }

    #[inline]
    pub fn add(&mut self, head: (Stamp, Deed), tail: (Stamp, Deed), at: At, whos: &Whos, turns: &Turns) {
        let (head_writes, tail_writes) = (head.1 == Deed::Write, tail.1 == Deed::Write);
        let meeting = Meeting { head: head.0.who(), tail: tail.0.who(), head_writes, tail_writes };
        let place = meeting.hash() % REMEMBERED;
        match self.lately[place] {
            // By the same threads.
            (before, number) if before == meeting => {
                let pair = &mut self.pairs[number];
                pair.times += 1;
                pair.is_sure |= at.is_sure;
                pair.add_place(at.address);
            }
            _ => {
                let number = self.note(head, tail, at, whos, turns);
                if whos.of(tail.0).position == UNPLACED {
                    self.lately[place] = (meeting, number);
                }
            }
        }
    }

    fn note(&mut self, head: (Stamp, Deed), tail: (Stamp, Deed), at: At, whos: &Whos, turns: &Turns) -> usize {
        let (head_who, tail_who) = (whos.of(head.0), whos.of(tail.0));
        let moment = |who: Who, stamp: Stamp| turns.moment(who.thread, stamp.order());
        let address = at.address;
        let occurrence = Occurrence { head: moment(head_who, head.0), tail: moment(tail_who, tail.0), address };
        let key = (head_who.number, head.1, tail_who.number, tail.1);
        let number = *self.numbers.entry(key).or_insert(self.pairs.len());
        if number == self.pairs.len() {
            self.pairs.push(Raw {
                head: (head_who.number, head.1),
                tail: (tail_who.number, tail.1),
                first: occurrence,
                times: 0,
                is_sure: false,
                directions: Vec::new(),
                elsewhere: Vec::new(),
                places: Vec::new(),
                occurrences: Vec::new(),
            });
        }
        self.pairs[number].is_sure |= at.is_sure;
        self.pairs[number].note(occurrence);
        if head_who.position != UNPLACED && tail_who.position != UNPLACED {
            self.pairs[number].place(Placed { occurrence, head: head_who.position, tail: tail_who.position });
        }
        number
    }
}

impl Raw {
    fn place(&mut self, placed: Placed) {
        let is_news = self.occurrences.last().is_none_or(|last| !last.is_like(&placed));
        if self.occurrences.len() < MOST_OCCURRENCES && is_news {
            self.occurrences.push(placed);
        }
    }

    fn note(&mut self, occurrence: Occurrence) {
        self.times += 1;
        if let Err(place) = self.directions.binary_search(&occurrence.direction())
            && self.directions.len() < MOST_DIRECTIONS
        {
            self.directions.insert(place, occurrence.direction());
            if occurrence.direction() != self.first.direction() {
                self.elsewhere.push(occurrence);
            }
        }
        self.add_place(occurrence.address);
    }

    #[inline]
    fn add_place(&mut self, address: u64) {
        if self.places.len() < MOST_PLACES
            && let Err(place) = self.places.binary_search(&address)
        {
            self.places.insert(place, address);
        }
    }
}
