//! What finding data races costs: `cargo bench --bench races [-- FILTER… -n N]` prints the table.
//!
//! Six threaded programs and four compressors of Debian, one of each for a short and a long time, run natively, are recorded, and then replayed by a listener that only counts, by `races`, by `pairs`
//! and by `predict`; beside them stand valgrind's helgrind and drd, and builds with ThreadSanitizer. Cost is user plus system time of all processes,
//! the best of N runs.

#[path = "support/alone.rs"]
mod alone;
#[allow(dead_code, reason = "only a part of what the other benchmark needs")]
#[path = "speed/corpus.rs"]
mod corpus;
#[path = "../tests/programs/debian.rs"]
mod debian;
#[path = "races/measure.rs"]
mod measure;
#[path = "races/workplace.rs"]
mod workplace;

use alone::Run;
use clap::Parser;
use measure::Mode;
use workplace::Workplace;

const NAME_WIDTH: usize = 16;
const COLUMN_WIDTH: usize = 18;

/// Measures `whodunit races` against native runs and other detectors.
#[derive(Parser)]
struct Arguments {
    /// Only programs with one of these names, or whose name contains one of these that is no name.
    filters: Vec<String>,
    /// Runs of each program in each mode; the best counts.
    #[arg(short, default_value_t = 3)]
    n: u32,
    /// Leave out valgrind and ThreadSanitizer.
    #[arg(long)]
    without_others: bool,
    /// Measure as many native runs as these, and what collecting the pairs of so many and of one more costs for each of them; nothing else.
    #[arg(long, value_name = "RUNS")]
    collecting: Option<u32>,
    /// Measure native runs, what recording and the detectors of `predict` cost, and helgrind; nothing else.
    #[arg(long)]
    predicting: bool,
    /// Passed by `cargo bench`; without it (as under `cargo test --all-targets`) nothing is measured.
    #[arg(long, hide = true)]
    bench: bool,
    /// Runs a command and tells its cost, as the only child of a process.
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    alone: Vec<String>,
}

impl Arguments {
    fn modes(&self) -> Vec<Mode> {
        if let Some(runs) = self.collecting {
            return vec![Mode::Native, Mode::Collecting(runs)];
        }
        if self.predicting {
            let helgrind = (!self.without_others).then_some(Mode::Helgrind);
            return [Mode::Native, Mode::Record, Mode::Predict].into_iter().chain(helgrind).collect();
        }
        let mut modes = vec![Mode::Native, Mode::Record, Mode::Observed, Mode::Races];
        modes.extend([Mode::Places, Mode::Visitors, Mode::Pairs, Mode::Predict]);
        if !self.without_others {
            modes.extend([Mode::Helgrind, Mode::Drd, Mode::ThreadSanitizer]);
        }
        modes
    }

    fn wants(&self, name: &str) -> bool {
        let is_name = |filter: &str| workplace::PROGRAMS.iter().any(|program| program.name == filter);
        let wants = |filter: &String| name == filter || !is_name(filter) && name.contains(filter.as_str());
        self.filters.is_empty() || self.filters.iter().any(wants)
    }
}

fn main() {
    let arguments = Arguments::parse();
    if !arguments.alone.is_empty() {
        return alone::run_alone(&arguments.alone);
    }
    if !arguments.bench {
        println!("measures only under `cargo bench --bench races`");
        return;
    }
    debian::need(&["gcc", "valgrind"]);
    debian::need(&workplace::COMPRESSORS);
    print_table(&arguments, &Workplace::prepare());
}

fn print_table(arguments: &Arguments, workplace: &Workplace) {
    let modes = arguments.modes();
    let titles: String = modes.iter().map(|mode| format!("{:>COLUMN_WIDTH$}", mode.title())).collect();
    println!("{:NAME_WIDTH$}{titles}{:>32}", "program", "memory: native, observed, races");
    let mut ratios = vec![Vec::new(); modes.len()];
    for program in workplace::PROGRAMS.iter().filter(|program| arguments.wants(program.name)) {
        let measured = |mode: &Mode| match arguments.collecting {
            // The cost of a hundred recorded runs is a mean, and so has to be what it is compared with.
            Some(runs) if *mode == Mode::Native => measure::mean_of(runs, *mode, program, workplace),
            Some(_) => measure::best_of(1, *mode, program, workplace),
            None => measure::best_of(arguments.n, *mode, program, workplace),
        };
        let runs: Vec<Result<Run, String>> = modes.iter().map(measured).collect();
        print_row(program.name, &modes, &runs, &mut ratios);
    }
    let means: String = ratios.iter().map(|ratios| format!("{:>COLUMN_WIDTH$}", geometric_mean(ratios))).collect();
    println!("{:NAME_WIDTH$}{means}", "geometric mean");
}

/// Appends the ratio of each mode that succeeded to its column of `ratios`.
fn print_row(name: &str, modes: &[Mode], runs: &[Result<Run, String>], ratios: &mut [Vec<f64>]) {
    print!("{name:NAME_WIDTH$}");
    let native = runs[0].as_ref().map(|run| run.cpu).unwrap_or(f64::NAN);
    for ((mode, run), ratios) in modes.iter().zip(runs).zip(ratios) {
        let cell = match run {
            Ok(run) if *mode != Mode::Native => {
                ratios.push(run.cpu / native);
                format!("{:.2} s ({:.1}x)", run.cpu, run.cpu / native)
            }
            Ok(run) => format!("{:.2} s", run.cpu),
            Err(reason) => reason.clone(),
        };
        print!("{cell:>COLUMN_WIDTH$}");
    }
    let megabytes = |wanted: Mode| {
        let run = modes.iter().zip(runs).find(|(mode, _)| **mode == wanted).and_then(|(_, run)| run.as_ref().ok());
        run.map_or_else(|| "-".to_owned(), |run| format!("{:.0} MB", run.peak as f64 / 1e6))
    };
    let memory = [Mode::Native, Mode::Observed, Mode::Races].map(megabytes).join(", ");
    println!("{memory:>32}");
}

fn geometric_mean(ratios: &[f64]) -> String {
    if ratios.is_empty() {
        return "-".to_owned();
    }
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    format!("{:.1}x", (sum / ratios.len() as f64).exp())
}
