//! `whodunit trace` tells what threads did: programs are compiled, recorded and traced, and the events must be those that
//! the source has, by the names that it gives.
//!
//! `WHODUNIT_BIN` names another binary to put in the place of the one just built.

/// The table of Debian packages.
#[path = "programs/debian.rs"]
#[allow(dead_code, reason = "only a part of what the tests of programs need")]
mod debian;

#[path = "support/workplace.rs"]
mod workplace;

// Said because rustfmt looks elsewhere for modules of a file that has a folder of its own name.
#[path = "tracing"]
mod tracing {
    mod bad_input;
    mod blocks;
    mod known;
    mod perfetto;
    mod place;
    mod real;
    mod selected;
}
