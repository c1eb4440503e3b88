//! `whodunit last-write`: who wrote what is in memory.
//!
//! Two replays, each in a process of its own, since an engine runs only once: the first finds out where a variable is,
//! the second watches its bytes. See `search`.

mod answer;
mod search;
mod text;
mod watch;

pub use answer::{call_name, hexadecimal, plain};
pub use search::{Question, Search};

use crate::inquiry::{self, Subject, Task};
use crate::recordings::{self, Trouble, conclude, name_of};
use crate::{pack, usage_error};
use clap::Args;
use program::source::SourceCache;
use program::whereabouts::Where;
use serde_json::Value;
use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use trace::{Recording, Store};

/// More is not watched at once.
const LONGEST: u64 = 1 << 16;

const AFTER_HELP: &str = "\
WHERE is one of
  counter, table[3].next, head->name   a variable, a part of it, or what it points at
  table+0x10                           bytes from a variable's start
  0x550065558010:8                     an address and a length
  list.c:42:expression                 as it is read at that line
  function:expression                  as it is read in that function
Variables need a fixed place: globals and static variables. Local variables can be asked for by their address.

EXIT STATUS:
  0  the answer was given
  2  the command line is wrong
  3  there is no such place, or the recording cannot be replayed

EXAMPLES:
  whodunit last-write latest counter
  whodunit last-write server-3 'sessions[4].refs' --all
  whodunit last-write latest 0x550065558010:8 --at 812";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The recording: a name that `whodunit ls` shows, a path, or `latest`
    #[arg(value_name = "REC")]
    recording: OsString,
    /// A variable or an address, see below
    #[arg(value_name = "WHERE")]
    place: String,
    /// What was last written before this event (see `whodunit show --events`), instead of before the end
    #[arg(long, value_name = "EVENT")]
    at: Option<u64>,
    /// Every write, in order
    #[arg(long)]
    all: bool,
    /// With --all, only the last N
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Of this process or program, by the number that `whodunit show` gives it, instead of the first
    #[arg(long, value_name = "N")]
    process: Option<u32>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    match Where::parse(&arguments.place) {
        Err(error) => usage_error(&error.to_string()),
        Ok(place) => conclude(tell(arguments, &place)),
    }
}

fn tell(arguments: &Arguments, place: &Where) -> Result<(), Trouble> {
    let recording = pack::open(&arguments.recording).map_err(Trouble::Refused)?;
    pack::warn_of_processor(&recording);
    let log = arguments.process.or_else(|| recording.logs().first().copied()).unwrap_or(1);
    let sought = Sought { recording: &recording, process: arguments.process, at: arguments.at };
    let range = checked(locate(&sought, place, &arguments.place)?)?;
    let limit = if arguments.all { arguments.limit as usize } else { 1 };
    let question = Question { place: arguments.place.clone(), watched: Some(range), at: arguments.at, limit };
    let mut answer = ask(recording.folder(), log, question)?;
    let folder = recording.folder();
    // A path needs no store.
    let name = Store::from_environment().map_or_else(|_| folder.display().to_string(), |store| name_of(&store, folder));
    if arguments.json {
        answer["recording"] = name.into();
        answer["process"] = log.into();
        answer["where"] = arguments.place.clone().into();
        answer["at"] = arguments.at.into();
        return recordings::print(&format!("{answer:#}\n"));
    }
    let asked = text::Asked {
        recording: &name,
        place: &arguments.place,
        process: arguments.process,
        at: arguments.at,
        all: arguments.all,
    };
    let sources = SourceCache::with_copies(pack::copies_of(&recording));
    recordings::print(&text::render(&answer, &asked, sources, recordings::paint()))
}

/// Of what, and when, a place is sought.
pub struct Sought<'a> {
    pub recording: &'a Recording,
    /// None for the first process.
    pub process: Option<u32>,
    /// None for the end.
    pub at: Option<u64>,
}

/// Address and length of a place, which may take a replay to find. `typed` is what the place was read from.
pub fn locate(sought: &Sought<'_>, place: &Where, typed: &str) -> Result<(u64, u64), Trouble> {
    if let Where::Address { address, length: Some(length) } = *place {
        return Ok((address.0, length));
    }
    let log = sought.process.or_else(|| sought.recording.logs().first().copied()).unwrap_or(1);
    let question = Question { place: typed.to_owned(), watched: None, at: sought.at, limit: 0 };
    let answer = ask(sought.recording.folder(), log, question)?;
    located(&answer).map_err(|problem| elsewhere(problem, sought))
}

fn located(answer: &Value) -> Result<(u64, u64), String> {
    match (answer["address"].as_u64(), answer["length"].as_u64()) {
        (Some(address), Some(length)) => Ok((address, length)),
        _ => Err(answer["problem"].as_str().unwrap_or("the replay told nothing").to_owned()),
    }
}

/// A name may belong to another of the programs that were recorded.
fn elsewhere(problem: String, sought: &Sought<'_>) -> Trouble {
    let is_first_of_many = sought.process.is_none() && sought.recording.logs().len() > 1;
    let hint = "; only the first process was asked, --process tells another (`whodunit show` lists them)";
    Trouble::Refused(if is_first_of_many { problem + hint } else { problem })
}

fn checked((address, length): (u64, u64)) -> Result<Range<u64>, Trouble> {
    let refuse = |sentence| Err(Trouble::Refused(sentence));
    if length > LONGEST {
        return refuse(format!(
            "that is {length} bytes, and up to {LONGEST} can be watched at once: name a part, such as {address:#x}:8"
        ));
    }
    match address.checked_add(length) {
        Some(end) => Ok(address..end),
        None => refuse(format!("{length} bytes at {address:#x} go beyond all memory")),
    }
}

/// Replays with a question.
fn ask(folder: &Path, log: u32, question: Question) -> Result<Value, Trouble> {
    // Guest code is to run right up to the event; what the event itself brings is left out of the answer.
    let until = question.at.and_then(|at| at.checked_add(1));
    inquiry::ask(&Subject { folder, log, until }, &Task::LastWrite(question))
}
