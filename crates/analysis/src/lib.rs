//! Techniques that find causes in the event streams of runs.
//!
//! Streams in, findings out: this crate must not know the engine, files, symbols or presentation. What it has to know of
//! a program (which instructions are atomic, which belong to the C library) it is told; what it cannot tell (stacks,
//! values) it names by ordinals, for somebody who can replay the run and look.
#![forbid(unsafe_code)]

pub mod neighbours;
pub mod pairs;
pub mod predict;
pub mod races;
pub mod suppressions;
