//! Tries predictions out: what-if runs of the recording, and what their outcomes prove.

use super::plans::{plans, without_the_order};
use crate::races::Subject;
use crate::recordings::Trouble;
use crate::rerun;
use crate::rerun::outcomes::{self, is_same};
use analysis::predict::{Kind, Predicted, Prediction};
use session::rerun::{Ending, Outcome, Plan};

/// A prediction and what came of it.
pub struct Tried<'a> {
    pub prediction: &'a Prediction,
    /// The plan that made the program fail, and how.
    pub proof: Option<(Plan, Outcome)>,
}

pub struct Court<'a> {
    subject: &'a Subject<'a>,
    /// The run as it was recorded.
    good: Outcome,
}

/// An invalid access so near to the beginning of memory is one through a null pointer.
const NULL_ZONE: u64 = 1 << 16;

impl Court<'_> {
    /// A recording that failed by itself needs no prediction.
    pub fn open<'a>(subject: &'a Subject<'a>) -> Result<Court<'a>, Trouble> {
        let good = outcomes::recorded(subject)?;
        if matches!(good.ending, Ending::Killed { .. } | Ending::Deadlock {}) {
            let name = &subject.name;
            return Err(Trouble::Refused(format!(
                "the recording failed by itself, so there is nothing to predict: see `whodunit show {name}` for how, \
                 and `whodunit races {name}` for what may have caused it"
            )));
        }
        Ok(Court { subject, good })
    }

    /// Tries the first `most` pairs of instructions, each until one of its occurrences is proved.
    pub fn try_out<'p>(&self, predicted: &'p Predicted, most: usize) -> Vec<Tried<'p>> {
        let pairs = predicted.pairs.iter().take(most);
        pairs.filter_map(|pair| self.try_pair(pair)).collect()
    }

    fn try_pair<'p>(&self, pair: &'p [Prediction]) -> Option<Tried<'p>> {
        let proved = pair.iter().find_map(|prediction| {
            let proof = plans(prediction).into_iter().find_map(|plan| self.prove(prediction, plan))?;
            Some(Tried { prediction, proof: Some(proof) })
        });
        proved.or_else(|| pair.first().map(|prediction| Tried { prediction, proof: None }))
    }

    /// A run that cannot be made proves nothing.
    fn prove(&self, prediction: &Prediction, plan: Plan) -> Option<(Plan, Outcome)> {
        let outcome = self.carry_out(&plan)?;
        let is_proved = match verdict(prediction.kind, &self.good, &outcome) {
            Verdict::Failed => true,
            // The delay alone may change what is written: then the order is not to blame.
            Verdict::Differs => {
                let control = without_the_order(prediction).and_then(|plan| self.carry_out(&plan));
                control.is_some_and(|control| is_same(&self.good, &control))
            }
            Verdict::Harmless => false,
        };
        is_proved.then_some((plan, outcome))
    }

    fn carry_out(&self, plan: &Plan) -> Option<Outcome> {
        rerun::carry_out(self.subject.recording.folder(), self.subject.log, plan).ok()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Failed,
    /// It ended well, but wrote something else.
    Differs,
    Harmless,
}

fn verdict(kind: Kind, good: &Outcome, outcome: &Outcome) -> Verdict {
    let counts_output = matches!(kind, Kind::Overflow | Kind::Uninitialised);
    match (kind, &outcome.ending) {
        _ if outcome.left.is_none() => Verdict::Harmless,
        (Kind::Null | Kind::Inconsistent, Ending::Killed { address, .. }) => match address.as_deref() {
            Some(address) if is_near_null(address) => Verdict::Failed,
            _ => Verdict::Harmless,
        },
        (Kind::Dangling | Kind::Overflow | Kind::Uninitialised, Ending::Killed { .. }) => Verdict::Failed,
        // Only if the order came about: otherwise the difference has another reason.
        (_, Ending::Exited { .. }) if !counts_output || !outcome.remarks.is_empty() => Verdict::Harmless,
        (_, Ending::Exited { .. }) if outcome.ending != good.ending => Verdict::Failed,
        (_, Ending::Exited { .. }) if !is_same(good, outcome) => Verdict::Differs,
        _ => Verdict::Harmless,
    }
}

fn is_near_null(address: &str) -> bool {
    let digits = address.strip_prefix("0x").unwrap_or(address);
    u64::from_str_radix(digits, 16).is_ok_and(|address| address < NULL_ZONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::rerun::{Left, Output};

    fn outcome(ending: Ending, text: &str) -> Outcome {
        let left = Left { event: 1, thread: 1, clock: 1, pc: String::new(), place: String::new() };
        let output = vec![Output { descriptor: 1, text: text.to_owned(), bytes: text.len() as u64 }];
        Outcome {
            schema: Outcome::SCHEMA.to_owned(),
            ending,
            thread: 1,
            clock: 1,
            events: 1,
            left: Some(left),
            threads: Vec::new(),
            output,
            schedule: Vec::new(),
            spent: 1,
            origins: None,
            remarks: Vec::new(),
        }
    }

    fn killed(address: &str) -> Outcome {
        outcome(Ending::Killed { signal: 11, name: "SIGSEGV".to_owned(), address: Some(address.to_owned()) }, "")
    }

    #[test]
    fn what_proves_depends_on_what_was_predicted() {
        let good = outcome(Ending::Exited { status: 0 }, "a\nb\n");
        let judge = |kind, outcome: &Outcome| verdict(kind, &good, outcome);
        assert_eq!(judge(Kind::Null, &killed("0x10")), Verdict::Failed);
        assert_eq!(judge(Kind::Null, &killed("0x7e9000001000")), Verdict::Harmless);
        assert_eq!(judge(Kind::Dangling, &killed("0x7e9000001000")), Verdict::Failed);
        let other = outcome(Ending::Exited { status: 0 }, "a\nc\n");
        assert_eq!(judge(Kind::Uninitialised, &other), Verdict::Differs);
        assert_eq!(judge(Kind::Dangling, &other), Verdict::Harmless);
        assert_eq!(judge(Kind::Overflow, &outcome(Ending::Exited { status: 1 }, "a\nb\n")), Verdict::Failed);
        let in_other_order = outcome(Ending::Exited { status: 0 }, "b\na\n");
        assert_eq!(judge(Kind::Uninitialised, &in_other_order), Verdict::Harmless);
        let let_go = Outcome { remarks: vec!["thread 2 was let go".to_owned()], ..other };
        assert_eq!(judge(Kind::Uninitialised, &let_go), Verdict::Harmless);
        assert_eq!(judge(Kind::Null, &Outcome { left: None, ..killed("0x0") }), Verdict::Harmless);
        let left = outcome(Ending::LeftTheRecording { needs: "socket".to_owned() }, "");
        assert_eq!(judge(Kind::Dangling, &left), Verdict::Harmless);
    }
}
