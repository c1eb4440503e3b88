//! What a diagnosis costs: `cargo bench --bench why [-- FILTER… -n N]` prints the table.
//!
//! A program corrupts memory after a third of about a second, and crashes at its end. Its recording is replayed: as it is; with
//! the data of its end followed, and the writers of what it crashed on sought; without the cause and all that depends on it;
//! and by `why`. Cost is user plus system time of all processes over that of the native run, the best of N runs. A
//! suppression is told in two parts, each over its part of the native run, by the thread's clock.

#[path = "support/alone.rs"]
mod alone;
#[path = "support/common.rs"]
mod common;
#[path = "why/measure.rs"]
mod measure;

use clap::Parser;
use common::Common;
use measure::{Diagnosed, Workplace};

/// Programs, how much they do in all, and what they have done when they corrupt memory.
const PROGRAMS: [(&str, [&str; 2]); 2] = [("compressor", ["2000", "600"]), ("interpreter", ["45000000", "15000000"])];

/// Measures `whodunit why` against native runs.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Runs of each kind; the best counts.
    #[arg(short, default_value_t = 3)]
    n: u32,
}

fn main() -> Result<(), String> {
    let arguments = Arguments::parse();
    if !arguments.common.measures("why") {
        return Ok(());
    }
    println!("program       native  replay  origins  suppression: before, after  diagnosis");
    for (name, words) in PROGRAMS.into_iter().filter(|(name, _)| arguments.common.wants(name)) {
        print_row(name, &words, arguments.n)?;
    }
    Ok(())
}

fn print_row(name: &str, words: &[&str], times: u32) -> Result<(), String> {
    let workplace = Workplace::prepare(name, words, times)?;
    let native = workplace.native()?;
    let replay = workplace.replay()? / native;
    let (diagnosis, diagnosed) = workplace.diagnose()?;
    let Diagnosed { cause, end, .. } = diagnosed;
    let origins = workplace.origins(&diagnosed)? / native;
    let before = workplace.up_to_cause(&diagnosed)?;
    let (whole, spent) = workplace.suppress(&diagnosed)?;
    let share = |events: u64| native * events as f64 / end as f64;
    let (until, after) = (before / share(cause), (whole - before) / share(spent));
    let times = [replay, origins, until, after].map(|ratio| format!("{ratio:.1}x"));
    let [replay, origins, until, after] = times;
    println!("{name:12}{native:>6.2} s{replay:>8}{origins:>9}{until:>21}{after:>7}{diagnosis:>9.1} s");
    Ok(())
}
