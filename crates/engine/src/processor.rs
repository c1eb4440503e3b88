//! The processor that a guest is shown: in a recorded run no more than a level of x86-64, so that the recording replays
//! wherever that level is reached.
//!
//! A level hides what is beyond it from those who ask: `cpuid`, `xgetbv`, the auxiliary vector, signal frames and the area
//! of the XSAVE family. Nothing is refused: instructions beyond the level run if the machine has them ([`features`]).
//! May miss: `/proc/cpuinfo`, and what system calls tell (`arch_prctl` of AMX).

mod answers;
pub mod features;

use crate::signals::frame::XState;
use std::arch::x86_64::{__cpuid_count, CpuidResult};
use trace::event::{self, ShownLevel};

/// The levels of x86-64 that compilers and distributions agree on, as the psABI defines them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    V2,
    V3,
    V4,
}

impl Level {
    pub const ALL: [Level; 3] = [Level::V2, Level::V3, Level::V4];

    pub fn name(self) -> &'static str {
        match self {
            Level::V2 => "v2",
            Level::V3 => "v3",
            Level::V4 => "v4",
        }
    }

    /// The parts of the register state: x87 and SSE, the upper halves of AVX, and three of AVX-512.
    fn components(self) -> u64 {
        match self {
            Level::V2 => 0b11,
            Level::V3 => 0b111,
            Level::V4 => 0b1110_0111,
        }
    }
}

/// What a guest is shown of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    /// No more than this; all that the machine has if there is none.
    pub level: Option<Level>,
    /// The parts of the register state that XCR0 names.
    pub components: u64,
}

impl Shown {
    /// This machine, or what it has of a level.
    pub fn here(level: Option<Level>) -> Shown {
        let components = XState::find().components;
        Shown { level, components: components & level.map_or(u64::MAX, Level::components) }
    }

    /// What a recording tells; none if it is older than that, or of a newer kind.
    pub fn recorded(shown: event::Shown) -> Option<Shown> {
        let level = match shown.level {
            ShownLevel::Native => None,
            ShownLevel::V2 => Some(Level::V2),
            ShownLevel::V3 => Some(Level::V3),
            ShownLevel::V4 => Some(Level::V4),
            ShownLevel::Other(_) => return None,
        };
        Some(Shown { level, components: shown.components })
    }

    /// What a recording is to tell.
    pub fn event(self) -> event::Shown {
        let level = match self.level {
            None => ShownLevel::Native,
            Some(Level::V2) => ShownLevel::V2,
            Some(Level::V3) => ShownLevel::V3,
            Some(Level::V4) => ShownLevel::V4,
        };
        event::Shown { level, components: self.components }
    }

    /// What `cpuid` answers.
    pub fn cpuid(self, leaf: u32, subleaf: u32) -> CpuidResult {
        match self.level {
            Some(level) => answers::limited(level, self.components, leaf, subleaf, __cpuid_count),
            None => __cpuid_count(leaf, subleaf),
        }
    }

    /// Whether the guest's instructions that save register state must be kept from parts that it was not shown.
    pub fn limits_state(self, xstate: XState) -> bool {
        self.level.is_some() || xstate.components & !self.components != 0
    }
}
