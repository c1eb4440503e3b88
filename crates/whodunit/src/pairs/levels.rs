//! What the procedures blame, looking at the runs more and more closely until something is proved.
//!
//! One order of two accesses comes before two together: by instructions, and by who called. Then two together by instructions and threads; by
//! iterations of loops; with a third thread, and with three pairs; by who called; with every two threads as if there were no others; and by the
//! order of accesses of different iterations. Most of these need the runs to be heard once more.
//!
//! LOCON applies its procedures one after the other until a developer says that the bug is localised. Here a what-if run says
//! so; where none does, what the first look found is told.

use super::hearing::Manner;
use super::verdicts::Verdict;
use super::{Arguments, Case};
use crate::recordings::Trouble;
use analysis::pairs::{
    Apart, Collected, Level, PairId, Procedure, Runs, SELDOM, Suspect, coupled_by_loops, mixtures, rare, rarest, rings,
    sharpen, suspects, turning_couples, turning_pairs,
};
use std::collections::BTreeSet;

/// A way to look at the runs, and what was done to get there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Procedure I alone.
    First,
    /// The same by who called, if that can be proved.
    FirstByCalls,
    /// Instructions and threads, and iterations if these tell nothing.
    Plain,
    /// Iterations, though instructions or threads tell something.
    Iterations,
    Calls,
    TwoByTwo,
    /// The order of accesses, however many iterations are in between.
    Order,
}

const LOOKS: [Look; 7] =
    [Look::First, Look::FirstByCalls, Look::Plain, Look::Iterations, Look::Calls, Look::TwoByTwo, Look::Order];

impl Look {
    fn manner(self, case: &Case) -> Manner {
        Manner { contexts: self.is_by_calls(), two_by_two: self == Look::TwoByTwo, ..case.manner() }
    }

    fn is_by_calls(self) -> bool {
        matches!(self, Look::FirstByCalls | Look::Calls)
    }

    fn story(self) -> &'static str {
        match self {
            Look::First | Look::Plain | Look::Iterations | Look::Order => "",
            Look::FirstByCalls | Look::Calls => " Instructions were told apart by who called.",
            Look::TwoByTwo => " Every two threads were looked at as if there were no others.",
        }
    }
}

/// What has been found so far.
#[derive(Default)]
struct Search {
    /// The most likely of what nothing has proved, and whether it is more than faint.
    told: Option<(Verdict, bool)>,
    /// Procedure III has found something by instructions or threads.
    is_coupled: bool,
    /// Procedure I has found something.
    is_first: bool,
    /// What it has found by who called, which nothing has proved: two together by instructions and threads are likelier than that.
    first_by_calls: Option<Seen>,
}

/// Suspects, and what comes of them.
type Seen = (Vec<Suspect>, Verdict);

impl Search {
    /// Whether a look can tell more. Without trials, nothing can say that what was found is not to blame.
    fn wants(&self, look: Look, arguments: &Arguments) -> bool {
        let is_open = arguments.prove > 0 && !self.is_first;
        match look {
            Look::First => arguments.procedure().is_none_or(|asked| asked == Procedure::I),
            Look::FirstByCalls => is_open && arguments.procedure().is_none(),
            Look::Plain => !self.is_first && arguments.procedure() != Some(Procedure::I),
            Look::Iterations => is_open && self.is_coupled,
            Look::Calls => is_third_wanted(arguments) && (is_open || !self.is_settled()),
            Look::TwoByTwo => is_third_wanted(arguments) && (is_open || self.told.is_none()),
            Look::Order => is_third_wanted(arguments) && self.told.is_none(),
        }
    }

    fn is_settled(&self) -> bool {
        self.told.as_ref().is_some_and(|(_, is_settled)| *is_settled)
    }

    /// Keeps what nothing has proved. What is faint gives way to what is not.
    fn keep(&mut self, found: &[Suspect], verdict: Verdict) {
        let is_settled = is_settled(found);
        self.is_first |= found.iter().any(|suspect| suspect.procedure() == Procedure::I);
        self.is_coupled |= found.iter().any(|suspect| matches!(suspect, Suspect::Couple(_, Level::Pc | Level::Tid)));
        if self.told.is_none() || is_settled && !self.is_settled() {
            self.told = Some((verdict, is_settled));
        }
    }
}

/// What is to blame, the most likely first.
pub fn verdict(case: &mut Case, arguments: &Arguments) -> Result<Verdict, Trouble> {
    let mut search = Search::default();
    for look in LOOKS {
        if !search.wants(look, arguments) {
            continue;
        }
        let seen = match search.first_by_calls.take_if(|_| look == Look::Calls) {
            None => seen(case, look, arguments)?,
            known => known,
        };
        match seen {
            None => {}
            Some((_, verdict)) if verdict.is_proved() => return Ok(verdict),
            Some(seen) if look == Look::FirstByCalls => search.first_by_calls = Some(seen),
            Some((found, verdict)) => search.keep(&found, verdict),
        }
    }
    if arguments.procedure().is_none() && !search.is_first {
        // A run can pass by luck with the pairs of a failure, when two wrongs make a right.
        let unlikely = rare(&case.runs);
        let Some((told, _)) = search.told else { return Verdict::on(&unlikely, case, arguments.prove) };
        let verdict = Verdict::on_unlikely(&unlikely, case, arguments.prove)?;
        return Ok(if verdict.is_proved() { verdict } else { told });
    }
    search.told.map_or_else(|| Verdict::on(&[], case, 0), |(told, _)| Ok(told))
}

