//! Runs translated guest code faithfully: an unmodified program inside this very process, one thread at a time.
//!
//! Owns nearly all `unsafe` of the project, in the modules that open with `#![allow(unsafe_code)]`. Must not know
//! policies' names, where recordings are kept, analyses, symbols or presentation: what happens is told through [`Host`],
//! and what a run takes from outside through [`Journal`].

mod code;
mod commons;
mod context;
mod debug;
mod departure;
mod engine;
mod faults;
mod file_changes;
mod guest_code;
mod instructions;
mod journal;
mod kernel;
mod launch;
mod observation;
mod page_map;
mod private;
mod process;
mod processor;
mod replay;
mod run;
mod saved_state;
mod shared_memory;
mod shield;
mod signals;
mod space;
mod startup;
mod stock;
mod streams;
mod syscalls;
mod turn;
mod ways;
mod world;
mod x87;

pub use code::observe::sparing::Sparing;
pub use code::observe::{AccessKind, Chosen, Mark, Marks, Patience, Wanted};
pub use commons::SIZE as COMMONS_SIZE;
pub use context::Fault;
pub use debug::{Debugger, Ended, Guest, Orders, Piece, Place, ThreadRegisters, Watch, Watching, Why};
pub use departure::{Departure, translate, translated};
pub use engine::{Crash, DEADLOCK_STATUS, Host, Options, Passed, Stats, Switching, ThreadFacts};
pub use faults::{Faultable, INJECTED, MappedCode};
pub use guest::syscall::uses_descriptor;
pub use journal::{Handover, Journal, Mapped};
pub use kernel::{SharedBytes, leave};
pub use launch::{LaunchError, Program, Recorded, launch, replay};
pub use observation::{
    Access, Around, Batch, Call, Counts, Elements, Event, EventKind, Events, Flat, Flattener, Observation, Observer,
    PrivateFile, Tally, Value,
};
pub use private::{MoreDescriptors, PrivateLog};
pub use process::copy as copy_process;
pub use processor::{Level, Shown};
pub use replay::{
    Allocating, Broken, Changed, Continuation, Definition, Divergence, Ending, Figures, Files, Guarded, Layout,
    Leaving, Leg, MovedGlobal, MovedLocal, Origins, Output, Passage, Plan, Plans, Point, Position, Region, Relaid,
    Rerun, Retold, Spot, Step, Stopped, Structures, TOO_LONG, Teller, Turn, Wishes, Written,
};
pub use shield::{start_again_if_needed, unshield};
pub use signals::deliver::leave_by;
pub use syscalls::FILTER;
