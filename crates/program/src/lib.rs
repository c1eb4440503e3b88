//! What is known about a program without running it: modules, functions, source lines, unwinding rules.
//!
//! This crate must not know runs, the engine, or presentation.
#![forbid(unsafe_code)]
