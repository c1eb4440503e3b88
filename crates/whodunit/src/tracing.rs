//! `whodunit trace`: what the threads of a recording did, for people and tools.
//!
//! A replay in a process of its own selects by numbers and tells each event in a line (`study::lines`); here the events get
//! their names and the form that was asked for.

mod json;
mod perfetto;
mod wanted;

use crate::inquiry::{self, Subject, Task};
use crate::naming::{Memory, Naming};
use crate::recordings::{Trouble, conclude, name_of};
use crate::show::{self, Recorded};
use crate::study::Study;
use crate::study::functions::players;
use crate::study::lines::{Kind, Line, Told};
use crate::{allocators, pack, usage_error};
use clap::{Args, ValueEnum};
use program::whereabouts::Where;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ExitCode};
use trace::{Recording, Store};

const AFTER_HELP: &str = "\
An event is told if it passes every filter; of a filter that is given several times, any will
do. Without filters all are told: tens of thousands for a program that only starts and ends.

WHERE is a variable or an address, as for `whodunit last-write`: counter, table[3].next,
head->name, table+0x10, 0x550065558010:8, list.c:42:expression, function:expression

EXIT STATUS:
  0  the events were written
  2  the command line is wrong
  3  there is no such thread, function or variable, or the recording cannot be replayed

EXAMPLES:
  whodunit trace latest --variable counter --values
  whodunit trace latest --only sync,threads
  whodunit trace server-3 --thread 2 --from 800 --to 812 --function handle_request
  whodunit trace latest --only sync,threads,calls --format perfetto -o trace.json
    (then open trace.json at https://ui.perfetto.dev)";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The recording: a name that `whodunit ls` shows, a path, or `latest`
    #[arg(value_name = "REC")]
    recording: OsString,
    /// Only these kinds of events
    #[arg(long, value_name = "KINDS", value_enum, value_delimiter = ',')]
    only: Vec<Kind>,
    /// Only what this thread did
    #[arg(long = "thread", value_name = "N")]
    threads: Vec<u32>,
    /// Only what this function did itself, and calls of it
    #[arg(long = "function", value_name = "NAME")]
    functions: Vec<String>,
    /// Only what was done to this variable or memory, see below
    #[arg(long = "variable", value_name = "WHERE")]
    variables: Vec<String>,
    /// Only from where this event comes next (see `whodunit show --events`)
    #[arg(long, value_name = "EVENT")]
    from: Option<u64>,
    /// Only up to this event, which is included
    #[arg(long, value_name = "EVENT")]
    to: Option<u64>,
    /// With what memory held before and after each access
    #[arg(long)]
    values: bool,
    /// Only the first N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Of this process or program, by the number that `whodunit show` gives it, instead of the first
    #[arg(long, value_name = "N")]
    process: Option<u32>,
    #[command(flatten)]
    allocating: allocators::Arguments,
    /// How the events are written
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON Lines: an object an event
    Json,
    /// A trace for ui.perfetto.dev, which is one JSON object
    Perfetto,
}

/// A form that events are written in.
trait Form {
    fn line(&mut self, line: &Line, naming: &mut Naming) -> io::Result<()>;
    fn finish(&mut self) -> io::Result<()>;
}

pub fn run(arguments: &Arguments) -> ExitCode {
    if arguments.from.zip(arguments.to).is_some_and(|(from, to)| from > to) {
        return usage_error("--from must not be above --to");
    }
    let places: Result<Vec<Where>, _> = arguments.variables.iter().map(|place| Where::parse(place)).collect();
    match places {
        Err(error) => usage_error(&error.to_string()),
        Ok(places) => conclude(tell(arguments, &places)),
    }
}

