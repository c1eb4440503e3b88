//! Facts and findings rendered for people and machines.
//!
//! This crate must not know how the facts were reached.
#![forbid(unsafe_code)]
