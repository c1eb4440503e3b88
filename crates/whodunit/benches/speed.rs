//! How much slower programs run under whodunit: `cargo bench --bench speed [-- FILTER… -n N]` prints the table.
//!
//! Cost is user plus system time of all processes, the best of N runs, with the modes taking turns so that a
//! noisy moment hits all of them alike. A run whose output differs from the native one counts as failed.

#[path = "speed/corpus.rs"]
mod corpus;
#[path = "../tests/programs/debian.rs"]
mod debian;
#[path = "speed/measure.rs"]
mod measure;
#[path = "speed/workloads.rs"]
mod workloads;

use std::path::Path;
use std::time::Duration;

use clap::Parser;

use measure::{Mode, Run, Task};
use workloads::{Inputs, Workload};

/// System calls made by `programs/getppid.c`.
const N_SYSCALLS: f64 = 2e6;

const STARTUP_RUNS: u32 = 10;

const NAME_WIDTH: usize = 16;

const COLUMN_WIDTH: usize = 18;

/// Measures whodunit against native runs and valgrind.
#[derive(Parser)]
struct Arguments {
    /// Only workloads whose name contains one of these.
    filters: Vec<String>,
    /// Runs of each workload in each mode; the best counts.
    #[arg(short, default_value_t = 3)]
    n: u32,
    /// Also measure tracing of all memory accesses into a consumer that discards them.
    #[arg(long)]
    trace: bool,
    /// Also measure recording, and replaying what was recorded.
    #[arg(long)]
    record: bool,
    /// Leave out the comparison with `valgrind --tool=none`.
    #[arg(long)]
    without_valgrind: bool,
    /// Passed by `cargo bench`; without it (as under `cargo test --all-targets`) nothing is measured.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Arguments {
    fn modes(&self) -> Vec<Mode> {
        let mut modes = vec![Mode::Native, Mode::Whodunit];
        modes.extend(self.trace.then_some(Mode::Tracing));
        if self.record {
            modes.extend([Mode::Record, Mode::Replay]);
        }
        modes.extend((!self.without_valgrind).then_some(Mode::Valgrind));
        modes
    }

    fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }
}

fn main() {
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("measures only under `cargo bench --bench speed`");
        return;
    }
    debian::need(workloads::NEEDS);
    print_machine();
    let inputs = Inputs::prepare();
    print_table(&arguments, &inputs);
    print_syscall_cost(&arguments, &inputs.folder);
    print_startup(&inputs.folder);
}

fn print_machine() {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let mut models = cpus.lines().filter_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = models.next().map_or("unknown processor", |(_, model)| model.trim());
    let count = cpus.lines().filter(|line| line.starts_with("processor")).count();
    println!("{model}, {count} processors, Linux {}", read("/proc/sys/kernel/osrelease"));
}

fn print_table(arguments: &Arguments, inputs: &Inputs) {
    let modes = arguments.modes();
    let titles: String = modes.iter().map(|mode| format!("{:>COLUMN_WIDTH$}", mode.title())).collect();
    println!("{:NAME_WIDTH$}{titles}", "workload");
    let mut ratios = vec![Vec::new(); modes.len()];
    for workload in inputs.workloads().iter().filter(|workload| arguments.wants(workload.name)) {
        let results = best_of(arguments.n, &workload.task, &modes, &inputs.folder);
        print_row(workload, &results, &mut ratios);
    }
    let means: String = ratios.iter().map(|ratios| format!("{:>COLUMN_WIDTH$}", geometric_mean(ratios))).collect();
    println!("{:NAME_WIDTH$}{means}", "geometric mean");
}

