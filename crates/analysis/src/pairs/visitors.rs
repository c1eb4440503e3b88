//! A second look at a long run: the instructions that come to the memory at which threads meet, and those of them that go over a lot of it.

use super::chunks::Chunks;
use super::places::{CHUNK, MeetingPlaces, pieces_of};
use super::scope::{CodeRole, Scope};
use super::sweeps::lines_of;
use crate::races::shapes::{Concern, Shapes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trace::stream::records::Records;
use trace::stream::{Access, Event, Listener, Site, Thread};

/// An instruction that comes to so many lines sweeps: 64 KB. So does one that comes to more than two at once.
const MANY_LINES: u32 = 128;
/// Lines that an instruction has come to are counted by bits, of which several lines may share one.
const BITS: usize = 4 * MANY_LINES as usize;
/// After so many looks at records of a pattern, there may be nothing more to learn of its instructions.
const LOOKS: u32 = 256;

/// Instructions that come to memory at which threads meet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visitors {
    pub instructions: BTreeSet<u64>,
    /// Those that come to very many lines of it.
    pub sweeping: BTreeSet<u64>,
}

/// What is known of an instruction.
struct Visits {
    pc: u64,
    role: CodeRole,
    is_visiting: bool,
    count: u32,
    /// The line that it came to last.
    last: u64,
    /// By a hash of the lines that it has come to.
    seen: [u64; BITS / 64],
}

impl Visits {
    fn is_sweeping(&self) -> bool {
        self.count >= MANY_LINES
    }

    fn come_to(&mut self, line: u64) {
        self.is_visiting = true;
        if self.last == line {
            return;
        }
        self.last = line;
        let bit = (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % BITS;
        let word = &mut self.seen[bit / 64];
        self.count += u32::from(*word >> (bit % 64) & 1 == 0);
        *word |= 1 << (bit % 64);
    }
}

/// How far the instructions of a pattern are known.
#[derive(Clone, Copy, Default)]
struct Acquaintance {
    looks: u32,
    /// All of them sweep.
    is_over: bool,
}

/// Finds out which instructions these are.
pub struct VisitorSeeker {
    scope: Scope,
    places: Chunks<bool, CHUNK>,
    /// By the stream's numbers.
    sites: Vec<Option<Visits>>,
    shapes: Shapes,
    /// By the numbers of patterns.
    known: Vec<Acquaintance>,
}

impl VisitorSeeker {
    pub fn new(scope: Scope, places: &MeetingPlaces) -> VisitorSeeker {
        let mut pieces = Chunks::default();
        for &(start, end) in &places.ranges {
            pieces_of(start, end - start).for_each(|piece| *pieces.at(piece) = true);
        }
        VisitorSeeker { scope, places: pieces, sites: Vec::new(), shapes: Shapes::default(), known: Vec::new() }
    }

    pub fn into_visitors(self) -> Visitors {
        let visiting = || self.sites.iter().flatten().filter(|site| site.is_visiting);
        Visitors {
            instructions: visiting().map(|site| site.pc).collect(),
            sweeping: visiting().filter(|site| site.is_sweeping()).map(|site| site.pc).collect(),
        }
    }

    /// Whether threads meet at some bytes, or right beside them.
    #[inline]
    fn is_place(&mut self, address: u64, size: u64) -> bool {
        let mut pieces = pieces_of(address, size);
        match self.places.row(*pieces.start(), (pieces.end() - pieces.start() + 1) as usize) {
            Some(pieces) => pieces.iter().any(|is_place| *is_place),
            None => pieces.any(|piece| *self.places.at(piece)),
        }
    }

    fn look(&mut self, access: &Access) {
        let (address, size) = (access.address, u64::from(access.size));
        if !self.is_place(address, size) {
            return;
        }
        let Some(Some(visits)) = self.sites.get_mut(access.site.0 as usize) else { return };
        if visits.role.concerns(access.kind) && !visits.is_sweeping() {
            let (first, last) = lines_of(address, size);
            (first..=last).for_each(|line| visits.come_to(line));
            if last - first > 1 {
                visits.count = MANY_LINES;
            }
        }
    }

    /// A record of a pattern has been looked at.
    fn looked_at(&mut self, pattern: u32, records: &Records<'_>) {
        let known = &mut self.known[pattern as usize];
        known.looks = known.looks.wrapping_add(1);
        if known.looks.is_multiple_of(LOOKS) {
            let mut templates = records.patterns.templates(pattern).iter();
            known.is_over = templates.all(|template| match &self.sites[template.site.0 as usize] {
                Some(visits) => visits.is_sweeping() || !visits.role.concerns(template.kind),
                None => true,
            });
        }
    }
}

impl Listener for VisitorSeeker {
    fn accesses(&mut self, _: Thread, accesses: &[Access]) {
        accesses.iter().for_each(|access| self.look(access));
    }

    fn records(&mut self, _: Thread, records: &Records<'_>) -> usize {
        let mut length = 0;
        for record in records.plain() {
            length += record.words.len();
            let number = record.number as usize;
            self.known.resize(self.known.len().max(number + 1), Acquaintance::default());
            if self.known[number].is_over {
                continue;
            }
            let shape = self.shapes.of(record.number, records.patterns, |_| Concern::Plain);
            let is_visiting = shape.parts().any(|part| {
                let part = self.shapes.part(part);
                self.is_place(part.address(record.words, records.fs_base), u64::from(part.size))
            });
            if is_visiting {
                for template in records.patterns.templates(record.number) {
                    self.look(&template.access(record.words, records.fs_base));
                }
                self.looked_at(record.number, records);
            }
        }
        length
    }

    fn reads_records(&self) -> bool {
        true
    }

    fn event(&mut self, _: Thread, _: &Event) {}

    fn site(&mut self, site: Site, pc: u64) {
        let length = self.sites.len().max(site.0 as usize + 1);
        self.sites.resize_with(length, || None);
        let (role, seen) = (self.scope.role(pc), [0; BITS / 64]);
        self.sites[site.0 as usize] = Some(Visits { pc, role, is_visiting: false, count: 0, last: u64::MAX, seen });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::stream::AccessKind::{Read, Write};

    #[test]
    fn instructions_are_told_by_where_they_come() {
        let places = MeetingPlaces { ranges: vec![(0x10_0000, 0x80_0000)], accesses: 0 };
        let mut seeker = VisitorSeeker::new(Scope::default(), &places);
        (0..4).for_each(|site| seeker.site(Site(site), u64::from(site) * 0x10));
        for time in 0..10_000 {
            let private = Access { address: time * 64, size: 8, site: Site(0), kind: Write };
            let swept = Access { address: 0x10_0000 + time * 64, size: 8, site: Site(1), kind: Write };
            let few = Access { address: 0x10_0000 + time % 60 * 512, size: 8, site: Site(2), kind: Read };
            seeker.accesses(1, &[private, swept, few]);
        }
        let visitors = seeker.into_visitors();
        assert_eq!(visitors.instructions, [0x10, 0x20].into());
        assert_eq!(visitors.sweeping, [0x10].into());
    }
}
