//! What threads contend for, and which instructions have to do with it: most of the time goes by without any.

use crate::races::passes::Passes;
use crate::recordings::Trouble;
use crate::study::Study;
use crate::study::predict::{Extent, Known, Proposed};
use analysis::predict::{Explored, FirstFound};
use analysis::races::{Flags, HandOvers, Sieved, Suspects};

/// Hand-overs are learnt from the first of so many parts of what a run does with threads, but from no fewer events than these; of a run with less than so many, from all of it.
const PARTS: u64 = 32;
const FEWEST_EVENTS: u64 = 96;
const SHORT_RUN: u64 = 1024;

/// Where the beginning of a run of so many events ends, which has a second thread from an event on; none if it is taken as a whole.
pub fn beginning(n_events: u64, alone_until: u64) -> Option<u64> {
    let with_threads = n_events.saturating_sub(alone_until);
    let until = alone_until + (with_threads / PARTS).max(FEWEST_EVENTS);
    (n_events >= SHORT_RUN && until < n_events).then_some(until)
}

/// Whatever is handed over.
pub fn explored(passes: &Passes<'_>, known: &Known) -> Result<Explored, Trouble> {
    let FirstFound { sieved, explored, .. } = sieve(passes, known, None, Extent::Everything)?;
    match explored {
        Some(explored) => Ok(explored),
        None => explore(passes, known, sieved, Extent::Everything),
    }
}

/// The same, where pointers that are handed over under locks and flags that are waited for order what follows, as the detector will have
/// it, and of memory that is like much other a part will do. Gives what was handed over as well.
///
/// What a program does at the beginning of a run it mostly does to its end. So who may hand something over is learnt there, and then told with values, which
/// show what is a pointer. Which flags are waited for is held against the whole run by the same replay that relies on it. A run in which it is otherwise is
/// looked at once more.
pub fn by_hand_overs(passes: &Passes<'_>, known: &Known, until: Option<u64>) -> Result<(Explored, Proposed), Trouble> {
    let Some(until) = until else { return of_short_run(passes, known) };
    let candidates = passes.ask_until(Some(until), Study::HandOvers(known.clone()))?;
    let proposed = proposed(candidates, passes, Some(until))?;
    let found = sieve(passes, known, Some(proposed.clone()), Extent::Samples)?;
    if proposed.is_right(&found) {
        return Ok((explored_in_part(passes, known, found)?, proposed));
    }
    let proposed = Proposed { trusted: found.trusted, ..proposed };
    let found = sieve(passes, known, Some(proposed.clone()), Extent::Samples)?;
    Ok((explored_in_part(passes, known, found)?, proposed))
}

/// The same of a run that is its own beginning.
fn of_short_run(passes: &Passes<'_>, known: &Known) -> Result<(Explored, Proposed), Trouble> {
    let found = sieve(passes, known, None, Extent::Samples)?;
    let sieved = &found.sieved;
    if sieved.hand_overs.is_empty() || sieved.suspects.as_ref().is_some_and(Suspects::is_empty) {
        return Ok((explored_in_part(passes, known, found)?, Proposed::default()));
    }
    // More is ordered with hand-overs, so what nobody contended for needs no other look.
    let extent = Extent::of(sieved);
    let proposed = proposed(found.sieved.hand_overs, passes, None)?;
    let found = sieve(passes, known, Some(proposed.clone()), extent)?;
    Ok((explored_in_part(passes, known, found)?, proposed))
}

/// What is handed over, of what may be, as far as the run up to an event shows.
fn proposed(candidates: HandOvers, passes: &Passes<'_>, until: Option<u64>) -> Result<Proposed, Trouble> {
    // A short run is not worth another replay for pointers alone.
    if candidates.flags.is_empty() && (until.is_none() || candidates.is_empty()) {
        return Ok(Proposed { candidates, trusted: Flags::default() });
    }
    let checked: HandOvers = passes.ask_until(until, Study::CheckHandOvers(candidates.clone()))?;
    let flags = if checked.flags.is_empty() { Flags::default() } else { candidates.flags };
    let candidates = HandOvers { readers: checked.readers, writers: checked.writers, flags };
    Ok(Proposed { candidates, trusted: checked.flags })
}

/// What is left by a sieve that was not told everything. Where that shows loops that wait, it may be because nobody was told what else they do.
fn explored_in_part(passes: &Passes<'_>, known: &Known, found: FirstFound) -> Result<Explored, Trouble> {
    let FirstFound { sieved, explored, .. } = found;
    let explored = match explored {
        Some(explored) => explored,
        None => explore(passes, known, sieved.clone(), Extent::of(&sieved))?,
    };
    if explored.waits(&sieved) { explore(passes, known, sieved, Extent::Everything) } else { Ok(explored) }
}

fn sieve(
    passes: &Passes<'_>,
    known: &Known,
    proposed: Option<Proposed>,
    extent: Extent,
) -> Result<FirstFound, Trouble> {
    passes.ask(Study::SieveWithoutLocks { known: known.clone(), proposed: proposed.map(Box::new), extent })
}

fn explore(passes: &Passes<'_>, known: &Known, sieved: Sieved, extent: Extent) -> Result<Explored, Trouble> {
    passes.ask(Study::Explore { sieved: Box::new(sieved), known: known.clone(), extent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_counted_from_the_second_thread_on() {
        assert_eq!(beginning(1023, 100), None, "a short run is taken as a whole");
        assert_eq!(beginning(1400, 100), Some(196));
        assert_eq!(beginning(16_100, 100), Some(600), "a part of what comes with threads");
        assert_eq!(beginning(2000, 1950), None, "threads come late");
    }
}
