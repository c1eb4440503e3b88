//! Whether the thread that runs can still come to the next event.
//!
//! In a recording that was made up, or with memory that is not what it was, a thread may compute for ever. It has gone
//! astray when its clock has passed what the recording tells of it next. Only loops that pass no event of the clock, such as
//! returns to each other, are not found.

use super::State;
use crate::context::{Context, SLICE};

/// So many events of the clock pass before it is worth looking further ahead than to the next event.
const PATIENCE: u64 = 64 * SLICE as u64;
/// No recorder is silent for so long: a quarter of an hour of loops and nothing else.
const LONGEST: u64 = 1 << 40;

/// How long nothing has come of what the thread does.
#[derive(Default)]
pub struct Progress {
    /// How many events of the recording were carried out, and the thread's clock when that was first seen.
    events: u64,
    since: u64,
    /// The first clock that the recording tells of the thread behind the next event, once somebody has looked.
    latest: Option<Option<u64>>,
}

impl State {
    /// The thread has used up a slice of its time, and no event was due.
    pub(super) fn has_gone_astray(&mut self, context: &Context) -> bool {
        let (clock, events) = (context.clock(), self.machine.figures.events);
        if self.progress.events != events {
            self.progress = Progress { events, since: clock, latest: None };
        }
        let silence = clock.saturating_sub(self.progress.since);
        let Some(next) = self.cursor.peek().map(|record| record.event.moment()) else { return true };
        let latest = match next {
            Some((thread, latest)) if thread == context.thread => Some(latest),
            _ if silence > PATIENCE => self.look_ahead(context.thread),
            _ => None,
        };
        silence > LONGEST || latest.is_some_and(|latest| latest < clock)
    }

    fn look_ahead(&mut self, thread: u32) -> Option<u64> {
        if let Some(latest) = self.progress.latest {
            return latest;
        }
        let number = self.cursor.peek()?.number;
        let mut latest = None;
        while let Some(record) = self.cursor.next().filter(|_| latest.is_none()) {
            latest = record.event.moment().filter(|(theirs, _)| *theirs == thread).map(|(_, clock)| clock);
        }
        self.cursor.seek(number);
        self.progress.latest = Some(latest);
        latest
    }
}
