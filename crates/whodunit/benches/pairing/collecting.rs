//! What it costs to collect the pairs of a run: all that `pairs` does with recordings of many passing runs, of which one stands for the failing one,
//! divided by their number, over a native run. What is told of a run that fails is no part of it.

use super::Bench;
use crate::alone;
use std::path::Path;

/// The native run is the cheapest of so many: most of it is the program's start.
const NATIVE_RUNS: usize = 20;
/// And hearing them is the cheapest of so many times.
const HEARINGS: usize = 3;
/// What the first procedure needs, and no trials.
const PLAINLY: [&str; 4] = ["--procedure", "1", "--prove", "0"];

pub fn print_head() {
    println!("{:24}{:>12}{:>6}{:>14}{:>7}", "exhibit", "native", "runs", "each of them", "ratio");
}

pub fn print_row(name: &str, bench: &Bench, runs: u64) -> Result<(), String> {
    let native = native(bench)?;
    bench.ask(0, &[&PLAINLY[..], &["--keep", "--runs", &runs.to_string()]].concat())?;
    let recordings = recordings(&bench.place.join("recordings"))?;
    // That of the run which failed is the first.
    let mut passed: Vec<&str> = recordings.iter().skip(1).map(String::as_str).collect();
    let each = hear_all(bench, &mut passed)? / passed.len() as f64;
    let [native_ms, each_ms] = [native, each].map(|seconds| seconds * 1e3);
    println!("{name:24}{native_ms:>9.2} ms{:>6}{each_ms:>11.2} ms{:>7.1}", passed.len(), each / native);
    Ok(())
}

/// What it costs to hear all runs, one of which stands for the failing one: the first that nothing is told of.
fn hear_all(bench: &Bench, passed: &mut [&str]) -> Result<f64, String> {
    for _ in 0..passed.len() {
        let (one, others) = passed.split_first().ok_or("nothing has passed")?;
        let words = [&PLAINLY[..], &["--failing", one, "--passing"], others].concat();
        let ask = || crate::findings::ask(&bench.place, "pairs", &words);
        if ask()?.findings.is_empty() {
            let times = (0..HEARINGS).map(|_| ask().map(|answer| answer.run.cpu)).collect::<Result<Vec<f64>, _>>()?;
            return Ok(least(times));
        }
        passed.rotate_left(1);
    }
    Err("each run has pairs that no other has".to_owned())
}

fn native(bench: &Bench) -> Result<f64, String> {
    let command = [bench.program.to_string_lossy().into_owned()];
    let run = |_| alone::run(&command, &bench.place, Path::new("/dev/null")).map(|run| run.cpu);
    let times = (0..NATIVE_RUNS).map(run).collect::<Result<Vec<f64>, _>>()?;
    Ok(least(times))
}

fn least(times: Vec<f64>) -> f64 {
    times.into_iter().fold(f64::INFINITY, f64::min)
}

/// The names of all recordings in a folder, in the order in which they were made.
fn recordings(folder: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let number = |name: &str| name.rsplit_once('-').and_then(|(_, number)| number.parse::<u32>().ok());
    let mut numbered: Vec<(u32, String)> = names.filter_map(|name| Some((number(&name)?, name))).collect();
    numbered.sort();
    Ok(numbered.into_iter().map(|(_, name)| name).collect())
}
