//! How a run that left its recording ended.

use super::layout::Relaid;
use super::scrutiny::Origins;
use crate::engine::ThreadFacts;

#[derive(Clone, Debug)]
pub struct Rerun {
    pub ending: Ending,
    /// The thread that brought the end about, and its clock.
    pub thread: u32,
    pub clock: u64,
    /// All threads as they stand at the end.
    pub threads: Vec<ThreadFacts>,
    /// How many events of the recording were followed.
    pub events: u64,
    /// Where the recording was left; none if it was followed to its end.
    pub left: Option<Leaving>,
    /// What the program wrote, in order.
    pub output: Vec<Written>,
    /// Who got the turn after the recording was left.
    pub turns: Vec<Turn>,
    /// Events of all clocks since then.
    pub spent: u64,
    /// Where what ended it came from, if data were followed.
    pub origins: Option<Origins>,
    /// What another layout has shown, if the plan has one.
    pub relaid: Option<Relaid>,
    /// Who changed memory that held threads waited for.
    pub changed: Vec<Changed>,
    /// What did not go as the plan has it.
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Exited(i32),
    Killed {
        signal: i32,
        /// Of a fault.
        address: Option<u64>,
    },
    /// No thread can ever run again.
    Deadlock,
    /// The plan's limit was reached.
    Limit,
    /// All that was recorded has come from outside, and the program waits for more.
    OutOfInput,
    /// The program asks something of the outside that the recording does not answer.
    Needs(String),
    /// Where the plan says.
    Stopped,
}

/// The last moment that was as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The event of the recording that would have come next.
    pub event: u64,
    pub thread: u32,
    pub clock: u64,
    pub pc: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub descriptor: i32,
    pub bytes: Vec<u8>,
}

/// A thread ran an instruction that changed what another one waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    pub thread: u32,
    pub clock: u64,
    pub pc: u64,
}

/// The turn went from a thread to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub from: u32,
    /// Of `from`.
    pub clock: u64,
    pub to: u32,
}
