//! Owns running one program in one mode and what it cost.

use crate::alone::{self, Run};
use crate::workplace::Workplace;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// So many seconds: where threads take locks in turn, helgrind may take minutes.
const LONGEST: &str = "60";
/// `timeout` is killed with the program that it kills.
const KILLED: i32 = alone::BY_SIGNAL;

/// What a replay that only counts is asked.
const COUNT: &str = include_str!("count.json");
/// What one is asked that collects pairs.
const PAIRS: &str = include_str!("pairs.json");
/// Status of `whodunit races` and `whodunit predict` if there is something to tell.
const FOUND: i32 = 1;

/// How a program is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Native,
    Record,
    /// The recording is replayed, with a listener that counts what its event stream tells.
    Observed,
    /// All that `whodunit races` does with the recording.
    Races,
    /// The pairs of the recording are collected, as `whodunit pairs` does with the first runs.
    Pairs,
    /// The same with those instructions that the first look has found to come to memory where threads meet, as it does with later runs at
    /// most: those that come to memory whose pairs are the same in all first runs are left out there. Comes after that.
    LaterPairs,
    /// The same for `whodunit predict`, but for the trials: what all detectors together cost.
    Predict,
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
            Self::Pairs => "pairs, first runs",
            Self::LaterPairs => "pairs, later runs",
            Self::Predict => "predict",
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
            Self::Observed | Self::Pairs | Self::LaterPairs => {
                &[whodunit, "replay", "--quiet", "--no-report", "--inquire", "--process", "1", &recording]
            }
            Self::Races => &[whodunit, "races", &recording],
            Self::Predict => &["timeout", "-s", "KILL", LONGEST, whodunit, "predict", "--most", "0", &recording],
            Self::Helgrind => &["timeout", "-s", "KILL", LONGEST, "valgrind", "-q", "--tool=helgrind", &native],
            Self::Drd => &["timeout", "-s", "KILL", LONGEST, "valgrind", "-q", "--tool=drd", &native],
            // Its runtime finds its places taken where addresses are random in many bits.
            Self::ThreadSanitizer => &["setarch", "--addr-no-randomize", &sanitized],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
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
    let found = workplace.folder.join(format!("{program}.pairs"));
    let question = match mode {
        Mode::Pairs => PAIRS.to_owned(),
        Mode::LaterPairs => later_pairs(&found)?,
        _ => COUNT.to_owned(),
    };
    fs::write(&asked, question).map_err(|error| error.to_string())?;
    let run = alone::run(&mode.words(program), &workplace.folder, &asked)?;
    if mode == Mode::Pairs {
        fs::rename(workplace.folder.join(alone::WRITTEN), &found).map_err(|error| error.to_string())?;
    }
    match run.status {
        0 => Ok(run),
        FOUND if matches!(mode, Mode::Races | Mode::Predict) => Ok(run),
        KILLED => Err(format!("over {LONGEST} s")),
        status => Err(format!("status {status}")),
    }
}

/// What a replay is asked after the first look at a run.
fn later_pairs(found: &Path) -> Result<String, String> {
    let found = fs::read(found).map_err(|error| error.to_string())?;
    let found: Value = serde_json::from_slice(&found).map_err(|error| error.to_string())?;
    let mut question: Value = serde_json::from_str(PAIRS).map_err(|error| error.to_string())?;
    let groups = found["meeting"].as_array().into_iter().flatten();
    let instructions: Vec<Value> = groups.filter_map(Value::as_array).flatten().cloned().collect();
    question["study"]["study"]["pairs"]["among"] = Value::Array(instructions);
    Ok(question.to_string())
}
