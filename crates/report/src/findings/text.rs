//! Findings for a terminal: the verdict, what the threads did in columns, the guilty lines, stacks, and what to type next.

mod columns;

use std::collections::BTreeSet;

use program::source::SourceCache;
use trace::finding::{Class, Finding, Findings, Place};

use super::passages::{self, Line, Passage};
use super::words::{self, Told};
use super::{classes, narrowing, places};
use crate::look::{Ink, Look};
use crate::stack::{self, Extent};
use crate::text::{Indent, keep_end, keep_start, printable, wrap};
use crate::threads::{FrameFacts, ThreadFacts};

/// The title starts a line, and all else of a finding is indented.
const INDENT: Indent = Indent(2, 4);

pub(super) fn render(findings: &Findings, sources: &mut SourceCache, look: &Look) -> String {
    let mut explained = BTreeSet::new();
    let mut page = Page { look, lines: Vec::new() };
    for (position, finding) in findings.findings.iter().enumerate() {
        page.title(position + 1, finding);
        page.standing(finding, explained.insert(finding.class));
        page.facts(finding);
        page.part(|page| page.lines.extend(columns::table(finding, sources, look)));
        page.sources(finding, sources);
        words::stacks(finding, look).iter().for_each(|told| page.stack(told));
        page.notes("Why this is told:", &finding.grounds);
        page.notes("What may be missing here:", &finding.notes);
        page.commands(finding);
        page.lines.push(String::new());
    }
    page.summary(findings);
    page.lines.join("\n") + "\n"
}

struct Page<'a> {
    look: &'a Look,
    lines: Vec<String>,
}

