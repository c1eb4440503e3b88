//! `whodunit pairs`: exhibits of the museum are blamed on their marked lines, by the procedure that LOCON names; runs that
//! cannot be compared are refused.

mod support;

#[path = "museum/exhibit.rs"]
mod exhibit;

#[path = "support/workplace.rs"]
mod workplace;

// Said because rustfmt looks elsewhere for modules of a file that has a folder of its own name.
#[path = "pairs"]
mod pairs {
    mod bad_input;
    mod comparing;
    mod long_runs;
    mod place;
    mod together;
}
