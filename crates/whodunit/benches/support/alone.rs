//! What a command costs.
//!
//! A process can ask for the memory of the largest of its children only, so each command is run by a process of its own:
//! the benchmark once more, with `--alone`.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Run {
    /// User and system time of all processes of the run, in seconds.
    pub cpu: f64,
    /// The memory of the largest of them, in bytes.
    pub peak: u64,
    pub status: i32,
}

/// Runs a command in a folder, with a file as its standard input. What it writes is left in the file `written` there.
pub fn run(words: &[String], folder: &Path, stdin: &Path) -> Result<Run, String> {
    let output = Command::new(std::env::current_exe().map_err(|error| error.to_string())?)
        .arg("--alone")
        .args(words)
        .current_dir(folder)
        .stdin(File::open(stdin).map_err(|error| error.to_string())?)
        .stderr(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|_| "did not run".to_owned())
}

/// Runs a command as the only child, and prints what it cost.
pub fn run_alone(words: &[String]) {
    let written = File::create(WRITTEN).map_or_else(|_| Stdio::null(), Stdio::from);
    let status = Command::new(&words[0]).args(&words[1..]).stdout(written).status();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the kernel counts what children use");
    let cpu = seconds(usage.user_time()) + seconds(usage.system_time());
    let status = status.ok().and_then(|status| status.code()).unwrap_or(BY_SIGNAL);
    let run = Run { cpu, peak: usage.max_rss().unsigned_abs() * 1024, status };
    println!("{}", serde_json::to_string(&run).expect("numbers can be written"));
}

/// The status of a command that was ended by a signal.
pub const BY_SIGNAL: i32 = -1;
/// Where the standard output of the last command is.
pub const WRITTEN: &str = "written";

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}
