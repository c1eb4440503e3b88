//! What `whodunit predict` says of a program or a recording, and what that cost.

use crate::alone::{self, Run};
use crate::support::whodunit_binary;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Predictions were made, and there are none, or some.
const ANSWERED: [i32; 2] = [0, 1];

pub struct Answer {
    pub run: Run,
    pub findings: Vec<Value>,
    /// What was done.
    pub summary: String,
}

/// Asks in a folder; recordings that are made meanwhile stay there.
pub fn ask(place: &Path, method: &str, words: &[&str]) -> Result<Answer, String> {
    let variable = format!("WHODUNIT_DIR={}", place.join("recordings").display());
    let binary = whodunit_binary().to_string_lossy().into_owned();
    let fixed = ["env", &variable, &binary, "predict", "--format", "json", "--method", method];
    let command: Vec<String> = fixed.iter().chain(words).map(|word| (*word).to_owned()).collect();
    let run = alone::run(&command, place, Path::new("/dev/null"))?;
    if !ANSWERED.contains(&run.status) {
        return Err(format!("status {}", run.status));
    }
    let text = std::fs::read_to_string(place.join(alone::WRITTEN)).map_err(|error| error.to_string())?;
    let told: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let findings = told["findings"].as_array().cloned().unwrap_or_default();
    let summary = told["summary"]["text"].as_str().unwrap_or_default().to_owned();
    Ok(Answer { run, findings, summary })
}

/// The number of things that a comparator tells.
pub fn reports(place: &Path, method: &str, words: &[&str]) -> String {
    ask(place, method, words).map_or_else(|reason| reason, |answer| answer.findings.len().to_string())
}

/// Whether a finding has to do with one of these lines: as a cause, or as where it fails.
pub fn concerns(finding: &Value, lines: &BTreeSet<u64>) -> bool {
    let causes = finding["causes"].as_array().into_iter().flatten().map(|cause| &cause["line"]);
    causes.chain([&finding["failure"]["at"]["line"]]).filter_map(Value::as_u64).any(|line| lines.contains(&line))
}
