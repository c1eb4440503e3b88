//! Tries predictions out: what-if runs of the recording, and what their outcomes prove.

use super::plans::{plans, without_the_order};
use crate::races::Subject;
use crate::recordings::Trouble;
use crate::rerun;
use crate::rerun::outcomes::{self, is_same};
use analysis::predict::{Kind, Predicted, Prediction};
use session::rerun::{Ending, Outcome, Plan};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{iter, thread};
use trace::event::EndKind;

/// A prediction and what came of it.
pub struct Tried<'a> {
    pub prediction: &'a Prediction,
    /// The plan that made the program fail, and how.
    pub proof: Option<(Plan, Outcome)>,
}

pub struct Court<'a> {
    folder: &'a Path,
    log: u32,
    /// Of events that a trial may take.
    limit: u64,
    /// The run as it was recorded; nothing if it cannot be run.
    good: OnceLock<Option<Outcome>>,
}

/// An invalid access so near to the beginning of memory is one through a null pointer.
const NULL_ZONE: u64 = 1 << 16;
/// What functions that find out that a block is given back twice have in their names.
const RELEASES: [&str; 2] = ["free", "realloc"];
/// Runs are processes, and as many go on at a time at most.
const MOST_AT_A_TIME: usize = 4;

impl Court<'_> {
    /// A recording that failed by itself needs no prediction.
    pub fn open<'a>(subject: &'a Subject<'a>) -> Result<Court<'a>, Trouble> {
        let limit = outcomes::limit_for(&subject.recorded);
        let court = Court { folder: subject.recording.folder(), log: subject.log, limit, good: OnceLock::new() };
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
    pub fn try_out<'p>(&self, predicted: &'p Predicted, most: usize) -> Vec<Tried<'p>> {
        let pairs: Vec<&[Prediction]> = predicted.pairs.iter().take(most).map(Vec::as_slice).collect();
        let at_a_time = thread::available_parallelism().map_or(1, usize::from).min(MOST_AT_A_TIME);
        let next = AtomicUsize::new(0);
        let work = || {
            let numbers = iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
            let taken = numbers.map_while(|number| Some((number, *pairs.get(number)?)));
            taken.filter_map(|(number, pair)| Some((number, self.try_pair(pair)?))).collect::<Vec<_>>()
        };
        let mut tried: Vec<(usize, Tried<'p>)> = thread::scope(|scope| {
            let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(work)).collect();
            workers.into_iter().filter_map(|worker| worker.join().ok()).flatten().collect()
        });
        tried.sort_by_key(|(number, _)| *number);
        tried.into_iter().map(|(_, tried)| tried).collect()
    }

    fn try_pair<'p>(&self, pair: &'p [Prediction]) -> Option<Tried<'p>> {
        let of_each = |prediction: &'p Prediction| plans(prediction).into_iter().map(move |plan| (prediction, plan));
        for (prediction, plan) in pair.iter().flat_map(of_each) {
            let plan = Plan { limit: Some(self.limit), ..plan };
            // A run that cannot be made proves nothing.
            let Some(outcome) = self.carry_out(&plan) else { continue };
            if self.is_proof(prediction, &outcome) {
                return Some(Tried { prediction, proof: Some((plan, outcome)) });
            }
            // Others wait for the held thread in a loop, and would do so the next time, too.
            if outcome.remarks.iter().any(|remark| remark.contains(engine::TOO_LONG)) {
                break;
            }
        }
        pair.first().map(|prediction| Tried { prediction, proof: None })
    }

    fn is_proof(&self, prediction: &Prediction, outcome: &Outcome) -> bool {
        let recorded = || outcomes::recorded(self.folder, self.log).ok();
        let Some(good) = self.good.get_or_init(recorded) else { return false };
        match verdict(prediction.kind, good, outcome) {
            Verdict::Failed => true,
            // The delay alone may change what is written: then the order is not to blame.
            Verdict::Differs => {
                let control = without_the_order(prediction).and_then(|plan| self.carry_out(&plan));
                control.is_some_and(|control| is_same(good, &control))
            }
            Verdict::Harmless => false,
        }
    }

    fn carry_out(&self, plan: &Plan) -> Option<Outcome> {
        rerun::try_out(self.folder, self.log, plan).ok()
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
