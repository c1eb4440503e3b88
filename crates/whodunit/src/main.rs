//! The `whodunit` command: hands over to the verbs and says how the process ends.

mod allocators;
mod count;
mod doctor;
mod environment;
mod events;
mod faults;
mod findings_output;
mod followed;
mod gdb;
mod host;
mod hunt;
mod inquiry;
mod last_write;
mod ls;
mod machine;
mod memory;
mod naming;
mod pack;
mod pairs;
mod place;
mod predict;
mod progress;
mod races;
mod record;
mod recordings;
mod render;
mod replay;
mod rerun;
mod rm;
mod run;
mod scene;
mod search;
mod settings;
mod show;
mod stacks;
mod start;
mod stats;
mod study;
mod tracing;
mod verify;
mod voice;
mod why;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Exit statuses of whodunit's own; a guest that was started ends with its own status.
mod status {
    pub const DIFFERENCE: u8 = 1;
    pub const FINDINGS: u8 = 1;
    pub const USAGE: u8 = 2;
    pub const MACHINE: u8 = 3;
    pub const BUG: i32 = 70;
    pub const NOT_FOUND: u8 = 127;
}

const AFTER_HELP: &str = "\
EXAMPLES:
  whodunit doctor
  whodunit run -- ./server --port 8080
  whodunit record -- ./server --port 8080
  whodunit replay --gdb latest
  whodunit hunt -n 500 -- ./server-test
  whodunit last-write latest sessions";

/// Runs a program and explains how it fails.
#[derive(Parser)]
#[command(name = "whodunit", version, after_help = AFTER_HELP)]
struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a program; if it crashes or deadlocks, show where
    #[command(override_usage = "whodunit run [OPTIONS] [--] PROG [ARGS]...")]
    Run(run::Arguments),
    /// List the recordings there are
    Ls(ls::Arguments),
    /// Show what a recording holds: processes, threads, how it ended and where
    Show(show::Arguments),
    /// Remove recordings
    Rm(rm::Arguments),
    /// Run a program and record it, so that it can be run again exactly
    #[command(override_usage = "whodunit record [OPTIONS] [--] PROG [ARGS]...")]
    Record(record::Arguments),
    /// Run a recording again, with no effect on anything else
    Replay(replay::Arguments),
    /// Check that a recording replays exactly as it was recorded
    Verify(verify::Arguments),
    /// Run a recording again, but differently from some point on: another order, another branch
    Rerun(rerun::Arguments),
    /// Try many orders of a program's threads, and record the first run that fails
    #[command(override_usage = "whodunit hunt [OPTIONS] [--] PROG [ARGS]...")]
    Hunt(hunt::Arguments),
    /// Tell who wrote what is in memory: thread, function, line, old and new value
    #[command(name = "last-write")]
    LastWrite(last_write::Arguments),
    /// List the data races of a recording: both accesses with stacks, values and locks
    Races(races::Arguments),
    /// Compare a failing run with passing ones: which accesses of threads met in another order
    #[command(override_usage = "whodunit pairs [OPTIONS] [--] PROG [ARGS]...\n       \
                                whodunit pairs [OPTIONS] --failing REC --passing REC...")]
    Pairs(pairs::Arguments),
    /// Find the orders of threads that would have crashed a run that went well, and try them out
    #[command(override_usage = "whodunit predict [OPTIONS] REC\n       whodunit predict [OPTIONS] -- PROG [ARGS]...")]
    Predict(predict::Arguments),
    /// Tell why a recording crashed: the first statement that corrupted memory, and how that came to the crash
    Why(why::Arguments),
    /// Show findings that were kept as JSON, or write them in another format
    Render(render::Arguments),
    /// Tell what the threads of a recording did: accesses, locks, calls; as JSON or for Perfetto
    Trace(tracing::Arguments),
    /// Put a recording and all that its replay needs into one file
    Pack(pack::Arguments),
    /// Tell whether this machine suits, and what to change
    ///
    /// The exit status is 0 if programs can be run here, and 3 if not.
    #[command(after_help = "EXAMPLES:\n  whodunit doctor")]
    Doctor,
}

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| own_bug(&panic.to_string())));
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == start::FOLLOWED_VERB => return followed::run(words),
        Some(word) if word == hunt::HUNTED_VERB => return hunt::serve(words),
        _ => {}
    }
    match CommandLine::parse().verb {
        Verb::Run(arguments) => run::run(arguments),
        Verb::Record(arguments) => record::run(arguments),
        Verb::Replay(arguments) => replay::run(arguments),
        Verb::Verify(arguments) => verify::run(&arguments),
        Verb::Rerun(arguments) => rerun::run(&arguments),
        Verb::Hunt(arguments) => hunt::run(&arguments),
        Verb::Ls(arguments) => ls::run(arguments),
        Verb::Show(arguments) => show::run(arguments),
        Verb::Rm(arguments) => rm::run(arguments),
        Verb::LastWrite(arguments) => last_write::run(&arguments),
        Verb::Races(arguments) => races::run(&arguments),
        Verb::Pairs(arguments) => pairs::run(&arguments),
        Verb::Predict(arguments) => predict::run(&arguments),
        Verb::Why(arguments) => why::run(&arguments),
        Verb::Render(arguments) => render::run(&arguments),
        Verb::Trace(arguments) => tracing::run(&arguments),
        Verb::Pack(arguments) => pack::run(&arguments),
        Verb::Doctor => examine_machine(),
    }
}

fn examine_machine() -> ExitCode {
    match doctor::run(&mut std::io::stdout()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(status::MACHINE),
        Err(error) => {
            voice::say(&format!("whodunit: cannot write to standard output: {error}\n"));
            ExitCode::from(status::MACHINE)
        }
    }
}

/// A wrong command line that only we can find, not the parser.
fn usage_error(problem: &str) -> ExitCode {
    voice::say(&format!("whodunit: {problem}\n"));
    ExitCode::from(status::USAGE)
}

/// Ends the process, guest and all: it cannot go on from here.
fn own_bug(what: &str) {
    let version = env!("CARGO_PKG_VERSION");
    voice::say_last(&format!(
        "whodunit: internal error: {what}\n\
         whodunit: this is a bug in whodunit {version}; please report it with the lines above, the program and its arguments\n"
    ));
    std::process::exit(status::BUG);
}
