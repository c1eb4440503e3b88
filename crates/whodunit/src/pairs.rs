//! `whodunit pairs`: a failing run against passing ones.
//!
//! Runs come from recordings that users name, or from schedules of a program (`gather`). Each is replayed and heard
//! (`hearing`), more closely where need be (`levels`); what the comparison blames is tried out (`trial`, by `plans`) and becomes findings
//! (`verdicts`, in the words of `wording`).

mod ears;
mod gather;
mod hearing;
mod levels;
mod plans;
mod trial;
mod verdicts;
mod wording;

use crate::findings_output;
use crate::hunt::Ground;
use crate::recordings::{Trouble, conclude};
use crate::{pack, usage_error};
use analysis::pairs::falcon::ranked;
use analysis::pairs::{ENOUGH_PASSING, Learning, Procedure, Runs, narrowing};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use ears::{Ears, Heard};
use hearing::{Manner, Source};
use levels::verdict;
use program::source::SourceCache;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use trace::finding::{Findings, Narrowing};

const AFTER_HELP: &str = "\
An access pair: a thread accesses memory right after another thread did, and one of them writes. What is to blame has pairs
that passing runs lack (procedure I), lacks pairs that they have (II), or has two together that they never have (III).

With PROG, the program is hunted until a run fails, and run on until enough runs pass or more of them change nothing. With
--failing and --passing, the runs are given; they must be of one program. With the same input, most is found; several
failing runs tell what they have in common.

The first suspects are tried out (--prove): a what-if run of the failing run with the accesses in another order that passes,
or one of a passing run in this order that fails, is proof, and comes with the command that shows it again.

EXIT STATUS:
  0    nothing is to blame, or no run failed
  1    something is
  2    the command line is wrong
  3    there is nothing to compare, or this machine stands in the way
  126  PROG cannot be executed
  127  PROG was not found

EXAMPLES:
  whodunit pairs -- ./queue-test
  whodunit pairs --runs 30 --check 'grep -q ^total=120$' -- ./sum
  whodunit pairs --sensitivity --format html -o pairs.html -- ./queue-test
  whodunit pairs --keep --runs 20 -- ./queue-test
  whodunit pairs --failing queue-test-7 --passing queue-test-1 queue-test-2 queue-test-3";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProcedureName {
    /// Pairs that only the failing run has
    #[value(name = "1")]
    First,
    /// Pairs that only the failing run lacks
    #[value(name = "2")]
    Second,
    /// Two pairs that only the failing run has together
    #[value(name = "3")]
    Third,
}

impl ProcedureName {
    fn procedure(self) -> Procedure {
        match self {
            ProcedureName::First => Procedure::I,
            ProcedureName::Second => Procedure::II,
            ProcedureName::Third => Procedure::III,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// Access pairs, by three test procedures
    #[default]
    Locon,
    /// Patterns of accesses to one location, by how rarely passing runs have them
    Falcon,
}

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Recordings of runs that failed; what is to blame is looked for in the first, and told first if the others have it, too
    #[arg(long, value_name = "REC", num_args = 1.., requires = "passing", conflicts_with_all = ["command", "check", "expect_output", "stdin"])]
    failing: Vec<OsString>,
    /// Recordings of runs that passed
    #[arg(long, value_name = "REC", num_args = 1.., requires = "failing")]
    passing: Vec<OsString>,
    /// How many passing runs to compare with, at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = RangedU64ValueParser::<u64>::new().range(1..=100_000))]
    runs: u64,
    /// How many schedules to try until one fails
    #[arg(short = 'n', long = "schedules", value_name = "N", default_value_t = 1000,
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=1_000_000_000))]
    schedules: u64,
    /// The seed of the first schedule; each other one has the next
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How many runs are made and heard at the same time [default: the number of processors]
    #[arg(short, long, value_name = "J", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// A shell command that succeeds if a run has passed; it gets the program's output on standard input
    #[arg(long, value_name = "CMD")]
    check: Option<OsString>,
    /// The program must write just this to standard output
    #[arg(long, value_name = "FILE")]
    expect_output: Option<PathBuf>,
    /// What the program reads on standard input, instead of nothing
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// One test procedure only [default: 1, and if it finds nothing 2 and 3]
    #[arg(long, value_name = "P", value_enum)]
    procedure: Option<ProcedureName>,
    /// How runs are compared
    #[arg(long, value_name = "METHOD", value_enum, default_value_t, conflicts_with = "procedure")]
    method: Method,
    /// Keep the recordings of passing runs, too
    #[arg(long, conflicts_with = "failing")]
    keep: bool,
    /// Look at all memory of long runs, also where instructions go over a lot of it: slower
    #[arg(long, conflicts_with = "method")]
    whole: bool,
    /// Tell how what is found narrows with the number of passing runs
    #[arg(long, conflicts_with = "method")]
    sensitivity: bool,
    /// Try other orders of at most so many suspects by what-if runs; 0 tries none
    #[arg(long, value_name = "N", default_value_t = 5)]
    prove: usize,
    #[command(flatten)]
    output: findings_output::OutputArguments,
    /// The program, searched in PATH unless it has a slash, and its arguments
    #[arg(value_name = "PROG ARGS", trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl Arguments {
    fn jobs(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(all, |jobs| jobs as usize)
    }

    fn procedure(&self) -> Option<Procedure> {
        self.procedure.map(ProcedureName::procedure)
    }
}

