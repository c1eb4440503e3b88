//! Owns running one program in one mode and what it cost.
//!
//! A process can ask for the memory of the largest of its children only, so each command is run by a process of its own:
//! this benchmark once more, with `--alone`.

use crate::workplace::Workplace;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::process::{Command, Stdio};

/// Valgrind's tools get so many seconds: where threads take locks in turn, helgrind may take minutes.
const LONGEST: &str = "60";
/// What `timeout` says of a program that it had to kill.
const KILLED: i32 = 128 + 9;

/// What a replay that only counts is asked.
const COUNT: &str = include_str!("count.json");
/// Status of `whodunit races` if there are races.
const RACES_FOUND: i32 = 1;

/// How a program is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Native,
    Record,
    /// The recording is replayed, with a listener that counts what its event stream tells.
    Observed,
    /// All that `whodunit races` does with the recording.
    Races,
    Helgrind,
    Drd,
    ThreadSanitizer,
}

impl Mode {
    pub fn title(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Record => "record",
            Self::Observed => "observed replay",
            Self::Races => "races",
            Self::Helgrind => "helgrind",
            Self::Drd => "drd",
            Self::ThreadSanitizer => "ThreadSanitizer",
        }
    }

    fn words(self, program: &str) -> Vec<String> {
        let whodunit = env!("CARGO_BIN_EXE_whodunit");
        let recording = format!("./{program}.recording");
        let native = format!("./{program}");
        let sanitized = format!("./{program}.tsan");
        let words: &[&str] = match self {
            Self::Native => &[&native],
            Self::Record => &[whodunit, "record", "-o", &recording, "--", &native],
            Self::Observed => {
                &[whodunit, "replay", "--quiet", "--no-report", "--inquire", "--process", "1", &recording]
            }
            Self::Races => &[whodunit, "races", &recording],
            Self::Helgrind => &["timeout", "-s", "KILL", LONGEST, "valgrind", "-q", "--tool=helgrind", &native],
            Self::Drd => &["timeout", "-s", "KILL", LONGEST, "valgrind", "-q", "--tool=drd", &native],
            // Its runtime finds its places taken where addresses are random in many bits.
            Self::ThreadSanitizer => &["setarch", "--addr-no-randomize", &sanitized],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Run {
    /// User and system time of all processes of the run, in seconds.
    pub cpu: f64,
    /// The memory of the largest of them, in bytes.
    pub peak: u64,
    status: i32,
}

/// The cheapest of some runs.
pub fn best_of(n: u32, mode: Mode, program: &str, workplace: &Workplace) -> Result<Run, String> {
    let mut best = run(mode, program, workplace)?;
    for _ in 1..n {
        let next = run(mode, program, workplace)?;
        if next.cpu < best.cpu {
            best = next;
        }
    }
    Ok(best)
}

fn run(mode: Mode, program: &str, workplace: &Workplace) -> Result<Run, String> {
    if mode == Mode::Record {
        let _ = fs::remove_dir_all(workplace.folder.join(format!("{program}.recording")));
    }
    let asked = workplace.folder.join("asked");
    fs::write(&asked, COUNT).map_err(|error| error.to_string())?;
    let output = Command::new(std::env::current_exe().map_err(|error| error.to_string())?)
        .arg("--alone")
        .args(mode.words(program))
        .current_dir(&workplace.folder)
        .stdin(File::open(&asked).map_err(|error| error.to_string())?)
        .stderr(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let run: Run = serde_json::from_slice(&output.stdout).map_err(|_| "did not run".to_owned())?;
    match run.status {
        0 => Ok(run),
        RACES_FOUND if mode == Mode::Races => Ok(run),
        KILLED => Err(format!("over {LONGEST} s")),
        status => Err(format!("status {status}")),
    }
}

/// Runs a command as the only child, and prints what it cost.
pub fn run_alone(words: &[String]) {
    let status = Command::new(&words[0]).args(&words[1..]).stdout(Stdio::null()).status();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the kernel counts what children use");
    let cpu = seconds(usage.user_time()) + seconds(usage.system_time());
    let status = status.ok().and_then(|status| status.code()).unwrap_or(-1);
    let run = Run { cpu, peak: usage.max_rss().unsigned_abs() * 1024, status };
    println!("{}", serde_json::to_string(&run).expect("numbers can be written"));
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}
