//! Failures that another order of the threads would not have had.
//!
//! What the failure depends on leads to reads of memory (`readers`). A replay tells who accessed that memory around them, and
//! which of these accesses may have come in the wrong order (`analysis::neighbours`). Each such order is changed in what-if
//! runs (`orders`, `trial`); where that makes the failure go away, the order is the cause (`telling`).

mod control;
mod deadlock;
mod early;
mod orders;
mod readers;
mod telling;
mod trial;

use crate::naming::Naming;
use crate::predict::verdicts::Bench;
use crate::predict::{explored, known};
use crate::races::Subject;
use crate::races::names::Names;
use crate::races::passes::Passes;
use crate::recordings::Trouble;
use crate::study::predict::Known;
use crate::study::{Study, neighbours};
use crate::why::endings::ABORT;
use crate::why::sites::Sites;
use analysis::neighbours::{Candidate, History, Watched, candidates, is_careless, joined, patterns};
use analysis::predict::Explored;
use analysis::races::Instance;
use analysis::races::Suspects;
use readers::Reader;
use session::rerun::{Ending, Outcome};
use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use telling::Case;
use trace::finding::{Finding, Findings};
use trial::Court;

/// So many candidates are tried out; after the first, so many at a time.
const MOST_TRIED: usize = 12;
const AT_A_TIME: usize = 2;
/// So much contended memory is watched besides, in pieces of this size.
const MOST_WORDS: usize = 256;
const WORD: u64 = 8;
/// Of the same instructions, so many times are tried.
const MOST_TIMES: usize = 3;

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
        findings.notes.push("A run in another order has a schedule of its own from there on.".to_owned());
        self.finding.into_iter().for_each(|finding| findings.push(finding));
    }
}

/// Looks for wrong orders behind one failure.
pub struct Examiner<'a> {
    subject: &'a Subject<'a>,
    names: Names,
    sites: &'a Sites,
    court: Court<'a>,
    known: Known,
    /// How many orders were tried.
    n_runs: Cell<usize>,
    /// What is synchronisation and what is contended, once somebody has looked.
    explored: OnceCell<Explored>,
}

impl<'a> Examiner<'a> {
    /// Of a recording that ended like this.
    pub fn new(subject: &'a Subject<'a>, sites: &'a Sites, ending: Ending) -> Examiner<'a> {
        let naming = Naming::new(subject.recording, subject.log, &subject.recorded);
        let names = Names::new(subject.recorded.space.clone(), naming);
        let known = known(&Passes::of(subject, &names));
        let court = Court { folder: subject.recording.folder(), log: subject.log, recorded: ending, expected: None };
        Examiner { subject, names, sites, court, known, n_runs: Cell::new(0), explored: OnceCell::new() }
    }

    /// The same of one that wrote something else than it should have.
    pub fn expecting(mut self, expected: String) -> Examiner<'a> {
        self.court.expected = Some(expected);
        self
    }

