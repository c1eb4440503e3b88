//! `whodunit ls`: the recordings there are.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use serde_json::{Value, json};
use trace::{Recording, State, Store, Summary, store};

use crate::recordings::text::{
    Ink, WIDTH, age, command_line, date, escaped, keep_start, seconds_since_1970, size, width,
};
use crate::recordings::{Family, Trouble, conclude, ends, name_of, paint, print};

/// Fields are added to this schema, never renamed.
const SCHEMA: &str = "whodunit/ls/1";

const AFTER_HELP: &str = "\
Recordings are kept in ~/.local/share/whodunit, or in the folder that WHODUNIT_DIR names.

EXAMPLES:
  whodunit ls
  whodunit ls --long
  whodunit ls --json | jq -r '.recordings[] | select(.ended.state == \"killed\") | .name'";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Show the date, and commands in full
    #[arg(long, short)]
    long: bool,

    /// Write JSON
    #[arg(long, conflicts_with = "long")]
    json: bool,
}

pub fn run(arguments: Arguments) -> ExitCode {
    conclude(list(&arguments))
}

fn list(arguments: &Arguments) -> Result<(), Trouble> {
    let store = Store::from_environment()?;
    let entries = entries(&store)?;
    if arguments.json {
        return print(&format!("{:#}\n", json(&store, &entries)));
    }
    if entries.is_empty() {
        let root = escaped(&store.root().to_string_lossy());
        return print(&format!("No recordings in {root} yet; make one with: whodunit record -- PROG ARGS\n"));
    }
    print(&table(&entries, arguments.long))
}

struct Entry {
    name: String,
    summary: Summary,
    is_latest: bool,
    /// Where the first process ended, whatever programs it executed.
    end: State,
    /// The first process has ended and others are still being recorded.
    others_go_on: bool,
    processes: usize,
}

/// The newest first. The latest may be outside the store, if it was recorded to a folder that the user named.
fn entries(store: &Store) -> Result<Vec<Entry>, Trouble> {
    let mut summaries = store.list()?;
    let latest = fs::canonicalize(store.root().join(store::LATEST)).ok().filter(|folder| folder.is_dir());
    let is_latest = |folder: &Path| latest.is_some() && fs::canonicalize(folder).ok() == latest;
    if let Some(folder) = latest.as_ref().filter(|_| !summaries.iter().any(|summary| is_latest(&summary.folder))) {
        summaries.push(Summary::of(folder));
    }
    summaries.sort_by(|a, b| (b.started, &b.folder).cmp(&(a.started, &a.folder)));
    let entry = |summary: Summary| Entry::new(store, is_latest(&summary.folder), summary);
    Ok(summaries.into_iter().map(entry).collect())
}

impl Entry {
    fn new(store: &Store, is_latest: bool, mut summary: Summary) -> Entry {
        let name = name_of(store, &summary.folder);
        let mut end = std::mem::replace(&mut summary.state, State::Cut);
        let mut others_go_on = false;
        let mut processes = 0;
        if let Ok(recording) = Recording::open(&summary.folder) {
            let family = Family::of(&recording);
            end = ends::follow(&recording, &family, end);
            others_go_on = matches!(end, State::Ended(_)) && recording.is_live();
            processes = family.processes();
        }
        Entry { name, summary, is_latest, end, others_go_on, processes }
    }

    fn command(&self) -> String {
        match self.summary.arguments.is_empty() {
            true if self.summary.program.is_empty() => "?".to_owned(),
            true => command_line([self.summary.program.as_bytes()]),
            false => command_line(self.summary.arguments.iter().map(String::as_bytes)),
        }
    }

    fn ended(&self) -> String {
        let words = ends::words(&self.end);
        if self.others_go_on { format!("{words}, children go on") } else { words }
    }

    fn cells(&self, now: SystemTime, long: bool) -> [String; COLUMNS] {
        let mark = if self.is_latest { " (latest)" } else { "" };
        let when = match long {
            true => format!("{}, {}", date(self.summary.started), age(self.summary.started, now)),
            false => age(self.summary.started, now),
        };
        let processes = if self.processes == 0 { "?".to_owned() } else { self.processes.to_string() };
        [
            format!("{}{mark}", escaped(&self.name)),
            when,
            size(self.summary.size),
            processes,
            escaped(&self.ended()),
            self.command(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "folder": self.summary.folder.to_string_lossy(),
            "latest": self.is_latest,
            "program": self.summary.program,
            "arguments": self.summary.arguments,
            "started": seconds_since_1970(self.summary.started),
            "size": self.summary.size,
            "logs": self.summary.logs,
            "processes": self.processes,
            "live": self.others_go_on || matches!(self.end, State::Live),
            "ended": ends::json(&self.end),
        })
    }
}

const COLUMNS: usize = 6;
const HEADINGS: [&str; COLUMNS] = ["NAME", "WHEN", "SIZE", "PROCESSES", "ENDED", "PROGRAM"];
/// Columns of numbers, which end in line.
const RIGHT: [bool; COLUMNS] = [false, false, true, true, false, false];

/// The command comes last and takes the room that is left.
fn table(entries: &[Entry], long: bool) -> String {
    let now = SystemTime::now();
    let paint = paint();
    let rows: Vec<_> = entries.iter().map(|entry| entry.cells(now, long)).collect();
    let headings = HEADINGS.map(str::to_owned);
    let widths: [usize; COLUMNS] =
        std::array::from_fn(|column| rows.iter().chain([&headings]).map(|row| width(&row[column])).max().unwrap_or(0));
    let room = WIDTH.saturating_sub(widths[..COLUMNS - 1].iter().map(|width| width + 2).sum()).max(20);
    let limit = if long { usize::MAX } else { room };
    let mut text = paint.paint(Ink::Strong, &line(&headings, &widths, limit)) + "\n";
    for row in &rows {
        text += &line(row, &widths, limit);
        text.push('\n');
    }
    text
}

fn line(cells: &[String; COLUMNS], widths: &[usize; COLUMNS], limit: usize) -> String {
    let mut line = String::new();
    for (column, cell) in cells[..COLUMNS - 1].iter().enumerate() {
        let width = widths[column];
        line += &if RIGHT[column] { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
    }
    line + &keep_start(&cells[COLUMNS - 1], limit)
}

fn json(store: &Store, entries: &[Entry]) -> Value {
    let recordings: Vec<Value> = entries.iter().map(Entry::json).collect();
    json!({"schema": SCHEMA, "folder": store.root().to_string_lossy(), "recordings": recordings})
}
