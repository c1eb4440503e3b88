//! Analyses of an observed replay, by what its event stream tells.

pub mod blocks;
mod functions;
pub mod lines;
pub mod races;

use crate::inquiry::Inquiry;
use analysis::races::Surveyed;
use engine::{Marks, Observation, Observer, Passed};
use functions::Functions;
use program::copies::Copies;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use session::stream::{Detail, Streaming};
use std::sync::Arc;
use trace::Recording;
use trace::stream::Listener;

/// What is studied.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Study {
    /// What is selected of it, a line each.
    Lines(lines::Selection),
    /// Which memory is for synchronisation.
    Survey(races::Classes),
    /// Data races, given what a survey found.
    Races { surveyed: Surveyed, classes: races::Classes },
    /// Stacks, values and blocks of the accesses of races.
    Circumstances(Vec<races::Wanted>),
    /// The blocks of the heap at the moment of a store.
    BlocksAt(blocks::Question),
}

/// A listener that has something to say in the end.
pub trait Student: Listener + 'static {
    fn report(&mut self) -> Value;
}

/// A study under way.
struct Studying<S> {
    streaming: Streaming<S>,
    marks: Marks,
}

pub fn begin(study: Study, recording: &Recording, log: u32) -> Box<dyn Inquiry> {
    let functions = Functions::of(recording, log);
    match study {
        Study::Lines(selection) => {
            let detail = lines::Lines::detail(&selection);
            Box::new(Studying::new(lines::Lines::new(selection), functions, detail))
        }
        Study::Survey(classes) => Box::new(Studying::new(races::survey(classes), functions, Detail::Accesses)),
        Study::Races { surveyed, classes } => {
            Box::new(Studying::new(races::detect(surveyed, classes), functions, Detail::Accesses))
        }
        Study::Circumstances(wanted) => {
            Box::new(Studying::new(races::Circumstances::new(wanted), functions, Detail::Values))
        }
        Study::BlocksAt(question) => {
            Box::new(Studying::new(blocks::BlocksAt::new(question), functions, Detail::Accesses))
        }
    }
}

impl<S: Student> Studying<S> {
    fn new(student: S, functions: Functions, detail: Detail) -> Studying<S> {
        let Functions { marks, roles } = functions;
        Studying { streaming: Streaming::new(student, roles, detail), marks }
    }
}

impl<S: Student> Inquiry for Studying<S> {
    fn observation(&self) -> Observation {
        self.streaming.observation()
    }

    fn marks(&self) -> Marks {
        self.marks.clone()
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        Some(self.streaming.observer())
    }

    fn passed(&self, passed: &Passed<'_>) {
        self.streaming.passed(passed);
    }

    fn answer(&self, _copies: &Arc<Copies>) -> Value {
        self.streaming.finish(Student::report)
    }
}
