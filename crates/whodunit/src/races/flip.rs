//! The other order of a race, brought about by a what-if run: the thread whose access came first is held before it until the other
//! thread has made its own.
//!
//! An access is known by its thread, its instruction and which arrival there it is. So accesses of the C library are left
//! alone, whose calls from within allocators are not told, and releases of blocks. A thread that holds a lock which the other needs is
//! let go, and the order stays untried.

use super::Subject;
use super::names::Names;
use super::passes::Occurrence;
use crate::progress::Line;
use crate::rerun::{self, outcomes};
use crate::study::races::Circumstance;
use analysis::races::Side;
use session::rerun::{Ending, Outcome, Passage, Plan, Step};
use std::cell::OnceCell;
use trace::finding::{Failure, Finding};

/// Tries other orders, a limited number of times.
pub struct Flips<'a> {
    subject: &'a Subject<'a>,
    names: &'a Names,
    most: usize,
    tried: usize,
    line: Line,
    /// The run as it was recorded; none if it could not be had.
    recorded: OnceCell<Option<Outcome>>,
}

/// What came of an attempt.
pub enum Flip {
    /// The other order came about.
    Shown(Box<Shown>),
    /// It did not, for this reason.
    Missed(String),
}

pub struct Shown {
    plan: Plan,
    outcome: Outcome,
    effect: Effect,
    /// The command that shows it again.
    pub command: String,
}

/// What came of the other order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The program ended in the same way and wrote the same.
    None,
    /// It wrote something else.
    Output,
    /// It ended in another way.
    Ending,
    /// Nobody knows how it was recorded.
    Unknown,
}

impl<'a> Flips<'a> {
    pub fn new(subject: &'a Subject<'a>, names: &'a Names, most: usize) -> Flips<'a> {
        Flips { subject, names, most, tried: 0, line: Line::new(), recorded: OnceCell::new() }
    }

    /// Nothing if the order cannot be told to a what-if run, or enough were tried.
    pub fn try_out(&mut self, occurrence: &Occurrence<'_>) -> Option<Flip> {
        let plan = self.plan(occurrence).filter(|_| self.tried < self.most)?;
        self.tried += 1;
        let (tried, most) = (self.tried, self.most);
        self.line.show(|| format!("Trying other orders: {tried} of at most {most}"));
        let flip = match rerun::carry_out(self.subject.recording.folder(), self.subject.log, &plan) {
            Ok(outcome) => self.judge(plan, outcome, occurrence.first.0.thread),
            Err(_) => Flip::Missed("the run could not be made".to_owned()),
        };
        self.line.end();
        Some(flip)
    }

    fn plan(&self, occurrence: &Occurrence<'_>) -> Option<Plan> {
        let (first, first_time) = self.passage(occurrence.first)?;
        let (second, second_time) = self.passage(occurrence.second)?;
        let passes = format!("{:#x}", second.pc);
        let until = Passage { thread: second.thread, passes, clock: None, time: second_time };
        let before = format!("{:#x}", first.pc);
        let hold = Step::Hold { thread: first.thread, before, clock: None, time: first_time, until };
        Some(Plan { limit: Some(outcomes::LIMIT), ..Plan::new(vec![hold]) })
    }

    /// Which arrival at its instruction an access is.
    fn passage<'s>(&self, (side, circumstance): (&'s Side, Option<&Circumstance>)) -> Option<(&'s Side, u64)> {
        let time = circumstance.map_or(0, |circumstance| circumstance.time);
        (time > 0 && !self.names.is_in_c_library(side.pc)).then_some((side, time))
    }

    fn judge(&self, plan: Plan, outcome: Outcome, held: u32) -> Flip {
        if let Some(why) = outcomes::obstacle(&outcome, held) {
            return Flip::Missed(why);
        }
        let recorded =
            self.recorded.get_or_init(|| outcomes::recorded(self.subject.recording.folder(), self.subject.log).ok());
        let effect = effect(recorded.as_ref(), &outcome);
        let command = self.subject.command(&plan);
        Flip::Shown(Box::new(Shown { plan, outcome, effect, command }))
    }
}

