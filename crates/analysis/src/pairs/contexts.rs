//! Telling instructions apart by the calls that lead to them.

use rustc_hash::FxHasher;
use std::hash::Hasher;

/// The context of ends whose calls nobody asked for.
pub(super) const NOWHERE: u64 = u64::MAX;
/// How many calls are told apart, the innermost first. Recursion would make every depth another context.
pub(super) const CALLERS: usize = 3;

/// An instruction, and the calls that led there by their number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Place {
    pub pc: u64,
    pub context: u64,
}

/// A name of a context that is the same in all runs.
pub(super) fn digest(callers: &[u64]) -> u64 {
    let mut hasher = FxHasher::default();
    callers.iter().for_each(|caller| hasher.write_u64(*caller));
    // One name is for those that are unknown.
    hasher.finish() & !(1 << 63)
}
