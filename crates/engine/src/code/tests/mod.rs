//! Tests of the translator: what it emits, as listings, and that the code in the cache does what the processor does
//! with the guest's own code, by running both.

mod assemble;
mod calls;
mod features;
mod generate;
pub(in crate::code) mod home;
mod limiting;
mod listing;
mod machine;
mod names;
mod native;
mod observed;
mod operands;
mod programs;
mod segments;
mod sequels;
mod single;
mod spared;
mod state;
mod steps;
mod stops;
mod tables;
mod tellings;
