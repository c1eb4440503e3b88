//! Comparing memory with what the recording tells of it.

use super::machine::{Handled, Machine};
use super::words::describe;
use super::{Divergence, Stopped};
use crate::context::{Context, RSP};
use crate::engine::Engine;
use crate::journal::register_digest;
use crate::stock::{self, Difference};
use trace::event::{Event, Hash, SignalPlace, Switch};

impl Machine {
    /// Compares the little that a switch tells of memory; tells what to do if it differs.
    pub fn compare_glimpse(
        &mut self,
        engine: &Engine,
        context: &Context,
        number: u64,
        switch: &Switch,
    ) -> Option<Handled> {
        let glimpse = switch.memory.filter(|_| self.compares_memory())?;
        self.figures.looks += 1;
        let difference = stock::difference_at_switch(context, &glimpse)?;
        let moment = describe(&Event::Switch(*switch));
        self.differs(engine, context, number, &difference, &format!("at {moment}"))
    }

    /// All memory is as the recording says, where it says so. That changes nothing, and can be passed over.
    pub fn hash(&mut self, engine: &Engine, context: &Context, number: u64, hash: &Hash<'_>) -> Handled {
        let Some(place) = hash.place.filter(|_| self.compares_memory()) else { return Handled::Go };
        let is_here = match place {
            SignalPlace::AtClock => self.at_stop,
            SignalPlace::AtInstruction => self.faulted.is_some(),
            SignalPlace::InsideCall => self.pending.is_some(),
            // A signal has ended the process. What other signals and calls it was in the middle of, registers tell.
            _ if hash.registers == register_digest(context) => true,
            _ => return Handled::Go,
        };
        if !is_here && !self.at_stop && self.pending.is_none() && self.faulted.is_none() {
            return Handled::NotYet;
        }
        let moment = format!("with thread {} at {}", hash.thread, hash.clock);
        if !is_here || hash.thread != self.current || hash.clock != context.clock() {
            return self.diverge(context, number, &format!("a look at memory, {moment}"));
        }
        // The next event may be for the same place, where the thread then stops once more, or for a later one.
        self.at_stop = false;
        self.figures.looks += 1;
        let difference = stock::difference_in_full(hash);
        difference
            .and_then(|difference| self.differs(engine, context, number, &difference, &moment))
            .unwrap_or(Handled::Go)
    }

    fn compares_memory(&self) -> bool {
        self.wishes.verify || self.wishes.watch_memory && !self.has_told_of_memory
    }

    /// Stops, or says once that what follows may be wrong.
    fn differs(
        &mut self,
        engine: &Engine,
        context: &Context,
        event: u64,
        difference: &Difference,
        moment: &str,
    ) -> Option<Handled> {
        let (start, end) = (difference.start, difference.end);
        let owner = self.owner_of(context, difference);
        let owner = owner.map_or(String::new(), |thread| format!(", with the stack of thread {thread}"));
        let place = format!("memory from {start:#x} to {end:#x}{owner}");
        if !self.wishes.verify {
            self.has_told_of_memory = true;
            engine.notice(&format!(
                "{place} is not as recorded at event {event}; what follows may not be what happened (see `whodunit verify`)"
            ));
            return None;
        }
        Some(Handled::Stop(Stopped::Diverged(Divergence {
            event,
            thread: self.current,
            clock: context.clock(),
            pc: context.pc,
            expected: format!("{place}, {moment}"),
            got: "other bytes in that memory".to_owned(),
            memory: Some(difference.clone()),
        })))
    }

    /// The thread whose stack pointer is in the memory.
    fn owner_of(&self, context: &Context, difference: &Difference) -> Option<u32> {
        let current = (self.current, context.gpr[RSP]);
        let others = self.threads.iter().map(|(&thread, aside)| (thread, aside.stack_pointer()));
        [current].into_iter().chain(others).find(|(_, pointer)| difference.contains(pointer)).map(|(thread, _)| thread)
    }
}
