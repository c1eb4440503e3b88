//! A first look at a long run: the memory at which threads meet.
//!
//! Most memory of a run is one thread's, and most instructions come to nothing else. So before pairs are looked for, it is found out which memory
//! several threads access, one of them writing; and then ([`visitors`](super::visitors)) which instructions come there.

use super::chunks::Chunks;
use super::scope::{CodeRole, Scope};
use crate::races::shapes::{Concern, Shapes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use trace::stream::records::Records;
use trace::stream::{Access, Event, Listener, Site, Thread};

/// Memory is told apart in pieces of so many bytes, as the C library's allocator does.
const PIECE: u64 = 16;
/// A chunk is for a megabyte.
pub(super) const CHUNK: usize = (1 << 20) / PIECE as usize;
/// Of a longer access, only so many pieces are looked at.
const LONGEST: u64 = 1 << 15;

/// Whose a piece is: zero, or one more than a thread's number, with these marks.
type Owner = u32;
const WRITTEN: Owner = 1 << 30;
const SEVERAL: Owner = 1 << 31;
const MET: Owner = WRITTEN | SEVERAL;

/// Memory at which threads meet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeetingPlaces {
    /// Beginnings and ends, in ascending order.
    pub ranges: Vec<(u64, u64)>,
    /// How many accesses the run has.
    pub accesses: u64,
}

/// Finds out which memory that is.
pub struct PlaceSeeker {
    scope: Scope,
    /// By the stream's numbers.
    sites: Vec<CodeRole>,
    shapes: Shapes,
    owners: Chunks<Owner, CHUNK>,
    /// Where threads have met, whatever became of the memory.
    met: Chunks<bool, CHUNK>,
    blocks: BTreeMap<u64, u64>,
    accesses: u64,
}

impl PlaceSeeker {
    pub fn new(scope: Scope) -> PlaceSeeker {
        PlaceSeeker {
            scope,
            sites: Vec::new(),
            shapes: Shapes::default(),
            owners: Chunks::default(),
            met: Chunks::default(),
            blocks: BTreeMap::new(),
            accesses: 0,
        }
    }

    pub fn into_places(mut self) -> MeetingPlaces {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        self.met.for_each_known(0..=u64::MAX / PIECE, |piece, _| {
            let (start, end) = (piece * PIECE, (piece + 1).saturating_mul(PIECE));
            match ranges.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => ranges.push((start, end)),
            }
        });
        MeetingPlaces { ranges, accesses: self.accesses }
    }

    #[inline]
    fn touch(&mut self, thread: Thread, (address, size): (u64, u64), writes: bool) {
        let own = thread.saturating_add(1) & (WRITTEN - 1);
        let wanted = if writes { WRITTEN } else { 0 };
        let (first, last) = (address / PIECE, address.saturating_add(size.max(1) - 1) / PIECE);
        let is_known = |owner: Owner| owner & MET == MET || owner & !WRITTEN == own && owner & wanted == wanted;
        if let Some(owners) = self.owners.row(first, (last - first + 1) as usize)
            && owners.iter().all(|owner| is_known(*owner))
        {
            return;
        }
        for piece in first..=last.min(first + LONGEST) {
            self.touch_piece(own, piece, wanted);
        }
    }

    fn touch_piece(&mut self, own: Owner, piece: u64, wanted: Owner) {
        let owner = self.owners.at(piece);
        if *owner & !MET == 0 {
            *owner = own;
        }
        *owner |= wanted | if *owner & !MET == own { 0 } else { SEVERAL };
        if *owner & MET == MET {
            *self.met.at(piece) = true;
        }
    }

    /// Who gives a block back writes to it, where anybody has been.
    fn freed(&mut self, thread: Thread, address: u64) {
        let Some(size) = self.blocks.remove(&address) else { return };
        let mut pieces = Vec::new();
        self.owners.for_each_known(pieces_of(address, size), |piece, _| pieces.push(piece));
        for piece in pieces {
            self.touch_piece(thread.saturating_add(1) & (WRITTEN - 1), piece, WRITTEN);
        }
    }

    /// The memory is another one from now on. What lies beside it in a piece is not.
    fn forget(&mut self, address: u64, size: u64) {
        let (first, end) = (address.div_ceil(PIECE), address.saturating_add(size) / PIECE);
        if first < end {
            self.owners.for_each_known(first..=end - 1, |_, owner| *owner = 0);
        }
    }
}

