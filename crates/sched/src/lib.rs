//! Who runs next. Policies see only what a recording also holds, so every choice can be replayed.
//!
//! This crate must not know the engine, clocks of the outside world, or unseeded randomness.
#![forbid(unsafe_code)]
