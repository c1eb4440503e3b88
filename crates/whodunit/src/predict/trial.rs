//! Tries predictions out: what-if runs of the recording, and what their outcomes prove.
//!
//! All pairs of instructions are tried at once, each with its next plan, by one process that follows the recording and copies
//! of it (`rerun::rivals`). The next round is for those that are still open.

use super::plans::{plans, without_the_order};
use crate::races::Subject;
use crate::recordings::Trouble;
use crate::rerun::outcomes::{self, is_same};
use crate::rerun::rivals::try_all;
use crate::show::Recorded;
use analysis::predict::{Kind, Predicted, Prediction};
use session::rerun::{Ending, Outcome, Plan};
use std::collections::VecDeque;
use std::path::Path;
use trace::event::EndKind;

/// A prediction and what came of it.
pub struct Tried<'a> {
    pub prediction: &'a Prediction,
    /// The plan that made the program fail, and how.
    pub proof: Option<(Plan, Outcome)>,
    /// Whether any of its trials came to an end, so that it can be told what the order does.
    pub has_verdict: bool,
}

pub struct Court<'a> {
    folder: &'a Path,
    log: u32,
    /// Of events that a trial may take.
    limit: u64,
}

/// An invalid access so near to the beginning of memory is one through a null pointer.
const NULL_ZONE: u64 = 1 << 16;
/// What functions that find out that a block is given back twice have in their names.
const RELEASES: [&str; 2] = ["free", "realloc"];