/// The runs that are compared, and where they come from.
struct Case {
    runs: Runs,
    learning: Learning,
    failing: Source,
    passing: Vec<Source>,
    /// How it failed, as far as is known.
    failure: Option<String>,
    /// What was done to get the runs.
    story: String,
    /// Who hears them.
    ears: Ears,
    /// Where the passing runs are kept, if they were gathered: the recordings are there as long as this is.
    ground: Option<Ground>,
}

impl Case {
    /// How its runs are heard once more.
    fn manner(&self) -> Manner {
        Manner::after(&self.learning)
    }
}

/// How gathering runs ends.
enum Gathered {
    Case(Box<Case>),
    /// There is nothing to compare: the sentence that says so, and the exit status.
    Nothing(String, u8),
}

pub fn run(arguments: &Arguments) -> ExitCode {
    if arguments.failing.is_empty() && arguments.command.is_empty() {
        return usage_error(
            "name a program to run, or recordings by --failing and --passing; try: whodunit pairs --help",
        );
    }
    let case = arguments.output.prepare().and_then(|output| Ok((output, gathered(arguments)?)));
    match case {
        Ok((output, Gathered::Case(case))) => {
            let copies = pack::copies_of(&case.failing.recording);
            match judge(*case, arguments) {
                Ok(findings) => output.give(&findings, SourceCache::with_copies(copies)),
                Err(trouble) => conclude(Err(trouble)),
            }
        }
        Ok((_, Gathered::Nothing(sentence, status))) => {
            crate::recordings::say_refusal(&sentence);
            ExitCode::from(status)
        }
        Err(trouble) => conclude(Err(trouble)),
    }
}

fn gathered(arguments: &Arguments) -> Result<Gathered, Trouble> {
    if arguments.failing.is_empty() { gather::gather(arguments) } else { given(arguments) }
}

/// The runs of recordings that were named.
fn given(arguments: &Arguments) -> Result<Gathered, Trouble> {
    let open = |name: &OsString| pack::open(name).map_err(Trouble::Refused);
    let failing = Source::open(open(&arguments.failing[0])?)?;
    let open_beside = |name| Source::open_beside(open(name)?, &failing);
    let failures = arguments.failing.iter().skip(1).map(open_beside).collect::<Result<Vec<_>, _>>()?;
    let passing = arguments.passing.iter().map(open_beside).collect::<Result<Vec<_>, _>>()?;
    let mut others = failures.iter().chain(&passing);
    if let Some(other) = others.find(|source| source.recorded.program() != failing.recorded.program()) {
        let (one, other) = (failing.recorded.program(), other.recorded.program());
        let sentence = format!("the runs are of different programs, {one} and {other}; compare runs of one");
        return Err(Trouble::Refused(sentence));
    }
    let (first, mut learning) = failing.hear_first(arguments.whole)?;
    let mut runs = Runs::new(&first);
    let ears = Ears::new(arguments.jobs());
    let all_of = |heard: Heard| heard.refusals.into_iter().next().map_or(Ok(heard.runs), Err);
    let further = ears.hear_all(&failures, &failing, &Manner::after(&learning));
    all_of(further)?.iter().for_each(|run| runs.add_failing(run));
    for wave in passing.chunks(ENOUGH_PASSING) {
        for run in all_of(ears.hear_passing(wave, &failing, &learning))? {
            learning.add_passing(&run);
            runs.add_passing(&run);
        }
    }
    let n_failing = match arguments.failing.len() {
        1 => "1 failing run".to_owned(),
        several => format!("{several} failing runs"),
    };
    let story = format!("{n_failing} and {}.", passing_runs(runs.n_passing()));
    Ok(Gathered::Case(Box::new(Case { runs, learning, failing, passing, failure: None, story, ears, ground: None })))
}

/// Says so if some memory was not looked at.
fn note_on_sweeping(learning: &Learning) -> Option<String> {
    let what = match learning.sweeping().len() {
        0 => return None,
        1 => "1 instruction goes over a lot of memory and was".to_owned(),
        several => format!("{several} instructions go over a lot of memory and were"),
    };
    Some(format!("{what} looked at in a part of it (--whole: in all of it)."))
}

fn passing_runs(number: usize) -> String {
    format!("{number} passing run{}", if number == 1 { "" } else { "s" })
}

fn judge(mut case: Case, arguments: &Arguments) -> Result<Findings, Trouble> {
    let program = case.failing.recorded.program();
    let mut findings = Findings::new("pairs", &program);
    findings.recording = Some(case.failing.name());
    if case.failing.recorded.threads.len() < 2 {
        findings.summary.text = Some(format!("{program} had one thread only, so threads have no pairs."));
        return Ok(findings);
    }
    if arguments.method == Method::Falcon {
        let failing = case.failing.patterns()?;
        let passing = case.ears.patterns(&case.passing);
        verdicts::judge_patterns(&mut findings, &ranked(&failing, &passing), &case)?;
        return Ok(findings);
    }
    verdict(&mut case, arguments)?.pass(&mut findings);
    findings.notes.extend(note_on_sweeping(&case.learning));
    if arguments.sensitivity {
        let points = narrowing(&mut case.runs, arguments.procedure());
        let point = |(runs, suspects): (usize, usize)| Narrowing { runs: runs as u64, suspects: suspects as u64 };
        findings.narrowing = points.into_iter().map(point).collect();
    }
    Ok(findings)
}
