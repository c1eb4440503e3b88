//! `whodunit predict`: the museum's bugs of the ConMem paper are found and proved in runs in which they do not show, and
//! look-alikes and programs of Debian give no alarm.

mod support;

#[path = "programs/debian.rs"]
#[allow(dead_code, reason = "only a part of what the tests of programs need")]
mod debian;
#[path = "museum/exhibit.rs"]
mod exhibit;

// Said because rustfmt looks elsewhere for modules of a file that has a folder of its own name.
#[path = "predicting"]
mod predicting {
    mod bad_input;
    mod comparing;
    mod double_free;
    mod exhibits;
    mod failing;
    mod looking;
    mod often;
    mod programs;
    mod waiting;
}
