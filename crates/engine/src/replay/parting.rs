//! Recordings that begin alike: what they have in common is followed once, and copies of the process go on from there, each with its own.

use super::{Files, State};
use crate::engine::Engine;
use crate::kernel;
use trace::{Cursor, Event};

/// What a copy of the process goes on with: a recording that begins like the one that was followed so far.
pub struct Continuation {
    /// At its first event.
    pub cursor: Cursor,
    pub files: Box<dyn Files>,
}

impl State {
    /// Before event `next`: if recordings part here, comes back in copies of the process only.
    pub(super) fn part_at(&mut self, engine: &Engine, next: u64) {
        let parts_at = &mut self.machine.wishes.parts_at;
        if !self.legs.is_empty() || *parts_at != Some(next) {
            return;
        }
        *parts_at = None;
        engine.rest_observer();
        let continuation = engine.host().part();
        engine.wake_observer();
        self.go_on_with(continuation, next);
        // Without memory of its own the copy would disturb the others.
        if self.unshare(engine).is_err() {
            kernel::leave(1);
        }
    }

    /// Takes over another recording, all of whose events before `next` have been carried out but for what differs.
    fn go_on_with(&mut self, continuation: Continuation, next: u64) {
        (self.cursor, self.machine.files) = (continuation.cursor, continuation.files);
        while let Some(record) = self.cursor.peek().filter(|record| record.number < next) {
            match record.event {
                Event::Start(start) => self.machine.know_process(&start),
                Event::File(file) => self.machine.files.learn(&file),
                _ => {}
            }
            self.cursor.next();
        }
    }
}
