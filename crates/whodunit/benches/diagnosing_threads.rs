//! What `whodunit why` says of the museum's concurrent bugs: `cargo bench --bench diagnosing_threads [-- FILTER… --level O0]` prints
//! the table.
//!
//! Every exhibit that fails by an order of its threads; the first failing run that `whodunit hunt --seed 1` finds. Lines are those of
//! the accesses that are blamed, the interloper first, and right if each of them is marked as guilty. Executions are the recording,
//! the run that is followed back, and the what-if runs; the paper's are those of execution suppression, where it has the bug.
//! Cost is user plus system time of all processes of the diagnosis.

#[path = "support/alone.rs"]
mod alone;
#[path = "support/common.rs"]
mod common;
#[path = "../tests/museum/exhibit.rs"]
mod exhibit;
#[path = "support/findings.rs"]
mod findings;
#[path = "../tests/support/mod.rs"]
mod support;

use clap::{Parser, ValueEnum};
use common::Common;
use exhibit::{Exhibit, Failure, Kind, Level, Variant};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::build;

/// The recording, and the run that is followed back.
const BESIDE_TRIALS: u64 = 2;

#[derive(Clone, Copy, ValueEnum)]
enum Optimisation {
    #[value(name = "O0")]
    O0,
    #[value(name = "O1")]
    O1,
    #[value(name = "O2")]
    O2,
}

impl Optimisation {
    fn level(self) -> Level {
        match self {
            Optimisation::O0 => Level::O0,
            Optimisation::O1 => Level::O1,
            Optimisation::O2 => Level::O2,
        }
    }
}

/// Measures what diagnoses of concurrent bugs say.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// How much the compiler optimises.
    #[arg(long, value_enum, default_values_t = [Optimisation::O0, Optimisation::O2])]
    level: Vec<Optimisation>,
    /// The failing run as it was found, with all its changes of threads.
    #[arg(long)]
    unshrunk: bool,
}

impl Arguments {
    fn wants(&self, exhibit: &Exhibit) -> bool {
        exhibit.failure.is_some() && exhibit.kind != Kind::Fault && self.common.wants(&exhibit.name)
    }
}

fn main() -> Result<(), String> {
    let arguments = Arguments::parse();
    if !arguments.common.measures("diagnosing_threads") {
        return Ok(());
    }
    println!(
        "{:24}{:16}{:4}{:21}{:30}{:>5}{:>6}{:>9}",
        "exhibit", "failure", "", "class", "lines", "runs", "paper", "time"
    );
    let mut counts = Counts::default();
    for exhibit in exhibit::all()?.iter().filter(|exhibit| arguments.wants(exhibit)) {
        for optimisation in &arguments.level {
            let told = diagnose(exhibit, optimisation.level(), arguments.unshrunk)?;
            print_row(exhibit, optimisation.level(), &told);
            counts.add(&told);
        }
    }
    println!("{} of {} proved with guilty lines alone, {} proved otherwise", counts.right, counts.all, counts.wrong);
    Ok(())
}

#[derive(Default)]
struct Counts {
    all: usize,
    right: usize,
    wrong: usize,
}

impl Counts {
    fn add(&mut self, told: &Told) {
        self.all += 1;
        self.right += usize::from(told.is_proved && told.unmarked.is_empty());
        self.wrong += usize::from(told.is_proved && !told.unmarked.is_empty());
    }
}

/// What a diagnosis says.
#[derive(Default)]
struct Told {
    class: String,
    is_proved: bool,
    lines: Vec<u64>,
    /// Lines that nobody has marked.
    unmarked: Vec<u64>,
    executions: Option<u64>,
    seconds: f64,
}

fn print_row(exhibit: &Exhibit, level: Level, told: &Told) {
    let failure = exhibit.failure.map_or_else(String::new, |failure| failure.to_string());
    let lines: Vec<String> = told.lines.iter().map(u64::to_string).collect();
    let unmarked = if told.unmarked.is_empty() { String::new() } else { format!(" not {:?}", told.unmarked) };
    let lines = format!("{}{unmarked}", lines.join(", "));
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let paper = number(exhibit.diagnosis.as_ref().map(|diagnosis| diagnosis.paper_executions.into()));
    let proved = if told.is_proved { "proved" } else { "" };
    println!(
        "{:24}{failure:16}{level:<4?}{:21}{lines:30}{:>5}{paper:>6}{:>7.1} s  {proved}",
        exhibit.name,
        told.class,
        number(told.executions),
        told.seconds
    );
}

fn diagnose(exhibit: &Exhibit, level: Level, unshrunk: bool) -> Result<Told, String> {
    let program = build::build(&exhibit.spec_at(Variant::Plain, level)?)?.program;
    let place = fresh_place(exhibit)?;
    let expecting: &[&str] =
        if exhibit.failure == Some(Failure::Output) { &["--expect-output", "expected"] } else { &[] };
    if !hunt(&place, &program, expecting, unshrunk)? {
        return Ok(Told { class: "no failing run".to_owned(), ..Told::default() });
    }
    let Ok(answer) = findings::ask(&place, "why", &[&["latest"], expecting].concat()) else {
        return Ok(Told { class: "nothing".to_owned(), ..Told::default() });
    };
    let marked: BTreeSet<u64> = exhibit.marked_lines()?.into_values().flatten().map(u64::from).collect();
    let Some(finding) = answer.findings.first() else { return Ok(Told::default()) };
    let lines: Vec<u64> = causes(finding).filter_map(|cause| cause["line"].as_u64()).collect();
    Ok(Told {
        class: finding["class"].as_str().unwrap_or_default().to_owned(),
        is_proved: finding["status"] == "proved",
        unmarked: lines.iter().copied().filter(|line| !marked.contains(line)).collect(),
        lines,
        executions: trials(&answer.summary).map(|trials| trials + BESIDE_TRIALS),
        seconds: answer.run.cpu,
    })
}

fn causes(finding: &Value) -> impl Iterator<Item = &Value> {
    finding["causes"].as_array().into_iter().flatten()
}

/// The number before `what-if run`.
fn trials(summary: &str) -> Option<u64> {
    let (before, _) = summary.split_once(" what-if run")?;
    before.rsplit(' ').next()?.parse().ok()
}

fn fresh_place(exhibit: &Exhibit) -> Result<PathBuf, String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("diagnosing-threads");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    std::fs::write(place.join("expected"), &exhibit.output).map_err(|error| error.to_string())?;
    Ok(place)
}

/// Whether a failing run was found.
fn hunt(place: &Path, program: &Path, expecting: &[&str], unshrunk: bool) -> Result<bool, String> {
    let mut command = Command::new(support::whodunit_binary());
    command.args(["hunt", "--seed", "1", "-n", "1000"]).args(expecting);
    if unshrunk {
        command.args(["--shrink", "0"]);
    }
    command.arg("--").arg(program).current_dir(place);
    command.env("WHODUNIT_DIR", place.join("recordings")).env("NO_COLOR", "1");
    let output = command.output().map_err(|error| error.to_string())?;
    Ok(output.status.code() == Some(1))
}