/// The plans for a pair of instructions that are still to be carried out.
struct Case<'p> {
    pair: &'p [Prediction],
    open: VecDeque<(&'p Prediction, Plan)>,
    /// What ended well but differs, and has to be compared with the same delay without the order.
    doubt: Option<(&'p Prediction, Plan, Outcome)>,
    proof: Option<(&'p Prediction, Plan, Outcome)>,
    has_verdict: bool,
}

impl<'p> Case<'p> {
    fn new(pair: &'p [Prediction], limit: u64) -> Case<'p> {
        let limited = |plan: Plan| Plan { limit: Some(limit), ..plan };
        let of_each =
            |prediction: &'p Prediction| plans(prediction).into_iter().map(move |plan| (prediction, limited(plan)));
        Case { pair, open: pair.iter().flat_map(of_each).collect(), doubt: None, proof: None, has_verdict: false }
    }

    /// What is to be carried out next, if anything.
    fn next(&mut self) -> Option<Plan> {
        if let Some((prediction, plan, _)) = &self.doubt {
            let limit = plan.limit;
            match without_the_order(prediction) {
                Some(control) => return Some(Plan { limit, ..control }),
                None => self.doubt = None,
            }
        }
        match self.proof {
            Some(_) => None,
            None => self.open.front().map(|(_, plan)| plan.clone()),
        }
    }

    /// Takes what came of that. A run that could not be made proves nothing.
    fn hear(&mut self, outcome: Option<Outcome>, good: Option<&Outcome>) {
        if let Some((prediction, plan, different)) = self.doubt.take() {
            // The delay alone may change what is written: then the order is not to blame.
            let is_to_blame = outcome.zip(good).is_some_and(|(control, good)| is_same(good, &control));
            self.proof = is_to_blame.then_some((prediction, plan, different));
            return;
        }
        let Some((prediction, plan)) = self.open.pop_front() else { return };
        let Some((outcome, good)) = outcome.zip(good) else { return };
        self.has_verdict |= has_ended(&outcome);
        match verdict(prediction.kind, good, &outcome) {
            Verdict::Failed => self.proof = Some((prediction, plan, outcome)),
            Verdict::Differs => self.doubt = Some((prediction, plan, outcome)),
            // Others wait for the held thread in a loop, and would do so the next time, too.
            Verdict::Harmless if outcome.remarks.iter().any(|remark| remark.contains(engine::TOO_LONG)) => {
                self.open.clear()
            }
            Verdict::Harmless => {}
        }
    }

    fn tried(self) -> Option<Tried<'p>> {
        match self.proof {
            Some((prediction, plan, outcome)) => {
                Some(Tried { prediction, proof: Some((plan, outcome)), has_verdict: true })
            }
            None => {
                self.pair.first().map(|prediction| Tried { prediction, proof: None, has_verdict: self.has_verdict })
            }
        }
    }
}

impl Court<'_> {
    /// A recording that failed by itself needs no prediction.
    pub fn open<'a>(subject: &'a Subject<'a>) -> Result<Court<'a>, Trouble> {
        let court = Court { folder: subject.recording.folder(), log: subject.log, limit: limit_for(&subject.recorded) };
        let has_failed = match subject.recorded.end {
            Some(EndKind::Exited(_)) => false,
            Some(EndKind::Killed(_)) => true,
            // Whether the rest of it would have been a deadlock is not written down.
            Some(EndKind::Aborted(_)) | None => {
                let good = outcomes::recorded(court.folder, court.log)?;
                matches!(good.ending, Ending::Killed { .. } | Ending::Deadlock {})
            }
        };
        if has_failed {
            let name = &subject.name;
            return Err(Trouble::Refused(format!(
                "the recording failed by itself, so there is nothing to predict: see `whodunit show {name}` for how, \
                 `whodunit why {name}` for what caused it, and `whodunit races {name}` for what may have"
            )));
        }
        Ok(court)
    }

    /// Tries the first `most` pairs of instructions, each until one of its occurrences is proved.
    pub fn try_out<'p>(&self, predicted: &'p Predicted, most: usize) -> Result<Vec<Tried<'p>>, Trouble> {
        let pairs = predicted.pairs.iter().take(most);
        let mut cases: Vec<Case<'p>> = pairs.map(|pair| Case::new(pair, self.limit)).collect();
        let mut good = None;
        loop {
            let mut heard = Vec::new();
            let mut asked = Vec::new();
            for case in &mut cases {
                if let Some(plan) = case.next() {
                    asked.push(plan);
                    heard.push(case);
                }
            }
            if asked.is_empty() {
                break;
            }
            let outcomes = try_all(self.folder, self.log, asked, good.is_none())?;
            good = good.or(outcomes.recorded);
            for (case, outcome) in heard.into_iter().zip(outcomes.of_plans) {
                case.hear(outcome, good.as_ref());
            }
        }
        Ok(cases.into_iter().filter_map(Case::tried).collect())
    }
}

/// Events that a trial may take, of all threads. A held thread waits for what came about within the recorded run, and half of what a
/// trial is granted is twice that run: whoever takes longer goes round and round. At each of the recorded events everybody may have
/// slept, which counts as well.
fn limit_for(recorded: &Recorded) -> u64 {
    const FEWEST: u64 = 4_000_000;
    const SLEEP: u64 = 20_000;
    let granted = recorded.clock.saturating_mul(4);
    granted.saturating_add(recorded.events.saturating_mul(SLEEP)).min(granted.max(outcomes::LIMIT)).max(FEWEST)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Failed,
    /// It ended well, but wrote something else.
    Differs,
    Harmless,
}

fn verdict(kind: Kind, good: &Outcome, outcome: &Outcome) -> Verdict {
    let counts_output = matches!(kind, Kind::Overflow | Kind::Uninitialised | Kind::Left | Kind::Closed);
    match (kind, &outcome.ending) {
        _ if outcome.left.is_none() => Verdict::Harmless,
        (Kind::Null | Kind::Inconsistent, Ending::Killed { address, .. }) => match address.as_deref() {
            Some(address) if is_near_null(address) => Verdict::Failed,
            _ => Verdict::Harmless,
        },
        (Kind::DoubleFree, Ending::Killed { .. }) if is_in_free(outcome) => Verdict::Failed,
        (Kind::Dangling, Ending::Killed { .. }) => Verdict::Failed,
        (_, Ending::Killed { .. }) if counts_output => Verdict::Failed,
        // Only if the order came about: otherwise the difference has another reason.
        (_, Ending::Exited { .. }) if !counts_output || !outcome.remarks.is_empty() => Verdict::Harmless,
        (_, Ending::Exited { .. }) if outcome.ending != good.ending => Verdict::Failed,
        (_, Ending::Exited { .. }) if !is_same(good, outcome) => Verdict::Differs,
        _ => Verdict::Harmless,
    }
}