/// Appends the ratio of each mode that succeeded to its column of `ratios`.
fn print_row(workload: &Workload, results: &[Result<Run, String>], ratios: &mut [Vec<f64>]) {
    print!("{:NAME_WIDTH$}", workload.name);
    let native = results[0].as_ref().map(|run| run.cpu.as_secs_f64());
    for (column, (result, ratios)) in results.iter().zip(ratios).enumerate() {
        let cell = match (result, &native) {
            (Ok(run), Ok(native)) if column > 0 => {
                let ratio = run.cpu.as_secs_f64() / native;
                ratios.push(ratio);
                format!("{:.2} s ({ratio:.2}x)", run.cpu.as_secs_f64())
            }
            (Ok(run), _) => format!("{:.2} s", run.cpu.as_secs_f64()),
            (Err(reason), _) => reason.clone(),
        };
        print!("{cell:>COLUMN_WIDTH$}");
    }
    let recorded = results.iter().flatten().find_map(|run| run.recorded);
    println!("{}", recorded.map_or(String::new(), |bytes| format!("{:>10.1} MB", bytes as f64 / 1e6)));
}

fn geometric_mean(ratios: &[f64]) -> String {
    if ratios.is_empty() {
        return "-".to_owned();
    }
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    format!("{:.2}x", (sum / ratios.len() as f64).exp())
}

/// The cheapest run of each mode. The first run of a mode decides whether it works at all.
fn best_of(n: u32, task: &Task, modes: &[Mode], folder: &Path) -> Vec<Result<Run, String>> {
    let mut best: Vec<Result<Run, String>> = Vec::new();
    for mode in modes {
        let run = measure::run(task, *mode, folder);
        let reference = best.first().filter(|_| *mode != Mode::Replay);
        best.push(run.and_then(|run| same_output(run, reference)));
    }
    for _ in 1..n {
        for (mode, best) in modes.iter().zip(&mut best) {
            let Ok(cheapest) = best else { continue };
            match measure::run(task, *mode, folder) {
                Ok(run) if run.cpu < cheapest.cpu => *best = Ok(run),
                Ok(_) => {}
                Err(reason) => *best = Err(reason),
            }
        }
    }
    best
}

fn same_output(run: Run, native: Option<&Result<Run, String>>) -> Result<Run, String> {
    match native {
        Some(Ok(native)) if native.output != run.output => Err("output differs".to_owned()),
        _ => Ok(run),
    }
}

fn print_syscall_cost(arguments: &Arguments, folder: &Path) {
    let task = Task { words: workloads::words("./getppid"), input: None };
    let modes = [Mode::Native, Mode::Whodunit, Mode::Record];
    let results = best_of(arguments.n, &task, &modes, folder);
    let cost = |result: &Result<Run, String>| match result {
        Ok(run) => Ok(run.cpu.as_secs_f64() * 1e6 / N_SYSCALLS),
        Err(reason) => Err(reason.clone()),
    };
    match (cost(&results[0]), cost(&results[1]), cost(&results[2])) {
        (Ok(native), Ok(ours), Ok(recorded)) => println!(
            "\na system call: {native:.3} µs natively, {ours:.3} µs under whodunit ({:+.3} µs), {recorded:.3} µs recorded ({:+.3} µs)",
            ours - native,
            recorded - native
        ),
        (Err(reason), ..) | (_, Err(reason), _) | (.., Err(reason)) => println!("\na system call: {reason}"),
    }
}

fn print_startup(folder: &Path) {
    for command in ["true", "/usr/bin/python3 -c pass"] {
        let task = Task { words: workloads::words(command), input: None };
        let cells: Vec<String> = [Mode::Native, Mode::Whodunit]
            .iter()
            .map(|mode| match best_wall(&task, *mode, folder) {
                Ok(wall) => format!("{} {:.1} ms", mode.title(), wall.as_secs_f64() * 1e3),
                Err(reason) => format!("{} {reason}", mode.title()),
            })
            .collect();
        println!("start-up of {command}: {}", cells.join(", "));
    }
}

fn best_wall(task: &Task, mode: Mode, folder: &Path) -> Result<Duration, String> {
    let mut best = Duration::MAX;
    for _ in 0..STARTUP_RUNS {
        best = best.min(measure::run(task, mode, folder)?.wall);
    }
    Ok(best)
}
