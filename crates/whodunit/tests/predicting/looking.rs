//! Recording a program and asking for predictions.

use crate::support::execute::{self, Ending, Scratch};
use crate::support::whodunit_binary;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// Records a command, whatever becomes of it.
pub fn record(scratch: &Scratch, program: &Path) -> Result<(), String> {
    recorded(scratch, &Command::new(program))
}

/// The same with arguments.
pub fn recorded(scratch: &Scratch, guest: &Command) -> Result<(), String> {
    let mut command = Command::new(whodunit_binary());
    command.args(["record", "--no-report", "-o"]).arg(scratch.path("recording"));
    command.arg("--").arg(guest.get_program()).args(guest.get_args());
    execute::command(scratch, &mut command, LIMIT).map(|_| ())
}

/// What is said of the recording: standard output, standard error and the exit status.
pub fn ask(scratch: &Scratch, verb: &str, options: &[&str]) -> Result<(String, String, i32), String> {
    let mut command = Command::new(whodunit_binary());
    command.arg(verb).arg(scratch.path("recording")).args(options).env("WHODUNIT_DIR", scratch.path("recordings"));
    let outcome = execute::command(scratch, &mut command, LIMIT)?;
    let Ending::Exited(status) = outcome.ending else { return Err(format!("{verb} ended by {:?}", outcome.ending)) };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(&outcome.stdout), text(&outcome.stderr), status))
}

/// The predictions as JSON, and the exit status. The first few orders are what the tests are about.
pub fn predictions(scratch: &Scratch) -> Result<(Value, i32), String> {
    let (stdout, stderr, status) = ask(scratch, "predict", &["--most", "8", "--format", "json"])?;
    let told = serde_json::from_str(&stdout).map_err(|error| format!("{error}: {stderr}"))?;
    Ok((told, status))
}

/// The same of a program that is recorded first, several times if need be.
pub fn predictions_of(scratch: &Scratch, runs: &str, program: &Path) -> Result<Value, String> {
    let mut command = Command::new(whodunit_binary());
    command.args(["predict", "--most", "1", "--format", "json", "-n", runs, "--"]).arg(program);
    command.env("WHODUNIT_DIR", scratch.path("recordings"));
    let outcome = execute::command(scratch, &mut command, LIMIT)?;
    serde_json::from_slice(&outcome.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&outcome.stderr)))
}

pub fn findings(told: &Value) -> impl Iterator<Item = &Value> {
    told["findings"].as_array().into_iter().flatten()
}

/// Compiles a program of a test.
pub fn compiled(scratch: &Scratch, source: &str) -> PathBuf {
    let (file, program) = (scratch.path("guest.c"), scratch.path("guest"));
    fs::write(&file, source).expect("a file");
    let compiled = Command::new("cc").args(["-g", "-pthread", "-o"]).arg(&program).arg(&file).output();
    assert!(compiled.expect("the compiler runs").status.success());
    program
}
