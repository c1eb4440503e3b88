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
    /// Where what ended the run came from, if the plan has data followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origins: Option<Origins>,
    /// What another layout of memory has shown, if the plan has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relaid: Option<Relaid>,
    /// Who changed memory that held threads waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Changed>,
    /// What did not go as the plan has it.
    pub remarks: Vec<String>,
}

/// A thread ran an instruction that changed what another one waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    pub thread: u32,
    pub clock: u64,
    pub pc: String,
}

/// What was moved, and whose guards were written to.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Relaid {
    pub blocks: u64,
    pub globals: u64,
    pub locals: u64,
    pub broken: Vec<Broken>,
}

/// A moved object that somebody wrote beyond, or a freed one that somebody wrote to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// The number of the guard.
    pub guard: u32,
    pub what: Guarded,
    /// Of a variable.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where the object lies in this run.
    pub object: String,
    pub size: u64,
    /// The byte nearest to the object that was written to.
    pub address: String,
    /// The instruction that did it, if the guard was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Of a block, where the call returned to that allocated it, or gave it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The calls that led to it, if the guard was watched, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarded {
    Block,
    FreedBlock,
    Global,
    Local,
}

/// The steps that the end of a run depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origins {
    /// How many instructions were looked at, and how many of them did not take effect.
    pub steps: u64,
    pub suppressed: u64,
    /// The instruction that ended the run, or that led to where there is none.
    pub failure: Option<Definition>,
    /// The last conditional branch of each function that its thread is in, by their numbers, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<u32>,
    /// What they depend on, the latest first, and the branches.
    pub definitions: Vec<Definition>,
}

/// An instruction that a thread ran, and what its result came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    pub number: u32,
    pub thread: u32,
    pub clock: u64,
    pub pc: String,
    /// Which arrival of the thread at `pc` it was since its clock showed this.
    pub time: u64,
    /// Memory that it wrote, or else read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Accessed>,
    /// It moved a value without changing it.
    pub copies: bool,
    /// It was a system call, which made it of what came from outside.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub system_call: bool,
    /// Of a constant, the branch before it in the same function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<u32>,
    /// What it left in its first target, as far as that is a number.
    pub value: String,
    /// Numbers of the definitions that its values come from; 0 stands for all that is older.
    pub values: Vec<u32>,
    /// The same for the address of the memory that it accesses.
    pub addresses: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accessed {
    pub address: String,
    pub size: u32,
    pub writes: bool,
    /// Where it read what it wrote, if that was in memory too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The definition that it overwrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrites: Option<u32>,
    /// The return address on the stack that lies next at or below the last byte of what it wrote to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_below: Option<String>,
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
    /// All that was recorded has come from outside, and the program waits for more.
    OutOfInput {},
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
        let is_broken = self.relaid.as_ref().is_some_and(|relaid| !relaid.broken.is_empty());
        matches!(self.ending, Ending::Exited { status: 0 } | Ending::OutOfInput {} | Ending::Stopped {}) && !is_broken
    }
}
