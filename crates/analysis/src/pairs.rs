//! Causes by comparing one failing run with many passing ones: pairs of accesses by which threads meet.
//!
//! After LOCON (Wang and others, ASE 2014). An access pair is an immediate dependence between two threads: an access of one
//! (the head), and the next one of another to the same bytes (the tail), of which at least one writes. A [`Collector`] hears
//! a run and keeps its pairs; [`Runs`] holds those of many; the test procedures compare them:
//!
//! - I ([`only_in_failure`]): pairs of the failing run that no passing run has.
//! - II ([`missing_in_failure`]): pairs that every passing run has, or that always came with another, and that the failing
//!   run lacks, since it ended too soon: their reverse is to blame.
//! - III ([`coupled`]): two pairs, each known from passing runs, that never came together there; judged by instruction alone,
//!   by how threads change (tid), or by iterations of loops too; and, where none of these tells, two that lead from two threads
//!   to a third ([`mixtures`]), three that lead round three threads ([`rings`]), or pairs told apart by who called.
//!
//! It differs in this:
//!
//! - A pair is *predictable* by another where both lead from the same thread to the same other one and the first holds the
//!   second between its ends: whoever sees the inner pair knows that the outer one is there. The paper gives the meaning and
//!   an example (figure 3), and no way to tell; this one tells the example.
//! - Threads are compared by how they change places in a couple, not by number: workers that share code are alike.
//! - Procedure II leaves out pairs whose reverse the failing run has, since then it did not end too soon for them; and those of
//!   which it has not come to the access that would be the reverse's head, since that cannot have made it fail. Those of
//!   which it has come to both accesses are told only if nothing else is.
//! - Where all procedures find nothing, every two threads are looked at as if there were no others.
//! - Where that does not help either, pairs that hardly any passing run has are suspects, the rarest first.
//! - A release of a block writes the bytes of the block that were accessed before.
//!
//! May miss: bugs of more than three pairs, and of three pairs of two threads; failures whose order passing runs had too, by luck. May wrongly report: pairs so
//! rare that no passing run happened to have them; pairs of stacks that threads take over from each other.

mod bug_types;
mod cells;
mod chunks;
mod collect;
mod collected;
mod contexts;
mod coupled;
pub mod falcon;
mod gathered;
mod groups;
mod iterations;
mod last;
mod learning;
mod nesting;
mod outlines;
mod places;
mod procedures;
mod rings;
mod runs;
mod scope;
mod stamps;
mod suspects;
mod sweeps;
mod two_by_two;
mod visitors;
mod words;

pub use bug_types::BugType;
pub use collect::Collector;
pub use collected::{Collected, Moment, Occurrence, Placed, SeenPair};
pub use coupled::{Couple, Level, coupled, mixtures, turning_couples};
pub use iterations::{Apart, InStep, coupled_by_loops};
pub use learning::{ENOUGH_PASSING, Learning, is_short};
pub use nesting::{Iteration, LoopsAround};
pub use places::{MeetingPlaces, PlaceSeeker};
pub use procedures::{Missing, missing_in_failure, only_in_failure};
pub use rings::{Ring, rings, turning_pairs};
pub use runs::{Direction, PairId, PairKey, Runs};
pub use scope::Scope;
pub use suspects::{Procedure, SELDOM, Suspect, narrowing, rare, rarest, sharpen, suspects};
pub use sweeps::samples;
pub use visitors::{VisitorSeeker, Visitors};

use serde::{Deserialize, Serialize};

/// What an end of a pair does to memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Deed {
    Read,
    Write,
}

/// An end of a pair: an instruction, and what it does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct End {
    pub pc: u64,
    pub deed: Deed,
    /// Which calls led there, if that was asked for: see [`Collector::with_contexts`].
    #[serde(default, skip_serializing_if = "is_nowhere")]
    pub context: u64,
}

impl End {
    pub fn new(pc: u64, deed: Deed) -> End {
        End { pc, deed, context: contexts::NOWHERE }
    }
}

fn is_nowhere(context: &u64) -> bool {
    *context == contexts::NOWHERE
}
