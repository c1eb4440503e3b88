//! `whodunit record` is as invisible as `run`, and what it writes down can be run again: `verify` finds every process
//! as it was, and `replay` shows what was seen and touches nothing.
//!
//! `replaying/guests.rs` takes the programs of `conformance/`, `replaying/lines.rs` real command lines of `programs/`.
//! What cannot be recorded or replayed yet is listed in `replaying/exceptions.rs` with the reason.
//! `WHODUNIT_BIN` names another binary to put in the place of the one just built.

mod support;

mod replaying {
    mod bad_input;
    mod effects;
    pub mod exceptions;
    mod guests;
    mod killed;
    mod limits;
    mod output;
    pub mod place;
    mod rounds;
}

/// The families of `programs.rs`, with a harness that records.
mod programs {
    mod archivers;
    mod builders;
    mod compare;
    pub mod debian;
    #[path = "../replaying/lines.rs"]
    mod harness;
    mod languages;
    mod line;
    mod prebuilt;
    mod running;
    mod servers;
    mod shells;
    mod text_tools;
    mod tree;
}
