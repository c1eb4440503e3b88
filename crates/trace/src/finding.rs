//! The finding: a typed verdict with its evidence, in the form in which it outlives the process that reached it.
//!
//! Analyses make findings, and reports render them. `docs/findings.md` describes the JSON; fields and classes are added to
//! this schema, never renamed. A finding is proved only with a command that shows it again; all others are suspicions,
//! and the constructors leave no third way.

mod class;
mod parts;

pub use class::{Class, UnknownClass};
pub use parts::{
    Address, Cause, Evidence, Failure, Lock, LockMode, Next, Passage, Place, Preemption, Side, Step, Thread, Variable,
    Wait,
};

use serde::{Deserialize, Serialize};
use std::fmt;

/// What one run of an analysing verb has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    schema: String,
    pub tool: Tool,
    /// The verb that looked: `races`, `hunt`.
    pub verb: String,
    /// As it was started.
    pub program: String,
    /// Without the program's name.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// What was looked at, as users call it.
    #[serde(default)]
    pub recording: Option<String>,
    #[serde(default)]
    pub summary: Summary,
    /// How much was left after so many runs, in ascending order, if somebody asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrowing: Vec<Narrowing>,
    pub findings: Vec<Finding>,
    /// What this way of looking may miss or wrongly report, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    pub proved: usize,
    pub suspected: usize,
    /// Findings that the user does not want to see.
    pub suppressed: u64,
    /// Findings beyond the number that is kept.
    pub left_out: u64,
    /// What was done, as a sentence: `412 schedules, 93 of them different.`
    pub text: Option<String>,
}

/// What a comparison with more and more runs leaves over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Narrowing {
    /// How many runs it was compared with.
    pub runs: u64,
    /// How many may be to blame then.
    pub suspects: u64,
}

impl Findings {
    pub const SCHEMA: &str = "whodunit/findings/1";

    pub fn new(verb: &str, program: &str) -> Findings {
        Findings {
            schema: Findings::SCHEMA.to_owned(),
            tool: Tool { name: "whodunit".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
            verb: verb.to_owned(),
            program: program.to_owned(),
            arguments: Vec::new(),
            recording: None,
            summary: Summary::default(),
            narrowing: Vec::new(),
            findings: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a finding, and counts it in the summary.
    pub fn push(&mut self, finding: Finding) {
        match finding.status {
            Status::Proved => self.summary.proved += 1,
            Status::Suspected => self.summary.suspected += 1,
        }
        self.findings.push(finding);
    }

    /// Reads what [`serde_json`] wrote. Files may come from anywhere.
    pub fn read(text: &str) -> Result<Findings, Unreadable> {
        let bad = |error: serde_json::Error| Unreadable::Malformed(error.to_string());
        let value: serde_json::Value = serde_json::from_str(text).map_err(bad)?;
        match value["schema"].as_str() {
            Some(Findings::SCHEMA) => {}
            Some(other) => return Err(Unreadable::OtherSchema(other.to_owned())),
            None => return Err(Unreadable::NoSchema),
        }
        let findings: Findings = serde_json::from_value(value).map_err(bad)?;
        match findings.findings.iter().position(|finding| !finding.keeps_the_rule()) {
            Some(position) => Err(Unreadable::Unproved(position)),
            None => Ok(findings),
        }
    }
}

/// Why a text holds no findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    NoSchema,
    OtherSchema(String),
    Malformed(String),
    /// The finding at this position claims to be proved, without a command that shows it.
    Unproved(usize),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = Findings::SCHEMA;
        match self {
            Unreadable::NoSchema => write!(formatter, "there is no \"schema\", which should be \"{schema}\""),
            Unreadable::OtherSchema(other) => {
                write!(formatter, "its schema is \"{other}\", and this whodunit reads \"{schema}\"")
            }
            Unreadable::Malformed(problem) => write!(formatter, "{problem}"),
            Unreadable::Unproved(position) => {
                write!(formatter, "findings[{position}] is called proved, but has no \"rerun\" that shows it")
            }
        }
    }
}

impl std::error::Error for Unreadable {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A re-run has shown it, and shows it again.
    Proved,
    /// Concluded, but not shown.
    Suspected,
}

/// One verdict. What is empty or none is not known, or makes no sense for the class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub class: Class,
    /// One line: `bump writes counter while another thread reads it`.
    pub title: String,
    status: Status,
    /// The guilty statements, the most guilty first.
    #[serde(default)]
    pub causes: Vec<Cause>,
    /// What came of it.
    #[serde(default)]
    pub failure: Option<Failure>,
    /// The memory that it is about.
    #[serde(default)]
    pub variable: Option<Variable>,
    /// Threads that play a part, in ascending order.
    #[serde(default)]
    pub threads: Vec<Thread>,
    /// What the threads did, in the order in which they did it.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Where the schedule had to interfere for the failure, in order.
    #[serde(default)]
    pub schedule: Vec<Preemption>,
    /// The stacks behind it: both accesses of a race, each thread of a deadlock, allocation and release of a block.
    #[serde(default)]
    pub sides: Vec<Side>,
    /// Whether the accesses were seen in both orders; none if nobody has looked.
    #[serde(default)]
    pub both_orders: Option<bool>,
    /// How often it was seen.
    #[serde(default = "once")]
    pub count: u64,
    /// What it was concluded from, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grounds: Vec<String>,
    /// What may be missing or wrong in this finding, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    #[serde(default)]
    pub evidence: Evidence,
    /// The exact command that shows it again.
    rerun: Option<String>,
    /// Commands that lead on.
    #[serde(default)]
    pub next: Vec<Next>,
}

fn once() -> u64 {
    1
}

impl Finding {
    /// A re-run has shown it, by this command.
    pub fn proved(class: Class, title: &str, rerun: &str) -> Finding {
        Finding { status: Status::Proved, rerun: Some(rerun.to_owned()), ..Finding::suspected(class, title) }
    }

    pub fn suspected(class: Class, title: &str) -> Finding {
        Finding {
            class,
            title: title.to_owned(),
            status: Status::Suspected,
            causes: Vec::new(),
            failure: None,
            variable: None,
            threads: Vec::new(),
            steps: Vec::new(),
            schedule: Vec::new(),
            sides: Vec::new(),
            both_orders: None,
            count: once(),
            grounds: Vec::new(),
            notes: Vec::new(),
            evidence: Evidence::default(),
            rerun: None,
            next: Vec::new(),
        }
    }

    pub fn status(&self) -> Status {
        self.status
    }

    pub fn rerun(&self) -> Option<&str> {
        self.rerun.as_deref()
    }

    fn keeps_the_rule(&self) -> bool {
        self.status == Status::Suspected || self.rerun.is_some()
    }
}
