//! What `whodunit why` says of a run of an exhibit, and what comes of the run under a plan.
//!
//! Another test binary can have this module by its path; it needs `mod support` at its root.

#![allow(dead_code, reason = "each binary that asks uses its own part of the answer")]

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::build::Built;
use crate::support::execute::{self, Ending, Scratch};
use crate::support::spec::Spec;
use crate::support::whodunit_binary;

/// A diagnosis that takes longer has gone astray.
const LIMIT: Duration = Duration::from_secs(300);
/// The recording, in the folder of its run.
const RECORDING: &str = "recording";

/// A run that was recorded, with the folder that it found its files in.
pub struct Recorded {
    scratch: Scratch,
}

/// What the command said.
#[derive(Debug)]
pub struct Said {
    pub status: i32,
    pub findings: Vec<Value>,
    /// What was done.
    pub summary: String,
    pub complaint: String,
}

/// A cause, and what it took to find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    pub class: String,
    /// The statements: names of files without their folders, and lines.
    pub statements: Vec<(String, u32)>,
    pub is_proved: bool,
    /// Executions that failed and the one that no longer did, or layouts that were tried.
    pub n_runs: u32,
}

impl Recorded {
    pub fn new(spec: &Spec, built: &Built) -> Result<Recorded, String> {
        let scratch = Scratch::new(spec)?;
        execute::recorded_in(&scratch, spec, built, &scratch.path(RECORDING), &[])?;
        Ok(Recorded { scratch })
    }

    /// Asks `why` of it.
    pub fn why(&self, options: &[&str]) -> Result<Said, String> {
        let mut why = Command::new(whodunit_binary());
        why.args(["why", "--format", "json"]).args(options).arg(self.scratch.path(RECORDING));
        let outcome = execute::command(&self.scratch, &mut why, LIMIT)?;
        let complaint = String::from_utf8_lossy(&outcome.stderr).into_owned();
        let Ending::Exited(status) = outcome.ending else {
            return Err(format!("`why` ended with {:?}: {complaint}", outcome.ending));
        };
        let told: Value = serde_json::from_slice(&outcome.stdout).unwrap_or_default();
        Ok(Said {
            status,
            findings: told["findings"].as_array().cloned().unwrap_or_default(),
            summary: told["summary"]["text"].as_str().unwrap_or_default().to_owned(),
            complaint,
        })
    }
}

impl Recorded {
    /// What comes of it under a plan.
    pub fn rerun(&self, plan: &Value) -> Result<Value, String> {
        let mut rerun = Command::new(whodunit_binary());
        rerun.arg("rerun").arg(self.scratch.path(RECORDING)).args(["--json", "--plan", &plan.to_string()]);
        let outcome = execute::command(&self.scratch, &mut rerun, LIMIT)?;
        let complaint = String::from_utf8_lossy(&outcome.stderr);
        serde_json::from_slice(&outcome.stdout).map_err(|error| format!("{plan}: {error}: {complaint}"))
    }
}

impl Said {
    /// The only finding.
    pub fn diagnosis(&self) -> Result<Diagnosis, String> {
        let [finding] = self.findings.as_slice() else {
            return Err(format!("{} findings, status {}: {}", self.findings.len(), self.status, self.complaint));
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let statement = |cause: &Value| {
            let file = text(&cause["file"]);
            let name = file.rsplit('/').next().unwrap_or_default().to_owned();
            Some((name, u32::try_from(cause["line"].as_u64()?).ok()?))
        };
        Ok(Diagnosis {
            class: text(&finding["class"]),
            statements: finding["causes"].as_array().into_iter().flatten().filter_map(statement).collect(),
            is_proved: finding["status"] == "proved",
            n_runs: n_runs(&self.summary).ok_or_else(|| format!("`{}` tells no runs", self.summary))?,
        })
    }
}

/// As in `1 crash followed back` or `2 layouts of memory tried`. Of crashes, one more execution has none.
fn n_runs(summary: &str) -> Option<u32> {
    let words: Vec<&str> = summary.split_whitespace().collect();
    let before = |names: [&str; 2]| {
        let position = words.iter().position(|word| names.contains(word))?;
        words.get(position.checked_sub(1)?)?.parse::<u32>().ok()
    };
    before(["crash", "crashes"]).map(|crashes| crashes + 1).or_else(|| before(["layout", "layouts"]))
}
