//! Tries predictions out: what-if runs of the recording, and what their outcomes prove.

use super::plans::plans;
use crate::races::Subject;
use crate::recordings::Trouble;
use crate::rerun;
use analysis::predict::{Kind, Predicted, Prediction};
use session::rerun::{Ending, Outcome, Passage, Plan, Step};
use std::collections::BTreeMap;

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

/// No program has code here, so a plan that speaks of it never acts.
const NOWHERE: &str = "0x1";
/// An invalid access so near to the beginning of memory is one through a null pointer.
const NULL_ZONE: u64 = 1 << 16;

impl Court<'_> {
    /// A recording that failed by itself needs no prediction.
    pub fn open<'a>(subject: &'a Subject<'a>) -> Result<Court<'a>, Trouble> {
        let until = Passage { thread: 2, passes: NOWHERE.to_owned(), time: 1 };
        let idle = Plan::new(vec![Step::Hold { thread: 1, before: NOWHERE.to_owned(), time: 1, until }]);
        let good = rerun::carry_out(subject.recording.folder(), subject.log, &idle)?;
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
        let outcome = rerun::carry_out(self.subject.recording.folder(), self.subject.log, &plan).ok()?;
        is_proof(prediction.kind, &self.good, &outcome).then_some((plan, outcome))
    }
}

fn is_proof(kind: Kind, good: &Outcome, outcome: &Outcome) -> bool {
    if outcome.left.is_none() {
        return false;
    }
    match (kind, &outcome.ending) {
        (Kind::Null | Kind::Inconsistent, Ending::Killed { address, .. }) => {
            address.as_deref().is_some_and(is_near_null)
        }
        (Kind::Dangling | Kind::Overflow | Kind::Uninitialised, Ending::Killed { .. }) => true,
        (Kind::Overflow | Kind::Uninitialised, Ending::Exited { .. }) => {
            // Only if the order came about: otherwise the difference has another reason.
            outcome.remarks.is_empty() && (outcome.ending != good.ending || lines(outcome) != lines(good))
        }
        _ => false,
    }
}

fn is_near_null(address: &str) -> bool {
    let digits = address.strip_prefix("0x").unwrap_or(address);
    u64::from_str_radix(digits, 16).is_ok_and(|address| address < NULL_ZONE)
}

/// What was written, line by line, in no order: that of threads may change without harm.
fn lines(outcome: &Outcome) -> Vec<(i32, String)> {
    let mut streams: BTreeMap<i32, String> = BTreeMap::new();
    for output in &outcome.output {
        streams.entry(output.descriptor).or_default().push_str(&output.text);
    }
    let split =
        |(descriptor, text): (i32, String)| text.lines().map(|line| (descriptor, line.to_owned())).collect::<Vec<_>>();
    let mut lines: Vec<(i32, String)> = streams.into_iter().flat_map(split).collect();
    lines.sort();
    lines
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
            remarks: Vec::new(),
        }
    }

    fn killed(address: &str) -> Outcome {
        outcome(Ending::Killed { signal: 11, name: "SIGSEGV".to_owned(), address: Some(address.to_owned()) }, "")
    }

    #[test]
    fn what_proves_depends_on_what_was_predicted() {
        let good = outcome(Ending::Exited { status: 0 }, "a\nb\n");
        assert!(is_proof(Kind::Null, &good, &killed("0x10")));
        assert!(!is_proof(Kind::Null, &good, &killed("0x7e9000001000")));
        assert!(is_proof(Kind::Dangling, &good, &killed("0x7e9000001000")));
        let other = outcome(Ending::Exited { status: 0 }, "a\nc\n");
        assert!(is_proof(Kind::Uninitialised, &good, &other));
        assert!(!is_proof(Kind::Dangling, &good, &other));
        let in_other_order = outcome(Ending::Exited { status: 0 }, "b\na\n");
        assert!(!is_proof(Kind::Uninitialised, &good, &in_other_order));
        let let_go = Outcome { remarks: vec!["thread 2 was let go".to_owned()], ..other };
        assert!(!is_proof(Kind::Uninitialised, &good, &let_go));
        assert!(!is_proof(Kind::Null, &good, &Outcome { left: None, ..killed("0x0") }));
        assert!(!is_proof(
            Kind::Dangling,
            &good,
            &outcome(Ending::LeftTheRecording { needs: "socket".to_owned() }, "")
        ));
    }
}
