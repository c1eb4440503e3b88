//! `whodunit rerun` follows a recording to a point and then does as a plan says: small programs are recorded one way and
//! made to go another, and the outcome must be the one that the other way has, every time, with no effect outside.
//!
//! `WHODUNIT_BIN` names another binary to put in the place of the one just built.

#[path = "programs/debian.rs"]
#[allow(dead_code, reason = "only what installs packages is used")]
mod debian;

#[path = "museum/diagnosed.rs"]
mod diagnosed;
#[path = "museum/exhibit.rs"]
mod exhibit;
#[path = "museum/memory.rs"]
mod memory;
mod support;
#[path = "support/workplace.rs"]
mod workplace;

mod rerunning {
    mod anywhere;
    mod bad_plans;
    mod beyond;
    mod orders;
    mod place;
    mod programs;
    mod schedules;
    mod servers;
    mod suppressing;
    mod ways;
}