fn tell(arguments: &Arguments, places: &[Where]) -> Result<(), Trouble> {
    let recording = pack::open(&arguments.recording).map_err(Trouble::Refused)?;
    pack::warn_of_processor(&recording);
    let log = arguments.process.or_else(|| recording.logs().first().copied()).unwrap_or(1);
    let recorded = recorded(&recording, log)?;
    arguments.allocating.check(&recorded.space)?;
    let mut naming = Naming::new(&recording, log, &recorded);
    let selection = wanted::selection(arguments, places, &recording, &recorded, &naming)?;
    let until = selection.to.and_then(|to| to.checked_add(1));
    let subject = Subject { folder: recording.folder(), log, until };
    let mut out = open(arguments)?;
    let players = players(&recorded.space, &arguments.allocating.allocators);
    let task = Task::Study { study: Study::Lines(selection), players: Some(players) };
    let child = inquiry::start(&subject, &task)?;
    let mut form: Box<dyn Form + '_> = match arguments.format {
        Format::Json => Box::new(json::Lines::new(&mut out)),
        Format::Perfetto => Box::new(perfetto::Trace::new(&mut out, log)),
    };
    let result = pass_on(child, &mut *form, &mut naming);
    drop(form);
    let result = result.and_then(|()| Ok(out.flush()?));
    result.map_err(|trouble| named_file(trouble, arguments))
}

fn recorded(recording: &Recording, log: u32) -> Result<Recorded, Trouble> {
    show::recorded(recording, log).ok_or_else(|| {
        let folder = recording.folder();
        let name =
            Store::from_environment().map_or_else(|_| folder.display().to_string(), |store| name_of(&store, folder));
        Trouble::Refused(format!("{name} has no process {log}; `whodunit show {name}` lists those it has"))
    })
}

fn open(arguments: &Arguments) -> Result<BufWriter<Box<dyn Write>>, Trouble> {
    let out: Box<dyn Write> = match &arguments.output {
        None => Box::new(io::stdout().lock()),
        Some(path) => Box::new(File::create(path).map_err(|error| named_file(error.into(), arguments))?),
    };
    Ok(BufWriter::new(out))
}

/// Where writing failed.
fn named_file(trouble: Trouble, arguments: &Arguments) -> Trouble {
    match (trouble, &arguments.output) {
        (Trouble::Output(error), Some(path)) => Trouble::Refused(format!("cannot write {}: {error}", path.display())),
        (trouble, _) => trouble,
    }
}

/// Everything that a replay tells goes to the form. The replay does not outlive this.
fn pass_on(mut child: Child, form: &mut dyn Form, naming: &mut Naming) -> Result<(), Trouble> {
    let told = child.stdout.take().map(|out| read(BufReader::new(out), form, naming));
    let errors = match told {
        // It went to its end, so what it says is complete.
        Some(Ok(false)) => child.stderr.take().map(|mut errors| {
            let mut text = Vec::new();
            errors.read_to_end(&mut text).map(|_| text)
        }),
        _ => child.kill().ok().and(None),
    };
    let _ = child.wait();
    match (told, errors) {
        (Some(Err(error)), _) => Err(Trouble::Output(error)),
        (Some(Ok(true)), _) => Ok(form.finish()?),
        (_, Some(Ok(text))) => Err(inquiry::said(&text)),
        _ => Err(Trouble::Refused("the replay cannot be heard".to_owned())),
    }
}

/// Tells whether the replay said that this was all.
fn read(told: impl BufRead, form: &mut dyn Form, naming: &mut Naming) -> io::Result<bool> {
    for text in told.lines() {
        // A replay that ends early leaves half a line.
        match text.ok().and_then(|text| serde_json::from_str(&text).ok()) {
            Some(Told::Line(line)) => form.line(&line, naming)?,
            Some(Told::Enough | Told::End { .. }) => return Ok(true),
            None => return Ok(false),
        }
    }
    Ok(false)
}

/// What a line is about.
fn memory(line: &Line, address: u64, size: u64) -> Memory<'_> {
    Memory {
        address,
        size,
        thread: line.thread,
        event: Some(line.event).filter(|_| !line.inherited),
        block: line.block.as_ref(),
        frame: line.frame,
    }
}
