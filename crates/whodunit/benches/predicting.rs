//! What `whodunit predict` finds, beside the ConMem paper and the methods that it compares itself with:
//! `cargo bench --bench predicting [-- FILTER…]` prints the tables.
//!
//! - The bugs of the paper's tables and figures, each in runs in which it does not show. A bug is proved if a re-run fails
//!   at a guilty line of the exhibit, or after one; what else is proved is a false alarm.
//! - Programs without such bugs: the museum's look-alikes and its harmless races.
//! - Threaded programs of Debian under a bounded load.
//! - How long it takes to try the predictions of a program that computes for a second.
//!
//! The comparators are told about the same runs. Cost is user plus system time of all processes, trials included; for the
//! detectors alone, see the benchmark of races.

#[path = "support/alone.rs"]
mod alone;
#[path = "predicting/answers.rs"]
mod answers;
#[path = "support/common.rs"]
mod common;
#[path = "../tests/programs/debian.rs"]
mod debian;
#[path = "../tests/museum/exhibit.rs"]
mod exhibit;
#[path = "predicting/exhibits.rs"]
mod exhibits;
#[path = "support/findings.rs"]
mod findings;
#[path = "predicting/programs.rs"]
mod programs;
#[path = "../tests/support/mod.rs"]
mod support;

use clap::Parser;
use common::Common;
use std::path::{Path, PathBuf};

/// Measures what predictions find and cost.
#[derive(Parser)]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,
}

fn main() -> Result<(), String> {
    let arguments = Arguments::parse();
    if !arguments.common.measures("predicting") {
        return Ok(());
    }
    let place = fresh_place()?;
    exhibits::print_bugs(&arguments, &place)?;
    exhibits::print_calm(&arguments, &place)?;
    programs::print(&arguments, &place)?;
    programs::print_validation(&arguments, &place)
}

/// An empty folder for recordings and what else there is.
fn fresh_place() -> Result<PathBuf, String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("predicting-bench");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    Ok(place)
}
