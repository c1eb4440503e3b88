//! Tries other orders out: what-if runs of the recording, and whether the failure is gone.

use super::orders;
use crate::races::Subject;
use crate::rerun::{carry_out, outcomes};
use analysis::neighbours::Candidate;
use session::rerun::{Ending, Outcome, Plan};
use std::cell::Cell;
use trace::finding::Class;

/// What became of the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Gone,
    /// The program went on beyond it, and nobody knows how it would have ended.
    Open,
    /// It is still there, or the order did not come about.
    None,
}

/// A run in another order.
pub struct Trial {
    pub plan: Plan,
    pub outcome: Outcome,
    pub effect: Effect,
}

/// A candidate, and the best of its trials.
pub struct Tried {
    /// With the other thread's deeds after those of the first.
    pub after: Option<Trial>,
    /// With them before.
    pub before: Option<Trial>,
    pub class: Class,
}

impl Tried {
    /// The trial that shows the failure gone, or at least the program beyond it.
    pub fn best(&self) -> Option<&Trial> {
        let trials = || self.after.iter().chain(&self.before);
        let with = |effect| trials().find(|trial| trial.effect == effect);
        with(Effect::Gone).or_else(|| with(Effect::Open))
    }

    pub fn is_proved(&self) -> bool {
        self.best().is_some_and(|trial| trial.effect == Effect::Gone)
    }
}

pub struct Court<'a> {
    subject: &'a Subject<'a>,
    recorded: Ending,
    /// What it should have written, if that is how it failed.
    pub expected: Option<String>,
    n_runs: Cell<usize>,
}

impl<'a> Court<'a> {
    pub fn new(subject: &'a Subject<'a>, recorded: Ending) -> Court<'a> {
        Court { subject, recorded, expected: None, n_runs: Cell::new(0) }
    }

    pub fn n_runs(&self) -> usize {
        self.n_runs.get()
    }

    /// Both other orders; of a race, one without the failure is enough.
    pub fn try_out(&self, candidate: &Candidate<'_>) -> Tried {
        let after = self.first_good(orders::after(candidate));
        if candidate.is_race() && is_gone(&after) {
            return Tried { after, before: None, class: Class::DataRace };
        }
        let before = self.first_good(orders::before(candidate));
        let class = match (is_gone(&after), is_gone(&before)) {
            _ if candidate.is_race() => Class::DataRace,
            (true, true) => Class::AtomicityViolation,
            _ => Class::OrderViolation,
        };
        if is_gone(&after) || is_gone(&before) {
            return Tried { after, before, class };
        }
        let at_last = orders::at_last(candidate).and_then(|plan| self.run_to_the_end(plan));
        let after = at_last.filter(|trial| trial.effect == Effect::Gone).or(after);
        Tried { after, before, class }
    }

    /// The first of some plans that makes the failure go away, or else one that leaves it open.
    fn first_good(&self, plans: Vec<Plan>) -> Option<Trial> {
        let mut open = None;
        for plan in plans {
            match self.run(plan) {
                Some(trial) if trial.effect == Effect::Gone => return Some(trial),
                Some(trial) if trial.effect == Effect::Open => open = open.or(Some(trial)),
                _ => {}
            }
        }
        open
    }

    /// A run that cannot be made shows nothing, nor does one in which the order did not come about.
    fn run(&self, plan: Plan) -> Option<Trial> {
        self.run_to_the_end(plan).filter(|trial| trial.outcome.remarks.is_empty())
    }

    /// The same for a thread that is to be let go when nobody else can run.
    pub fn run_to_the_end(&self, plan: Plan) -> Option<Trial> {
        self.n_runs.set(self.n_runs.get() + 1);
        let outcome = carry_out(self.subject.recording.folder(), self.subject.log, &plan).ok()?;
        let effect = match &self.expected {
            Some(expected) => effect_on_output(expected, &outcome),
            None => effect(&self.recorded, &outcome),
        };
        Some(Trial { plan, outcome, effect })
    }
}

fn is_gone(trial: &Option<Trial>) -> bool {
    trial.as_ref().is_some_and(|trial| trial.effect == Effect::Gone)
}

fn effect_on_output(expected: &str, outcome: &Outcome) -> Effect {
    match outcome.ending {
        _ if outcome.left.is_none() => Effect::None,
        Ending::Exited { .. } if outcomes::written(outcome) == expected => Effect::Gone,
        Ending::LeftTheRecording { .. } | Ending::Stopped {} => Effect::Open,
        _ => Effect::None,
    }
}

fn effect(recorded: &Ending, outcome: &Outcome) -> Effect {
    if outcome.left.is_none() {
        return Effect::None;
    }
    match (&outcome.ending, recorded) {
        (ending, recorded) if ending == recorded => Effect::None,
        (Ending::Exited { .. }, _) => Effect::Gone,
        (Ending::LeftTheRecording { .. } | Ending::Stopped {}, _) => Effect::Open,
        (Ending::Killed { .. } | Ending::Deadlock {} | Ending::Limit {}, _) => Effect::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(ending: Ending) -> Outcome {
        outcomes::made_up(ending, "")
    }

    #[test]
    fn wrong_output_is_gone_when_the_program_writes_what_it_should() {
        let wrote = |text| outcomes::made_up(Ending::Exited { status: 0 }, text);
        assert_eq!(effect_on_output("2\n", &wrote("2\n")), Effect::Gone);
        assert_eq!(effect_on_output("2\n", &wrote("1\n")), Effect::None);
        let crashed = Ending::Killed { signal: 11, name: "SIGSEGV".to_owned(), address: None };
        assert_eq!(effect_on_output("2\n", &outcomes::made_up(crashed, "2\n")), Effect::None);
    }

    #[test]
    fn a_failure_is_gone_when_the_program_comes_to_another_end() {
        let crashed = Ending::Killed { signal: 11, name: "SIGSEGV".to_owned(), address: None };
        let exited = |status| Ending::Exited { status };
        assert_eq!(effect(&crashed, &ended(exited(0))), Effect::Gone);
        assert_eq!(effect(&crashed, &ended(crashed.clone())), Effect::None);
        assert_eq!(effect(&crashed, &ended(Ending::Deadlock {})), Effect::None, "it fails otherwise");
        assert_eq!(effect(&crashed, &ended(Ending::Limit {})), Effect::None);
        assert_eq!(effect(&exited(1), &ended(exited(0))), Effect::Gone);
        assert_eq!(effect(&exited(1), &ended(exited(1))), Effect::None);
        let needs = Ending::LeftTheRecording { needs: "read".to_owned() };
        assert_eq!(effect(&crashed, &ended(needs)), Effect::Open);
        let same = Outcome { left: None, ..ended(exited(0)) };
        assert_eq!(effect(&crashed, &same), Effect::None, "the plan has changed nothing");
    }
}
