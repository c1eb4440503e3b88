//! Owns running one program in one mode and what it cost.

use crate::alone::{self, Run};
use crate::workplace::Workplace;
use std::fs;

/// So many seconds: where threads take locks in turn, helgrind may take minutes.
const LONGEST: &str = "60";
/// `timeout` is killed with the program that it kills.
const KILLED: i32 = alone::BY_SIGNAL;

/// What a replay that only counts is asked.
const COUNT: &str = include_str!("count.json");
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
    /// The recording is compared with itself by `whodunit pairs`, which collects its pairs twice; half of that counts.
    Pairs,
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
            Self::Pairs => "pairs of a run",
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
            Self::Observed => {
                &[whodunit, "replay", "--quiet", "--no-report", "--inquire", "--process", "1", &recording]
            }
            Self::Races => &[whodunit, "races", &recording],
            Self::Pairs => &[
                whodunit,
                "pairs",
                "-j",
                "1",
                "--procedure",
                "1",
                "--prove",
                "0",
                "--failing",
                &recording,
                "--passing",
                &recording,
            ],
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
    fs::write(&asked, COUNT).map_err(|error| error.to_string())?;
    let run = alone::run(&mode.words(program), &workplace.folder, &asked)?;
    match run.status {
        0 if mode == Mode::Pairs => Ok(Run { cpu: run.cpu / 2.0, ..run }),
        0 => Ok(run),
        FOUND if matches!(mode, Mode::Races | Mode::Predict) => Ok(run),
        KILLED => Err(format!("over {LONGEST} s")),
        status => Err(format!("status {status}")),
    }
}
