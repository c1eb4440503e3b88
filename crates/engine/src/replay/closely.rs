//! A replay that looks at each instruction before it runs, once its plan wants data to be followed.

use super::scrutiny::Verdict;
use super::{Replay, State};
use crate::context::Context;
use crate::engine::Engine;

/// What is to be run next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closely {
    /// Whatever was going to: nobody looks.
    No,
    /// The one instruction where the thread now stands, of which the plan does not speak.
    Plain,
    /// The same where it does.
    Place,
}

impl Replay {
    /// Looks at the instruction that a thread stands at, if data are followed, and goes on to the first that is to run.
    pub fn look(&self, engine: &Engine, context: &mut Context) -> Closely {
        if !self.follows_data {
            return Closely::No;
        }
        let mut state = self.state();
        if state.machine.begun && state.what_if.as_ref().is_some_and(|what_if| what_if.course.follows_data_at_once()) {
            state.begin_to_follow_data(engine, context);
        }
        loop {
            match state.look(engine, context) {
                Some(closely) => return closely,
                None => state.charge_for_skipping(engine, context),
            }
        }
    }

    /// The instruction that was looked at has run.
    pub fn looked(&self, engine: &Engine, context: &mut Context) {
        if let Some(what_if) = &mut self.state().what_if {
            what_if.scrutiny.ran(engine, context);
        }
    }
}

impl State {
    /// Starts to follow data if this is where the plan wants that.
    pub(super) fn begin_to_follow_data(&mut self, engine: &Engine, context: &Context) {
        if let Some(what_if) = &mut self.what_if
            && what_if.course.follows_data_at(context.thread, context.clock())
        {
            what_if.scrutiny.begin(engine);
        }
    }

    /// Nothing if the thread stands somewhere else now.
    fn look(&mut self, engine: &Engine, context: &mut Context) -> Option<Closely> {
        let is_place = match &self.what_if {
            Some(what_if) if what_if.scrutiny.is_on() => what_if.places.contains(&context.pc),
            _ => return Some(Closely::No),
        };
        if is_place && !self.place(engine, context) {
            return None;
        }
        let what_if = self.what_if.as_mut()?;
        let thread = context.thread;
        match what_if.scrutiny.before(engine, context) {
            Verdict::Runs if is_place => Some(Closely::Place),
            Verdict::Runs => Some(Closely::Plain),
            Verdict::Skipped => {
                if is_place {
                    self.pass(engine, context, thread);
                }
                None
            }
        }
    }

    /// No plan hangs because all is skipped.
    fn charge_for_skipping(&mut self, engine: &Engine, context: &mut Context) {
        if let Some(mut run) = self.free_run(engine, context) {
            run.charge(1);
        }
    }
}
