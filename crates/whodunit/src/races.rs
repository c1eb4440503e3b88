//! `whodunit races`: the data races of a recording.
//!
//! Several replays, each in a process of its own (`passes`): the first finds out which memory may race, and most programs need no
//! other; the second looks at that memory alone, and the third too if threads waited for plain variables; the last tells under
//! what circumstances. Names are looked up here (`names`), the other order of what came in one only is tried (`flip`), and races
//! become findings (`verdicts`).

mod flip;
pub mod names;
pub mod passes;
pub mod verdicts;

use crate::findings_output;
use crate::naming::Naming;
use crate::recordings::{Trouble, conclude, name_of};
use crate::rerun::outcomes;
use crate::show::{self, Recorded};
use crate::{allocators, pack, usage_error};
use analysis::suppressions::Suppressions;
use clap::Args;
use flip::Flips;
use names::Names;
use passes::Passes;
use program::source::SourceCache;
use session::rerun::Plan;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::finding::Findings;
use trace::{Recording, Store};
use verdicts::Court;

const AFTER_HELP: &str = "\
A data race: two threads access the same memory, one of them writes, and no synchronisation orders them.
pthreads, C++, Rust and OpenMP are understood without a rebuild; so are atomics, futexes and flags on which
a thread waits in a loop.

A race whose accesses came in one order only is a suspicion, until a what-if run of the recording has made them in the
other order (--prove); the finding then has the command that shows it again, and says what came of it.

Suppressions are lines as ThreadSanitizer reads them: race:PATTERN, race_top:PATTERN, called_from_lib:PATTERN.

EXIT STATUS:
  0  there is no race
  1  there are races
  2  the command line is wrong
  3  the recording cannot be replayed

EXAMPLES:
  whodunit races latest
  whodunit races server-3 --suppressions quiet.txt
  whodunit races latest --prove 50
  whodunit races latest --alloc pool_get:pool_put:=64
  whodunit races latest --format sarif -o races.sarif";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The recording: a name that `whodunit ls` shows, a path, or `latest`
    #[arg(value_name = "REC")]
    recording: OsString,
    /// Races not to be told, in the form of ThreadSanitizer; may be given several times
    #[arg(long, value_name = "FILE")]
    suppressions: Vec<PathBuf>,
    /// Of this process or program, by the number that `whodunit show` gives it, instead of the first with threads
    #[arg(long, value_name = "N")]
    process: Option<u32>,
    /// Try the other order of at most so many races that came in one order only; 0 tries none
    #[arg(long, value_name = "N", default_value_t = 5)]
    prove: usize,
    #[command(flatten)]
    allocating: allocators::Arguments,
    #[command(flatten)]
    output: findings_output::OutputArguments,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    let suppressions = match read_suppressions(&arguments.suppressions) {
        Ok(suppressions) => suppressions,
        Err(problem) => return usage_error(&problem),
    };
    let found = arguments.output.prepare().and_then(|output| Ok((output, find(arguments, &suppressions)?)));
    match found {
        Ok((output, (findings, recording))) => {
            output.give(&findings, SourceCache::with_copies(pack::copies_of(&recording)))
        }
        Err(trouble) => conclude(Err(trouble)),
    }
}

fn read_suppressions(files: &[PathBuf]) -> Result<Vec<Suppressions>, String> {
    let read = |file: &PathBuf| {
        let name = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: cannot be read: {error}"))?;
        Suppressions::parse(&text).map_err(|malformed| format!("{name}: {malformed}"))
    };
    files.iter().map(read).collect()
}

/// A process image with everything that is known without running it.
pub struct Subject<'a> {
    pub recording: &'a Recording,
    /// As users call the recording.
    pub name: String,
    pub log: u32,
    pub recorded: Recorded,
    pub allocating: &'a allocators::Arguments,
}

impl Subject<'_> {
    /// The command that carries the plan out again.
    pub fn command(&self, plan: &Plan) -> String {
        outcomes::command(self.recording, &self.name, self.log, plan)
    }
}

fn find(arguments: &Arguments, suppressions: &[Suppressions]) -> Result<(Findings, Recording), Trouble> {
    let recording = pack::open(&arguments.recording).map_err(Trouble::Refused)?;
    pack::warn_of_processor(&recording);
    let (log, recorded) = subject(&recording, arguments.process).map_err(Trouble::Refused)?;
    let name = user_name(recording.folder());
    arguments.allocating.check(&recorded.space)?;
    let allocating = &arguments.allocating;
    let subject = Subject { recording: &recording, name, log, recorded, allocating };
    let findings = look(&subject, suppressions, arguments.prove)?;
    Ok((findings, recording))
}

pub fn user_name(folder: &Path) -> String {
    // A path needs no store.
    Store::from_environment().map_or_else(|_| folder.display().to_string(), |store| name_of(&store, folder))
}

/// The process image to look at: the one that was asked for, or the first with several threads.
pub fn subject(recording: &Recording, asked: Option<u32>) -> Result<(u32, Recorded), String> {
    if let Some(log) = asked {
        let recorded = show::recorded(recording, log);
        return recorded
            .map(|recorded| (log, recorded))
            .ok_or_else(|| format!("the recording has no process {log}; `whodunit show` lists them"));
    }
    let mut first = None;
    for &log in recording.logs() {
        let Some(recorded) = show::recorded(recording, log) else { continue };
        if recorded.threads.len() > 1 {
            return Ok((log, recorded));
        }
        first.get_or_insert((log, recorded));
    }
    first.ok_or_else(|| "the recording holds no process".to_owned())
}

fn look(subject: &Subject<'_>, suppressions: &[Suppressions], most_flips: usize) -> Result<Findings, Trouble> {
    let program = subject.recorded.program();
    let mut findings = Findings::new("races", &program);
    findings.recording = Some(subject.name.clone());
    if subject.recorded.threads.len() < 2 {
        findings.summary.text = Some(format!("{program} had one thread only, so nothing could race."));
        return Ok(findings);
    }
    let naming = Naming::new(subject.recording, subject.log, &subject.recorded);
    let names = Names::new(subject.recorded.space.clone(), naming);
    let seen = Passes::of(subject, &names).look()?;
    let flips = Flips::new(subject, &names, most_flips);
    verdicts::judge(&mut findings, &Court { seen: &seen, names: &names, suppressions, subject }, flips);
    Ok(findings)
}
