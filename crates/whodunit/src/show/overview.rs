//! What `show` says without further options: the recording from its headline to its counts.

use std::time::SystemTime;

use engine::Level;
use program::source::SourceCache;
use serde_json::{Value, json};
use trace::Recording;

use super::failure::{self, Failure};
use super::image::{Begin, Image};
use super::processes;
use super::tally::{Count, Tally};
use crate::pack::{self, level};
use crate::recordings::text::{Ink, Paint, age, count, date, escaped, escaped_bytes, seconds_since_1970, size, wrap};
use crate::recordings::{Trouble, ends, paint, print};

/// Fields are added to this schema, never renamed.
const SCHEMA: &str = "whodunit/show/1";
/// A text is for reading; the JSON has all.
const MAX_FAILURES: usize = 5;
const MAX_CALLS: usize = 15;
const MAX_NOTES: usize = 10;
/// Where the values of the headline's rows start.
const VALUES: usize = 13;

/// What is shown: a recording, or one process image of it.
pub struct Scope<'a> {
    pub name: &'a str,
    pub recording: &'a Recording,
    pub images: &'a [Image],
    pub number: Option<u32>,
}

impl<'a> Scope<'a> {
    fn images(&self) -> impl Iterator<Item = &'a Image> + use<'a> {
        let number = self.number;
        self.images.iter().filter(move |image| number.is_none_or(|number| number == image.log))
    }

    /// The image that the headline is about.
    fn first(&self) -> Option<&'a Image> {
        self.images().next()
    }

    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        self.images().for_each(|image| tally.merge(&image.tally));
        tally
    }

    /// Bytes of logs and of tails.
    fn sizes(&self) -> (u64, u64) {
        self.images().fold((0, 0), |(logs, tails), image| (logs + image.sizes.0, tails + image.sizes.1))
    }

    fn failures(&self, sources: &mut SourceCache) -> Vec<(u32, Failure)> {
        let failure = |image: &Image| Some((image.log, Failure::of(image, self.recording, sources)?));
        self.images().filter_map(failure).collect()
    }

    fn tool(&self) -> Option<&'a str> {
        self.recording.manifest().map(|manifest| manifest.tool.as_str())
    }
}

pub fn write(scope: &Scope<'_>, as_json: bool) -> Result<(), Trouble> {
    match as_json {
        true => print(&format!("{:#}\n", json(scope))),
        false => print(&text(scope, paint())),
    }
}

fn text(scope: &Scope<'_>, paint: Paint) -> String {
    let mut sources = SourceCache::with_copies(pack::copies_of(scope.recording));
    let mut parts = vec![heading(scope, paint)];
    let failures = scope.failures(&mut sources);
    parts.extend(failures.iter().take(MAX_FAILURES).map(|(_, failure)| failure.lines(&mut sources, paint)));
    if failures.len() > MAX_FAILURES {
        parts.push(vec![format!(
            "... and {}; --process N shows one",
            count(failures.len() - MAX_FAILURES, "more failure")
        )]);
    }
    parts.push(processes::lines(scope.images, scope.number, paint));
    parts.push(notes(scope, paint));
    let tally = scope.tally();
    parts.push(kinds(&tally, paint));
    parts.push(calls(&tally, paint));
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).map(|part| part.join("\n")).collect();
    parts.join("\n\n") + "\n"
}

fn heading(scope: &Scope<'_>, paint: Paint) -> Vec<String> {
    let image = scope.first();
    let begin = image.and_then(|image| image.begin.as_ref());
    let command = begin.map_or("?", |begin| &begin.command);
    let mut lines = vec![paint.paint(Ink::Strong, &format!("{}: {command}", escaped(scope.name)))];
    let mut row = |name: &str, value: &str| lines.push(format!("  {name:<9}  {}", wrap(value, VALUES)));
    row("recording", &escaped(&scope.recording.folder().to_string_lossy()));
    if let Some(begin) = begin {
        begin_rows(begin, scope.tool(), &mut row);
    }
    row("size", &sizes(scope));
    if let Some(image) = image {
        row("ended", &end_of(scope, image));
    }
    lines
}

fn begin_rows(begin: &Begin, tool: Option<&str>, row: &mut impl FnMut(&str, &str)) {
    row("program", &escaped_bytes(&begin.program));
    row("folder", &escaped_bytes(&begin.directory));
    let tool = tool.map(|tool| format!(", by {}", escaped(tool))).unwrap_or_default();
    row("started", &format!("{}, {}{tool}", date(begin.started), age(begin.started, SystemTime::now())));
    let (level, features) = (level::of(&begin.features), count(begin.features.len(), "feature"));
    let is_limited = begin.shown.is_some_and(|shown| shown.level.is_some());
    let shown = if is_limited { "shown as " } else { "" };
    row("machine", &escaped(&format!("{} ({shown}{level}, {features}), kernel {}", begin.processor, begin.kernel)));
    row("schedule", &format!("{}, quantum {}, seed {}", escaped(&begin.policy), begin.quantum, begin.seed));
}

/// `1.2 MB in 2 logs, 20000 events, 60 bytes an event`
fn sizes(scope: &Scope<'_>) -> String {
    let (logs, tails) = scope.sizes();
    let events = scope.tally().total().events;
    let rest = match logs.checked_div(events) {
        // What is in the tails is not compressed yet.
        _ if tails > 0 => format!(", and tails of {}", size(tails)),
        Some(each) => format!(", {each} bytes an event"),
        None => String::new(),
    };
    format!("{} in {}, {events} events{rest}", size(logs), count(scope.images().count(), "log"))
}

