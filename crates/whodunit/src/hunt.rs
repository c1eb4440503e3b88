//! `whodunit hunt`: many orders of a program's threads, until one makes it fail.
//!
//! Each schedule is a process of its own that records itself (`hunted`, told by an `order`, run by a `runner`) in a folder
//! in memory (`ground`); those that fail stay. `search` says which schedules are tried and when the hunt is over. What was found
//! is reduced to what it needs (`shrink`), kept and told (`ending`, `explain`, `text`).

mod attempts;
mod ending;
mod episodes;
mod explain;
mod failure;
mod ground;
mod hunted;
mod injected;
mod order;
mod progress;
mod runner;
mod search;
mod shrink;
mod stem;
mod text;
mod witness;

pub use ground::{Ground, NoRun, Quarry, Trial};
pub use hunted::serve;
pub use order::Tactic;
pub use runner::Runner;
pub use search::{Plan, search};
pub use witness::own_place;

use crate::findings_output::{Format, OutputArguments};
use crate::recordings::{self, Trouble, conclude};
use crate::{faults, record, search as path, status, usage_error, voice};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use engine::Program;
use nix::sys::signal::{SigSet, Signal};
use program::source::SourceCache;
use shrink::Effort;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// The hidden verb under which one schedule is run.
pub const HUNTED_VERB: &str = "__hunt";

const AFTER_HELP: &str = "\
A run fails if a signal or a failed assertion ends it, if every thread waits for another one, if it goes on for --timeout
without an end, or if its exit status is not 0; and if --fail-if or --expect-output say so. The program gets an empty
standard input, and nobody sees what it writes.

EXIT STATUS:
  0    no schedule failed
  1    one did; its recording is named
  2    the command line is wrong
  3    there is nothing to hunt (the program starts no threads), or this machine stands in the way
  126  PROG cannot be executed
  127  PROG was not found

EXAMPLES:
  Find an order of threads that makes a test fail, then look at it:
    whodunit hunt -- ./queue-test
    whodunit replay --gdb latest
  Try 5000 schedules of one kind, and collect all failures:
    whodunit hunt -n 5000 --policy pct --keep-going -- ./queue-test
  Cut reads and writes short, interrupt waits and wake threads for no reason meanwhile:
    whodunit hunt --faults -- ./queue-test
  See the order that fails on source lines, threads in columns; or as a page for a browser:
    whodunit hunt --explain -- ./queue-test
    whodunit hunt --findings found.html -- ./queue-test
  A run whose output differs has failed, too:
    whodunit hunt --expect-output good.txt -- ./sum 1 2 3";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyName {
    /// Each of the others in turn
    Mix,
    /// Any thread that can run, before every access to shared memory
    Random,
    /// Priorities, and a few random points where the running thread falls to the lowest (see --depth)
    Pct,
    /// A random priority for every access that threads are about to make, drawn anew after conflicts
    Pos,
    /// Like pos, but a chosen access is to come right behind a chosen store of another thread
    Rff,
    /// Keeps threads from a chosen access until another one has made an access that conflicts
    Delay,
    /// Each thread in turn, for a time drawn for each schedule: to compare with, since that is no search
    RoundRobin,
}

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// How many schedules to try
    #[arg(short = 'n', long = "schedules", value_name = "N", default_value_t = 1000,
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=1_000_000_000))]
    schedules: u64,
    /// How threads are chosen
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = PolicyName::Mix)]
    policy: PolicyName,
    /// How many ordered steps `pct` looks for: one fewer of its points where the running thread falls
    #[arg(long, value_name = "D", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    depth: u32,
    /// The seed of the first schedule; each other one has the next
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How many schedules run at the same time [default: the number of processors]
    #[arg(short, long, value_name = "J", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// The folder for recordings of failing runs [default: where `whodunit ls` looks]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Go on after a failure, and tell all that were found
    #[arg(long)]
    keep_going: bool,
    /// A run hangs if all its threads together pass so many clock events (about one a branch), and none of them starts, ends or
    /// writes anything [default: 50 times what the program's ordinary run takes, and five million]
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// A shell command that succeeds if the run has failed; it gets the program's output on standard input
    #[arg(long, value_name = "CMD")]
    fail_if: Option<OsString>,
    /// The program must write just this to standard output
    #[arg(long, value_name = "FILE")]
    expect_output: Option<PathBuf>,
    #[command(flatten)]
    faults: faults::Arguments,
    /// What the program reads on standard input, instead of nothing
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// Show what the threads did, on source lines, with a column for each thread
    #[arg(long)]
    explain: bool,
    /// How to write findings; by default as the ending of --findings says (.json, .sarif, .html), else as text
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write findings to FILE, with all that --explain shows
    #[arg(long, value_name = "FILE")]
    findings: Option<PathBuf>,
    /// How many runs may be made to reduce a failing schedule to the switches that it needs; 0 leaves it as it was found
    #[arg(long, value_name = "RUNS", default_value_t = 400)]
    shrink: u64,
    /// The program, searched in PATH unless it has a slash, and its arguments
    #[arg(value_name = "PROG ARGS", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// The user wants to stop.