    fn passes(&self) -> Passes<'_> {
        Passes::of(self.subject, &self.names)
    }

    fn bench(&self) -> Bench<'_> {
        Bench { subject: self.subject, names: &self.names }
    }

    fn examined(&self, finding: Option<Finding>, is_proved: bool) -> Examined {
        Examined { finding, is_proved, n_runs: self.n_runs.get() }
    }

    fn count_run(&self) {
        self.n_runs.set(self.n_runs.get() + 1);
    }

    /// A run that crashed. What a check noticed in the end may have gone wrong long before.
    pub fn crash(&self, outcome: &Outcome) -> Result<Examined, Trouble> {
        let examined = self.around(outcome, outcome)?;
        let is_noticed = matches!(outcome.ending, Ending::Killed { signal: ABORT, .. });
        if examined.is_proved || !is_noticed {
            return Ok(examined);
        }
        let races = self.races(outcome)?;
        Ok(if races.is_proved { races } else { examined })
    }

    /// Around what a run depended on where it ended: in the failure, or before a thread waits for ever.
    pub fn around(&self, outcome: &Outcome, failed: &Outcome) -> Result<Examined, Trouble> {
        let mut readers = readers::of(outcome, self.sites);
        // What the C library keeps to itself is its own affair.
        readers.retain(|reader| !self.names.is_in_c_library(reader.watched.address));
        let histories = self.histories(readers.iter().map(|reader| reader.watched).collect())?;
        let examined = self.try_out(likely(&readers, &histories), failed);
        if examined.is_proved {
            return Ok(examined);
        }
        Ok(self.too_early(&readers, &histories, failed).unwrap_or(examined))
    }

    /// Around all that races, which may have kept a thread from what the failure misses.
    pub fn races(&self, outcome: &Outcome) -> Result<Examined, Trouble> {
        let seen = self.passes().look()?;
        let instances = seen.found.races.iter().flat_map(|race| &race.instances);
        let own = instances.filter(|instance| !self.names.is_in_c_library(instance.address));
        let watched =
            |instance: &Instance| Watched { address: instance.address, size: instance.first.size.max(1).into() };
        let histories = self.histories(own.map(watched).collect())?;
        Ok(self.try_out(unserial(&histories), outcome))
    }

    fn try_out(&self, mut found: Vec<(&History, Candidate<'_>)>, outcome: &Outcome) -> Examined {
        let mut suspected = None;
        found.truncate(MOST_TRIED);
        // Most often the first one is it, and the others need not be tried.
        let (first, others) = found.split_at(found.len().min(1));
        for lot in first.chunks(1).chain(others.chunks(AT_A_TIME)) {
            for ((history, candidate), tried) in lot.iter().zip(self.court.try_all(lot)) {
                self.n_runs.set(self.n_runs.get() + tried.n_runs);
                let told = || telling::finding(&Case { history, candidate, tried: &tried, outcome }, &self.bench());
                if tried.is_proved() {
                    return self.examined(Some(told()), true);
                }
                if suspected.is_none() && tried.best().is_some() {
                    suspected = Some(told());
                }
            }
        }
        self.examined(suspected, false)
    }

    fn histories(&self, watched: BTreeSet<Watched>) -> Result<Vec<History>, Trouble> {
        if watched.is_empty() {
            return Ok(Vec::new());
        }
        let explored = match self.explored.get() {
            Some(explored) => explored,
            None => {
                let explored = explored(&self.passes(), &self.known)?;
                self.explored.get_or_init(|| explored)
            }
        };
        let others = contended(explored).filter(|watched| !self.names.is_in_c_library(watched.address));
        let watched: BTreeSet<Watched> = watched.into_iter().chain(others).collect();
        let watched = watched.into_iter().collect();
        let surveyed = explored.surveyed.clone();
        self.passes().ask(Study::Histories(neighbours::Subject { watched, surveyed, known: self.known.clone() }))
    }
}

/// Memory that threads contend for: what they do there may belong together with what they do elsewhere.
fn contended(explored: &Explored) -> impl Iterator<Item = Watched> {
    let addresses = explored.contended.memory.iter().flat_map(Suspects::addresses).take(MOST_WORDS);
    addresses.map(|address| Watched { address, size: WORD })
}

/// What may have come in the wrong order, each once; where two pieces of memory tell more than one, both.
fn likely<'a>(readers: &[Reader], histories: &'a [History]) -> Vec<(&'a History, Candidate<'a>)> {
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for reader in readers {
        let Some(history) = histories.iter().find(|history| history.watched == reader.watched) else { continue };
        for candidate in candidates(history, reader.thread, reader.pc, reader.value) {
            if known.insert((candidate.interloper().number, candidate.last.number)) {
                let both = Some(&candidate).filter(|candidate| !candidate.is_race());
                found.extend(both.and_then(|candidate| joined(candidate, histories)).map(|both| (history, both)));
                found.push((history, candidate));
            }
        }
    }
    likeliest_first(&mut found);
    found
}

/// Lost updates come first, and each order of instructions comes once before any twice.
fn likeliest_first(found: &mut [(&History, Candidate<'_>)]) {
    let mut times: BTreeMap<(Option<u64>, u64, u64), usize> = BTreeMap::new();
    found.sort_by_cached_key(|(history, candidate)| {
        let time = times.entry(candidate.instructions()).or_default();
        *time += 1;
        (*time, !candidate.is_lost_update(history))
    });
}

/// What is not as if one thread had come after the other, first where somebody left out a lock; of the same instructions, the
/// latest times.
fn unserial(histories: &[History]) -> Vec<(&History, Candidate<'_>)> {
    let mut times: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    let all = histories.iter().flat_map(|history| patterns(history).into_iter().map(move |found| (history, found)));
    let latest = all.filter(|(_, candidate)| {
        let time = times.entry((candidate.interloper().deed.pc, candidate.last.deed.pc)).or_default();
        *time += 1;
        *time <= MOST_TIMES
    });
    let mut latest: Vec<(&History, Candidate<'_>)> = latest.collect();
    latest.sort_by_key(|(history, candidate)| !is_careless(history, candidate));
    latest
}
