//! What this crate says about programs that compilers have just built, against what their sources say.

mod common;
mod spaces;
mod symbols;
mod unwinding;
