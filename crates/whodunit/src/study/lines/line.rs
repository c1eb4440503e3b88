//! What a replay tells of a stream, a line each, for the process that started it.

use super::Kind;
use crate::naming::{Block, Frame};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use trace::stream::{AccessKind, Event, LockMode, Thread};

/// The size of the words that the kernel lets threads wait at.
const FUTEX_WORD: u64 = 4;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    Line(Line),
    /// As many lines as were asked for have been told.
    Enough,
    /// The stream is over; it had so many events.
    End {
        events: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub ordinal: u64,
    /// The recording's event that came next, or did this.
    pub event: u64,
    /// That event is one of the parent's.
    pub inherited: bool,
    pub thread: Thread,
    /// The block of the heap that it is about.
    pub block: Option<Block>,
    /// The call whose frame may hold what it is about.
    pub frame: Option<Frame>,
    pub what: What,
}

/// Sites are return addresses of calls, but for those of `Call`, which are the calls themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    Access(Access),
    Lock {
        object: u64,
        is_shared: bool,
        site: u64,
    },
    Unlock {
        object: u64,
        site: u64,
    },
    Release {
        object: u64,
        site: u64,
    },
    Acquire {
        object: u64,
        site: u64,
    },
    Forget {
        object: u64,
    },
    FutexWord {
        address: u64,
    },
    Allocate {
        address: u64,
        size: u64,
        site: u64,
    },
    Free {
        address: u64,
        site: u64,
    },
    Map {
        address: u64,
        size: u64,
    },
    Create {
        child: Thread,
    },
    End,
    Join {
        other: Thread,
    },
    Call {
        site: u64,
        target: u64,
    },
    /// From the function that was called at `target`; `is_jump` if it did not return by itself.
    Return {
        site: u64,
        target: u64,
        is_jump: bool,
    },
    SystemCall {
        number: u64,
        result: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    pub pc: u64,
    pub address: u64,
    pub size: u32,
    pub mode: Mode,
    pub before: Option<Vec<u8>>,
    pub after: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    Read,
    Write,
    Update,
    Atomic,
}

impl From<AccessKind> for Mode {
    fn from(kind: AccessKind) -> Mode {
        match kind {
            AccessKind::Read => Mode::Read,
            AccessKind::Write => Mode::Write,
            AccessKind::Update => Mode::Update,
            AccessKind::Atomic => Mode::Atomic,
        }
    }
}

impl What {
    /// None for calls and returns, which need to be followed, and for loops, which nobody asks for here.
    pub fn of(event: &Event) -> Option<What> {
        Some(match *event {
            Event::Created { child } => What::Create { child },
            Event::Ended => What::End,
            Event::Joined { other } => What::Join { other },
            Event::Locked { object, mode, site } => What::Lock { object, is_shared: mode == LockMode::Shared, site },
            Event::Unlocked { object, site } => What::Unlock { object, site },
            Event::Released { object, site } => What::Release { object, site },
            Event::Acquired { object, site } => What::Acquire { object, site },
            Event::Forgotten { object } => What::Forget { object },
            Event::Allocated { address, size, site } => What::Allocate { address, size, site },
            Event::Freed { address, site } => What::Free { address, site },
            Event::Mapped { address, size } => What::Map { address, size },
            Event::FutexWord { address } => What::FutexWord { address },
            Event::SystemCall { number, result } => What::SystemCall { number, result },
            // The call itself is told.
            Event::Used { .. } | Event::Closed { .. } => return None,
            Event::Called { .. } | Event::Returned { .. } | Event::LoopHeader { .. } => return None,
        })
    }

    pub fn kind(&self) -> Kind {
        match self {
            What::Access(_) => Kind::Accesses,
            What::Lock { .. }
            | What::Unlock { .. }
            | What::Release { .. }
            | What::Acquire { .. }
            | What::Forget { .. }
            | What::FutexWord { .. } => Kind::Sync,
            What::Allocate { .. } | What::Free { .. } | What::Map { .. } => Kind::Memory,
            What::Create { .. } | What::End | What::Join { .. } => Kind::Threads,
            What::Call { .. } | What::Return { .. } => Kind::Calls,
            What::SystemCall { .. } => Kind::Syscalls,
        }
    }

    /// The code that did it. A call is also its function's affair.
    pub fn code(&self) -> [Option<u64>; 2] {
        match *self {
            What::Access(Access { pc, .. }) => [Some(pc), None],
            What::Lock { site, .. }
            | What::Unlock { site, .. }
            | What::Release { site, .. }
            | What::Acquire { site, .. }
            | What::Allocate { site, .. }
            | What::Free { site, .. } => [site.checked_sub(1), None],
            What::Call { site, target } => [Some(site), Some(target)],
            What::Return { site, target, .. } => [site.checked_sub(1), Some(target)],
            What::Forget { .. }
            | What::FutexWord { .. }
            | What::Map { .. }
            | What::Create { .. }
            | What::End
            | What::Join { .. }
            | What::SystemCall { .. } => [None, None],
        }
    }

    /// The memory that it is about. Of a lock, that it lies there counts, not how large it is.
    pub fn memory(&self) -> Option<Range<u64>> {
        let (address, size) = match *self {
            What::Access(Access { address, size, .. }) => (address, u64::from(size)),
            What::Lock { object, .. }
            | What::Unlock { object, .. }
            | What::Release { object, .. }
            | What::Acquire { object, .. }
            | What::Forget { object }
            | What::Free { address: object, .. } => (object, 1),
            What::FutexWord { address } => (address, FUTEX_WORD),
            What::Allocate { address, size, .. } | What::Map { address, size } => (address, size),
            What::Create { .. }
            | What::End
            | What::Join { .. }
            | What::Call { .. }
            | What::Return { .. }
            | What::SystemCall { .. } => return None,
        };
        Some(address..address.saturating_add(size.max(1)))
    }
}
