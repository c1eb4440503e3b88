//! Memory errors that other orders would have made.

use super::Student;
use super::races::{Classes, Once};
use crate::inquiry::Reply;
use analysis::predict::{
    self, Detector, Exploration, Explored, FirstFound, FirstPass, HandOverCheck, Libraries, MOST_MEMORY, Method,
    Watching,
};
use analysis::races::sampling::samples;
use analysis::races::{Flags, HandOvers, Sieve, Sieved};
use engine::{Chosen, Patience, Sparing, Wanted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// So many strips are looked at where a piece of code is the first to come to them: 8 KB.
const FEW_STRIPS: u32 = 16;
/// So often it is looked at on strips that everybody is looked at on, and on others, before it is so now and then.
const PATIENCE: [u32; 2] = [1 << 12, 1 << 10];
/// The same at the beginning of a run: what is handed over there comes seldom.
const LITTLE_PATIENCE: [u32; 2] = [1 << 10, 1 << 8];
/// So often the detector is told what an instruction does, and each time that the run has become longer.
const TELLINGS: [u32; 2] = [1 << 10, 1 << 8];
/// What longer copies move is nothing that they look at.
const LONGEST_VALUE: u64 = 4096;

/// What is known before anything has been replayed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Known {
    pub classes: Classes,
    pub libraries: Libraries,
}

/// What is known after an exploration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Subject {
    pub explored: Explored,
    /// What was handed over: flags were an order to the sieve.
    pub handed: Proposed,
    pub known: Known,
    pub method: Method,
    /// So many bytes of contended memory are watched at a time.
    pub watched: u64,
}

/// What may be handed over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Proposed {
    /// Instructions of which values are told.
    pub candidates: HandOvers,
    /// Those that are relied on to have to do with flags.
    pub trusted: Flags,
}

impl Proposed {
    /// Whether what was relied on is so.
    pub fn is_right(&self, found: &FirstFound) -> bool {
        found.trusted.include(&self.trusted)
    }
}

/// Of how much memory something is to be told.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    #[default]
    Everything,
    /// Of memory that is like much other, a part will do.
    Samples,
    /// What is on strips with these numbers.
    Strips(BTreeSet<u16>),
}

impl Extent {
    /// All that may be contended, and synchronisation.
    pub fn of(sieved: &Sieved) -> Extent {
        sieved.strips().map_or(Extent::Everything, Extent::Strips)
    }

    /// What is told. Atomics are in any case, and so is what is handed over.
    fn sparing(self, classes: &Classes, handing: &BTreeSet<u64>) -> Option<Sparing> {
        let (strips, known, few) = match self {
            Extent::Everything => return None,
            Extent::Samples => (samples().collect(), BTreeSet::new(), FEW_STRIPS),
            Extent::Strips(strips) => (BTreeSet::new(), strips, 0),
        };
        let steady = classes.atomic.union(handing).copied().collect();
        let steady_code = classes.atomic_code.clone();
        Some(Sparing { strips, known, is_thorough: false, few, patience: Some(PATIENCE), steady, steady_code })
    }
}

/// Who may hand something over at the beginning of a run; and what has to be told.
pub fn beginning(known: Known) -> (impl Student, Option<Sparing>) {
    let Known { classes, libraries } = known;
    let sparing = Extent::Samples.sparing(&classes, &BTreeSet::new());
    let sparing = sparing.map(|sparing| Sparing { patience: Some(LITTLE_PATIENCE), ..sparing });
    let sieve = predict::sieve(classes.classify(), libraries, MOST_MEMORY).sampling();
    (Once::new(sieve, |sieve: Sieve| Reply::of(&sieve.into_sieved().hand_overs)), sparing)
}

/// With these hand-overs, or to look for some; and what has to be told, and of which instructions the values.
pub fn first_pass(
    known: Known,
    proposed: Option<Proposed>,
    extent: Extent,
) -> (impl Student, Option<Chosen>, Option<Sparing>) {
    let Known { classes, libraries } = known;
    let Proposed { candidates, trusted } = proposed.unwrap_or_default();
    let instructions = candidates.instructions();
    let sparing = extent.clone().sparing(&classes, &instructions);
    let sieve = predict::sieve(classes.clone().classify(), libraries.clone(), MOST_MEMORY).trusting(trusted);
    let sieve = match extent {
        Extent::Everything => sieve,
        Extent::Samples => sieve.sampling(),
        Extent::Strips(numbers) => sieve.on_strips(numbers),
    };
    let chosen =
        (!candidates.is_empty()).then(|| Chosen { instructions, others: Wanted::ADDRESSES, ..Chosen::default() });
    let pass = FirstPass::new(sieve).checking(candidates);
    let student = Once::new(pass, move |pass: FirstPass| {
        let classify = [classes.clone().classify(), classes.clone().classify()];
        Reply::of(&pass.into_found(classify, libraries.clone()))
    });
    (student, chosen, sparing)
}

/// Which of these instructions hand pointers over, or have to do with flags alone: they are all that has to be told.
pub fn check(hand_overs: HandOvers) -> (impl Student, Chosen) {
    let check = HandOverCheck::new(hand_overs);
    let instructions = check.instructions();
    let student = Once::new(check, |check: HandOverCheck| Reply::of(&check.into_checked()));
    (student, Chosen { instructions, others: Wanted::COUNTS, ..Chosen::default() })
}

pub fn explore(sieved: Sieved, known: Known, extent: Extent) -> (impl Student, Option<Sparing>) {
    let sparing = extent.sparing(&known.classes, &BTreeSet::new());
    let classify = [known.classes.clone().classify(), known.classes.classify()];
    let exploration = Exploration::after(sieved, classify, known.libraries);
    (Once::new(exploration, |exploration: Exploration| Reply::of(&exploration.into_explored())), sparing)
}

/// The detector, and the instructions that it has to be told of. Of the others, it needs calls alone; but what becomes of what those read
/// is seen in what comes right behind them.
pub fn predict(subject: Subject) -> (impl Student, Chosen) {
    let Subject { explored, handed, known: Known { classes, libraries }, method, watched } = subject;
    let instructions = explored.contended.instructions.clone();
    let others = Wanted { targets: true, ..Wanted::COUNTS };
    let patience = patience(&explored, &handed.candidates, &classes);
    let inner = libraries.clone();
    let detector = Detector::new(explored, classes.classify(), libraries).trusting(handed.trusted);
    let watching = Watching::new(detector.by(method).watching(watched), instructions.clone());
    let student = Once::new(watching, |watching: Watching| Reply::of(&watching.into_predicted()));
    let sequels = instructions.clone();
    let longest_value = Some(LONGEST_VALUE);
    let spares_calls = true;
    (
        student,
        Chosen { instructions, others, spares_calls, inner, sequels, longest_value, patience, ..Chosen::default() },
    )
}

/// How often instructions are told; those that order others always. Which instructions wait in loops is not known, so where there are some, everything is told.
fn patience(explored: &Explored, handed: &HandOvers, classes: &Classes) -> Option<Patience> {
    if !explored.surveyed.ad_hoc.is_empty() {
        return None;
    }
    let synchronising = explored.contended.synchronising.union(&classes.atomic).copied();
    let [first, later] = TELLINGS;
    Some(Patience { first, later, steady: synchronising.chain(handed.instructions()).collect() })
}