impl Page<'_> {
    fn say(&mut self, ink: Option<Ink>, indent: Indent, sentence: &str) {
        for line in wrap(sentence, self.look.width(), indent) {
            let line = line.trim_end();
            self.lines.push(ink.map_or_else(|| line.to_owned(), |ink| self.look.paint(ink, line)));
        }
    }

    /// Parts are set apart by an empty line; one that says nothing leaves none.
    fn part(&mut self, fill: impl FnOnce(&mut Self)) {
        let before = self.lines.len();
        self.lines.push(String::new());
        fill(self);
        if self.lines.len() == before + 1 {
            self.lines.pop();
        }
    }

    fn title(&mut self, number: usize, finding: &Finding) {
        self.say(Some(Ink::Alarm), Indent(0, 4), &format!("{number}. {}", words::title(finding)));
    }

    fn standing(&mut self, finding: &Finding, class_is_new: bool) {
        self.say(Some(Ink::Faint), INDENT, &words::capitalised(&words::standing(finding)));
        if class_is_new {
            self.say(Some(Ink::Faint), Indent(2, 2), meaning(finding.class));
        }
    }

    /// What is said in one sentence each.
    fn facts(&mut self, finding: &Finding) {
        let look = self.look;
        self.part(|page| {
            if let Some(variable) = &finding.variable {
                page.say(None, INDENT, &format!("Memory: {}", words::variable(variable)));
            }
            if let Some(failure) = &finding.failure {
                page.say(None, INDENT, &format!("Failure: {}", words::failure(finding, failure, look)));
            }
            for preemption in &finding.schedule {
                page.say(None, INDENT, &words::capitalised(&words::preemption(finding, preemption, look)));
            }
        });
    }

    /// The guilty lines; in words where the source cannot be read.
    fn sources(&mut self, finding: &Finding, sources: &mut SourceCache) {
        for passage in passages::passages(finding, sources) {
            self.part(|page| page.passage(&passage));
        }
        let unread = finding.causes.iter().filter(|cause| passages::readable(&cause.place, sources).is_none());
        let unread: Vec<_> = unread.collect();
        self.part(|page| {
            for cause in unread {
                let thread = cause.thread.map(|thread| words::thread(finding, thread) + ", ").unwrap_or_default();
                let text =
                    Some(&cause.text).filter(|text| !text.is_empty()).map(|text| format!(": {}", printable(text)));
                let place = places::words(&cause.place, page.look);
                page.say(None, INDENT, &format!("Cause: {thread}{place}{}", text.unwrap_or_default()));
            }
        });
    }

    fn passage(&mut self, passage: &Passage) {
        let file = keep_end(&printable(&self.look.path(&passage.file)), self.look.width() - 2);
        self.lines.push(format!("  {}", self.look.paint(Ink::Function, &file)));
        let digits = passage.lines.last().map_or(1, |line| line.number.to_string().len());
        passage.lines.iter().for_each(|line| self.source_line(line, digits));
    }

    fn source_line(&mut self, line: &Line, digits: usize) {
        let code = keep_start(&line.text, self.look.width() - digits - 7);
        let mark = if line.remarks.is_some() { ">" } else { " " };
        let text = format!("  {mark} {:digits$} | {code}", line.number).trim_end().to_owned();
        self.lines.push(if line.remarks.is_some() { self.look.paint(Ink::Strong, &text) } else { text });
        let column = line.text.len() - line.text.trim_start().len();
        // Far to the right, the remark would have no room.
        let column = if column + digits + 7 < self.look.width() / 2 { column } else { 0 };
        let bar = format!("    {:digits$} | ", "");
        for remark in line.remarks.iter().flatten().filter(|remark| !remark.is_empty()) {
            for part in wrap(&format!("^ {remark}"), self.look.width() - bar.len(), Indent(column, column + 2)) {
                self.lines.push(self.look.paint(Ink::Alarm, &format!("{bar}{part}")));
            }
        }
    }

    fn stack(&mut self, told: &Told<'_>) {
        let look = self.look;
        self.part(|page| {
            let end = if told.stack.is_empty() { "." } else { ":" };
            page.say(Some(Ink::Strong), INDENT, &(words::capitalised(&told.sentence) + end));
            if !told.stack.is_empty() {
                let frames = stack::frames(&as_facts(told.stack), Extent::FULL, &look.narrower(INDENT.0));
                page.lines.extend(frames.iter().map(|line| format!("  {line}")));
            }
        });
    }

    fn notes(&mut self, heading: &str, notes: &[String]) {
        self.part(|page| {
            if !notes.is_empty() {
                page.say(None, INDENT, heading);
                notes.iter().for_each(|note| page.say(None, Indent(4, 6), &format!("- {}", printable(note))));
            }
        });
    }

    /// Commands are never broken into lines: they are there to be copied.
    fn commands(&mut self, finding: &Finding) {
        self.part(|page| {
            if let Some(command) = finding.rerun() {
                page.lines.push("  To see it again:".to_owned());
                page.command(command);
            }
            for next in &finding.next {
                let text = Some(&next.text).filter(|text| !text.is_empty());
                let text = text.map_or("Next".to_owned(), |text| words::capitalised(&printable(text)));
                page.say(None, INDENT, &format!("{text}:"));
                page.command(&next.command);
            }
        });
    }

    fn command(&mut self, command: &str) {
        self.lines.push(format!("    {}", self.look.paint(Ink::Strong, &printable(command))));
    }

    fn summary(&mut self, findings: &Findings) {
        self.say(Some(Ink::Strong), Indent(0, 4), &words::summary(findings));
        if let Some(text) = &findings.summary.text {
            self.say(None, Indent(0, 0), &printable(text));
        }
        if !findings.narrowing.is_empty() {
            self.lines.push(narrowing::TITLE.to_owned());
            self.lines.extend(narrowing::bars(&findings.narrowing));
        }
        findings.notes.iter().for_each(|note| self.say(Some(Ink::Faint), Indent(0, 2), &printable(note)));
    }
}

fn meaning(class: Class) -> &'static str {
    classes::about(class).meaning
}

/// A stack in the form in which stacks are shown.
fn as_facts(stack: &[Place]) -> ThreadFacts {
    let frame = |place| FrameFacts { pc: 0, resolved: vec![places::frame(place)] };
    let frames = stack.iter().map(frame).collect();
    ThreadFacts { id: 0, tid: 0, name: None, state: String::new(), frames, truncated: false }
}
