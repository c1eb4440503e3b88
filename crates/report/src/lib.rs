//! Facts and findings rendered for people and machines.
//!
//! This crate must not know how the facts were reached. Everything that a report says is in the facts it is given; the
//! only things read besides are lines of source files.
#![forbid(unsafe_code)]

pub mod crash;
pub mod deadlock;
mod excerpt;
pub mod findings;
pub mod look;
pub mod signals;
mod stack;
mod text;
pub mod threads;
