//! `whodunit replay --gdb` under stock gdb: small programs are compiled, recorded and debugged by scripts, and what gdb
//! prints must be what the source says.
//!
//! `WHODUNIT_BIN` names another binary to put in the place of the one just built.

/// The table of Debian packages, which brings gdb.
#[path = "programs/debian.rs"]
#[allow(dead_code, reason = "only a part of what the tests of programs need")]
mod debian;

#[path = "support/workplace.rs"]
mod workplace;

// Said because rustfmt looks elsewhere for modules of a file that has a folder of its own name.
#[path = "debugging"]
mod debugging {
    mod backwards;
    mod checkpoints;
    mod forwards;
    mod reading;
    mod real;
    mod session;
}
