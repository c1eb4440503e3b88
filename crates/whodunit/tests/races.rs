//! `whodunit races`: programs without races give no alarm, the museum's races are found at their marked lines, and what
//! is told of a race is what the program did.

mod support;

#[path = "museum/exhibit.rs"]
mod exhibit;

// Said because rustfmt looks elsewhere for modules of a file that has a folder of its own name.
#[path = "races"]
mod races {
    mod allocators;
    mod blessed;
    mod exhibits;
    mod looking;
    mod proving;
    mod race_free;
    mod told;
}
