//! What a process that runs one schedule is told, and what it tells back.

use crate::settings::DEFAULT_QUANTUM;
use sched::{Course, Delay, Delays, Follow, Pair, Pct, Policy, Pos, Random, ReadsFrom, RoundRobin, Step, Steps, Walk};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How the next thread is chosen in one schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Tactic {
    /// As the program runs when nobody hunts.
    Ordinary,
    /// The same with other lengths of time.
    RoundRobin {
        quantum: u64,
    },
    Walk,
    /// Any thread that can run, after about so many events.
    Slices {
        quantum: u64,
    },
    Pct {
        depth: u32,
        /// About how many steps a run has.
        steps: u64,
    },
    Pos,
    /// Stores, each with an access that is to come right behind it.
    ReadsFrom {
        pairs: [Option<(u64, u64)>; 2],
    },
    Delay {
        site: u64,
        /// As in [`Delays`].
        skip: u64,
        wanted: u64,
        stores: u64,
        ranked: bool,
    },
    /// As in [`Delay::anywhere`].
    Delays {
        spacing: u64,
        ranked: bool,
    },
}

impl Tactic {
    pub fn policy(self, seed: u64, quantum: u64) -> Box<dyn Policy> {
        match self {
            Tactic::Ordinary => Box::new(RoundRobin::new(quantum)),
            Tactic::RoundRobin { quantum } => Box::new(RoundRobin::new(quantum)),
            Tactic::Walk => Box::new(Walk::new(seed)),
            Tactic::Slices { quantum } => Box::new(Random::new(seed, quantum)),
            Tactic::Pct { depth, steps } => Box::new(Pct::new(seed, depth, steps)),
            Tactic::Pos => Box::new(Pos::new(seed)),
            Tactic::ReadsFrom { pairs } => {
                let pairs: Vec<Pair> =
                    pairs.into_iter().flatten().map(|(store, access)| Pair { store, access }).collect();
                Box::new(ReadsFrom::new(seed, &pairs))
            }
            Tactic::Delay { site, skip, wanted, stores, ranked } => {
                Box::new(Delay::new(seed, site, Delays { skip, wanted, stores, ranked }))
            }
            Tactic::Delays { spacing, ranked } => Box::new(Delay::anywhere(seed, spacing, ranked)),
        }
    }

    /// The name that users know it by.
    pub fn name(self) -> &'static str {
        match self {
            Tactic::Ordinary | Tactic::RoundRobin { .. } => "round-robin",
            Tactic::Walk => "random",
            Tactic::Slices { .. } => "slices",
            Tactic::Pct { .. } => "pct",
            Tactic::Pos => "pos",
            Tactic::ReadsFrom { .. } => "rff",
            Tactic::Delay { .. } | Tactic::Delays { .. } => "delay",
        }
    }
}

/// What is told to a process that runs schedules, a line each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Errand {
    /// To run the program up to its second thread, so that schedules go on from there. To be told first; [`READY`] is the
    /// reply, or the process ends.
    Prepare(Order),
    /// To run one schedule. The replies are the number of its process, and how it [`Ended`].
    Run(Order),
}

/// The program has come to where copies go on.
pub const READY: &str = "ready";

/// One schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub seed: u64,
    pub tactic: Tactic,
    /// The file with the [`Course`] to follow instead of the tactic.
    pub course: Option<PathBuf>,
    /// The file that lists the points.
    pub points: PathBuf,
    /// Whether to look which memory threads share.
    pub observe: bool,
    /// Whether to tell where a crash is; reading the names takes longer than many a schedule.
    pub tells_places: bool,
    /// How many events may pass while nothing comes of them.
    pub patience: u64,
    /// The folder of the recording, which is to be made.
    pub recording: PathBuf,
    /// The file for the [`Answer`], which is to be made.
    pub answer: PathBuf,
    /// What the program reads, and where what it writes goes.
    pub input: PathBuf,
    pub output: PathBuf,
    pub errors: PathBuf,
    /// How many milliseconds it may take.
    pub limit: u64,
    /// What is made to go wrong, as `faults` encodes it.
    pub faults: String,
}

impl Order {
    /// Who chooses, and where those choices can be read that follow a course.
    pub fn policy(&self) -> Result<(Box<dyn Policy>, Option<Steps>), String> {
        let Some(path) = &self.course else { return Ok((self.tactic.policy(self.seed, DEFAULT_QUANTUM), None)) };
        let problem = |error: &dyn std::fmt::Display| format!("{}: cannot be followed: {error}", path.display());
        let text = std::fs::read(path).map_err(|error| problem(&error))?;
        let course: Course = serde_json::from_slice(&text).map_err(|error| problem(&error))?;
        let follow = Follow::new(course, DEFAULT_QUANTUM);
        let steps = follow.steps();
        Ok((Box::new(follow), Some(steps)))
    }

    /// What the policy is called.
    pub fn policy_name(&self) -> &'static str {
        if self.course.is_some() { "shrunk" } else { self.tactic.name() }
    }
}

/// Addresses in hexadecimal digits, one a line.
pub fn read_points(path: &Path) -> Result<BTreeSet<u64>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{}: the points cannot be read: {error}", path.display()))?;
    let address = |line: &str| u64::from_str_radix(line.trim(), 16);
    text.lines()
        .map(address)
        .collect::<Result<_, _>>()
        .map_err(|_| format!("{}: a line is no address in hexadecimal digits", path.display()))
}

/// How the process ended that ran a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ended {
    Exited(i32),
    Killed(i32),
    /// The limit was reached, and it had been computing all the time.
    Slow,
    /// The limit was reached, and it had been waiting.
    Stuck,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    pub threads: u64,
    pub events: u64,
    pub steps: u64,
    /// Equal for runs with the same switches.
    pub schedule: u64,
    /// Instructions that access memory which threads share, if they were looked for.
    pub shared: Option<Shared>,
    /// Where translations begin of what it ran, if somebody wants to know.
    #[serde(default)]
    pub units: Vec<u64>,
    pub crash: Option<Crash>,
    /// The choices of a run that follows a course.
    pub choices: Vec<Step>,
}

/// Instructions at memory that threads share, and pairs of a store and another access to the same memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Shared {
    /// With how often their memory went from one thread to another.
    pub sites: Vec<(u64, u64)>,
    pub pairs: Vec<(u64, u64)>,
    /// How often such memory was accessed.
    pub accesses: u64,
}

/// What the engine has to say about a failure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Crash {
    pub kind: Kind,
    /// The functions in which it happened: one, or one a thread.
    pub places: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Kind {
    Signal(i32),
    Assertion,
    Deadlock,
    Hang,
}
