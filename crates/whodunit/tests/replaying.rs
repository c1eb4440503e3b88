//! `whodunit record` is as invisible as `run`, and what it writes down can be run again: `verify` finds every process
//! as it was, and `replay` shows what was seen and touches nothing.
//!
//! `replaying/guests.rs` takes the programs of `conformance/`, `replaying/lines.rs` real command lines of `programs/`.
//! `WHODUNIT_BIN` names another binary to put in the place of the one just built.

mod support;

/// The families of `programs.rs`, with a harness that records.
// Said because rustfmt looks elsewhere for modules of a file that has a folder of its own name.
#[path = "programs"]
mod programs {
    mod archivers;
    mod builders;
    pub mod compare;
    pub mod debian;
    mod languages;
    pub mod line;
    mod prebuilt;
    pub mod running;
    mod servers;
    mod shells;
    mod text_tools;
    mod tree;

    mod harness {
        pub use crate::replaying::lines::check;
    }
}

mod replaying {
    mod bad_input;
    mod confined;
    mod effects;
    mod endings;
    mod guests;
    mod killed;
    mod levels;
    mod limits;
    pub mod lines;
    mod memory;
    mod output;
    pub mod place;
    mod progress;
    mod rounds;
}
