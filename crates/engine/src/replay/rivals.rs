//! Several plans for one recording: it is followed once, and where one of them first acts, a copy of the process goes on by it.
//!
//! Only plans that act at instructions alone can be rivals: they see the same arrivals as if each had a run of its own.

use super::State;
use super::course::{Course, Due, Start};
use super::plan::Plan;
use super::whatif::WhatIf;
use crate::context::Context;
use crate::engine::Engine;
use crate::kernel;
use std::collections::BTreeSet;

/// A plan that a copy of the process is to carry out.
pub struct Rival {
    /// Which of those that were given it is.
    number: usize,
    course: Course,
    places: BTreeSet<u64>,
}

impl Rival {
    pub fn all(plans: Vec<Plan>) -> Vec<Rival> {
        let rival = |(number, plan): (usize, Plan)| {
            let places = plan.places().into_iter().collect();
            Rival { number, course: Course::new(plan.steps, plan.policy, plan.limit), places }
        };
        plans.into_iter().enumerate().map(rival).collect()
    }

    /// What it wants where a thread stands, if the recording is to be left for that.
    fn due(&mut self, context: &Context) -> Option<Due> {
        let is_concerned = self.places.contains(&context.pc);
        let due = is_concerned.then(|| self.course.due_at_place(context.thread, context.pc, context.clock())).flatten();
        due.filter(|due| *due != Due::Release)
    }
}

impl WhatIf {
    /// A thread has run the instruction that it stood at.
    pub fn passed(&mut self, thread: u32) {
        self.course.passed(thread);
        for rival in &mut self.rivals {
            rival.course.passed(thread);
        }
    }

    /// Whether anything begins where the thread's clock shows this, by any plan.
    pub fn is_any_due(&self, thread: u32, clock: u64) -> bool {
        let mut courses = self.rivals.iter().map(|rival| &rival.course).chain([&self.course]);
        courses.any(|course| course.is_any_due(thread, clock))
    }

    /// The clock at which the thread must stop, by any plan.
    pub fn clock_for(&self, thread: u32) -> Option<u64> {
        let courses = self.rivals.iter().map(|rival| &rival.course).chain([&self.course]);
        courses.filter_map(|course| course.clock_for(thread)).min()
    }

    /// Lets rivals act at what they are to act at from this moment on.
    pub fn start_rivals(&mut self, engine: &Engine, thread: u32, clock: u64) {
        let mut has_more = false;
        for rival in &mut self.rivals {
            for start in rival.course.starts_at(thread, clock) {
                if let Start::Places(places) = start {
                    rival.places.extend(places);
                    has_more = true;
                }
            }
        }
        if has_more {
            engine.world().cache.set_places(self.all_places());
        }
    }

    /// Where the run has to stop: where any plan may act.
    pub fn all_places(&self) -> BTreeSet<u64> {
        let rivals = self.rivals.iter().flat_map(|rival| &rival.places);
        self.places.iter().chain(rivals).copied().collect()
    }
}

impl State {
    /// Has the process copied for each rival that acts where the thread stands. Tells in a copy what that wants.
    pub(super) fn branch(&mut self, engine: &Engine, context: &Context) -> Option<Due> {
        let what_if = self.what_if.as_mut()?;
        let n_rivals = what_if.rivals.len();
        let mut index = 0;
        while let Some(rival) = what_if.rivals.get_mut(index) {
            let Some(due) = rival.due(context) else {
                index += 1;
                continue;
            };
            let rival = what_if.rivals.remove(index);
            if engine.host().branch(rival.number) {
                self.follow_rival(engine, rival);
                return Some(due);
            }
        }
        if what_if.rivals.len() != n_rivals {
            engine.world().cache.set_places(what_if.all_places());
        }
        None
    }

    /// In a copy: its plan is the only one.
    fn follow_rival(&mut self, engine: &Engine, rival: Rival) {
        if let Some(what_if) = &mut self.what_if {
            engine.world().cache.set_places(rival.places.clone());
            (what_if.course, what_if.places) = (rival.course, rival.places);
            what_if.rivals.clear();
        }
        // Without memory of its own the copy would disturb the others.
        if self.unshare(engine).is_err() {
            kernel::leave(1);
        }
    }
}
