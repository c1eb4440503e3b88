//! Bytes around moved objects that nobody may write: laid, compared, and told of where they were broken.

use crate::debug::{Watch, Watching};
use crate::kernel;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What guards stand around.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guarded {
    /// A block of the heap, and where its allocation returned to.
    Block {
        site: u64,
    },
    /// A block that was given back; the guard is the block itself.
    Freed {
        site: u64,
    },
    Global,
    Local,
}

/// An object whose guard was written to.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Guards are numbered in the order in which they are laid, from one.
    pub number: u32,
    pub what: Guarded,
    pub name: String,
    pub object: Range<u64>,
    /// The broken byte that is nearest to the object.
    pub address: u64,
    /// The instruction that did it, if the guard was watched.
    pub by: Option<u64>,
    /// Of a block whose guard was watched, the calls that led to its allocation, the innermost first.
    pub callers: Vec<u64>,
}

/// What a run with another layout shows.
#[derive(Clone, Debug, Default)]
pub struct Relaid {
    /// How many guards were laid around blocks, globals and variables of frames.
    pub blocks: u64,
    pub globals: u64,
    pub locals: u64,
    pub broken: Vec<Broken>,
}

struct Guard {
    what: Guarded,
    name: String,
    object: Range<u64>,
    zones: Vec<Range<u64>>,
    callers: Vec<u64>,
}

/// So many broken guards are told of.
const MOST_TOLD: usize = 8;

#[derive(Default)]
pub struct Guards {
    guards: BTreeMap<u32, Guard>,
    wanted: BTreeSet<u32>,
    last: u32,
    told: Relaid,
    /// A guard that is to be watched has been laid or taken away.
    is_news: bool,
}

impl Guards {
    pub fn new(wanted: BTreeSet<u32>) -> Guards {
        Guards { wanted, ..Guards::default() }
    }

    /// Lays a guard of so many bytes before and behind an object.
    pub fn add(&mut self, what: Guarded, name: &str, object: Range<u64>, [before, behind]: [u64; 2]) -> u32 {
        let zones = vec![object.start - before..object.start, object.end..object.end + behind];
        match what {
            Guarded::Block { .. } => self.told.blocks += 1,
            Guarded::Global => self.told.globals += 1,
            Guarded::Local => self.told.locals += 1,
            Guarded::Freed { .. } => {}
        }
        self.lay(Guard { what, name: name.to_owned(), object, zones, callers: Vec::new() })
    }

    /// Lays a guard over what was a block.
    pub fn cover(&mut self, object: Range<u64>, covered: u64, site: u64) -> u32 {
        let zones = std::iter::once(object.start..object.start + covered).collect();
        self.lay(Guard { what: Guarded::Freed { site }, name: String::new(), object, zones, callers: Vec::new() })
    }

    fn lay(&mut self, mut guard: Guard) -> u32 {
        self.last += 1;
        // Frames of one function may lie close together; what belongs to an object is no guard.
        let others: Vec<Range<u64>> = match guard.what {
            Guarded::Local => self.objects_near(&guard.zones),
            _ => Vec::new(),
        };
        guard.zones = guard.zones.into_iter().map(|zone| clear_of(zone, &guard.object, &others)).collect();
        for zone in &guard.zones {
            let bytes: Vec<u8> = zone.clone().map(pattern).collect();
            let _ = kernel::write_bytes(zone.start, &bytes);
        }
        self.is_news |= self.wanted.contains(&self.last);
        self.guards.insert(self.last, guard);
        self.last
    }

    fn objects_near(&self, zones: &[Range<u64>]) -> Vec<Range<u64>> {
        let locals = self.guards.values().filter(|guard| guard.what == Guarded::Local);
        let near = |object: &Range<u64>| zones.iter().any(|zone| zone.start < object.end && object.start < zone.end);
        locals.map(|guard| guard.object.clone()).filter(near).collect()
    }

    /// Keeps who asked for the object, if the guard is watched.
    pub fn note_callers(&mut self, number: u32, callers: impl FnOnce() -> Vec<u64>) {
        if let Some(guard) = self.guards.get_mut(&number).filter(|_| self.wanted.contains(&number)) {
            guard.callers = callers();
        }
    }

    /// Compares a guard for the last time and takes it away.
    pub fn retire(&mut self, number: u32) {
        self.compare(number, None);
        self.guards.remove(&number);
        self.is_news |= self.wanted.contains(&number);
    }