/// The numbers of the pieces that some bytes are in.
pub(super) fn pieces_of(address: u64, size: u64) -> RangeInclusive<u64> {
    address / PIECE..=address.saturating_add(size.max(1) - 1) / PIECE
}

impl Listener for PlaceSeeker {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        self.accesses += accesses.len() as u64;
        for access in accesses {
            if self.sites[access.site.0 as usize].concerns(access.kind) {
                self.touch(thread, (access.address, u64::from(access.size)), access.kind.writes());
            }
        }
    }

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        let mut length = 0;
        for record in records.plain() {
            length += record.words.len();
            self.accesses += u64::from(record.accesses);
            let sites = &self.sites;
            let shape = self.shapes.of(record.number, records.patterns, |template| {
                if sites[template.site.0 as usize].concerns(template.kind) { Concern::Plain } else { Concern::None }
            });
            for number in shape.parts() {
                let part = self.shapes.part(number);
                let place = (part.address(record.words, records.fs_base), u64::from(part.size));
                self.touch(thread, place, part.writes);
            }
        }
        length
    }

    fn reads_records(&self) -> bool {
        true
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        match *event {
            Event::Allocated { address, size, .. } => {
                self.blocks.insert(address, size);
                self.forget(address, size);
            }
            Event::Freed { address, .. } => self.freed(thread, address),
            Event::Mapped { address, size } => self.forget(address, size),
            _ => {}
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sites.resize(self.sites.len().max(site.0 as usize + 1), CodeRole::IGNORED);
        self.sites[site.0 as usize] = self.scope.role(pc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::stream::AccessKind::{Read, Write};

    fn access(address: u64, kind: trace::stream::AccessKind) -> [Access; 1] {
        [Access { address, size: 8, site: Site(0), kind }]
    }

    fn ranges(seeker: PlaceSeeker) -> Vec<(u64, u64)> {
        seeker.into_places().ranges
    }

    fn seeker() -> PlaceSeeker {
        let mut seeker = PlaceSeeker::new(Scope::default());
        seeker.site(Site(0), 0x10);
        seeker
    }

    #[test]
    fn threads_meet_where_one_of_several_writes() {
        let mut seeker = seeker();
        seeker.accesses(1, &access(0x1000, Write));
        seeker.accesses(2, &access(0x1008, Read));
        seeker.accesses(1, &access(0x1010, Read));
        seeker.accesses(2, &access(0x1010, Read));
        seeker.accesses(1, &access(0x1010, Write));
        seeker.accesses(1, &access(0x1020, Write));
        seeker.accesses(1, &access(0x1030, Read));
        seeker.accesses(2, &access(0x1030, Read));
        assert_eq!(seeker.accesses, 8);
        assert_eq!(ranges(seeker), [(0x1000, 0x1020)]);
    }

    #[test]
    fn a_block_is_another_ones_memory_after_it_was_given_back() {
        let block = |address| Event::Allocated { address, size: 32, site: 0 };
        let mut seeker = seeker();
        seeker.event(1, &block(0x2000));
        seeker.accesses(1, &access(0x2000, Write));
        seeker.event(1, &Event::Freed { address: 0x2000, site: 0 });
        seeker.event(2, &block(0x2000));
        seeker.accesses(2, &access(0x2010, Write));
        seeker.event(1, &Event::Freed { address: 0x2000, site: 0 });
        assert_eq!(ranges(seeker), [(0x2010, 0x2020)], "who gives it back meets who wrote to it");
    }
}
