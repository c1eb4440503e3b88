//! Which records are worth writing down, where memory that is like much other is looked at in part.
//!
//! Code that goes over a lot of memory does the same to all of it, and writing all of that down takes more time than the code
//! itself. So a unit may be told to look at its addresses first. It tells of a record only if some of its memory is on a strip
//! ([`trace::stream::strips`]) that is looked at. Those are strips that somebody has named, where everything is told; those that certain instructions have
//! come to; and those to which some unit was the first to come, which each may be for a few. There, too, everything is told, or a unit is so
//! often, and then now and then. Since the units themselves keep the table of strips, what is told depends on the run alone, not on how
//! far a reader has got.
//!
//! Looking at addresses takes time as well. So where units are told now and then, hot paths are made of what comes very often, and tell nothing.
//! Each begins with a gate (`cache/gates`), where threads are now and then sent to the units instead. Paths are made from where slices of the clock
//! end, so this, too, depends on the run alone.
//!
//! What orders others is always told: locked instructions, and records in which there is more than accesses.

use super::wishes::Wishes;
use super::{AccessFacts, AccessKind, Target, UnitFacts, access_kind, may_be_atomic, memory_used, repeats};
use iced_x86::{Instruction, InstructionInfoFactory};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use trace::stream::strips::{NUMBERS, STRIP_BITS, STRIP_SIZE};

/// What is told where not everything is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sparing {
    /// The numbers of strips that are looked at from the beginning.
    pub strips: BTreeSet<u16>,
    /// Those that are so as if somebody had been the first to come there.
    pub known: BTreeSet<u16>,
    /// What begins on the strip before one that is looked at is told, too, since it may reach there. Otherwise little is lost.
    pub is_thorough: bool,
    /// How many strips each unit may add by being the first to come there.
    pub few: u32,
    /// How often a unit is told for strips that are named, and for others, before it is so one time in [`NOW_AND_THEN`]. Nothing if it is always
    /// told for all of them.
    pub patience: Option<[u32; 2]>,
    /// Instructions that are told wherever they go, and add the strips that they come to.
    pub steady: BTreeSet<u64>,
    /// So are all instructions of this code.
    pub steady_code: Vec<Range<u64>>,
}

/// One in so many records of a unit is told in the end, where nothing more is expected of them.
pub const NOW_AND_THEN: i32 = 64;

/// Which of the bytes of a strip tells that everything is told there, and which that somebody has come first.
pub const ALWAYS: i8 = 0;
pub const FIRST_COME: i8 = 1;

/// Memory that begins at a distance from a word of the record and is no longer than a strip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Zero for none.
    pub word: u16,
    pub offset: i64,
    pub through_fs: bool,
    /// How far its last byte is from the first.
    pub reach: i64,
}

/// What becomes of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is told, and these strips are looked at from then on.
    Told { marks: Vec<Start> },
    /// It is told if one of these is on a strip that is looked at, or may be added.
    Depends(Vec<Start>),
}

