//! What `whodunit why` says of the museum: `cargo bench --bench diagnosing [-- FILTER…]` prints the tables of `docs/why.md`.
//!
//! Every memory error is built without and with optimisation, recorded on each of its inputs and asked about, with
//! `--silent` where nothing fails; so are the repaired programs, of which nothing should be found, and the errors planted in
//! programs of Debian. An answer is right if it has the class that the exhibit claims, and one statement: the guilty one.

#[path = "../tests/museum/diagnosed.rs"]
mod diagnosed;
#[path = "../tests/museum/exhibit.rs"]
mod exhibit;
#[path = "../tests/museum/memory.rs"]
mod memory;
#[path = "diagnosing/memory_errors.rs"]
mod memory_errors;
#[path = "../tests/museum/planted.rs"]
mod planted;
#[path = "diagnosing/planted_errors.rs"]
mod planted_errors;
#[path = "../tests/support/mod.rs"]
mod support;

use clap::Parser;
use diagnosed::Diagnosis;
use nix::sys::resource::{UsageWho, getrusage};
use std::fmt;

/// Holds diagnoses against what exhibits claim.
#[derive(Parser)]
struct Arguments {
    /// Only exhibits whose name contains one of these.
    filters: Vec<String>,
    /// Passed by `cargo bench`; without it (as under `cargo test --all-targets`) nothing is measured.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Arguments {
    fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }
}

/// How many answers of a kind there are, and how many of them are good.
#[derive(Clone, Copy, Default)]
struct Count {
    good: u32,
    all: u32,
}

impl Count {
    fn add(&mut self, is_good: bool) {
        self.good += u32::from(is_good);
        self.all += 1;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", self.good, self.all)
    }
}

/// All answers.
#[derive(Default)]
struct Score {
    /// The right statement and class.
    right: Count,
    proved: Count,
    /// In no more executions or layouts than the published tool.
    within: Count,
    /// Repaired programs of which nothing was found.
    calm: Count,
}

impl Score {
    /// Counts an answer and tells it as two cells of a table: the lines named, and the rest.
    fn tell(&mut self, diagnosis: &Result<Diagnosis, String>, claim: &Claim<'_>) -> String {
        let is_right = diagnosis.as_ref().is_ok_and(|diagnosis| claim.holds_for(diagnosis));
        self.right.add(is_right);
        let Ok(diagnosis) = diagnosis else {
            self.proved.add(false);
            return "nothing (miss) | - | -".to_owned();
        };
        self.proved.add(diagnosis.is_proved);
        if let Some(most) = claim.most_runs {
            self.within.add(diagnosis.n_runs <= most);
        }
        let lines: Vec<String> = diagnosis.statements.iter().map(|(_, line)| line.to_string()).collect();
        let class = if diagnosis.class == claim.class { String::new() } else { format!(", {}", diagnosis.class) };
        let miss = if is_right { "" } else { " (miss)" };
        let proved = if diagnosis.is_proved { "proved" } else { "suspected" };
        format!("{}{class}{miss} | {} | {proved}", lines.join(", "), diagnosis.n_runs)
    }
}

/// What an answer is held against.
struct Claim<'a> {
    class: &'a str,
    file: &'a str,
    lines: &'a [u32],
    most_runs: Option<u32>,
}

impl Claim<'_> {
    fn holds_for(&self, diagnosis: &Diagnosis) -> bool {
        let is_guilty = |(file, line): &(String, u32)| file == self.file && self.lines.contains(line);
        diagnosis.class == self.class && diagnosis.statements.len() == 1 && diagnosis.statements.iter().all(is_guilty)
    }
}

/// A number of a table, if there is one.
fn or_dash(number: Option<u32>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn main() -> Result<(), String> {
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("measures only under `cargo bench --bench diagnosing`");
        return Ok(());
    }
    let mut score = Score::default();
    memory_errors::print(&arguments, &mut score)?;
    planted_errors::print(&arguments, &mut score)?;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
    let seconds = usage.user_time().tv_sec() + usage.system_time().tv_sec();
    let Score { right, proved, within, calm } = score;
    println!(
        "\nThe right statement and class: {right}; proved: {proved}; within the paper's executions or layouts: {within}; \
         repaired programs without a finding: {calm}. {seconds} s of processor time."
    );
    Ok(())
}
