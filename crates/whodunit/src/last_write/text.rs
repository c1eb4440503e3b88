//! The answer for people.

use crate::recordings::text::{Ink, Paint, escaped};
use program::source::SourceCache;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// Callers that are shown.
const MOST_FRAMES: usize = 12;

/// What was asked, for the commands that lead on.
pub struct Asked<'a> {
    pub recording: &'a str,
    pub place: &'a str,
    pub process: Option<u32>,
    pub at: Option<u64>,
    pub all: bool,
}

impl Asked<'_> {
    fn command(&self, rest: &str) -> String {
        let process = self.process.map_or(String::new(), |process| format!(" --process {process}"));
        format!("whodunit last-write{process} {} {} {rest}", quoted(self.recording), quoted(self.place))
    }
}

/// For a shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-+:/=@%".contains(letter);
    if word.chars().all(is_plain) && !word.is_empty() {
        word.to_owned()
    } else {
        format!("'{}'", escaped(word).replace('\'', "'\\''"))
    }
}

pub fn render(answer: &Value, asked: &Asked<'_>, sources: SourceCache, paint: Paint) -> String {
    let mut writer = Writer { answer, asked, paint, sources, text: String::new() };
    writer.subject();
    if asked.all {
        writer.list()
    } else {
        writer.last()
    }
    writer.doubts();
    writer.lead_on();
    writer.text
}

struct Writer<'a> {
    answer: &'a Value,
    asked: &'a Asked<'a>,
    paint: Paint,
    sources: SourceCache,
    text: String,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    /// The variable, and what is in it.
    fn subject(&mut self) {
        let answer = self.answer;
        let mut line = self.paint.paint(Ink::Strong, &escaped(self.asked.place));
        if let Some(name) = answer["type"].as_str() {
            let _ = write!(line, ": {}", escaped(name));
        }
        let length = answer["length"].as_u64().unwrap_or(0);
        let unit = if length == 1 { "byte" } else { "bytes" };
        let _ = write!(line, ", {length} {unit} at {}", word(&answer["address"]));
        if let Some(variable) = answer["variable"].as_str().filter(|name| *name != self.asked.place) {
            let offset = answer["offset"].as_u64().filter(|offset| *offset > 0);
            let _ = match offset {
                Some(offset) => write!(line, " ({offset} bytes into `{}`)", escaped(variable)),
                None => write!(line, " (`{}`)", escaped(variable)),
            };
        }
        let when = self.asked.at.map_or("at the end".to_owned(), |at| format!("before event {at}"));
        let _ = match answer["value"].as_str() {
            Some(value) => write!(line, ", {when} {}", escaped(value)),
            None => write!(line, ", {when} not mapped"),
        };
        self.line(&line);
    }

    fn last(&mut self) {
        let Some(change) = self.answer["history"].as_array().and_then(|history| history.last()).cloned() else {
            self.line("\nNothing has written it, and it was never mapped.");
            return;
        };
        self.text.push('\n');
        if change["by"] == "mapping" {
            let is_first = self.answer["left_out"] == 0;
            let line = if is_first { "nothing has written it:" } else { "nothing has written it since:" };
            self.line(&format!("{line} {}", mapping(&change)));
            return;
        }
        let line = format!("last written {}: {}", moment(&change), transition(&change, self.asked.place));
        self.line(&line);
        let line = self.paint.paint(Ink::Alarm, &format!("  {}", self.culprit(&change)));
        self.line(&line);
        self.excerpt(&change);
        if let Some(instruction) = change["instruction"].as_str() {
            self.line(&format!("  instruction {}: {}", word(&change["pc"]), escaped(instruction)));
        }
        self.stack(&change);
    }

    /// Every change on a line.
    fn list(&mut self) {
        let history = self.answer["history"].as_array().cloned().unwrap_or_default();
        self.text.push('\n');
        let left_out = self.answer["left_out"].as_u64().unwrap_or(0);
        if left_out > 0 {
            self.line(&format!("  ({left_out} earlier changes are not shown; --limit tells how many are)"));
        }
        for change in &history {
            let line = match change["by"] == "mapping" {
                true => mapping(change),
                false => {
                    let transition = transition(change, self.asked.place);
                    format!("{}: {transition}, {}", moment(change), self.culprit(change))
                }
            };
            self.line(&format!("  {line}"));
        }
        if history.is_empty() {
            self.line("  Nothing has written it, and it was never mapped.");
        }
    }

    /// Who it was, where in the source as far as that is known.
    fn culprit(&self, change: &Value) -> String {
        let thread = &change["thread"];
        let call = change["call"].as_str().map_or(String::new(), |call| format!("system call {}, ", escaped(call)));
        let kernel = if change["by"] == "kernel" { "the kernel, " } else { "" };
        let inner = change["stack"].get(0).map_or(String::new(), |frame| format!(", {}", self.frame(frame)));
        let outer = match source_frame(change, &self.sources) {
            Some((position, frame)) if position > 0 => format!(", for {}", self.frame(frame)),
            _ => String::new(),
        };
        format!("{kernel}{call}thread {thread}{inner}{outer}")
    }

    fn frame(&self, frame: &Value) -> String {
        let function = frame["function"].as_str().map(escaped);
        match (function, frame["file"].as_str(), frame["line"].as_u64()) {
            (Some(function), Some(file), Some(line)) => {
                format!("{} at {}:{line}", self.paint.paint(Ink::Function, &function), escaped(&seen_from_here(file)))
            }
            (Some(function), ..) => {
                format!("{} in {}", self.paint.paint(Ink::Function, &function), word(&frame["module"]))
            }
            (None, ..) => format!("{}+{}", word(&frame["module"]), word(&frame["module_offset"])),
        }
    }

    /// The source line that wrote, or called what wrote.
    fn excerpt(&mut self, change: &Value) {
        let Some((_, frame)) = source_frame(change, &self.sources) else { return };
        let (Some(file), Some(line)) = (frame["file"].as_str(), frame["line"].as_u64()) else { return };
        let line = u32::try_from(line).unwrap_or(0);
        if let Some(code) = self.sources.source_line(Path::new(file), line) {
            let code = escaped(code.replace('\t', "    ").trim_end());
            self.line(&format!("    > {line} | {code}"));
        }
    }

    fn stack(&mut self, change: &Value) {
        let frames = change["stack"].as_array().cloned().unwrap_or_default();
        if frames.len() < 2 {
            return;
        }
        self.line("  called from");
        for frame in frames.iter().skip(1).take(MOST_FRAMES) {
            let line = format!("    {}", self.frame(frame));
            self.line(&line);
        }
        if frames.len() > MOST_FRAMES + 1 {
            self.line("    …");
        }
    }

    fn doubts(&mut self) {
        if self.answer["complete"] == false {
            self.line("\nSomething else has changed these bytes too: another process that shares them, or a write that was not seen.");
        }
    }

    fn lead_on(&mut self) {
        let last = self.answer["history"].as_array().and_then(|history| history.last());
        let mut commands = Vec::new();
        if !self.asked.all {
            let at = self.asked.at.map_or(String::new(), |at| format!(" --at {at}"));
            commands.push((self.asked.command(&format!("--all{at}")), "every write, in order"));
        }
        let is_first =
            self.answer["left_out"] == 0 && self.answer["history"].as_array().is_some_and(|all| all.len() == 1);
        if let Some(change) = last.filter(|change| change["inherited"] != true && !is_first) {
            let event = change["event"].as_u64().unwrap_or(0);
            let before = if change["by"] == "instruction" { event.saturating_sub(1) } else { event };
            if before > 0 {
                commands.push((self.asked.command(&format!("--at {before}")), "what was there earlier"));
            }
        }
        let width = commands.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
        self.text.push('\n');
        for (position, (command, why)) in commands.iter().enumerate() {
            let word = if position == 0 { "next:" } else { "" };
            let line = format!("{word:5} {command:width$}  {}", self.paint.paint(Ink::Faint, &format!("# {why}")));
            self.line(&line);
        }
    }
}

