//! What findings are made of: places, threads, steps, stacks, evidence.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::path::PathBuf;

/// An address of the guest's, or a distance. In JSON it is a text such as `"0x550065558010"`: not every reader has numbers
/// of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub u64);

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#x}", self.0)
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").ok_or_else(|| de::Error::custom("an address starts with 0x"))?;
        u64::from_str_radix(digits, 16).map(Address).map_err(de::Error::custom)
    }
}

/// A place in the program, or a frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// Demangled.
    pub function: Option<String>,
    /// Absolute. In JSON, what is not UTF-8 is replaced.
    #[serde(serialize_with = "as_text")]
    pub file: Option<PathBuf>,
    /// Counted from one.
    pub line: Option<u32>,
    /// In bytes, counted from one.
    pub column: Option<u32>,
    /// Whether the compiler placed this function's code inside its caller's.
    pub inlined: bool,
    /// The name of the program or library.
    pub module: Option<String>,
    /// The address as the module's file states it.
    pub module_offset: Option<Address>,
    pub pc: Option<Address>,
}

fn as_text<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}

/// A guilty statement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    #[serde(flatten)]
    pub place: Place,
    /// None if any thread is as guilty.
    pub thread: Option<u32>,
    /// What it did: ``writes `counter` without a lock``.
    #[serde(default)]
    pub text: String,
}

/// How the program failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// `SIGSEGV: invalid write to 0x10 (the null page)`.
    pub text: String,
    pub signal: Option<i32>,
    pub exit_status: Option<i32>,
    pub thread: Option<u32>,
    pub at: Option<Place>,
}

/// The memory that a finding is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Variable {
    /// `sessions[4].refs`.
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    pub address: Option<Address>,
    pub size: Option<u64>,
    /// Where it lies, as the end of a sentence: `in a block of 40 bytes that thread 1 allocated`.
    pub text: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Counted from one, in order of creation.
    pub thread: u32,
    #[serde(default)]
    pub name: Option<String>,
    /// The stack of the thread that made it, innermost first.
    #[serde(default)]
    pub created: Vec<Place>,
}

/// Something that a thread did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub thread: u32,
    #[serde(flatten)]
    pub place: Place,
    /// `writes counter = 5 (was 4)`.
    #[serde(default)]
    pub text: String,
    /// Whether the failure would not have come without it, or without its being just here.
    #[serde(default)]
    pub guilty: bool,
}

/// A thread that lost the turn behind a place until another had passed its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    pub thread: u32,
    pub after: Place,
    pub until: Passage,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    pub thread: u32,
    pub passes: Place,
}

/// What one thread did or does, with its stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    pub thread: u32,
    /// The rest of a sentence that starts with the thread: `writes 4 bytes`, `waits`.
    pub text: String,
    /// Innermost first.
    #[serde(default)]
    pub stack: Vec<Place>,
    /// Locks held; none if that is not known.
    #[serde(default)]
    pub locks: Option<Vec<Lock>>,
    /// In a deadlock, what the thread waits for.
    #[serde(default)]
    pub waits_for: Option<Wait>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockMode {
    #[default]
    Exclusive,
    Shared,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lock {
    pub name: Option<String>,
    pub address: Option<Address>,
    pub mode: LockMode,
    /// Where it was taken.
    pub taken: Option<Place>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wait {
    pub lock: Lock,
    /// The thread that has it.
    pub held_by: Option<u32>,
}

/// What a finding rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// As users call it.
    pub recording: Option<String>,
    /// The process or program in the recording, by its number.
    pub process: Option<u32>,
    /// The plan of the re-run, as `whodunit rerun` takes it.
    pub plan: Option<serde_json::Value>,
    pub seed: Option<u64>,
    /// The recording of the re-run, if it failed and was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<String>,
}

/// A command that leads on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    pub command: String,
    /// What it shows: `who else writes counter`.
    pub text: String,
}