pub static STOP: AtomicBool = AtomicBool::new(false);

pub fn run(arguments: &Arguments) -> ExitCode {
    let quarry = match quarry(arguments) {
        Ok(quarry) => quarry,
        Err(status) => return status,
    };
    listen_for_the_end();
    let plan = Plan {
        schedules: arguments.schedules,
        policy: arguments.policy,
        depth: arguments.depth,
        seed: arguments.seed,
        jobs: arguments
            .jobs
            .map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |jobs| jobs as usize),
        keep_going: arguments.keep_going,
        has_input: arguments.stdin.is_some(),
        timeout: arguments.timeout,
    };
    match hunt(arguments, quarry, &plan) {
        Ok(status) => status,
        Err(trouble) => conclude(Err(trouble)),
    }
}

/// Where findings go, if the usual words are not enough.
fn output(arguments: &Arguments) -> Option<OutputArguments> {
    let Arguments { explain, format, findings, .. } = arguments;
    let is_wanted = *explain || format.is_some() || findings.is_some();
    is_wanted.then(|| OutputArguments::new(*format, findings.clone()))
}

/// The program and its input, as far as they can be found.
fn quarry(arguments: &Arguments) -> Result<Quarry, ExitCode> {
    let name = &arguments.command[0];
    let Some(found) = path::find(name, std::env::var_os("PATH").as_deref()) else {
        let name = Path::new(name).display();
        voice::say(&format!("whodunit: {name}: command not found; check the name or give a path\n"));
        return Err(ExitCode::from(status::NOT_FOUND));
    };
    let unreadable =
        |path: &Path, error: std::io::Error| usage_error(&format!("{}: cannot be read: {error}", path.display()));
    let expected = match &arguments.expect_output {
        Some(path) => Some(std::fs::read(path).map_err(|error| unreadable(path, error))?),
        None => None,
    };
    if let Some(path) = &arguments.stdin {
        std::fs::File::open(path).map_err(|error| unreadable(path, error))?;
    }
    Ok(Quarry {
        path: found,
        arguments: arguments.command.clone(),
        input: arguments.stdin.clone(),
        expected,
        fail_if: arguments.fail_if.clone(),
        faults: arguments.faults.kinds(),
    })
}

/// From now on an interrupt ends the hunt, not the process. To be called before there are other threads.
pub fn listen_for_the_end() {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    if signals.thread_block().is_err() {
        return;
    }
    std::thread::spawn(move || {
        if signals.wait().is_ok() {
            STOP.store(true, Ordering::SeqCst);
        }
    });
}

/// Tells the exit status.
fn hunt(arguments: &Arguments, quarry: Quarry, plan: &Plan) -> Result<ExitCode, Trouble> {
    let output = output(arguments).map(|output| output.prepare()).transpose()?;
    let program = Program { path: quarry.path.clone(), arguments: quarry.arguments.clone(), environment: Vec::new() };
    let name = record::manifest(&program).program;
    let ground = Ground::new(quarry, &STOP)
        .map_err(|error| Trouble::Refused(format!("no place for recordings on the way: {error}; set TMPDIR")))?;
    let found = match search::search(&ground, plan) {
        Ok(found) => found,
        Err(NoRun::Refused(sentence)) => return Err(Trouble::Refused(sentence)),
        Err(NoRun::NotStarted(sentence, status)) => {
            recordings::say_refusal(&sentence);
            return Ok(ExitCode::from(u8::try_from(status).unwrap_or(status::MACHINE)));
        }
        Err(NoRun::Stopped) => return Err(Trouble::Refused("stopped before the first schedule was over".to_owned())),
    };
    // Which faults strike depends on all that a run does, so a run in another order is another one.
    let runs = if ground.has_faults() { 0 } else { arguments.shrink };
    let injected = injected::describe(&ground, &found, arguments.faults.kinds());
    let shrunk = ending::shrink_all(&ground, &found, Effort { runs, jobs: plan.jobs })?;
    let results = ending::keep(arguments.output.as_deref(), &ground, &found, shrunk, &name)?;
    let findings = ending::findings(&program, &found, &results, plan)?;
    match output {
        Some(output) => Ok(output.give(&findings, SourceCache::new())),
        None => {
            recordings::print(&text::render(&found, &findings, &results, plan, recordings::paint()))?;
            recordings::print(&injected)?;
            Ok(ExitCode::from(if found.groups.is_empty() { 0 } else { status::FINDINGS }))
        }
    }
}
