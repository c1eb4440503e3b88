//! `whodunit rerun`: a recording again, but differently from some point on.
//!
//! The run is in a process of its own, since an engine runs only once: it gets the plan in words and answers with the
//! outcome on its standard output. [`carry_out`] is how other verbs ask for one.

pub mod layout;
pub mod outcomes;
mod places;
mod prepare;
pub mod rivals;
pub mod structures;
mod text;
mod told;

pub use prepare::{Preparing, prepare};
pub use told::told;

use crate::recordings::{self, Trouble, conclude};
use crate::show::recorded;
use crate::{pack, status, usage_error, voice};
use clap::Args;
use program::copies::Copies;
use session::rerun::{Ending, Outcome, Plan};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use trace::Recording;
use trace::event::EndKind;

const AFTER_HELP: &str = "\
A plan is a JSON file: {\"schema\": \"whodunit/plan/1\", \"steps\": [...]}, with these steps:
  {\"follow\": {\"event\": 120}}                     do as recorded up to there; also by thread and
                                                 clock, or by thread, at (PLACE) and time
  {\"hold\": {\"thread\": 2, \"before\": PLACE,        keep a thread from running on until another one
    \"until\": {\"thread\": 1, \"passes\": PLACE}}}    has passed
  {\"await\": {\"thread\": 2, \"before\": PLACE,       the same until another one has changed some memory
    \"changed\": {\"address\": \"0x5a\", \"size\": 8}}}
  {\"run\": {\"thread\": 2, \"until\": {\"at\": PLACE}}} give a thread the turn, until it is there
  {\"flip\": {\"at\": PLACE}}                        let a conditional branch go the other way, once
  {\"suppress\": {\"at\": PLACE}}                    leave an instruction out, once
  {\"schedule\": {\"policy\": \"random\", \"seed\": 7}}  choose who runs from here on
  {\"stop\": {\"at\": PLACE}}                        end the run there
  {\"layout\": {\"move\": [\"heap\"]}}                lay memory out anew, with guards; also \"globals\", \"stack\"
PLACE is a source line (queue.c:41), a function (push, push+0x14) or an address (0x5a0065558010).
Nothing outside is changed: output is shown here, and files that are written to are copies.

EXIT STATUS:
  0  the program ended with status 0, or where the plan stops it
  1  it ended otherwise: by another status, a signal, a deadlock, or at --limit
  2  the command line or the plan is wrong
  3  there is no such place, the recording cannot be replayed, or it does not tell what the run needs

EXAMPLES:
  whodunit rerun latest --plan other-order.json
  whodunit rerun server-3 --plan shuffle.json --json
  whodunit rerun latest --plan other-order.json -o failing; whodunit why ./failing";

/// How many clock events may pass after the recording is left, unless somebody says otherwise.
const DEFAULT_LIMIT: u64 = 500_000_000;

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The recording: a name that `whodunit ls` shows, a path, or `latest`
    #[arg(value_name = "REC")]
    recording: OsString,
    /// What to do differently, see below: a file, or the JSON itself
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// End the run after so many clock events of all threads, instead of what the plan says, or 500 million
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// This process or program, by the number that `whodunit show` gives it, instead of the first
    #[arg(long, value_name = "N")]
    process: Option<u32>,
    /// Keep the run as a recording in this new folder, for `why`, `replay --gdb` and all other verbs
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    let shown = arguments.plan.display();
    let text = match arguments.plan.to_str().filter(|text| text.starts_with('{')) {
        Some(text) => text.to_owned(),
        None => match std::fs::read_to_string(&arguments.plan) {
            Ok(text) => text,
            Err(error) => return usage_error(&format!("cannot read the plan {shown}: {error}")),
        },
    };
    let plan = match Plan::read(&text) {
        Ok(plan) => Plan { limit: arguments.limit.or(plan.limit), ..plan },
        Err(error) => return usage_error(&format!("{shown} is no plan: {error}; see `whodunit rerun --help`")),
    };
    match tell(arguments, &plan) {
        Ok(status) => ExitCode::from(status),
        Err(trouble) => conclude(Err(trouble)),
    }
}

fn tell(arguments: &Arguments, plan: &Plan) -> Result<u8, Trouble> {
    let recording = pack::open(&arguments.recording).map_err(Trouble::Refused)?;
    let log = arguments.process.or_else(|| recording.logs().first().copied()).unwrap_or(1);
    let outcome = match &arguments.output {
        Some(into) => told_to(into, || record(recording.folder(), log, plan, into))?,
        None => carry_out(recording.folder(), log, plan)?,
    };
    if arguments.json {
        let json = serde_json::to_string_pretty(&outcome).unwrap_or_default();
        recordings::print(&format!("{json}\n"))?;
    } else {
        recordings::print(&text::render(&outcome, recordings::paint()))?;
    }
    Ok(match outcome.ending {
        Ending::LeftTheRecording { .. } => status::MACHINE,
        _ if outcome.is_good() => 0,
        _ => status::DIFFERENCE,
    })
}

/// Records a run in a folder that the user named, and says so.
fn told_to(into: &Path, run: impl FnOnce() -> Result<Outcome, Trouble>) -> Result<Outcome, Trouble> {
    if std::fs::read_dir(into).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Trouble::Refused(format!("{} is not empty: give -o a new folder", into.display())));
    }
    let outcome = run()?;
    let shown = into.display();
    voice::say(&match into.exists() {
        true => format!("whodunit: recorded in {shown}\n"),
        false => format!("whodunit: the run cannot be written down, and {shown} was not made: {NOT_TOLD}\n"),
    });
    Ok(outcome)
}

/// Why a run is not written down.
const NOT_TOLD: &str =
    "it did not end by itself, a signal handler ran in it, or a thread was stopped where no recording can tell";

/// Runs the process image in `log` as the plan has it.
pub fn carry_out(folder: &Path, log: u32, plan: &Plan) -> Result<Outcome, Trouble> {
    carry_out_with(folder, log, plan, &[])
}

/// The same, written down as a recording in an empty folder. It ends as the outcome says, unless the run was one that
/// cannot be written down: then there is nothing in the folder.
pub fn record(folder: &Path, log: u32, plan: &Plan, into: &Path) -> Result<Outcome, Trouble> {
    let words = [OsStr::new("--retold"), into.as_os_str()];
    let outcome = carry_out_with(folder, log, plan, &words);
    let is_whole = Recording::open(into).is_ok_and(|recording| has_ended(&recording));
    if outcome.is_err() || !is_whole {
        let _ = std::fs::remove_dir_all(into);
    }
    outcome
}

fn has_ended(recording: &Recording) -> bool {
    let end = recorded(recording, 1).and_then(|recorded| recorded.end);
    matches!(end, Some(EndKind::Exited(_) | EndKind::Killed(_)))
}

/// The same for who tries many plans: where the threads are is told only if the run fails. To find names takes longer than
/// most runs.
pub fn try_out(folder: &Path, log: u32, plan: &Plan) -> Result<Outcome, Trouble> {
    carry_out_with(folder, log, plan, &[OsStr::new("--brief")])
}

fn carry_out_with(folder: &Path, log: u32, plan: &Plan, options: &[&OsStr]) -> Result<Outcome, Trouble> {
    let failed = |problem: String| Trouble::Refused(problem);
    let cannot_start = |error: std::io::Error| failed(format!("cannot start a run: {error}"));
    let own = std::env::current_exe().map_err(cannot_start)?;
    let mut command = Command::new(own);
    command.args(["replay", "--quiet", "--no-report"]).args(options).arg("--process").arg(log.to_string());
    command.arg("--rerun").arg(plan.text()).arg(folder).stdin(Stdio::null());
    let output = command.output().map_err(cannot_start)?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim_end();
        let said = said.strip_prefix("whodunit: ").unwrap_or(said);
        failed(if said.is_empty() {
            format!("the run ended without an outcome ({})", output.status)
        } else {
            said.to_owned()
        })
    })
}

/// Writes the outcome for who asked.
pub fn answer(rerun: &engine::Rerun, copies: &Arc<Copies>, is_brief: bool) {
    let outcome = serde_json::to_string(&told(rerun, copies, is_brief)).unwrap_or_default();
    if let Err(error) = recordings::print(&outcome) {
        drop(error);
        voice::say_last("whodunit: cannot write the outcome to standard output\n");
    }
}
