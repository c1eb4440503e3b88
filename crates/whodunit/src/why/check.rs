//! The memory check of the instant at which something was first corrupted: whose memory the store was meant for, and whose
//! it wrote to.

use super::chain::{End, Trail, number};
use super::sites::{Area, Sites};
use crate::inquiry::{self, Subject, Task};
use crate::study::Study;
use crate::study::blocks::{Judged, Question};
use session::rerun::{Definition, Origins};
use std::collections::BTreeMap;
use std::path::Path;
use trace::finding::Class;

/// What a check has found.
pub struct Check {
    pub class: Option<Class>,
    /// Where the memory lies, as the end of a sentence.
    pub text: Option<String>,
}

/// Checks the store at the end of a trail.
pub fn check(trail: &Trail, origins: &Origins, sites: &Sites, folder: &Path, log: u32) -> Check {
    let stored =
        trail.origin().and_then(|origin| Some((origin, origin.memory.as_ref().filter(|memory| memory.writes)?)));
    let Some((origin, memory)) = stored else { return Check { class: None, text: None } };
    // A wide store may have begun in the right place: what counts is the memory that was read from then.
    let read = trail.path.iter().rev().nth(1).and_then(|read| read.memory.as_ref()).filter(|read| !read.writes);
    let stored = number(&memory.address)..number(&memory.address) + u64::from(memory.size);
    let read = read.map(|read| number(&read.address)).filter(|read| stored.contains(read));
    let address = read.unwrap_or(stored.start);
    let base = base_of(origin, origins, sites);
    match sites.area(address) {
        Area::Heap => {
            let question = Question { pc: number(&origin.pc), address, base };
            heap(&blocks_at(question, folder, log), address)
        }
        Area::Global => global(address, base, trail.end, sites),
        Area::Stack if trail.end == End::Moved => {
            Check { class: Some(Class::StackOverflow), text: Some("on the stack".to_owned()) }
        }
        Area::Stack => Check { class: None, text: Some("on the stack".to_owned()) },
        Area::Nowhere => Check { class: None, text: None },
    }
}

/// A replay that cannot answer leaves the class open.
fn blocks_at(question: Question, folder: &Path, log: u32) -> Judged {
    let subject = Subject { folder, log, until: None };
    let answer = inquiry::ask(&subject, &Task::Study { study: Study::BlocksAt(question), allocators: Vec::new() });
    answer.ok().and_then(|answer| serde_json::from_value(answer).ok()).unwrap_or_default()
}

fn heap(judged: &Judged, address: u64) -> Check {
    let (class, text) = match judged {
        Judged { block: None, freed: Some(block), .. } => {
            let text = format!("in a block of {} bytes that had been given back", block.size);
            (Some(Class::UseAfterFree), text)
        }
        Judged { meant: Some(meant), .. } if !(meant.address..meant.address + meant.size).contains(&address) => {
            let end = meant.address + meant.size;
            let (distance, side) =
                if address >= end { (address - end, "past the end of") } else { (meant.address - address, "before") };
            (Some(Class::HeapOverflow), format!("{distance} bytes {side} a block of {} bytes", meant.size))
        }
        Judged { block: Some(block), .. } => {
            (None, format!("{} bytes into a block of {} bytes", address - block.address, block.size))
        }
        _ => (Some(Class::HeapOverflow), "between blocks of the heap".to_owned()),
    };
    Check { class, text: Some(text) }
}

fn global(address: u64, base: Option<u64>, end: End, sites: &Sites) -> Check {
    let (written, meant) = (sites.symbol(address), base.and_then(|base| sites.symbol(base)));
    let is_other = match (&written, &meant) {
        (Some(written), Some(meant)) => written.name != meant.name || meant.offset >= meant.size.max(1),
        _ => end == End::Moved,
    };
    let text = match (written, meant.filter(|_| is_other)) {
        (Some(written), Some(meant)) => format!("{written}, beyond `{}`", meant.name),
        (Some(written), None) => written.to_string(),
        (None, _) => "among global variables".to_owned(),
    };
    Check { class: is_other.then_some(Class::GlobalOverflow), text: Some(text) }
}

/// The pointer that a store's address was made of: the earliest one known on the way back.
fn base_of(origin: &Definition, origins: &Origins, sites: &Sites) -> Option<u64> {
    let by_number: BTreeMap<u32, &Definition> =
        origins.definitions.iter().map(|definition| (definition.number, definition)).collect();
    let pointer = |numbers: &[u32]| {
        let known = numbers.iter().filter_map(|number| by_number.get(number).copied());
        known.filter(|definition| sites.is_mapped(number(&definition.value))).max_by_key(|definition| definition.number)
    };
    let is_library = |definition: &Definition| sites.is_in_c_library(number(&definition.pc));
    let mut at = pointer(&origin.addresses)?;
    // A library that was given the pointer is left; one that made it is not entered.
    while let Some(before) = pointer(&at.values).filter(|before| before.number < at.number) {
        let was_inside = is_library(at);
        at = before;
        if is_library(at) && !was_inside {
            break;
        }
    }
    Some(number(&at.value))
}
