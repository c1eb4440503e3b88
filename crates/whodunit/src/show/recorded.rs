//! What others than `show` ask of a log: which code was where, which threads there were, and how long it is.

use std::collections::BTreeSet;

use program::space::AddressSpace;
use trace::Recording;
use trace::event::EndKind;

use super::failure::whole_space;
use super::image;
use crate::settings::DEFAULT_QUANTUM;

pub struct Recorded {
    pub space: AddressSpace,
    /// What stands in the way of names.
    pub gaps: Vec<String>,
    pub threads: BTreeSet<u32>,
    /// The event that made the second one; of a lone thread, none.
    pub alone_until: u64,
    pub events: u64,
    /// How far the clocks of all threads came, taken together.
    pub clock: u64,
    pub quantum: u64,
    /// How the process ended, if the log tells.
    pub end: Option<EndKind>,
    /// The path of the program; empty if the log has no beginning.
    program: Vec<u8>,
}

impl Recorded {
    /// The program's name without its folder.
    pub fn program(&self) -> String {
        let path = String::from_utf8_lossy(&self.program);
        path.rsplit('/').next().unwrap_or_default().to_owned()
    }
}

/// Reads the log of a process image; none if there is no such.
pub fn recorded(recording: &Recording, log: u32) -> Option<Recorded> {
    let image = image::read_all(recording).into_iter().find(|image| image.log == log)?;
    let (space, gaps) = whole_space(&image.mappings, recording);
    let quantum = image.begin.as_ref().map_or(DEFAULT_QUANTUM, |begin| begin.quantum);
    let program = image.begin.as_ref().map_or_else(Vec::new, |begin| begin.program.clone());
    let threads = image.threads.keys().copied().collect();
    let alone_until = image.threads.values().filter_map(|life| life.origin).map(|(_, event)| event).min().unwrap_or(0);
    let end = image.stop.as_ref().map(|stop| stop.kind);
    let clock = image.threads.values().map(|life| life.clock).sum();
    let events = image.tally.total().events;
    Some(Recorded { space, gaps, threads, alone_until, events, clock, quantum, end, program })
}