impl Flip {
    /// Adds what came of it to the finding.
    pub fn describe(&self, finding: &mut Finding) {
        match self {
            Flip::Shown(shown) => {
                let effect = shown.words();
                finding.grounds.push(format!("A what-if run made the two accesses in the other order: {effect}."));
                finding.failure = shown.failure();
                finding.evidence.plan = serde_json::to_value(&shown.plan).ok();
            }
            Flip::Missed(why) => {
                finding.notes.push(format!("The other order was tried, and did not come about: {why}."));
            }
        }
    }
}

impl Shown {
    /// How the program failed in the other order, if it did not fail so when it was recorded.
    fn failure(&self) -> Option<Failure> {
        let is_told = match self.outcome.ending {
            Ending::Killed { .. } | Ending::Deadlock {} => self.effect == Effect::Ending,
            Ending::Exited { status } => self.effect == Effect::Ending && status != 0,
            Ending::Limit {} | Ending::LeftTheRecording { .. } | Ending::OutOfInput {} | Ending::Stopped {} => false,
        };
        is_told.then(|| outcomes::failure(&self.outcome))
    }

    /// What came of it, as the rest of a sentence.
    fn words(&self) -> String {
        match (&self.outcome.ending, self.effect) {
            (_, Effect::None) => "the program ended in the same way and wrote the same".to_owned(),
            (Ending::Killed { name, .. }, _) => format!("the program crashed ({name})"),
            (Ending::Deadlock {}, _) => "no thread could ever run again".to_owned(),
            (Ending::Limit {}, _) => "the program did not come to an end".to_owned(),
            (Ending::LeftTheRecording { needs }, _) => {
                format!("how the program would have ended, the recording does not tell (it needs {needs})")
            }
            (Ending::OutOfInput {}, _) => "the program waited for more input than was recorded".to_owned(),
            (_, Effect::Output) => "the program wrote something else".to_owned(),
            (Ending::Exited { status }, _) => format!("the program ended with status {status}"),
            (Ending::Stopped {}, _) => "the program ended".to_owned(),
        }
    }
}

fn effect(recorded: Option<&Outcome>, outcome: &Outcome) -> Effect {
    match recorded {
        None => Effect::Unknown,
        Some(recorded) if outcomes::is_same(recorded, outcome) => Effect::None,
        Some(recorded) if recorded.ending == outcome.ending => Effect::Output,
        Some(_) => Effect::Ending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rerun::outcomes::{HELD, made_up as outcome, obstacle};
    use session::rerun::Thread;

    #[test]
    fn what_came_of_it_is_told_apart() {
        let recorded = outcome(Ending::Exited { status: 0 }, "a\n");
        let of = |ending, text| effect(Some(&recorded), &outcome(ending, text));
        assert_eq!(of(Ending::Exited { status: 0 }, "a\n"), Effect::None);
        assert_eq!(of(Ending::Exited { status: 0 }, "b\n"), Effect::Output);
        assert_eq!(of(Ending::Exited { status: 3 }, "a\n"), Effect::Ending);
        assert_eq!(of(Ending::Deadlock {}, "a\n"), Effect::Ending);
        assert_eq!(effect(None, &recorded), Effect::Unknown);
    }

    #[test]
    fn an_order_that_did_not_come_about_proves_nothing() {
        let good = outcome(Ending::Exited { status: 0 }, "");
        assert_eq!(obstacle(&good, 2), None);
        let held = Thread { thread: 2, state: HELD.to_owned(), stack: Vec::new() };
        assert!(obstacle(&Outcome { threads: vec![held.clone()], ..good.clone() }, 2).is_some());
        assert_eq!(obstacle(&Outcome { threads: vec![held], ..good.clone() }, 3), None);
        assert!(obstacle(&Outcome { left: None, ..good.clone() }, 2).is_some());
        let let_go = Outcome { remarks: vec!["thread 2 was let go".to_owned()], ..good };
        assert_eq!(obstacle(&let_go, 2).as_deref(), Some("thread 2 was let go"));
    }
}
