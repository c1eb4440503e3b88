//! What a verb finds, and what that cost.

use crate::alone::{self, Run};
use crate::support::whodunit_binary;
use serde_json::Value;
use std::path::Path;

/// There is nothing to tell, or something.
const ANSWERED: [i32; 2] = [0, 1];

pub struct Answer {
    pub run: Run,
    pub findings: Vec<Value>,
    /// What was done.
    pub summary: String,
}

/// Asks a verb in a folder; recordings that are made meanwhile stay there.
pub fn ask(place: &Path, verb: &str, words: &[&str]) -> Result<Answer, String> {
    let variable = format!("WHODUNIT_DIR={}", place.join("recordings").display());
    let binary = whodunit_binary().to_string_lossy().into_owned();
    let fixed = ["env", &variable, &binary, verb, "--format", "json"];
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
