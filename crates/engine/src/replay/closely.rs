//! A replay that looks at instructions before they run, once its plan wants data to be followed: at each of them, or at
//! those that corruption can reach.

use super::course::Start;
use super::outcome::Ending;
use super::scrutiny::Verdict;
use super::whatif::WhatIf;
use super::{Replay, State};
use crate::context::Context;
use crate::engine::Engine;

/// What an instruction that is looked at counts for, in events: about as long as it takes.
const LOOK: u64 = 25;

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
    /// `asks` tells that translated code has left for that.
    pub fn look(&self, engine: &Engine, context: &mut Context, mut asks: bool) -> Closely {
        if !self.follows_data {
            return Closely::No;
        }
        let mut state = self.state();
        if state.machine.begun {
            state.start(engine, context.thread, context.clock());
        }
        loop {
            match state.look(engine, context, asks) {
                Some(closely) => return closely,
                None => state.charge_for_skipping(engine, context),
            }
            asks = false;
        }
    }

    /// Whether translated code leaves to be looked at.
    pub fn is_attentive(&self) -> bool {
        self.follows_data && self.state().what_if.as_ref().is_some_and(|what_if| what_if.scrutiny.is_on())
    }

    /// The instruction that was looked at has run.
    pub fn looked(&self, engine: &Engine, context: &mut Context) {
        if let Some(what_if) = &mut self.state().what_if {
            what_if.scrutiny.ran(engine, context);
        }
    }
}

impl State {
    /// Does what the plan wants to begin where the thread's clock shows this.
    pub(super) fn start(&mut self, engine: &Engine, thread: u32, clock: u64) {
        let is_due = |what_if: &&mut Box<WhatIf>| what_if.is_any_due(thread, clock);
        let Some(what_if) = self.what_if.as_mut().filter(is_due) else { return };
        what_if.start_rivals(engine, thread, clock);
        for start in what_if.course.starts_at(thread, clock) {
            match start {
                Start::Origins => what_if.scrutiny.begin(),
                Start::Pause => what_if.scrutiny.pause(),
                Start::Writers(ranges) => what_if.scrutiny.seek(engine, ranges),
                Start::Places(places) => {
                    what_if.places.extend(places);
                    engine.world().cache.set_places(what_if.all_places());
                }
            }
        }
    }

    /// Nothing if the thread stands somewhere else now.
    fn look(&mut self, engine: &Engine, context: &mut Context, asks: bool) -> Option<Closely> {
        let what_if = self.what_if.as_mut().filter(|what_if| what_if.scrutiny.is_on());
        let Some(what_if) = what_if else { return Some(Closely::No) };
        if !asks && what_if.scrutiny.lets_go(context.thread) {
            return Some(Closely::No);
        }
        let is_place = what_if.places.contains(&context.pc);
        let looked = what_if.scrutiny.looked();
        self.limit(engine, context, looked);
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

    /// Ends a free run in which too much was looked at.
    fn limit(&mut self, engine: &Engine, context: &mut Context, looked: u64) {
        if let Some(mut run) = self.free_run(engine, context)
            && looked.saturating_mul(LOOK) > run.course.limit
        {
            run.conclude(Ending::Limit);
        }
    }

    /// No plan hangs because all is skipped.
    fn charge_for_skipping(&mut self, engine: &Engine, context: &mut Context) {
        if let Some(mut run) = self.free_run(engine, context) {
            run.charge(1);
        }
    }
}
