//! Reads that came before anybody had ever written what they read.
//!
//! Who would have written is not in the recording, which ended before. So the reader is held until another thread has changed
//! the memory, whoever that is; where this makes the failure go away, the write is looked up in that run.

use super::control::Control;
use super::readers::Reader;
use super::telling::{self, Case};
use super::trial::{Effect, Tried};
use super::{Examined, Examiner, orders};
use crate::rerun::carry_out;
use crate::why::chain::number;
use analysis::neighbours::{Candidate, Entry, History, unwritten};
use analysis::predict::{Deed, Place};
use session::rerun::{Changed, Outcome, Plan, Point, Step};
use std::collections::{BTreeMap, BTreeSet};
use trace::finding::Class;

/// So many reads are tried, the likeliest.
const MOST_TRIED: usize = 6;

impl Examiner<'_> {
    /// Whether one of the readers came too early.
    pub(super) fn too_early(&self, readers: &[Reader], histories: &[History], outcome: &Outcome) -> Option<Examined> {
        let mut known = BTreeSet::new();
        let early = readers.iter().filter_map(|reader| {
            let history = histories.iter().find(|history| history.watched == reader.watched)?;
            let read = unwritten(history, reader.thread, reader.pc, reader.value)?;
            // A stack is its thread's.
            let is_shared = history.block.is_some() || self.names.is_global(history.watched.address);
            (is_shared && known.insert((reader.thread, history.watched))).then_some((history, read))
        });
        early.take(MOST_TRIED).find_map(|(history, read)| self.comes_late(history, read, outcome))
    }

    /// What becomes of the failure if the read comes when somebody else has written.
    fn comes_late(&self, history: &History, read: &Entry, outcome: &Outcome) -> Option<Examined> {
        let trial = orders::when_changed(read, history).into_iter().find_map(|plan| {
            self.count_run();
            let trial = self.court.run(plan)?;
            let has_come = trial.outcome.remarks.is_empty() && !trial.outcome.changed.is_empty();
            (has_come && trial.effect == Effect::Gone).then_some(trial)
        })?;
        let control = self.court.fails_with_nobody_held(&trial.outcome).then_some(Control::NobodyHeld);
        let write = self.write(&trial.plan, trial.outcome.changed.first()?)?;
        let candidate = Candidate { first: None, between: vec![read], last: &write, began: None, joins: None };
        let class = Class::OrderViolation;
        let tried = Tried { after: Some(trial), before: None, class, n_runs: 1, control };
        let case = Case { history, candidate: &candidate, tried: &tried, outcome };
        tried.is_proved().then(|| self.examined(Some(telling::finding(&case, &self.bench())), true))
    }

    /// The write that a reader has waited for, as it stands in the run that waited.
    fn write(&self, plan: &Plan, changed: &Changed) -> Option<Entry> {
        let Changed { thread, clock, pc } = changed;
        let at = Point { thread: Some(*thread), clock: Some(*clock), at: Some(pc.clone()), time: 1, event: None };
        let steps = plan.steps.iter().cloned().chain([Step::Stop(at)]).collect();
        let stopped = carry_out(self.court.folder, self.court.log, &Plan { steps, ..plan.clone() }).ok()?;
        let writer = stopped.threads.iter().find(|other| other.thread == *thread)?;
        let pc = number(pc);
        let mut callers: Vec<u64> = writer.stack.iter().map(|frame| number(&frame.pc)).collect();
        callers.dedup();
        callers.retain(|caller| *caller != pc);
        let (place, before) = (Place::new(pc, 1), Place::default());
        let deed = Deed { thread: *thread, pc, place, before, locks: Vec::new(), callers, value: None };
        let (ordered, number) = (BTreeMap::new(), u64::MAX);
        Some(Entry { deed, reads: false, writes: true, is_release: false, number, ordered })
    }
}
