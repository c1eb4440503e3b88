//! Memory that a held thread waits for: until another one has changed it.

use super::free::Run;
use super::outcome::Changed;
use crate::debug::{Watch, Watching};
use crate::kernel;
use std::ops::Range;

/// Some memory as it was when the recording was left.
pub struct Awaited {
    hold: usize,
    range: Range<u64>,
    bytes: Vec<u8>,
}

impl Awaited {
    fn has_changed(&self) -> bool {
        bytes_of(&self.range) != self.bytes
    }
}

/// Nothing where there is no memory yet.
fn bytes_of(range: &Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let is_there = kernel::read_bytes(range.start, &mut bytes).is_ok();
    if is_there { bytes } else { Vec::new() }
}

impl Run<'_> {
    /// The recording has been left: stores to what threads wait for are looked at.
    pub fn watch_awaited(&mut self) {
        let holds = self.course.holds.iter().enumerate();
        let awaited = holds.filter_map(|(hold, it)| it.awaits().map(|range| (hold, range.clone())));
        self.free.awaited = awaited.map(|(hold, range)| Awaited { hold, bytes: bytes_of(&range), range }).collect();
        let watches: Vec<Watch> = (self.free.awaited.iter())
            .map(|awaited| Watch { range: awaited.range.clone(), what: Watching::Changes })
            .collect();
        if !watches.is_empty() {
            self.engine.world().cache.set_watched(&watches);
        }
    }

    /// The thread has run an instruction that may have stored to what others wait for.
    pub fn look_at_awaited(&mut self, thread: u32) {
        let (pc, clock) = self.free.standing;
        for awaited in std::mem::take(&mut self.free.awaited) {
            let hold = &mut self.course.holds[awaited.hold];
            if hold.thread == thread || !awaited.has_changed() {
                self.free.awaited.push(awaited);
            } else if !hold.over {
                hold.over = true;
                self.free.changed.push(Changed { thread, clock, pc });
            }
        }
    }
}
