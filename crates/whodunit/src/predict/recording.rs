//! A recording of a program that is to be looked at.

use crate::recordings::Trouble;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use trace::Store;

/// Switches that come often, so that runs differ.
const QUANTUM: &str = "300";

/// Records the program: the first time with the usual schedule, then with random ones. What it writes is shown.
pub fn make(program: &[OsString], run: u32) -> Result<PathBuf, Trouble> {
    let refused = |error: &dyn std::fmt::Display| Trouble::Refused(format!("cannot record the program: {error}"));
    let own = std::env::current_exe().map_err(|error| refused(&error))?;
    let mut command = Command::new(own);
    command.args(["record", "--no-report"]);
    if run > 0 {
        command.args(["--policy", "random", "--quantum", QUANTUM, "--seed"]).arg(run.to_string());
    }
    command.arg("--").args(program);
    // Findings go to standard output, so what the program writes there must not.
    command.stdout(Stdio::from(std::io::stderr()));
    let status = command.status().map_err(|error| refused(&error))?;
    let store = Store::from_environment().map_err(|error| refused(&error))?;
    match status.code() {
        Some(code @ (2 | 3 | 126 | 127)) => {
            Err(Trouble::Refused(format!("the program was not recorded (status {code}): see the words above")))
        }
        _ => store.resolve("latest".as_ref()).map_err(|error| refused(&error)),
    }
}