/// Whether a run came to an end of its own, after it had left the recording.
fn has_ended(outcome: &Outcome) -> bool {
    outcome.left.is_some()
        && matches!(
            outcome.ending,
            Ending::Exited { .. } | Ending::Killed { .. } | Ending::Deadlock {} | Ending::OutOfInput {}
        )
}

/// Whether the thread that failed was giving back a block.
fn is_in_free(outcome: &Outcome) -> bool {
    let failed = outcome.threads.iter().find(|thread| thread.thread == outcome.thread);
    let mut functions =
        failed.into_iter().flat_map(|thread| &thread.stack).filter_map(|frame| frame.function.as_deref());
    functions.any(|name| RELEASES.iter().any(|release| name.contains(release)))
}

fn is_near_null(address: &str) -> bool {
    let digits = address.strip_prefix("0x").unwrap_or(address);
    u64::from_str_radix(digits, 16).is_ok_and(|address| address < NULL_ZONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rerun::outcomes::made_up as outcome;
    use analysis::predict::{Deed, Place};

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

    fn deed(pc: u64) -> Deed {
        let (place, before) = (Place::new(pc, 1), Place::new(pc - 1, 1));
        Deed { thread: 1, pc, place, before, locks: Vec::new(), callers: Vec::new(), value: None }
    }

    fn overflow() -> Prediction {
        let (kind, early, late) = (Kind::Overflow, deed(0x20), Deed { thread: 2, ..deed(0x10) });
        Prediction { kind, address: 0x500, size: 8, block: None, early, late, renewal: None, was_renewed: false }
    }

    #[test]
    fn what_only_differs_is_compared_with_the_delay_alone() {
        let good = outcome(Ending::Exited { status: 0 }, "a");
        let different = outcome(Ending::Exited { status: 0 }, "b");
        for (control, is_proved) in [(good.clone(), true), (different.clone(), false)] {
            let pair = [overflow()];
            let mut case = Case::new(&pair, 7);
            let plan = case.next().expect("a plan");
            case.hear(Some(different.clone()), Some(&good));
            let other = case.next().expect("a control");
            assert_ne!(plan, other);
            assert_eq!((plan.limit, other.limit), (Some(7), Some(7)));
            case.hear(Some(control), Some(&good));
            assert_eq!(case.next(), None);
            assert_eq!(case.tried().and_then(|tried| tried.proof), is_proved.then(|| (plan, different.clone())));
        }
    }

    #[test]
    fn occurrences_are_tried_until_one_fails_or_others_wait_for_the_held_thread() {
        let good = outcome(Ending::Exited { status: 0 }, "a");
        let pair = [overflow(), overflow(), overflow()];
        let mut case = Case::new(&pair, 7);
        case.hear(None, Some(&good));
        assert!(case.next().is_some(), "a run that could not be made says nothing");
        assert!(!case.has_verdict);
        let waiting = Outcome { remarks: vec![format!("thread 2 was let go: {}", engine::TOO_LONG)], ..good.clone() };
        case.hear(Some(waiting), Some(&good));
        assert_eq!(case.next(), None);
        assert!(case.has_verdict);
        let mut case = Case::new(&pair, 7);
        case.hear(Some(killed("0x5")), Some(&good));
        assert_eq!(case.next(), None);
        assert!(case.tried().is_some_and(|tried| tried.proof.is_some()));
    }
}
