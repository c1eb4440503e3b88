//! `whodunit hunt` finds the orders of threads that make small programs fail, and leaves sound ones alone.
//!
//! Each bug is one that the ordinary order does not show. `WHODUNIT_BIN` names another binary to put in the place of the
//! one just built.

mod support;

#[path = "museum/exhibit.rs"]
mod exhibit;

#[path = "support/workplace.rs"]
mod workplace;

// Said because rustfmt looks elsewhere for modules of a file that has a folder of its own name.
#[path = "hunting"]
mod hunting {
    mod bad_input;
    mod blessed;
    mod faults;
    mod finding;
    mod museum;
    mod place;
    mod recorded;
    mod repeating;
    mod shrinking;
    mod stems;
}