    fn compare(&mut self, number: u32, by: Option<u64>) {
        let Some(guard) = self.guards.get(&number) else { return };
        let is_told = self.told.broken.iter().any(|broken| broken.number == number);
        if is_told || self.told.broken.len() == MOST_TOLD {
            return;
        }
        let broken = guard.zones.iter().filter_map(|zone| broken_in(zone, &guard.object)).next_back();
        if let Some(address) = broken {
            let Guard { what, name, object, callers, .. } = guard;
            let (name, object, callers) = (name.clone(), object.clone(), callers.clone());
            self.told.broken.push(Broken { number, what: *what, name, object, address, by, callers });
        }
    }

    pub fn has_broken(&self) -> bool {
        !self.told.broken.is_empty()
    }

    /// Compares the watched guards; tells whether one of them is broken.
    pub fn compare_watched(&mut self, by: u64) -> bool {
        let watched: Vec<u32> = self.wanted.iter().copied().collect();
        watched.into_iter().for_each(|number| self.compare(number, Some(by)));
        self.has_broken()
    }

    /// What is to be watched, if that has changed.
    pub fn new_watches(&mut self) -> Option<Vec<Watch>> {
        if !std::mem::take(&mut self.is_news) {
            return None;
        }
        let watched = self.wanted.iter().filter_map(|number| self.guards.get(number));
        let zones = watched.flat_map(|guard| &guard.zones).filter(|zone| !zone.is_empty());
        Some(zones.map(|zone| Watch { range: zone.clone(), what: Watching::Changes }).collect())
    }

    /// Compares all guards and tells of the run.
    pub fn told(&mut self) -> Relaid {
        let numbers: Vec<u32> = self.guards.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.compare(number, None));
        self.told.clone()
    }
}

/// What guards hold: hardly ever what somebody writes.
fn pattern(address: u64) -> u8 {
    (address as u8).wrapping_mul(0x3b) ^ 0xa5
}

/// The part of a zone next to its object that no other object lies in.
fn clear_of(zone: Range<u64>, object: &Range<u64>, others: &[Range<u64>]) -> Range<u64> {
    let others = others.iter().filter(|other| other.start < zone.end && zone.start < other.end);
    if zone.start >= object.end {
        let end = others.map(|other| other.start).min().unwrap_or(zone.end).clamp(zone.start, zone.end);
        zone.start..end
    } else {
        let start = others.map(|other| other.end).max().unwrap_or(zone.start).clamp(zone.start, zone.end);
        start..zone.end
    }
}

/// The broken byte of a zone that is nearest to the object.
fn broken_in(zone: &Range<u64>, object: &Range<u64>) -> Option<u64> {
    let mut bytes = vec![0; (zone.end - zone.start) as usize];
    kernel::read_bytes(zone.start, &mut bytes).ok()?;
    let mut broken = zone.clone().zip(bytes).filter(|(address, byte)| *byte != pattern(*address));
    let found = if zone.start >= object.start { broken.next() } else { broken.last() };
    found.map(|(address, _)| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_end_where_another_object_lies() {
        assert_eq!(clear_of(120..200, &(100..120), &[]), 120..200);
        assert_eq!(clear_of(120..200, &(100..120), &[150..160, 180..190]), 120..150);
        assert_eq!(clear_of(120..200, &(100..120), &[110..130, 500..510]), 120..120, "right behind it");
        assert_eq!(clear_of(60..100, &(100..120), &[50..80, 500..510]), 80..100);
    }

    #[test]
    fn the_nearest_broken_byte_is_told_and_only_what_is_wanted_is_watched() {
        let mut memory: Vec<u8> = vec![0; 64];
        let start = memory.as_mut_ptr() as u64;
        let object = start + 24..start + 40;
        let mut guards = Guards::new(BTreeSet::from([2]));
        guards.add(Guarded::Global, "first", object.clone(), [8, 8]);
        assert!(guards.new_watches().is_none() && guards.told().broken.is_empty());
        kernel::write_bytes(object.end + 3, &[0, 0, 0, 0]).expect("in the block");
        guards.add(Guarded::Global, "second", start + 48..start + 56, [0, 8]);
        assert_eq!(guards.new_watches().map(|watches| watches.len()), Some(1), "an empty zone is not watched");
        let told = guards.told();
        assert_eq!(told.broken.len(), 1);
        assert_eq!((told.broken[0].number, told.broken[0].address), (1, object.end + 3));
        kernel::write_bytes(start + 56, &[0; 8]).expect("in the block");
        assert!(guards.compare_watched(7));
        assert_eq!(guards.told().broken[1].by, Some(7));
    }
}
