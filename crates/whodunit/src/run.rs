//! `whodunit run`: executes a program under the engine and is invisible.

use crate::settings::{DEFAULT_CACHE, DEFAULT_QUANTUM, OnDeadlock, PolicyName, Settings};
use crate::start::{Recording, Start};
use crate::stats::Destination;
use crate::{environment, faults, search, status, usage_error, voice};
use clap::builder::RangedU64ValueParser;
use clap::{ArgGroup, Args};
use engine::{Observation, PrivateFile, Program, Switching, Wanted};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// More would never end a thread's turn.
const LARGEST_QUANTUM: u64 = 1 << 40;

const AFTER_HELP: &str = "\
EXIT STATUS:
  The program's own; if a signal ends it, whodunit ends by the same signal. Otherwise:
  2    the command line is wrong
  3    this machine or a limit (ulimit) stands in the way; see also: whodunit doctor
  70   a bug in whodunit
  124  every thread waits for another one (see --on-deadlock)
  126  PROG cannot be executed
  127  PROG was not found

EXAMPLES:
  Run a program; if it crashes, see where:
    whodunit run -- ./server --port 8080
  Try another order of threads:
    whodunit run --policy random --seed 7 -- ./server
  See what becomes of the program if reads and writes are cut short, and signals interrupt its waits:
    whodunit run --faults=short,eintr --seed 3 -- ./server
  Keep figures of the run:
    whodunit run --stats=figures.json -- make test";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, group = ArgGroup::new("observed").args(["count", "events"]))]
pub struct Arguments {
    /// Where random choices start from; the same seed gives the same run
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// The longest turn of a thread, in clock events (about one a branch)
    #[arg(long, value_name = "N", default_value_t = DEFAULT_QUANTUM,
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=LARGEST_QUANTUM))]
    quantum: u64,

    /// How the next thread is chosen
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = PolicyName::RoundRobin)]
    policy: PolicyName,

    /// What to do when every thread waits for another one
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnDeadlock::Report)]
    on_deadlock: OnDeadlock,

    /// Run the programs that PROG executes under whodunit too (the default)
    #[arg(long, overrides_with = "no_follow")]
    follow: bool,

    /// Let the programs that PROG executes run by themselves
    #[arg(long)]
    no_follow: bool,

    /// Room for translated code, in MiB; when it is full, all code is translated anew
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_CACHE,
          value_parser = RangedU64ValueParser::<u64>::new().range(4..=DEFAULT_CACHE))]
    cache_size: u64,

    #[command(flatten)]
    faults: faults::Arguments,

    /// Say nothing if the program crashes
    #[arg(long)]
    no_report: bool,

    /// Give figures of the run at its end: a table on standard error, or JSON in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    stats: Option<Option<PathBuf>>,

    /// Count what the program executes (instructions, loads, stores, atomics, branches, calls), by thread and function:
    /// a table on standard error, or JSON in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    count: Option<Option<PathBuf>>,

    /// Write down every access with its values and every branch, a line each
    #[arg(long, hide = true, value_name = "FILE", require_equals = true, conflicts_with = "count")]
    events: Option<PathBuf>,

    /// Observe one instruction at a time, to check the other way of observing
    #[arg(long, hide = true, requires = "observed")]
    by_steps: bool,

    /// Write every access down and throw it away, to measure what that costs; WHAT is `addresses` or `everything`
    #[arg(long, hide = true, value_name = "WHAT", num_args = 0..=1, require_equals = true,
          default_missing_value = "addresses", conflicts_with = "observed", value_parser = ["addresses", "everything"])]
    trace_discard: Option<String>,

    /// The program, searched in PATH unless it has a slash, and its arguments
    #[arg(value_name = "PROG ARGS", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

pub fn run(arguments: Arguments) -> ExitCode {
    start(arguments, |_| Ok(None))
}

/// Runs the program; `record` says where it is written down, once it is found.
pub fn start(arguments: Arguments, record: impl FnOnce(&Program) -> Result<Option<Recording>, ExitCode>) -> ExitCode {
    environment::keep_from_own_loader();
    let (stats, count) = match (destination(&arguments.stats), destination(&arguments.count)) {
        (Ok(stats), Ok(count)) => (stats, count),
        (Err(problem), _) | (_, Err(problem)) => return usage_error(&problem),
    };
    let observation = arguments.observation();
    let events = match arguments.events.as_ref().map(|path| std::fs::File::create(path).and_then(PrivateFile::new)) {
        None => None,
        Some(Ok(file)) => Some(file),
        Some(Err(error)) => return usage_error(&format!("the file for events cannot be written: {error}")),
    };
    let settings = arguments.settings();
    let follow = !arguments.no_follow || arguments.follow;
    let name = arguments.command[0].clone();
    let Some(path) = search::find(&name, std::env::var_os("PATH").as_deref()) else {
        let name = Path::new(&name).display();
        voice::say(&format!("whodunit: {name}: command not found; check the name or give a path\n"));
        return ExitCode::from(status::NOT_FOUND);
    };
    let program = Program { path, arguments: arguments.command, environment: environment::entries() };
    match record(&program) {
        Ok(recording) => {
            let (switching, filters) = (Switching::default(), Vec::new());
            Start { program, settings, follow, stats, count, events, observation, switching, recording, filters }.go()
        }
        Err(status) => status,
    }
}

impl Arguments {
    fn settings(&self) -> Settings {
        Settings {
            seed: self.seed,
            quantum: self.quantum,
            policy: self.policy,
            on_deadlock: self.on_deadlock,
            report: !self.no_report,
            cache_mebibytes: self.cache_size,
            faults: self.faults.kinds(),
        }
    }

    fn observation(&self) -> Observation {
        match (&self.count, &self.events, self.by_steps) {
            (Some(_), _, false) => Observation::Count,
            (Some(_), _, true) => Observation::CountBySteps,
            (None, Some(_), false) => Observation::Tell(Wanted::EVERYTHING),
            (None, Some(_), true) => Observation::TellBySteps(Wanted::EVERYTHING),
            (None, None, _) => match self.trace_discard.as_deref() {
                None => Observation::Nothing,
                Some("everything") => Observation::Discard(Wanted::EVERYTHING),
                Some(_) => Observation::Discard(Wanted::ADDRESSES),
            },
        }
    }
}

/// Where figures go that were asked for with or without a file.
fn destination(asked: &Option<Option<PathBuf>>) -> Result<Option<Destination>, String> {
    match asked {
        None => Ok(None),
        Some(None) => Ok(Some(Destination::StandardError)),
        Some(Some(path)) => Destination::file(path).map(Some),
    }
}
