//! How a run that was to leave its recording ended. The same plan on the same recording gives the same outcome.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub schema: String,
    pub ending: Ending,
    /// The thread that brought the end about, and its clock.
    pub thread: u32,
    pub clock: u64,
    /// How many events of the recording were followed.
    pub events: u64,
    /// Where the recording was left; none if the plan never acted and the recorded end was reached.
    pub left: Option<Left>,
    /// Threads that were there at the end.
    pub threads: Vec<Thread>,
    /// What the program wrote, in order; also what it wrote as recorded.
    pub output: Vec<Output>,
    /// Who got the turn after the recording was left, in order.
    pub schedule: Vec<Switch>,
    /// Clock events of all threads since then; calls and stops at places count for many.
    pub spent: u64,
    /// What did not go as the plan has it.
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Exited {
        status: i32,
    },
    Killed {
        signal: i32,
        name: String,
        /// Of a fault.
        address: Option<String>,
    },
    /// No thread could ever run again.
    Deadlock {},
    /// The limit of events was reached.
    Limit {},
    /// The program needs something of the outside that the recording does not tell.
    LeftTheRecording {
        needs: String,
    },
    /// Where the plan says.
    Stopped {},
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The event of the recording that would have come next.
    pub event: u64,
    pub thread: u32,
    pub clock: u64,
    pub pc: String,
    pub place: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    pub thread: u32,
    pub state: String,
    /// The innermost first.
    pub stack: Vec<Frame>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub pc: String,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub module: String,
    pub module_offset: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    pub descriptor: i32,
    /// What is no UTF-8 is replaced.
    pub text: String,
    pub bytes: u64,
}

/// The turn went from a thread, whose clock showed this, to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    pub from: u32,
    pub clock: u64,
    pub to: u32,
}

impl Outcome {
    pub const SCHEMA: &str = "whodunit/outcome/1";

    /// Whether the run ended as programs should, or where it was to.
    pub fn is_good(&self) -> bool {
        matches!(self.ending, Ending::Exited { status: 0 } | Ending::Stopped {})
    }
}
