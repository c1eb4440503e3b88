//! Recording a program and asking for its races.

use crate::support::execute::{self, Ending, Scratch};
use crate::support::whodunit_binary;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Switches that come often, so that threads really meet.
pub const BUSY: [&str; 6] = ["--policy", "random", "--seed", "3", "--quantum", "300"];

/// Records a command, whatever becomes of it.
pub fn record(scratch: &Scratch, options: &[&str], program: &Path, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new(whodunit_binary());
    command.args(["record", "--no-report", "-o"]).arg(scratch.path("recording")).args(options);
    command.arg("--").arg(program).args(words);
    execute::command(scratch, &mut command, LIMIT).map(|_| ())
}

/// The races of what was recorded, as JSON, and the exit status.
pub fn look(scratch: &Scratch, options: &[&str]) -> Result<(Value, i32), String> {
    let mut command = Command::new(whodunit_binary());
    command.arg("races").arg(scratch.path("recording")).args(["--format", "json"]).args(options);
    let outcome = execute::command(scratch, &mut command, LIMIT)?;
    let Ending::Exited(status) = outcome.ending else { return Err(format!("races ended by {:?}", outcome.ending)) };
    let told = serde_json::from_slice(&outcome.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&outcome.stderr)))?;
    Ok((told, status))
}

/// The titles of all findings.
pub fn titles(told: &Value) -> Vec<&str> {
    findings(told).filter_map(|finding| finding["title"].as_str()).collect()
}

pub fn findings(told: &Value) -> impl Iterator<Item = &Value> {
    told["findings"].as_array().into_iter().flatten()
}
