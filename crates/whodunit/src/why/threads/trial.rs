//! Tries other orders out: what-if runs of the recording, and whether the failure is gone.

use super::control::Control;
use super::orders;
use crate::rerun::{carry_out, outcomes};
use analysis::neighbours::{Candidate, History, times};
use session::rerun::{Ending, Outcome, Plan};
use std::cell::Cell;
use std::path::Path;
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
    /// How many orders were tried.
    pub n_runs: usize,
    /// What shows that nothing but the order made the failure go away.
    pub control: Option<Control>,
}

impl Tried {
    /// The trial that shows the failure gone, or at least the program beyond it.
    pub fn best(&self) -> Option<&Trial> {
        let with = |effect| self.trials().find(|trial| trial.effect == effect);
        with(Effect::Gone).or_else(|| with(Effect::Open))
    }

    pub fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.after.iter().chain(&self.before)
    }

    pub fn is_gone(&self) -> bool {
        self.trials().any(|trial| trial.effect == Effect::Gone)
    }

    /// Whether the other order is that a read came when another thread had written.
    pub fn waits_for_a_change(&self) -> bool {
        self.trials().any(|trial| !trial.outcome.changed.is_empty())
    }

    pub fn is_proved(&self) -> bool {
        self.is_gone() && self.control.is_some()
    }
}

/// Runs plans and tells what became of the failure.
pub struct Court<'a> {
    pub folder: &'a Path,
    pub log: u32,
    pub recorded: Ending,
    /// What it should have written, if that is how it failed.
    pub expected: Option<String>,
}

impl Court<'_> {
    /// Tries candidates out at the same time; the answers come in their order.
    pub fn try_all(&self, lot: &[(&History, Candidate<'_>)]) -> Vec<Tried> {
        std::thread::scope(|scope| {
            let started = lot.iter().map(|(history, candidate)| scope.spawn(|| self.try_out(history, candidate)));
            let started: Vec<_> = started.collect();
            let ended = started.into_iter().map(|thread| thread.join());
            ended.map(|tried| tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }

    fn try_out(&self, history: &History, candidate: &Candidate<'_>) -> Tried {
        let trials = Trials { court: self, n_runs: Cell::new(0) };
        let tried = trials.of(history, candidate);
        let control = self.control(candidate, &tried);
        Tried { control, ..tried }
    }

    /// A run that cannot be made shows nothing.
    pub fn run(&self, plan: Plan) -> Option<Trial> {
        let outcome = carry_out(self.folder, self.log, &plan).ok()?;
        let effect = self.effect(&outcome);
        Some(Trial { plan, outcome, effect })
    }

    fn effect(&self, outcome: &Outcome) -> Effect {
        match &self.expected {
            Some(expected) => effect_on_output(expected, outcome),
            None => effect(&self.recorded, outcome),
        }
    }
}

/// The trials of one candidate.
struct Trials<'c, 'a> {
    court: &'c Court<'a>,
    n_runs: Cell<usize>,
}

impl Trials<'_, '_> {
    /// All of its occurrences at once if there are several; else both other orders, and of a race, one without the failure is
    /// enough.
    fn of(&self, history: &History, candidate: &Candidate<'_>) -> Tried {
        let is_apart = candidate.is_race() || candidate.is_lost_update(history);
        if is_apart
            && times(history, candidate) > 1
            && let Some(apart) = self.one_by_one(history, candidate)
        {
            let class = if candidate.is_race() { Class::DataRace } else { Class::AtomicityViolation };
            return self.tried(Some(apart), None, class);
        }
        let only_before =
            (candidate.is_race() && candidate.is_crowded(history)).then(|| self.first_good(orders::before(candidate)));
        if only_before.as_ref().is_some_and(is_gone) {
            return self.tried(None, only_before.flatten(), Class::DataRace);
        }
        // Whom another thread forestalled may come to the same memory again.
        let is_forestalled = candidate.first.is_none() && candidate.interloper().writes;
        let at_last = if is_forestalled { self.at_last(candidate) } else { None };
        let after = at_last.or_else(|| self.first_good(orders::after(candidate)));
        if candidate.is_race() && is_gone(&after) {
            return self.tried(after, None, Class::DataRace);
        }
        let before = only_before.unwrap_or_else(|| self.first_good(orders::before(candidate)));
        let class = match (is_gone(&after), is_gone(&before)) {
            _ if candidate.is_race() => Class::DataRace,
            (true, true) => Class::AtomicityViolation,
            _ => Class::OrderViolation,
        };
        if is_gone(&after) || is_gone(&before) {
            return self.tried(after, before, class);
        }
        let at_last = if is_forestalled { None } else { self.at_last(candidate) };
        self.tried(at_last.or(after), before, class)
    }

    fn at_last(&self, candidate: &Candidate<'_>) -> Option<Trial> {
        let trial = self.run_to_the_end(orders::at_last(candidate)?);
        trial.filter(|trial| trial.effect == Effect::Gone)
    }

    fn tried(&self, after: Option<Trial>, before: Option<Trial>, class: Class) -> Tried {
        Tried { after, before, class, n_runs: self.n_runs.get(), control: None }
    }

    fn one_by_one(&self, history: &History, candidate: &Candidate<'_>) -> Option<Trial> {
        let trial = self.run_to_the_end(orders::one_by_one(history, candidate)?);
        trial.filter(|trial| trial.effect == Effect::Gone)
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

    /// A run in which the order did not come about shows nothing.
    fn run(&self, plan: Plan) -> Option<Trial> {
        self.run_to_the_end(plan).filter(|trial| trial.outcome.remarks.is_empty())
    }

    /// The same for a thread that is to be let go when nobody else can run.
    fn run_to_the_end(&self, plan: Plan) -> Option<Trial> {
        self.n_runs.set(self.n_runs.get() + 1);
        self.court.run(plan)
    }
}

fn is_gone(trial: &Option<Trial>) -> bool {
    trial.as_ref().is_some_and(|trial| trial.effect == Effect::Gone)
}

fn effect_on_output(expected: &str, outcome: &Outcome) -> Effect {
    match outcome.ending {
        _ if outcome.left.is_none() => Effect::None,
        Ending::Exited { .. } if outcomes::written(outcome) == expected => Effect::Gone,
        Ending::LeftTheRecording { .. } | Ending::OutOfInput {} | Ending::Stopped {} => Effect::Open,
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
        (Ending::LeftTheRecording { .. } | Ending::OutOfInput {} | Ending::Stopped {}, _) => Effect::Open,
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
