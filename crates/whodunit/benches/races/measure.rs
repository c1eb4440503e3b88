//! Owns running one program in one mode and what it cost.

use crate::alone::{self, Run};
use crate::workplace::{Program, Workplace};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// So many seconds: where threads take locks in turn, helgrind may take minutes.
const LONGEST: &str = "60";
/// `timeout` is killed with the program that it kills.
const KILLED: i32 = alone::BY_SIGNAL;

/// What a replay that only counts is asked.
const COUNT: &str = include_str!("count.json");
/// What code and memory counts.
const SCOPE: &str = r#"{"ignored_code":[],"synchronising_code":[],"ignored_memory":[]}"#;
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
    /// Memory at which threads meet is sought, as `whodunit pairs` does before anything else.
    Places,
    /// And the instructions that come there. Comes after that.
    Visitors,
    /// The pairs that they make are collected, as in the first runs that `whodunit pairs` compares. Comes after that.
    Pairs,
    /// The pairs of so many runs are collected and compared with those of one more. The cost is that for each of the runs.
    Collecting(u32),
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
            Self::Places => "meeting places",
            Self::Visitors => "visitors",
            Self::Pairs => "pairs, first runs",
            Self::Collecting(_) => "pairs, each run",
            Self::Predict => "predict",
            Self::Helgrind => "helgrind",
            Self::Drd => "drd",
            Self::ThreadSanitizer => "ThreadSanitizer",
        }
    }

    fn words(self, program: &Program) -> Vec<String> {
        let whodunit = env!("CARGO_BIN_EXE_whodunit");
        let name = program.name;
        let recording = format!("./{name}.recording");
        let native = program.command();
        let sanitized = format!("./{name}.tsan");
        let before_native =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).chain(native.clone()).collect();
        let words: &[&str] = match self {
            Self::Native => return native,
            Self::Record => return before_native(&[whodunit, "record", "-o", &recording, "--"]),
            Self::Observed | Self::Places | Self::Visitors | Self::Pairs => {
                &[whodunit, "replay", "--quiet", "--no-report", "--inquire", "--process", "1", &recording]
            }
            Self::Collecting(runs) => {
                let runs = (1..=runs).map(|seed| random_run(program, seed));
                let words = [whodunit, "pairs", "--procedure", "1", "--prove", "0", "--failing"].map(str::to_owned);
                return words.into_iter().chain([random_run(program, 0), "--passing".to_owned()]).chain(runs).collect();
            }
            Self::Races => &[whodunit, "races", &recording],
            Self::Predict => &["timeout", "-s", "KILL", LONGEST, whodunit, "predict", "--most", "0", &recording],
            Self::Helgrind | Self::Drd => {
                let tool = if self == Self::Drd { "--tool=drd" } else { "--tool=helgrind" };
                return before_native(&["timeout", "-s", "KILL", LONGEST, "valgrind", "-q", tool]);
            }
            // Its runtime finds its places taken where addresses are random in many bits.
            Self::ThreadSanitizer => &["setarch", "--addr-no-randomize", &sanitized],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}

/// The cheapest of some runs.
pub fn best_of(n: u32, mode: Mode, program: &Program, workplace: &Workplace) -> Result<Run, String> {
    let mut best = run(mode, program, workplace)?;
    for _ in 1..n {
        let next = run(mode, program, workplace)?;
        if next.cpu < best.cpu {
            best = next;
        }
    }
    Ok(best)
}

/// What some runs cost on average.
pub fn mean_of(n: u32, mode: Mode, program: &Program, workplace: &Workplace) -> Result<Run, String> {
    let runs = (0..n).map(|_| run(mode, program, workplace)).collect::<Result<Vec<Run>, String>>()?;
    let one = runs.first().copied().ok_or("none was asked for")?;
    Ok(Run { cpu: runs.iter().map(|run| run.cpu).sum::<f64>() / f64::from(n), ..one })
}

fn run(mode: Mode, program: &Program, workplace: &Workplace) -> Result<Run, String> {
    if mode == Mode::ThreadSanitizer && !program.has_source() {
        return Err("-".to_owned());
    }
    if mode == Mode::Record {
        let _ = fs::remove_dir_all(workplace.folder.join(format!("{}.recording", program.name)));
    }
    if let Mode::Collecting(runs) = mode {
        make_runs(program, runs, workplace)?;
    }
    let asked = workplace.folder.join("asked");
    let question = question(mode, program, &workplace.folder)?;
    fs::write(&asked, question.to_string()).map_err(|error| error.to_string())?;
    let mut run = alone::run(&mode.words(program), &workplace.folder, &asked)?;
    if let Some(answer) = answer(mode, program) {
        let written = workplace.folder.join(alone::WRITTEN);
        fs::rename(written, workplace.folder.join(answer)).map_err(|error| error.to_string())?;
    }
    if let Mode::Collecting(runs) = mode {
        run.cpu /= f64::from(runs + 1);
    }
    match run.status {
        0 => Ok(run),
        FOUND if matches!(mode, Mode::Races | Mode::Predict | Mode::Collecting(_)) => Ok(run),
        KILLED => Err(format!("over {LONGEST} s")),
        status => Err(format!("status {status}")),
    }
}

/// The recording of a run with another schedule.
fn random_run(program: &Program, seed: u32) -> String {
    format!("./{}.run-{seed}", program.name)
}

fn make_runs(program: &Program, runs: u32, workplace: &Workplace) -> Result<(), String> {
    for seed in 0..=runs {
        let recording = random_run(program, seed);
        let made = Command::new(env!("CARGO_BIN_EXE_whodunit"))
            .args(["record", "--policy", "random", "--seed", &seed.to_string(), "-o", &recording, "--"])
            .args(program.command())
            .current_dir(&workplace.folder)
            .output()
            .map_err(|error| error.to_string())?;
        let is_made = made.status.success() || workplace.folder.join(&recording).exists();
        is_made.then_some(()).ok_or_else(|| "cannot be recorded".to_owned())?;
    }
    Ok(())
}

/// Where the answer of a replay is kept.
fn answer(mode: Mode, program: &Program) -> Option<String> {
    match mode {
        Mode::Places => Some(format!("{}.places", program.name)),
        Mode::Visitors => Some(format!("{}.visitors", program.name)),
        _ => None,
    }
}

/// What a replay is asked.
fn question(mode: Mode, program: &Program, folder: &Path) -> Result<Value, String> {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).map_err(|error| error.to_string());
    let answered = |mode: Mode| {
        let name = answer(mode, program).unwrap_or_default();
        fs::read_to_string(folder.join(name)).map_err(|error| error.to_string()).and_then(|text| parsed(&text))
    };
    let scope = parsed(SCOPE)?;
    let study = match mode {
        Mode::Places => json!({"meeting-places": scope}),
        Mode::Visitors => json!({"visitors": {"scope": scope, "places": answered(Mode::Places)?}}),
        Mode::Pairs => {
            let visitors = answered(Mode::Visitors)?;
            json!({"pairs": {
                "scope": scope,
                "looping_sites": [],
                "two_by_two": false,
                "contexts": false,
                "among": visitors["instructions"],
                "sweeping": visitors["sweeping"],
            }})
        }
        _ => return parsed(COUNT),
    };
    Ok(json!({"study": {"study": study}}))
}