/// The innermost frame with a source line that can be shown; else with any.
fn source_frame<'a>(change: &'a Value, sources: &SourceCache) -> Option<(usize, &'a Value)> {
    let frames = change["stack"].as_array()?;
    let has_line = |frame: &&Value| frame["line"].is_u64();
    let readable =
        |frame: &&Value| has_line(frame) && frame["file"].as_str().is_some_and(|file| sources.has(Path::new(file)));
    let position = frames.iter().position(|frame| readable(&frame));
    let position = position.or_else(|| frames.iter().position(|frame| has_line(&frame)))?;
    Some((position, &frames[position]))
}

fn moment(change: &Value) -> String {
    let event = &change["event"];
    let parent = if change["inherited"] == true { " of the parent" } else { "" };
    match change["by"] == "instruction" {
        true => format!("before event {event}{parent}"),
        false => format!("by event {event}{parent}"),
    }
}

fn transition(change: &Value, place: &str) -> String {
    let value = |value: &Value| value.as_str().map_or("?".to_owned(), escaped);
    let part = change["part"].as_str().filter(|part| *part != place);
    let part = part.map_or(String::new(), |part| format!("{} ", escaped(part)));
    format!("{part}{} → {}", value(&change["old"]), value(&change["new"]))
}

fn mapping(change: &Value) -> String {
    let event = &change["event"];
    match (change["new"].as_str(), change["file"].as_str()) {
        (None, _) => format!("event {event} unmapped it"),
        (Some(value), Some(file)) => format!("event {event} mapped it from {}, with {}", escaped(file), escaped(value)),
        (Some(value), None) => format!("event {event} mapped it, with {}", escaped(value)),
    }
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), escaped)
}

fn seen_from_here(file: &str) -> String {
    let here = std::env::current_dir().ok();
    let relative = here.and_then(|here| Path::new(file).strip_prefix(here).ok().map(Path::to_owned));
    relative.map_or_else(|| file.to_owned(), |path| path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        assert_eq!(quoted("latest"), "latest");
        assert_eq!(quoted("table[3].next"), "'table[3].next'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
