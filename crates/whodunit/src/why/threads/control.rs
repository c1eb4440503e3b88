//! Controls of a wrong order: whether nothing but the order has made the failure go away.
//!
//! A run that leaves its recording goes on with another schedule, which alone may let it pass. So each order that helps has
//! counterparts that leave at the same point without it: one of them must fail as ever.

use super::orders;
use super::trial::{Court, Effect, Trial, Tried};
use crate::rerun::outcomes;
use analysis::neighbours::Candidate;
use session::rerun::{Outcome, Plan, PolicyName, Step};

/// So many other schedules are tried.
const SCHEDULES: u64 = 24;
/// So long a turn is in them, in events: short, so that threads meet.
const QUANTUM: u64 = 50;

/// How a run fails without the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// When nobody is held from the same point on.
    NobodyHeld,
    /// When threads are held to the recorded order from the same point on.
    SameOrder,
    /// Under this random schedule from the same point on, by which it passes in the other order.
    Schedule(u64),
}

impl Control {
    /// As a sentence.
    pub fn text(self) -> String {
        match self {
            Control::NobodyHeld => "From the same point on, it fails when nobody is held.".to_owned(),
            Control::SameOrder => {
                "From the same point on, it fails when threads are held to the order as it was.".to_owned()
            }
            Control::Schedule(seed) => format!(
                "From the same point on, by a random schedule (seed {seed}), it fails when nobody is held and does not in \
                 this order."
            ),
        }
    }
}

impl Court<'_> {
    /// What shows that the order is to blame; nothing if nothing does.
    pub fn control(&self, candidate: &Candidate<'_>, tried: &Tried) -> Option<Control> {
        let gone: Vec<&Trial> = tried.trials().filter(|trial| trial.effect == Effect::Gone).collect();
        let nobody = || gone.iter().any(|trial| self.fails_with_nobody_held(&trial.outcome));
        let same = || gone.iter().any(|trial| self.fails_in_the_same_order(&trial.outcome, candidate));
        let plain = nobody().then_some(Control::NobodyHeld).or_else(|| same().then_some(Control::SameOrder));
        plain.or_else(|| gone.iter().find_map(|trial| self.schedule_that_fails(trial)).map(Control::Schedule))
    }

    pub fn fails_with_nobody_held(&self, outcome: &Outcome) -> bool {
        outcome.left.as_ref().is_some_and(|left| self.fails(outcomes::counterpart(left)))
    }

    fn fails(&self, plan: Plan) -> bool {
        self.run(plan).is_some_and(|trial| trial.effect == Effect::None)
    }

    /// Threads are held as well, but to the recorded order.
    fn fails_in_the_same_order(&self, outcome: &Outcome, candidate: &Candidate<'_>) -> bool {
        let left = outcome.left.as_ref();
        left.is_some_and(|left| self.fails(outcomes::from_there(left, orders::as_recorded(candidate))))
    }

    /// A schedule by which the run fails from the same point on, and does not in the other order.
    fn schedule_that_fails(&self, trial: &Trial) -> Option<u64> {
        let leaving = outcomes::leaving_at(trial.outcome.left.as_ref()?);
        (1..=SCHEDULES).find(|seed| {
            let schedule =
                Step::Schedule { policy: PolicyName::Random, seed: *seed, quantum: Some(QUANTUM), first: Vec::new() };
            // It is in force from where the recording is left.
            let under = |steps: &[Step]| {
                let steps = steps.iter().chain([&schedule]).cloned().collect();
                Plan { limit: Some(outcomes::LIMIT), ..Plan::new(steps) }
            };
            let is_gone = || self.run(under(&trial.plan.steps)).is_some_and(|held| held.effect == Effect::Gone);
            self.fails(under(std::slice::from_ref(&leaving))) && is_gone()
        })
    }
}
