//! `whodunit hunt` finds the orders of threads that make small programs fail, and leaves sound ones alone.
//!
//! Each bug is one that the ordinary order does not show. `WHODUNIT_BIN` names another binary to put in the place of the
//! one just built.

#[path = "support/workplace.rs"]
mod workplace;

mod hunting {
    mod bad_input;
    mod faults;
    mod finding;
    mod museum;
    mod place;
    mod recorded;
    mod repeating;
    mod stems;
}
