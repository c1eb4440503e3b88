//! `whodunit predict`: the orders of threads that would have crashed a run that went well.
//!
//! Replays find out what the run's threads depended on and which orders would be fatal; each of these is made a plan
//! (`plans`) and run (`trial`), and what fails becomes a finding (`verdicts`).

mod descriptors;
mod exploring;
mod keeping;
pub mod plans;
mod recording;
mod several;
mod trial;
pub mod verdicts;
mod wording;

use crate::naming::Naming;
use crate::races::names::Names;
use crate::races::passes::Passes;
use crate::races::{self, Subject};
use crate::recordings::{Trouble, conclude};
use crate::study::Study;
use crate::study::predict::{self, Known};
use crate::{allocators, findings_output, pack, usage_error};
use analysis::predict::{Kind, MOST_WATCHED, Method, Predicted};
use clap::Args;
pub use exploring::explored;
use program::source::SourceCache;
use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::process::ExitCode;
use trace::Recording;
use trace::finding::Findings;
use trial::Court;

const AFTER_HELP: &str = "\
Looks for accesses that only luck has kept in order: a pointer that another thread sets to NULL, memory that another
thread initialises or gives back, an index that another thread changes. Each order that would be fatal is tried out
in a what-if run of the recording. Those that fail there are proved, and told with the plan that shows it.

EXIT STATUS:
  0  no such order was proved (nor suspected, with --suspects)
  1  there are some
  2  the command line is wrong
  3  the recording cannot be replayed, or failed by itself

EXAMPLES:
  whodunit predict latest
  whodunit predict -- ./server-test --quick
  whodunit predict -n 5 -- ./server-test
  whodunit predict run-1 run-2 run-3
  whodunit predict latest --suspects --format html -o predictions.html";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The recordings, all of one program: names that `whodunit ls` shows, paths, or `latest`
    #[arg(value_name = "REC", required_unless_present = "program", conflicts_with = "program")]
    recordings: Vec<OsString>,
    /// The program to record first, and its arguments
    #[arg(value_name = "PROG", last = true)]
    program: Vec<OsString>,
    /// With PROG: how many runs to look at, the first with the usual schedule, the others with random ones
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// How to predict: what would be fatal, or for comparison all data races or all accesses that are not atomic, untried
    #[arg(long, value_enum, default_value = "fatal")]
    method: MethodName,
    /// Tell also what was tried without a failure
    #[arg(long)]
    suspects: bool,
    /// Try out at most so many pairs of instructions
    #[arg(long, value_name = "N", default_value_t = 100)]
    most: usize,
    /// Watch so many kilobytes of the memory that threads contend for at a time
    #[arg(long, value_name = "KB", default_value_t = MOST_WATCHED >> 10, value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    watch: u64,
    /// Of this process or program, by the number that `whodunit show` gives it, instead of the first with threads
    #[arg(long, value_name = "N")]
    process: Option<u32>,
    #[command(flatten)]
    allocating: allocators::Arguments,
    #[command(flatten)]
    output: findings_output::OutputArguments,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum MethodName {
    Fatal,
    Race,
    Atom,
}

impl MethodName {
    fn method(self) -> Method {
        match self {
            MethodName::Fatal => Method::Fatal,
            MethodName::Race => Method::Race,
            MethodName::Atom => Method::Atom,
        }
    }
}

pub fn run(arguments: &Arguments) -> ExitCode {
    if arguments.runs > 1 && arguments.program.is_empty() {
        return usage_error("-n needs a program to run: whodunit predict -n 5 -- PROG [ARGS]...");
    }
    let found = arguments.output.prepare().and_then(|output| Ok((output, find(arguments)?)));
    match found {
        Ok((output, (findings, recording))) => {
            output.give(&findings, SourceCache::with_copies(pack::copies_of(&recording)))
        }
        Err(trouble) => conclude(Err(trouble)),
    }
}

/// The findings of the recordings; of several runs, those of the first that has some.
fn find(arguments: &Arguments) -> Result<(Findings, Recording), Trouble> {
    if let Some((first, others)) = arguments.recordings.split_first() {
        let (findings, recording) = examine(first, arguments)?;
        let others = others.iter().map(|name| Ok(examine(name, arguments)?.0)).collect::<Result<_, Trouble>>()?;
        return Ok((several::combine(findings, others)?, recording));
    }
    let last = arguments.runs - 1;
    for run in 0..last {
        let folder = recording::make(&arguments.program, run)?;
        // A run that failed by itself has nothing to predict, but others may.
        match examine(folder.as_os_str(), arguments) {
            Ok((findings, recording)) if !findings.findings.is_empty() => return Ok((findings, recording)),
            Ok(_) | Err(_) => {}
        }
    }
    examine(recording::make(&arguments.program, last)?.as_os_str(), arguments)
}