/// What a look shows, and what comes of it; nothing if it shows nothing.
fn seen(case: &mut Case, look: Look, arguments: &Arguments) -> Result<Option<Seen>, Trouble> {
    let is_heard_anew = look.is_by_calls() || look == Look::TwoByTwo;
    let before = if is_heard_anew { Some((heard_anew(case, look.manner(case))?, case.story.clone())) } else { None };
    case.story.push_str(look.story());
    let found = found(case, look, arguments).and_then(|mut found| {
        sharpen(&case.runs, &mut found);
        judged(found, case, arguments)
    });
    if let Some(before) = before {
        (case.runs, case.story) = before;
    }
    found
}

/// What comes of suspects. Those that are rarer in passing runs are tried first, and they alone are told if nothing is proved.
fn judged(found: Vec<Suspect>, case: &Case, arguments: &Arguments) -> Result<Option<Seen>, Trouble> {
    if found.is_empty() {
        return Ok(None);
    }
    let verdict = Verdict::on(&found, case, arguments.prove)?;
    let rarest = rarest(&found);
    if verdict.is_proved() || rarest.len() == found.len() {
        return Ok(Some((found, verdict)));
    }
    let verdict = Verdict::on(&rarest, case, 0)?;
    Ok(Some((rarest, verdict)))
}

fn found(case: &Case, look: Look, arguments: &Arguments) -> Result<Vec<Suspect>, Trouble> {
    match look {
        Look::First | Look::FirstByCalls => Ok(suspects(&case.runs, Some(Procedure::I))),
        Look::Plain | Look::TwoByTwo => by_procedures(case, look.manner(case), arguments),
        Look::Iterations => by_iterations(case, look.manner(case)),
        Look::Calls => Ok(by_context(suspects(&case.runs, arguments.procedure()))),
        Look::Order => by_order(case, look.manner(case)),
    }
}

fn is_third_wanted(arguments: &Arguments) -> bool {
    arguments.procedure().is_none_or(|asked| asked == Procedure::III)
}

/// Whether something is more than faint.
fn is_settled(found: &[Suspect]) -> bool {
    found.iter().any(|suspect| !suspect.is_faint())
}

/// Hears the runs of the case in another manner; tells what was heard before.
fn heard_anew(case: &mut Case, manner: Manner) -> Result<Runs, Trouble> {
    let mut runs = Runs::new(&case.failing.hear(&manner, &case.failing)?);
    let heard = case.ears.hear_all(&case.passing, &case.failing, &manner);
    heard.runs.iter().for_each(|run| runs.add_passing(run));
    Ok(std::mem::replace(&mut case.runs, runs))
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
    let mixed = || mixtures(&case.runs).into_iter().map(|couple| Suspect::Couple(couple, Level::Third)).collect();
    let Some(iterated) = Iterated::hear(case, manner)? else { return Ok(mixed()) };
    let mut found = iterated.coupled(case, Apart::Iterations);
    if found.is_empty() {
        found = mixed();
    }
    if found.is_empty() {
        found = round(&case.runs, &iterated.failing, &iterated.passing);
    }
    Ok(found)
}

/// Couples by which of their accesses come first.
fn by_order(case: &Case, manner: Manner) -> Result<Vec<Suspect>, Trouble> {
    let iterated = Iterated::hear(case, manner)?;
    Ok(iterated.map_or_else(Vec::new, |iterated| iterated.coupled(case, Apart::Order)))
}

/// The runs with the iterations of accesses that can be part of a couple or a ring.
struct Iterated {
    failing: Collected,
    passing: Vec<Collected>,
    /// How many passing runs may have what is to blame.
    most: usize,
}

impl Iterated {
    /// Nothing if there are no such accesses.
    fn hear(case: &Case, manner: Manner) -> Result<Option<Iterated>, Trouble> {
        let couples = turning_couples(&case.runs).into_iter().flat_map(|couple| [couple.first, couple.second]);
        let pairs: BTreeSet<PairId> = couples.chain(turning_pairs(&case.runs)).collect();
        let keys = pairs.iter().map(|pair| case.runs.key(*pair));
        let looping_sites: BTreeSet<u64> = keys.flat_map(|key| [key.head.pc, key.tail.pc]).collect();
        if looping_sites.is_empty() {
            return Ok(None);
        }
        let manner = Manner { looping_sites, ..manner };
        let failing = case.failing.hear(&manner, &case.failing)?;
        let passing = case.ears.collect_all(&case.passing, &case.failing, &manner, |mut run| {
            // All runs are held at the same time.
            run.keep_placed();
            run
        });
        let passing: Vec<Collected> = passing.into_iter().flatten().collect();
        // Threads two by two are the last resort: there, luck of single runs is not believed.
        let most = if manner.two_by_two { passing.len() / SELDOM } else { 0 };
        Ok(Some(Iterated { failing, passing, most }))
    }

    fn coupled(&self, case: &Case, apart: Apart) -> Vec<Suspect> {
        let found = coupled_by_loops(&case.runs, &self.failing, &self.passing, apart, self.most);
        found.into_iter().map(Suspect::InStep).collect()
    }
}

/// Three pairs of three threads.
fn round(runs: &Runs, failing: &Collected, passing: &[Collected]) -> Vec<Suspect> {
    rings(runs, failing, passing).into_iter().map(Suspect::Ring).collect()
}
