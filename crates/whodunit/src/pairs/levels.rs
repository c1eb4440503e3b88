//! What the procedures blame, looking at the runs more and more closely until something is found.
//!
//! By instructions and threads; by iterations of loops; with a third thread, and with three pairs; by who called; and with every
//! two threads as if there were no others. All but the first need the runs to be heard once more.

use super::hearing::{self, Manner};
use super::{Arguments, Case};
use crate::recordings::Trouble;
use analysis::pairs::{
    Collected, Level, PairId, Procedure, Runs, SELDOM, Suspect, coupled_by_loops, mixtures, rings, suspects,
    turning_couples, turning_pairs,
};
use std::collections::BTreeSet;

/// What is to blame, the most likely first. Where only a closer look has told, the runs of the case are what it showed.
pub fn blamed(case: &mut Case, arguments: &Arguments) -> Result<Vec<Suspect>, Trouble> {
    let found = by_procedures(case, case.manner(), arguments)?;
    if !is_settled(&found) && is_third_wanted(arguments) {
        let manner = Manner { contexts: true, ..case.manner() };
        let closer = heard_anew(case, manner, " Instructions were told apart by who called.", |case| {
            Ok(by_context(suspects(&case.runs, arguments.procedure())))
        })?;
        if !closer.is_empty() {
            return Ok(closer);
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let two_by_two = |case: &Case| Manner { two_by_two: true, ..case.manner() };
    let story = " Every two threads were looked at as if there were no others.";
    heard_anew(case, two_by_two(case), story, |case| by_procedures(case, two_by_two(case), arguments))
}

fn is_third_wanted(arguments: &Arguments) -> bool {
    arguments.procedure().is_none_or(|asked| asked == Procedure::III)
}

/// Whether something is more than faint.
fn is_settled(found: &[Suspect]) -> bool {
    found.iter().any(|suspect| !suspect.is_faint())
}

/// What is found where runs are heard in this manner. Leaves the case as it was if that is nothing.
fn heard_anew(
    case: &mut Case,
    manner: Manner,
    story: &str,
    find: impl FnOnce(&Case) -> Result<Vec<Suspect>, Trouble>,
) -> Result<Vec<Suspect>, Trouble> {
    let mut runs = Runs::new(&case.failing.hear(&manner, &case.failing)?);
    let heard = hearing::hear_all(&case.passing, &case.failing, &manner, case.jobs);
    heard.runs.iter().for_each(|run| runs.add_passing(run));
    let before = std::mem::replace(&mut case.runs, runs);
    let found = find(case)?;
    if found.is_empty() {
        case.runs = before;
    } else {
        case.story.push_str(story);
    }
    Ok(found)
}

/// Couples whose pairs are known by who called; a missing one tells less than it seems, since a call is easily missing.
fn by_context(found: Vec<Suspect>) -> Vec<Suspect> {
    let firm = found.into_iter().filter(|suspect| suspect.procedure() != Procedure::II);
    let named = firm.map(|suspect| match suspect {
        Suspect::Couple(couple, _) => Suspect::Couple(couple, Level::Context),
        other => other,
    });
    named.collect()
}

/// What the three procedures find; of the third, the first level that finds anything.
fn by_procedures(case: &Case, manner: Manner, arguments: &Arguments) -> Result<Vec<Suspect>, Trouble> {
    let mut found = suspects(&case.runs, arguments.procedure());
    let is_told = found.iter().any(|suspect| suspect.procedure() != Procedure::II);
    if !is_told && is_third_wanted(arguments) {
        found.extend(by_iterations(case, manner)?);
    }
    if is_settled(&found) {
        found.retain(|suspect| !suspect.is_faint());
    }
    Ok(found)
}

/// Couples by the iterations of loops that they are in; else those of three threads.
fn by_iterations(case: &Case, manner: Manner) -> Result<Vec<Suspect>, Trouble> {
    let couples = turning_couples(&case.runs).into_iter().flat_map(|couple| [couple.first, couple.second]);
    let pairs: BTreeSet<PairId> = couples.chain(turning_pairs(&case.runs)).collect();
    let keys = pairs.iter().map(|pair| case.runs.key(*pair));
    let looping_sites: BTreeSet<u64> = keys.flat_map(|key| [key.head.pc, key.tail.pc]).collect();
    let mixed = || mixtures(&case.runs).into_iter().map(|couple| Suspect::Couple(couple, Level::Third)).collect();
    if looping_sites.is_empty() {
        return Ok(mixed());
    }
    let manner = Manner { looping_sites, ..manner };
    let failing = case.failing.hear(&manner, &case.failing)?;
    let passing = hearing::ask_all(&case.passing, case.jobs, |source| {
        let mut run = source.hear(&manner, &case.failing)?;
        // All runs are held at the same time.
        run.keep_placed();
        Ok(run)
    });
    let passing: Vec<Collected> = passing.into_iter().flatten().collect();
    // Threads two by two are the last resort: there, luck of single runs is not believed.
    let most = if manner.two_by_two { passing.len() / SELDOM } else { 0 };
    let mut found: Vec<Suspect> =
        coupled_by_loops(&case.runs, &failing, &passing, most).into_iter().map(Suspect::InStep).collect();
    if found.is_empty() {
        found = mixed();
    }
    if found.is_empty() {
        found = round(&case.runs, &failing, &passing);
    }
    Ok(found)
}

/// Three pairs of three threads.
fn round(runs: &Runs, failing: &Collected, passing: &[Collected]) -> Vec<Suspect> {
    rings(runs, failing, passing).into_iter().map(Suspect::Ring).collect()
}
