//! Which code and memory count.

use serde::{Deserialize, Serialize};
use std::ops::Range;
use trace::stream::AccessKind;

/// What is of no concern.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Code whose accesses are not looked at.
    pub ignored_code: Vec<Range<u64>>,
    /// Code that synchronises: its locked instructions are not looked at.
    pub synchronising_code: Vec<Range<u64>>,
    /// Memory that belongs to libraries alone.
    pub ignored_memory: Vec<Range<u64>>,
}

/// What a scope makes of an instruction.
#[derive(Clone, Copy)]
pub(super) struct CodeRole {
    pub is_ignored: bool,
    /// Its locked accesses are not looked at.
    synchronises: bool,
}

impl CodeRole {
    pub const IGNORED: CodeRole = CodeRole { is_ignored: true, synchronises: false };

    pub fn concerns(self, kind: AccessKind) -> bool {
        !(self.is_ignored || self.synchronises && kind == AccessKind::Atomic)
    }
}

impl Scope {
    pub(super) fn role(&self, pc: u64) -> CodeRole {
        CodeRole { is_ignored: self.ignores_code(pc), synchronises: self.synchronises(pc) }
    }

    fn is_in(ranges: &[Range<u64>], address: u64) -> bool {
        ranges.iter().any(|range| range.contains(&address))
    }

    pub(super) fn ignores_code(&self, pc: u64) -> bool {
        Scope::is_in(&self.ignored_code, pc)
    }

    pub(super) fn ignores_memory(&self, address: u64) -> bool {
        Scope::is_in(&self.ignored_memory, address)
    }

    /// Whether locked instructions of this code are not looked at.
    pub(super) fn synchronises(&self, pc: u64) -> bool {
        Scope::is_in(&self.synchronising_code, pc)
    }

    /// Whether an access is to be looked at.
    pub(super) fn concerns(&self, pc: u64, address: u64, is_locked: bool) -> bool {
        let is_lock = is_locked && self.synchronises(pc);
        !is_lock && !self.ignores_code(pc) && !self.ignores_memory(address)
    }
}