/// What units read and write as long as the process lives. It begins with two bytes for each number of a strip, behind two more, which tell
/// of it (or the next one) whether everything is told there, and whether somebody has come first. The counts of units follow.
#[derive(Clone, Copy)]
pub struct Strips(&'static [AtomicU64]);

const WORDS: usize = 2 * (NUMBERS + 4) / 8;
/// Units beyond these may come first nowhere.
const MOST_UNITS: usize = 1 << 16;

impl Strips {
    fn new(sparing: &Sparing) -> Strips {
        let mut table = Vec::new();
        table.resize_with(WORDS + MOST_UNITS * Allowance::WORDS, AtomicU64::default);
        let strips = Strips(Box::leak(table.into_boxed_slice()));
        sparing.strips.iter().for_each(|number| strips.mark(*number, ALWAYS, sparing.is_thorough));
        sparing.known.iter().for_each(|number| strips.mark(*number, FIRST_COME, sparing.is_thorough));
        strips
    }

    /// Where the bytes for the first number are.
    pub fn address(self) -> u64 {
        self.0.as_ptr() as u64 + 2
    }

    /// Memory that somebody has come to who is no unit.
    pub fn add(self, address: u64, size: u64) {
        let strips = address >> STRIP_BITS..=address.saturating_add(size.max(1) - 1) >> STRIP_BITS;
        strips.take(NUMBERS).for_each(|strip| self.mark(strip as u16, ALWAYS, true));
    }

    /// With the strip before, if that matters; that before the first is the last.
    fn mark(self, number: u16, what: i8, with_that_before: bool) {
        for near in [Some(number), with_that_before.then(|| number.wrapping_sub(1))].into_iter().flatten() {
            let byte = 2 * (usize::from(near) + 1) + what as usize;
            self.0[byte / 8].fetch_or(1 << (8 * (byte % 8)), Ordering::Relaxed);
        }
    }
}

/// The counts of a unit, by how far they are from the bytes of the first strip: how many strips it may still add, how often it is still told
/// for strips that are named and for others, and how often it is not from then on until it is again.
#[derive(Clone, Copy)]
pub struct Allowance {
    pub strips: i32,
    pub at_named: i32,
    pub at_known: i32,
    pub silence: i32,
}

impl Allowance {
    const WORDS: usize = 4;

    fn new(unit: usize) -> Allowance {
        let [strips, at_named, at_known, silence] =
            [0, 1, 2, 3].map(|word| (8 * (WORDS + unit * Allowance::WORDS + word)) as i32 - 2);
        Allowance { strips, at_named, at_known, silence }
    }
}

/// A run in which not everything is told: what is to be told, and the table that units read.
pub struct Spared {
    sparing: Sparing,
    /// Its steady instructions, which every access is looked up in.
    steady: FxHashSet<u64>,
    pub strips: Strips,
    /// The counts of units, by where these begin: who is translated again goes on with them.
    allowances: FxHashMap<u64, Allowance>,
    /// How many there were ever.
    n_units: usize,
}

impl Spared {
    pub fn new(sparing: Sparing) -> Spared {
        let steady = sparing.steady.iter().copied().collect();
        Spared { strips: Strips::new(&sparing), sparing, steady, allowances: FxHashMap::default(), n_units: 0 }
    }

    fn is_steady(&self, pc: u64) -> bool {
        self.steady.contains(&pc) || self.sparing.steady_code.iter().any(|code| code.contains(&pc))
    }

    /// What strips are marked as where units have been that are always told: where units are told now and then, nothing is as if it were named.
    pub fn mark(&self) -> i8 {
        if self.sparing.patience.is_some() { FIRST_COME } else { ALWAYS }
    }

    /// Whether memory matters that may reach to the next strip.
    pub fn is_thorough(&self) -> bool {
        self.sparing.is_thorough
    }

    /// How often a unit is run before it is told now and then, if it ever is: then hot paths, which tell nothing, are allowed, too.
    pub fn patience(&self) -> Option<u64> {
        self.sparing.patience.map(|[_, at_known]| u64::from(at_known))
    }

    /// Whether something in a path is told however often it comes.
    pub fn insists_on(&self, wishes: Wishes<'_>, path: &[Instruction]) -> bool {
        let mut factory = InstructionInfoFactory::new();
        path.iter().any(|instruction| {
            let mut is_atomic = || {
                let mut memory = memory_used(factory.info(instruction), instruction);
                memory.any(|used| access_kind(instruction, used) == AccessKind::Atomic)
            };
            wishes.of(instruction).targets
                || wishes.marks.contains_key(&instruction.ip())
                || wishes.moves_fs_base(instruction)
                || !wishes.leave_out(instruction.ip())
                    && (repeats(instruction)
                        || self.is_steady(instruction.ip())
                        || may_be_atomic(instruction) && is_atomic())
        })
    }

    /// The code in `range` is no longer what it was.
    pub fn forget(&mut self, range: &Range<u64>) {
        self.allowances.retain(|head, _| !range.contains(head));
    }

    /// What the unit at `head` may do by being the first somewhere, if it may.
    pub fn allow(&mut self, head: u64) -> Option<Allowance> {
        if let Some(allowance) = self.allowances.get(&head) {
            return Some(*allowance);
        }
        let [at_named, at_known] = self.sparing.patience.filter(|_| self.n_units < MOST_UNITS)?;
        let first = WORDS + self.n_units * Allowance::WORDS;
        for (word, count) in self.strips.0[first..].iter().zip([self.sparing.few, at_named, at_known, 0]) {
            word.store(u64::from(count), Ordering::Relaxed);
        }
        let allowance = Allowance::new(self.n_units);
        self.allowances.insert(head, allowance);
        self.n_units += 1;
        Some(allowance)
    }

    /// What becomes of a record of a unit of which so many instructions ran.
    pub fn fate(&self, unit: &UnitFacts, executed: u16) -> Fate {
        let ran = || unit.accesses.iter().filter(|access| access.instruction < executed);
        // Pushes are the thread's own affair, and what lies at a fixed place of its own storage mostly is.
        let is_thorough = self.sparing.is_thorough;
        let is_shared =
            |access: &&AccessFacts| !access.is_push_or_pop && (is_thorough || !access.through_fs || access.word != 0);
        let is_steady = |access: &&AccessFacts| {
            let site = unit.sites.get(usize::from(access.instruction));
            access.kind == AccessKind::Atomic || site.is_some_and(|site| self.is_steady(site.pc))
        };
        let has_more = unit.repeats
            || unit
                .sites
                .iter()
                .any(|site| site.mark.is_some() || site.fs_base.is_some() || matches!(site.target, Target::Word(_)));
        if !has_more && !ran().any(|access| is_steady(&access)) {
            return Fate::Depends(starts_of(ran().filter(is_shared)));
        }
        let mut marks =
            starts_of(ran().filter(|access| is_steady(access) || self.sparing.few > 0 && is_shared(access)));
        if unit.repeats {
            // How far that goes is not known beforehand.
            marks.iter_mut().for_each(|start| start.reach = STRIP_SIZE as i64 - 1);
        }
        Fate::Told { marks }
    }
}

/// As few as it takes for some accesses.
fn starts_of<'a>(accesses: impl Iterator<Item = &'a AccessFacts>) -> Vec<Start> {
    let span = |access: &AccessFacts| {
        let end = access.offset.saturating_add(i64::from(access.size.max(1)));
        (access.word, access.through_fs, access.offset, end)
    };
    let mut spans: Vec<(u16, bool, i64, i64)> = accesses.map(span).collect();
    spans.sort_unstable();
    let mut starts: Vec<Start> = Vec::new();
    for (word, through_fs, start, end) in spans {
        let last = starts.last_mut().filter(|last| (last.word, last.through_fs) == (word, through_fs));
        let mut next = start;
        if let Some(last) = last {
            next = start.max(last.offset.saturating_add(STRIP_SIZE as i64));
            last.reach = (end - 1 - last.offset).clamp(last.reach, STRIP_SIZE as i64 - 1);
        }
        while next < end {
            starts.push(Start { word, offset: next, through_fs, reach: (end - next).min(STRIP_SIZE as i64) - 1 });
            next = next.saturating_add(STRIP_SIZE as i64);
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::super::{Held, Site, SiteKind};
    use super::*;

    fn access(instruction: u16, word: u16, offset: i64, kind: AccessKind) -> AccessFacts {
        let (before, after) = (Held::Nowhere, Held::Nowhere);
        AccessFacts {
            instruction,
            word,
            offset,
            through_fs: false,
            size: 8,
            kind,
            is_push_or_pop: false,
            before,
            after,
        }
    }

    fn unit(accesses: Vec<AccessFacts>) -> UnitFacts {
        let site = |pc| Site {
            pc,
            next: pc + 1,
            kind: SiteKind::Plain,
            target: Target::Unknown,
            repeat: None,
            fs_base: None,
            mark: None,
        };
        UnitFacts { sites: (0x10..0x18).map(site).collect(), telling: Vec::new(), accesses, repeats: false }
    }

    fn start(word: u16, offset: i64, reach: i64) -> Start {
        Start { word, offset, through_fs: false, reach }
    }

    #[test]
    fn accesses_that_are_close_to_each_other_are_looked_at_once() {
        use AccessKind::Load;
        let spared = Spared::new(Sparing::default());
        let close = unit(vec![access(0, 1, 64, Load), access(1, 1, 0, Load), access(2, 2, 504, Load)]);
        assert_eq!(spared.fate(&close, 8), Fate::Depends(vec![start(1, 0, 71), start(2, 504, 7)]));
        assert_eq!(spared.fate(&close, 1), Fate::Depends(vec![start(1, 64, 7)]), "what ran");
        let apart = unit(vec![access(0, 1, 0, Load), access(1, 1, 508, Load), access(2, 1, 1020, Load)]);
        let starts = vec![start(1, 0, 511), start(1, 512, 511), start(1, 1024, 3)];
        assert_eq!(spared.fate(&apart, 8), Fate::Depends(starts));
    }

    #[test]
    fn what_orders_others_is_always_told() {
        use AccessKind::{Atomic, Load};
        let sparing = Sparing { steady: [0x12].into(), ..Sparing::default() };
        let spared = Spared::new(sparing.clone());
        let told = |marks| Fate::Told { marks };
        let atomic = unit(vec![access(0, 1, 0, Load), access(1, 2, 0, Atomic)]);
        assert_eq!(spared.fate(&atomic, 2), told(vec![start(2, 0, 7)]));
        assert_eq!(spared.fate(&atomic, 1), Fate::Depends(vec![start(1, 0, 7)]), "it has not come to that");
        let steady = unit(vec![access(0, 1, 0, Load), access(2, 2, 0, Load)]);
        assert_eq!(spared.fate(&steady, 8), told(vec![start(2, 0, 7)]));
        let repeated = UnitFacts { repeats: true, ..unit(vec![access(0, 1, 0, Load)]) };
        assert_eq!(spared.fate(&repeated, 8), told(vec![]));
        let mut adding = Spared::new(Sparing { few: 1, patience: Some([1, 1]), ..sparing });
        assert_eq!(adding.fate(&repeated, 8), told(vec![start(1, 0, 511)]));
        assert_eq!(adding.fate(&steady, 8), told(vec![start(1, 0, 7), start(2, 0, 7)]));
        assert!(adding.allow(0x10).is_some() && Spared::new(Sparing::default()).allow(0x10).is_none());
    }
}
