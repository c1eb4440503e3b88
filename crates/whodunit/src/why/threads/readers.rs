//! The reads of memory that a failure depends on.

use crate::why::chain::{number, stores};
use crate::why::endings;
use crate::why::sites::Sites;
use crate::why::slice::Slice;
use crate::why::suspects;
use analysis::neighbours::Watched;
use session::rerun::{Definition, Ending, Origins, Outcome};
use std::collections::BTreeSet;

/// So many reads are looked at, the likeliest.
const MOST_READERS: usize = 256;

/// A read that the failure depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reader {
    pub thread: u32,
    pub pc: u64,
    pub watched: Watched,
    pub value: u64,
}

/// The likeliest first: what the failing value was made of, then what decided on it, then what the failing functions decided
/// by; of each, the latest.
pub fn of(outcome: &Outcome, sites: &Sites) -> Vec<Reader> {
    let Some(origins) = &outcome.origins else { return Vec::new() };
    let slice = Slice::new(origins, sites);
    let roots = roots(outcome, origins, sites);
    let branches: Vec<u32> = roots.iter().chain(&origins.branches).copied().collect();
    let levels = [slice.reached(&roots, false), slice.reached(&roots, true), slice.reached(&branches, true)];
    let mut known = BTreeSet::new();
    let mut readers = Vec::new();
    for number in levels.iter().flat_map(|level| level.keys().rev()) {
        let read = slice.get(*number).filter(|read| !sites.is_in_loader(self::number(&read.pc)));
        if let Some(reader) = read.and_then(reader).filter(|reader| known.insert(*reader)) {
            readers.push(reader);
        }
    }
    readers.truncate(MOST_READERS);
    readers
}

/// A status is one of the values of the call that ended the program.
fn roots(outcome: &Outcome, origins: &Origins, sites: &Sites) -> Vec<u32> {
    let Ending::Exited { status } = outcome.ending else {
        return suspects::roots(endings::fault_of(outcome, sites), outcome, sites);
    };
    let is_status = |root: &&u32| {
        let made = origins.definitions.iter().find(|definition| definition.number == **root);
        made.is_some_and(|made| number(&made.value) == status as u64)
    };
    let values = origins.failure.iter().flat_map(|failure| &failure.values);
    values.filter(is_status).copied().collect()
}

fn reader(definition: &Definition) -> Option<Reader> {
    let memory = definition.memory.as_ref()?;
    let from = match (&memory.from, stores(definition)) {
        (Some(from), _) => number(from),
        (None, false) => number(&memory.address),
        // An instruction that changes memory reads it, too.
        (None, true) if !definition.copies => number(&memory.address),
        (None, true) => return None,
    };
    let watched = Watched { address: from, size: u64::from(memory.size.max(1)) };
    let (pc, value) = (number(&definition.pc), number(&definition.value));
    Some(Reader { thread: definition.thread, pc, watched, value })
}
