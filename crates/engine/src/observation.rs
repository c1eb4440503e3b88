//! Observing a run: what translated code writes down, and who reads it.
//!
//! Translated code fills a buffer of each thread (`buffer`); instructions that it cannot describe are run one by one
//! (`step`). Batches of words reach a counter (`count`), or an [`Observer`] on a thread of its own (`consumer`), which
//! reads them as events (`events`) or as accesses alone (`flat`), and calls (`transfers`).

mod buffer;
mod consumer;
mod count;
mod events;
mod file;
mod flat;
mod step;
#[cfg(test)]
mod tests;
mod transfers;
mod vectors;

pub use buffer::{Room, close_buffer, end_record, has_room, is_overrun, move_to_start, open_buffer, take_words};
pub use consumer::Consumer;
pub use count::{Counter, Counts, StepCounter, Tally};
pub use events::{Access, Elements, Event, EventKind, Events, Value};
pub use file::PrivateFile;
pub use flat::{Flat, Flattener};
pub use step::{Outcome, Step, first_address, places};
pub use transfers::Call;
pub use vectors::component_places;

use crate::code::observe::{Catalogue, Mark, RecordFacts, Wanted};
use sched::ThreadId;

/// How much of a run is to be seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Observation {
    #[default]
    Nothing,
    /// Everything that is wanted is written down and thrown away: for measuring what observation costs.
    Discard(Wanted),
    /// Executed instructions and accesses are counted.
    Count,
    /// The same, one instruction at a time: slow, and right by inspection.
    CountBySteps,
    /// The host's observer is told what it wants.
    Tell(Wanted),
    /// The same, one instruction at a time.
    TellBySteps(Wanted),
}

impl Observation {
    /// What translated code is to write down.
    pub fn written(self) -> Option<Wanted> {
        match self {
            Observation::Count => Some(Wanted::COUNTS),
            Observation::Discard(wanted) | Observation::Tell(wanted) => Some(wanted),
            Observation::Nothing | Observation::CountBySteps | Observation::TellBySteps(_) => None,
        }
    }

    pub fn goes_by_steps(self) -> bool {
        matches!(self, Observation::CountBySteps | Observation::TellBySteps(_))
    }

    /// What is looked at where an instruction runs by itself.
    pub fn seen_by_steps(self) -> Wanted {
        match self {
            Observation::Discard(wanted) | Observation::Tell(wanted) | Observation::TellBySteps(wanted) => wanted,
            Observation::Nothing | Observation::Count | Observation::CountBySteps => Wanted::COUNTS,
        }
    }

    /// What an observer is told.
    pub fn told(self) -> Option<Wanted> {
        match self {
            Observation::Tell(wanted) | Observation::TellBySteps(wanted) => Some(wanted),
            _ => None,
        }
    }
}

/// Records of one thread, in program order.
pub struct Batch<'a> {
    pub thread: ThreadId,
    pub words: &'a [u64],
    pub catalogue: &'a Catalogue,
    /// The guest's FS base when the first of them was written.
    pub fs_base: u64,
    pub around: Around,
}

/// What a thread has around it when it hands its records over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Around {
    /// There is no other thread.
    pub is_alone: bool,
    /// Where its own stack is, from and to.
    pub stack: (u64, u64),
    /// Since its clock showed this, no execution of what is told now was left out. None if that cannot be said.
    pub whole_since: Option<u64>,
}

impl Default for Around {
    fn default() -> Around {
        Around { is_alone: false, stack: (0, 0), whole_since: Some(0) }
    }
}

impl<'a> Batch<'a> {
    /// Every record with its own words, of a run in which no instruction needs the engine.
    pub fn records(&self) -> impl Iterator<Item = (u64, RecordFacts, &'a [u64])> {
        let (mut rest, catalogue) = (self.words, self.catalogue);
        std::iter::from_fn(move || {
            let number = *rest.first()?;
            let facts = catalogue.record(number);
            let (record, after) = rest.split_at(usize::from(facts.words));
            rest = after;
            Some((number, facts, record))
        })
    }

    /// What happened, in program order.
    pub fn events(&self) -> Events<'a> {
        Events::new(self.thread, self.words, self.catalogue, self.fs_base)
    }
}

/// Who reads batches, which come in the order in which threads had the turn.
pub trait Observer: Send {
    fn batch(&mut self, batch: &Batch<'_>);
    /// The process may end here, or become another program, without further notice.
    fn settle(&mut self) {}
    /// The last batch has come.
    fn finished(&mut self) {}
}