fn examine(name: &OsStr, arguments: &Arguments) -> Result<(Findings, Recording), Trouble> {
    let recording = pack::open(name).map_err(Trouble::Refused)?;
    pack::warn_of_processor(&recording);
    let (log, recorded) = races::subject(&recording, arguments.process).map_err(Trouble::Refused)?;
    let name = races::user_name(recording.folder());
    let allocating = &arguments.allocating;
    allocating.check(&recorded.space)?;
    let findings = look(&Subject { recording: &recording, name, log, recorded, allocating }, arguments)?;
    Ok((findings, recording))
}

fn look(subject: &Subject<'_>, arguments: &Arguments) -> Result<Findings, Trouble> {
    let program = subject.recorded.program();
    let mut findings = Findings::new("predict", &program);
    findings.recording = Some(subject.name.clone());
    if subject.recorded.threads.len() < 2 {
        findings.summary.text = Some(format!("{program} had one thread only, so there is no other order."));
        return Ok(findings);
    }
    let court = Court::open(subject)?;
    let naming = Naming::new(subject.recording, subject.log, &subject.recorded);
    let names = Names::new(subject.recorded.space.clone(), naming);
    let method = arguments.method.method();
    let predicted = predicted(subject, &names, arguments)?;
    let bench = verdicts::Bench { subject, names: &names };
    if method != Method::Fatal {
        verdicts::list(&mut findings, &predicted, &bench);
        return Ok(findings);
    }
    let tried = court.try_out(&predicted, arguments.most)?;
    verdicts::judge(&mut findings, &predicted, tried, &bench, arguments.suspects);
    Ok(findings)
}

/// Threads are held in the program's own code: how often an instruction of these is executed inside functions that hand
/// out memory is not told.
const LIBRARIES: [&str; 7] = ["libc.so", "ld-linux", "libpthread", "libstdc++", "libgcc_s", "libm.so", "libgomp.so"];

/// How many times what was predicted is looked through for atomic operations, which order others.
const MOST_ROUNDS: usize = 4;

fn predicted(subject: &Subject<'_>, names: &Names, arguments: &Arguments) -> Result<Predicted, Trouble> {
    let (method, watched) = (arguments.method.method(), arguments.watch << 10);
    let passes = Passes::of(subject, names);
    // A log is long, and mostly there is something else to look at.
    let shares_descriptors = LazyCell::new(|| descriptors::are_shared(subject.recording, subject.log));
    let mut known = known(&passes);
    let mut predicted = Predicted::default();
    let n_events = subject.recording.log(subject.log).map_or(0, |log| log.event_count());
    let beginning = exploring::beginning(n_events, subject.recorded.alone_until);
    for _ in 0..MOST_ROUNDS {
        let (explored, handed) = exploring::by_hand_overs(&passes, &known, beginning)?;
        if explored.contended.instructions.is_empty() && !*shares_descriptors {
            return Ok(Predicted { uncompared_accesses: explored.contended.unwatched, ..Predicted::default() });
        }
        let subject = predict::Subject { explored, handed, known: known.clone(), method, watched };
        predicted = passes.ask(Study::Predict(Box::new(subject)))?;
        let n_known = known.classes.atomic.len();
        known.classes.atomic.extend(atomic_sites(&predicted, names));
        if known.classes.atomic.len() == n_known {
            break;
        }
    }
    Ok(predicted)
}

/// What is known of code before anything has been replayed.
pub fn known(passes: &Passes<'_>) -> Known {
    let libraries: Vec<Range<u64>> = LIBRARIES.iter().flat_map(|library| passes.names.code_of(library)).collect();
    Known { classes: passes.classes(), libraries }
}

/// Loads and stores of atomics are plain instructions. Debug information tells them apart.
fn atomic_sites(predicted: &Predicted, names: &Names) -> BTreeSet<u64> {
    let accesses = predicted.pairs.iter().flatten().flat_map(|prediction| {
        let deeds = match prediction.kind {
            Kind::Dangling | Kind::Left => vec![&prediction.late],
            Kind::Closed => Vec::new(),
            _ => vec![&prediction.early, &prediction.late],
        };
        deeds.into_iter().map(|deed| (deed.pc, prediction.address))
    });
    let asked: BTreeSet<(u64, u64)> = accesses.collect();
    asked.into_iter().filter(|(pc, address)| names.is_atomic(*pc, *address)).map(|(pc, _)| pc).collect()
}
