//! Failures that another order of the threads would not have had.
//!
//! What the failure depends on leads to reads of memory (`readers`). A replay tells who accessed that memory around them, and
//! which of these accesses may have come in the wrong order (`analysis::neighbours`). Each such order is changed in what-if
//! runs (`orders`, `trial`); where that makes the failure go away, the order is the cause (`telling`).

mod orders;
mod readers;
mod telling;
mod trial;

use crate::naming::Naming;
use crate::predict::known;
use crate::predict::verdicts::Bench;
use crate::races::Subject;
use crate::races::names::Names;
use crate::races::passes::Passes;
use crate::recordings::Trouble;
use crate::study::{Study, neighbours};
use crate::why::sites::Sites;
use analysis::neighbours::{Candidate, History, Watched, candidates};
use analysis::predict::Explored;
use readers::Reader;
use session::rerun::Outcome;
use std::collections::BTreeSet;
use telling::Case;
use trace::finding::{Finding, Findings};
use trial::Court;

/// So many candidates are tried out.
const MOST_TRIED: usize = 12;

/// What other orders have shown.
pub struct Examined {
    /// Proved, or else a suspicion.
    pub finding: Option<Finding>,
    pub is_proved: bool,
    pub n_runs: usize,
}

impl Examined {
    pub fn tell(self, findings: &mut Findings) {
        let runs = if self.n_runs == 1 { "run" } else { "runs" };
        findings.summary.text = Some(match self.is_proved {
            true => format!("In another order the program does not fail. {} what-if {runs}.", self.n_runs),
            false => {
                format!("In another order the program goes on beyond the failure. {} what-if {runs}.", self.n_runs)
            }
        });
        self.finding.into_iter().for_each(|finding| findings.push(finding));
    }
}

/// Looks for a wrong order behind a failed run, whose data were followed.
pub fn examine(outcome: &Outcome, subject: &Subject<'_>, sites: &Sites) -> Result<Examined, Trouble> {
    let naming = Naming::new(subject.recording, subject.log, &subject.recorded);
    let names = Names::new(subject.recorded.space.clone(), naming);
    let mut readers = readers::of(outcome, sites);
    // What the C library keeps to itself is its own affair.
    readers.retain(|reader| !names.is_in_c_library(reader.watched.address));
    let histories = histories(&readers, subject, &names)?;
    let found = likely(&readers, &histories);
    let court = Court::new(subject, outcome.ending.clone());
    let bench = Bench { subject, names: &names };
    let mut suspected = None;
    for (history, candidate) in found.iter().take(MOST_TRIED) {
        let tried = court.try_out(candidate);
        let case = Case { history, candidate, tried: &tried, outcome };
        if tried.is_proved() {
            let finding = Some(telling::finding(&case, &bench));
            return Ok(Examined { finding, is_proved: true, n_runs: court.n_runs() });
        }
        if suspected.is_none() && tried.best().is_some() {
            suspected = Some(telling::finding(&case, &bench));
        }
    }
    Ok(Examined { finding: suspected, is_proved: false, n_runs: court.n_runs() })
}

fn histories(readers: &[Reader], subject: &Subject<'_>, names: &Names) -> Result<Vec<History>, Trouble> {
    if readers.is_empty() {
        return Ok(Vec::new());
    }
    let allocators = &subject.allocating.allocators;
    let passes = Passes { folder: subject.recording.folder(), log: subject.log, names, allocators };
    let known = known(&passes);
    let explored: Explored = passes.ask(Study::Explore(known.clone()))?;
    let watched: BTreeSet<Watched> = readers.iter().map(|reader| reader.watched).collect();
    let watched = watched.into_iter().collect();
    passes.ask(Study::Histories(neighbours::Subject { watched, surveyed: explored.surveyed, known }))
}

/// What may have come in the wrong order, each once.
fn likely<'a>(readers: &[Reader], histories: &'a [History]) -> Vec<(&'a History, Candidate<'a>)> {
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for reader in readers {
        let Some(history) = histories.iter().find(|history| history.watched == reader.watched) else { continue };
        for candidate in candidates(history, reader.thread, reader.pc) {
            if known.insert((candidate.interloper().number, candidate.last.number)) {
                found.push((history, candidate));
            }
        }
    }
    found
}
