//! What `whodunit predict` says of a program or a recording, and what that cost.

use crate::findings;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

pub use crate::findings::Answer;

pub fn ask(place: &Path, method: &str, words: &[&str]) -> Result<Answer, String> {
    findings::ask(place, "predict", &[&["--method", method], words].concat())
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
