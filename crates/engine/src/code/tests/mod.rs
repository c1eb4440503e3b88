//! Tests of the translator: what it emits, as listings, and that the code in the cache does what the processor does
//! with the guest's own code, by running both.

mod features;
mod home;
mod machine;
mod native;
mod operands;
mod single;
mod state;
