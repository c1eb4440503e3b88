//! What this crate says about programs that compilers have just built, against what their sources say.

mod common;
mod damage;
mod facts;
mod flow;
mod languages;
mod material;
mod spaces;
mod symbols;
mod unwinding;
mod variables;
mod whereabouts;
