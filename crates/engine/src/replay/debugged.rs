//! What a debugger may ask of a replay.

use super::mapping::Copied;
use super::{Replay, State};
use crate::context::Context;
use crate::debug::ThreadRegisters;
use crate::engine::Engine;
use crate::signals::frame::XState;

impl Replay {
    /// Events carried out so far.
    pub fn events_passed(&self) -> u64 {
        self.state().machine.figures.events
    }

    /// Asks the debugger when the clock is reached, after so many events.
    pub fn set_due(&self, context: &mut Context, due: Option<(u64, u64)>) {
        let mut state = self.state();
        if std::mem::replace(&mut state.due, due) != due {
            state.arm(context);
        }
    }

    /// The threads that do not have the turn.
    pub fn others(&self, xstate: XState) -> Vec<ThreadRegisters> {
        let state = self.state();
        let threads = state.machine.threads.iter();
        threads.map(|(&thread, aside)| aside.registers(thread, state.machine.tid_of(thread), xstate)).collect()
    }

    /// The kernel's number of a thread, when it was recorded.
    pub fn tid_of(&self, thread: u32) -> i32 {
        self.state().machine.tid_of(thread)
    }

    pub fn show_output_from(&self, event: u64) {
        self.state().machine.silent_until = event;
    }

    pub fn unshare(&self, engine: &Engine) -> Result<(), String> {
        self.state().unshare(engine)
    }
}

impl State {
    /// In a copy of the process: memory that the original could still change becomes the copy's own.
    pub(super) fn unshare(&mut self, engine: &Engine) -> Result<(), String> {
        let files: Vec<Copied> = self.machine.copy_shared_files()?;
        let mut world = engine.world();
        if !files.is_empty() {
            world.open_guarded();
        }
        for file in files {
            file.show(&world.space)?;
        }
        Ok(())
    }
}
