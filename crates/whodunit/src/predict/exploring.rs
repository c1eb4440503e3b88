//! What threads contend for, and which instructions have to do with it: most of the time goes by without any.

use crate::races::passes::Passes;
use crate::recordings::Trouble;
use crate::study::Study;
use crate::study::predict::{Extent, Known, Proposed};
use analysis::predict::{Explored, FirstFound};
use analysis::races::{Flags, HandOvers, Sieved, Suspects};

/// Hand-overs are learnt from the first of so many parts of a run, but from no fewer events than these; so it must have more.
const PARTS: u64 = 16;
const FEWEST_EVENTS: u64 = 512;

/// Whatever is handed over.
pub fn explored(passes: &Passes<'_>, known: &Known) -> Result<Explored, Trouble> {
    let FirstFound { sieved, explored, .. } = sieve(passes, known, None, Extent::Everything)?;
    match explored {
        Some(explored) => Ok(explored),
        None => explore(passes, known, sieved, Extent::Everything),
    }
}

/// The same, where pointers that are handed over under locks and flags that are waited for order what follows, as the detector will have
/// it, and of memory that is like much other a part will do. Gives the instructions that have to do with the flags as well.
///
/// What a program does at the beginning of a run it mostly does to its end. So what is handed over is learnt there, and held against the
/// whole run by the same replay that relies on it. A run in which it is otherwise is looked at as a whole.
pub fn by_hand_overs(passes: &Passes<'_>, known: &Known, n_events: u64) -> Result<(Explored, Flags), Trouble> {
    if n_events < 2 * FEWEST_EVENTS {
        return by_all_hand_overs(passes, known);
    }
    let until = Some((n_events / PARTS).max(FEWEST_EVENTS));
    let beginning: FirstFound = passes.ask_until(until, first_pass(known, None, Extent::Samples))?;
    let candidates = beginning.sieved.hand_overs;
    let trusted = if candidates.is_empty() {
        HandOvers::default()
    } else {
        passes.ask_until(until, Study::CheckHandOvers(candidates.clone()))?
    };
    let proposed = Proposed { candidates, trusted };
    let found = sieve(passes, known, Some(proposed.clone()), Extent::Samples)?;
    if proposed.holds(&found) {
        return Ok((explored_in_part(passes, known, found)?, proposed.trusted.flags));
    }
    let trusted = passes.ask(Study::CheckHandOvers(found.sieved.hand_overs))?;
    relying_on(trusted, passes, known, Extent::Samples)
}

/// The same for a short run.
fn by_all_hand_overs(passes: &Passes<'_>, known: &Known) -> Result<(Explored, Flags), Trouble> {
    let first = sieve(passes, known, None, Extent::Samples)?;
    let sieved = &first.sieved;
    if sieved.hand_overs.is_empty() || sieved.suspects.as_ref().is_some_and(Suspects::is_empty) {
        return Ok((explored_in_part(passes, known, first)?, Flags::default()));
    }
    let trusted: HandOvers = passes.ask(Study::CheckHandOvers(sieved.hand_overs.clone()))?;
    if trusted.is_empty() {
        return Ok((explored_in_part(passes, known, first)?, Flags::default()));
    }
    // More is ordered with hand-overs, so what nobody contended for needs no other look.
    let extent = Extent::of(sieved);
    relying_on(trusted, passes, known, extent)
}

/// Where these hand-overs, which are known to be some in the whole run, order what follows.
fn relying_on(
    trusted: HandOvers,
    passes: &Passes<'_>,
    known: &Known,
    extent: Extent,
) -> Result<(Explored, Flags), Trouble> {
    let flags = trusted.flags.clone();
    let proposed = Proposed { candidates: HandOvers::default(), trusted };
    let found = sieve(passes, known, Some(proposed), extent)?;
    Ok((explored_in_part(passes, known, found)?, flags))
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
    passes.ask(first_pass(known, proposed, extent))
}

fn first_pass(known: &Known, proposed: Option<Proposed>, extent: Extent) -> Study {
    Study::SieveWithoutLocks { known: known.clone(), proposed: proposed.map(Box::new), extent }
}

fn explore(passes: &Passes<'_>, known: &Known, sieved: Sieved, extent: Extent) -> Result<Explored, Trouble> {
    passes.ask(Study::Explore { sieved: Box::new(sieved), known: known.clone(), extent })
}
