//! How many schedules `whodunit hunt` needs for the museum's bugs, and how many it runs a second:
//! `cargo bench --bench hunting [-- FILTER… --seeds N --controls]` prints the table.
//!
//! What is measured is fixed, so that tables can be compared: every exhibit that fails by an order of its threads (60 of them), 20 seeds
//! (1, 1001, 2001…: far enough from each other that no two hunts share a schedule's seed), at most 200 schedules each, the default
//! policy, one schedule at a time, none of them shrunk. A wrong output counts as a failure. An exhibit that fails in
//! the program's ordinary order counts as found in schedule 0. The controls have the same seeds and schedules: plain round
//! robin, with a length of turn drawn for each schedule, and a random walk over the same points.

#[path = "../tests/museum/exhibit.rs"]
mod exhibit;
#[path = "hunting/figures.rs"]
mod figures;
#[path = "../tests/support/mod.rs"]
mod support;

use clap::Parser;
use exhibit::{Exhibit, Kind, Variant};
use figures::{Figures, Hunted, Search};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::spec::Spec;

const SEEDS: u64 = 20;
const BETWEEN_SEEDS: u64 = 1000;
const SCHEDULES: u64 = 200;
const NAME_WIDTH: usize = 24;
const COLUMN_WIDTH: usize = 26;

/// Measures how soon hunts find the museum's bugs.
#[derive(Parser)]
struct Arguments {
    /// Only exhibits whose name contains one of these.
    filters: Vec<String>,
    /// How many seeds each exhibit is hunted with.
    #[arg(long, default_value_t = SEEDS)]
    seeds: u64,
    /// At most so many schedules a hunt.
    #[arg(short = 'n', default_value_t = SCHEDULES)]
    schedules: u64,
    /// Also measure round robin and the random walk.
    #[arg(long)]
    controls: bool,
    /// Passed by `cargo bench`; without it (as under `cargo test --all-targets`) nothing is measured.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Arguments {
    fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }

    fn policies(&self) -> &'static [&'static str] {
        if self.controls { &["mix", "round-robin", "random"] } else { &["mix"] }
    }
}

fn main() -> Result<(), String> {
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("measures only under `cargo bench --bench hunting`");
        return Ok(());
    }
    print_hunts(&arguments)?;
    print_speed()
}

fn print_hunts(arguments: &Arguments) -> Result<(), String> {
    let policies = arguments.policies();
    let titles: String = policies.iter().map(|policy| format!("{policy:>COLUMN_WIDTH$}")).collect();
    println!("{:NAME_WIDTH$}{titles}\n{:NAME_WIDTH$}{}", "", "exhibit", Figures::TITLE.repeat(policies.len()));
    let mut totals = vec![Figures::default(); policies.len()];
    let wanted =
        exhibit::all()?.into_iter().filter(|exhibit| fails_by_order(exhibit) && arguments.wants(&exhibit.name));
    for exhibit in wanted {
        let mut row = String::new();
        for (policy, total) in policies.iter().zip(&mut totals) {
            let figures = hunt_all(&exhibit, policy, arguments)?;
            row += &figures.cell();
            total.add(&figures);
        }
        println!("{:NAME_WIDTH$}{row}", exhibit.name);
    }
    println!("{:NAME_WIDTH$}{}", "all", totals.iter().map(Figures::cell).collect::<String>());
    Ok(())
}

/// Those that fail by what a call gives back need `--faults`, and are another matter.
fn fails_by_order(exhibit: &Exhibit) -> bool {
    exhibit.failure.is_some() && exhibit.kind != Kind::Fault
}

fn hunt_all(exhibit: &Exhibit, policy: &str, arguments: &Arguments) -> Result<Figures, String> {
    let program = support::build::build(&exhibit.spec(Variant::Plain)?)?.program;
    let place = fresh_place()?;
    let expected = place.join("expected");
    std::fs::write(&expected, &exhibit.output).map_err(|error| error.to_string())?;
    let mut figures = Figures::default();
    for number in 0..arguments.seeds {
        let seed = 1 + number * BETWEEN_SEEDS;
        let search = Search { policy, seed, schedules: arguments.schedules, expected: Some(&expected) };
        figures.hunts.push(hunt(&place, &program, &search)?);
    }
    Ok(figures)
}

/// An empty folder for recordings and what else there is.
fn fresh_place() -> Result<PathBuf, String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hunting-bench");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    Ok(place)
}

fn hunt(place: &Path, program: &Path, search: &Search<'_>) -> Result<Hunted, String> {
    let mut command = Command::new(support::whodunit_binary());
    command.args(["hunt", "-j", "1", "--shrink", "0"]).args(search.words()).arg("--").arg(program);
    command.env("WHODUNIT_DIR", place.join("recordings")).env("NO_COLOR", "1");
    let output = command.output().map_err(|error| error.to_string())?;
    Hunted::read(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| format!("{}: {}", program.display(), String::from_utf8_lossy(&output.stderr)))
}

/// A program without a failure, so that no schedule ends early and none is explained. Processor time is what others on the
/// machine change least.
fn print_speed() -> Result<(), String> {
    const MANY: u64 = 500;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/programs/quick.c");
    let program = support::build::build(&Spec::read(&source)?)?.program;
    let native = natively(&program)?;
    let search = Search { policy: "mix", seed: 1, schedules: MANY, expected: None };
    let (began, before) = (Instant::now(), processor_time()?);
    hunt(&fresh_place()?, &program, &search)?;
    let (elapsed, computed) = (began.elapsed().as_secs_f64(), processor_time()? - before);
    println!(
        "\nquick.c, {:.1} ms natively: {:.0} schedules a second with one job, {:.1} ms of processor time each",
        native.as_secs_f64() * 1e3,
        MANY as f64 / elapsed,
        computed.as_secs_f64() * 1e3 / MANY as f64
    );
    Ok(())
}

/// How long the program takes without whodunit: the shortest of many runs.
fn natively(program: &Path) -> Result<Duration, String> {
    const RUNS: usize = 50;
    let run = || {
        let began = Instant::now();
        Command::new(program).stdout(Stdio::null()).status().map_err(|error| error.to_string())?;
        Ok(began.elapsed())
    };
    let times = (0..RUNS).map(|_| run()).collect::<Result<Vec<Duration>, String>>()?;
    Ok(times.into_iter().min().unwrap_or_default())
}

/// What all processes that were waited for have computed so far.
fn processor_time() -> Result<Duration, String> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
    let time = |value: TimeVal| Duration::from_micros((value.tv_sec() * 1_000_000 + value.tv_usec()).unsigned_abs());
    Ok(time(usage.user_time()) + time(usage.system_time()))
}