/// Of a whole recording, the end of the first process, whatever programs it executed.
fn end_of(scope: &Scope<'_>, image: &Image) -> String {
    let mut last = image;
    while let (None, trace::State::Executed { next_log }) = (scope.number, &last.state) {
        match scope.images.iter().find(|image| image.log == *next_log && image.log > last.log) {
            Some(next) => last = next,
            None => break,
        }
    }
    ends::words(&last.state)
}

fn notes(scope: &Scope<'_>, paint: Paint) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for image in scope.images() {
        notes.extend(image.notes.iter().map(|(event, text)| {
            format!("  {}", wrap(&format!("process {}, event {event}: {}", image.log, escaped(text)), 4))
        }));
    }
    if scope.number.is_none() {
        let missing = processes::missing(scope.images).into_iter();
        notes.extend(missing.map(|log| format!("  process {log} is not in the recording")));
    }
    if notes.is_empty() {
        return notes;
    }
    let left_out = notes.len().saturating_sub(MAX_NOTES);
    notes.truncate(MAX_NOTES);
    notes.insert(0, paint.paint(Ink::Strong, "Notes:"));
    if left_out > 0 {
        notes.push(format!("  ... and {}; --json lists them", count(left_out, "more note")));
    }
    notes
}

fn kinds(tally: &Tally, paint: Paint) -> Vec<String> {
    let mut lines = vec![paint.paint(Ink::Strong, &columns("Events:", "number", "data"))];
    lines.extend(tally.kinds_by_count().into_iter().map(|(kind, count)| count_line(kind, count)));
    lines
}

fn calls(tally: &Tally, paint: Paint) -> Vec<String> {
    let calls = tally.calls_by_count();
    if calls.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![paint.paint(Ink::Strong, &columns("System calls:", "number", "data"))];
    lines.extend(calls.iter().take(MAX_CALLS).map(|(name, count)| count_line(name, *count)));
    if calls.len() > MAX_CALLS {
        lines.push(format!("  ... and {}; --json lists all", count(calls.len() - MAX_CALLS, "other call")));
    }
    lines
}

fn count_line(name: &str, count: Count) -> String {
    let data = if count.data == 0 { String::new() } else { size(count.data) };
    columns(&format!("  {name}"), &count.events.to_string(), &data)
}

fn columns(name: &str, number: &str, data: &str) -> String {
    format!("{name:<22}{number:>10}{data:>12}").trim_end().to_owned()
}

fn json(scope: &Scope<'_>) -> Value {
    let mut sources = SourceCache::with_copies(pack::copies_of(scope.recording));
    let failures: Vec<Value> =
        scope.failures(&mut sources).iter().map(|(log, failure)| failure_json(*log, failure)).collect();
    let tree = processes::tree(scope.images);
    let shown = tree.iter().filter(|node| scope.number.is_none_or(|number| number == node.image.log));
    json!({
        "schema": SCHEMA,
        "name": scope.name,
        "folder": scope.recording.folder().to_string_lossy(),
        "tool": scope.tool(),
        "log_bytes": scope.sizes().0,
        "tail_bytes": scope.sizes().1,
        "events": scope.tally().total().events,
        "processes": shown.map(|node| image_json(node.image)).collect::<Vec<_>>(),
        "failures": failures,
    })
}

fn image_json(image: &Image) -> Value {
    let threads: Vec<Value> = image
        .threads
        .iter()
        .map(|(number, life)| {
            json!({
                "thread": number,
                "tid": life.tid,
                "started_by": life.origin.map(|(parent, _)| parent),
                "started_in": life.origin.map(|(_, event)| event),
                "clock": life.clock,
                "status": life.status,
            })
        })
        .collect();
    let notes: Vec<Value> = image.notes.iter().map(|(event, text)| json!({"event": event, "text": text})).collect();
    json!({
        "process": image.log,
        "start": image.begin.as_ref().map(begin_json),
        "ended": ends::json(&image.state),
        "threads": threads,
        "children": image.children,
        "notes": notes,
        "log_bytes": image.sizes.0,
        "tail_bytes": image.sizes.1,
        "events": counts_json(image.tally.kinds_by_count()),
        "calls": counts_json(image.tally.calls_by_count()),
    })
}

fn begin_json(begin: &Begin) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    json!({
        "program": text(&begin.program),
        "arguments": begin.arguments.iter().map(|argument| text(argument)).collect::<Vec<_>>(),
        "directory": text(&begin.directory),
        "pid": begin.pid,
        "seed": begin.seed,
        "policy": begin.policy,
        "quantum": begin.quantum,
        "kernel": begin.kernel,
        "processor": begin.processor,
        "cpu": begin.shown.map(|shown| shown.level.map_or("native", Level::name)),
        "level": level::of(&begin.features).to_string(),
        "features": begin.features,
        "parent": begin.parent.map(|parent| json!({"process": parent.log, "event": parent.event})),
        "started": seconds_since_1970(begin.started),
    })
}

fn counts_json<N: Into<String>>(counts: Vec<(N, Count)>) -> Value {
    let entry = |(name, count): (N, Count)| (name.into(), json!({"number": count.events, "data": count.data}));
    Value::Object(counts.into_iter().map(entry).collect())
}

fn failure_json(log: u32, failure: &Failure) -> Value {
    let frames: Vec<Value> = failure
        .frames
        .iter()
        .map(|(pc, frame)| {
            json!({
                "pc": pc,
                "function": frame.function,
                "file": frame.file.as_ref().map(|file| file.to_string_lossy()),
                "line": frame.line,
                "column": frame.column,
                "inlined": frame.inlined,
                "module": frame.module,
                "module_offset": frame.module_offset,
                "place": failure::place(frame),
            })
        })
        .collect();
    json!({"process": log, "text": failure.headline, "frames": frames, "gaps": failure.gaps})
}
