//! The steps of the threads as a table: time goes down, and every thread has a column. Where the columns would get too
//! narrow, the steps are a list.

use program::source::SourceCache;
use trace::finding::{Finding, Step};

use crate::findings::timeline::{self, Row};
use crate::findings::{passages, places, words};
use crate::look::{Ink, Look};
use crate::text::{Indent, count, keep_end, keep_start, printable, width, wrap};

/// Steps shown; HTML and JSON have more.
const MAX_STEPS: usize = 45;
const NARROWEST_COLUMN: usize = 24;
const WIDEST_COLUMN: usize = 56;
/// Less room is not worth the start of a function's name.
const SHORTEST_NAME: usize = 6;
/// Between two columns.
const GAP: usize = 2;

/// A line of a cell, not yet painted: its width counts.
struct CellLine {
    text: String,
    ink: Option<Ink>,
}

struct Layout {
    threads: Vec<u32>,
    /// Of a thread's column; of the only one in a list.
    column: usize,
    digits: usize,
    is_list: bool,
}

impl Layout {
    fn of(finding: &Finding, look: &Look) -> Layout {
        let threads = timeline::threads(finding);
        let digits = finding.steps.len().to_string().len();
        let room = look.width() - gutter_width(digits);
        let column = (room + GAP) / threads.len().max(1);
        let column = column.saturating_sub(GAP).min(WIDEST_COLUMN);
        match column < NARROWEST_COLUMN {
            true => Layout { threads, column: room, digits, is_list: true },
            false => Layout { threads, column, digits, is_list: false },
        }
    }

    /// Where a thread's cells start, after the gutter.
    fn start_of(&self, thread: u32) -> usize {
        let position = self.threads.iter().position(|known| *known == thread).unwrap_or(0);
        if self.is_list { 0 } else { position * (self.column + GAP) }
    }
}

/// `  > 12  `
fn gutter_width(digits: usize) -> usize {
    digits + 6
}

pub(super) fn table(finding: &Finding, sources: &mut SourceCache, look: &Look) -> Vec<String> {
    if finding.steps.is_empty() {
        return Vec::new();
    }
    let layout = Layout::of(finding, look);
    let mut lines = vec!["  What the threads did, in this order:".to_owned()];
    lines.extend(heading(finding, &layout, look));
    for row in timeline::rows(finding, MAX_STEPS) {
        match row {
            Row::Gap(left_out) => lines.push(format!("    ... {} left out ...", count(left_out, "step"))),
            Row::Step { number, step } => {
                let cell = cell(finding, step, &layout, sources, look);
                lines.extend(place_cell(number, step, &cell, &layout, look));
            }
        }
    }
    lines
}

/// The threads above their columns.
fn heading(finding: &Finding, layout: &Layout, look: &Look) -> Option<String> {
    if layout.is_list {
        return None;
    }
    let mut line = " ".repeat(gutter_width(layout.digits));
    for &thread in &layout.threads {
        let name = keep_start(&words::thread(finding, thread), layout.column);
        line += &format!("{name:0$}", layout.column + GAP);
    }
    Some(look.paint(Ink::Strong, line.trim_end()))
}

/// Where it is, the statement, and what it does.
fn cell(finding: &Finding, step: &Step, layout: &Layout, sources: &mut SourceCache, look: &Look) -> Vec<CellLine> {
    let place = location(finding, step, layout, look);
    let mut lines = Vec::new();
    lines.extend(Some(place).filter(|place| !place.is_empty()).map(|text| CellLine { text, ink: Some(Ink::Faint) }));
    let statement = passages::statement(&step.place, sources);
    let ink = if step.guilty { Some(Ink::Alarm) } else { None };
    lines.extend(statement.map(|text| CellLine { text: keep_start(&text, layout.column), ink }));
    if !step.text.is_empty() {
        let wrapped = wrap(&printable(&step.text), layout.column, Indent(0, 2));
        lines.extend(wrapped.into_iter().map(|text| CellLine { text, ink: step.guilty.then_some(Ink::Strong) }));
    }
    if lines.is_empty() {
        lines.push(CellLine { text: "?".to_owned(), ink: None });
    }
    lines
}

/// The function is named as far as the thread and the line leave room for it.
fn location(finding: &Finding, step: &Step, layout: &Layout, look: &Look) -> String {
    let thread = layout.is_list.then(|| words::thread(finding, step.thread));
    let thread = thread.map(|thread| keep_start(&thread, layout.column / 2));
    let room = layout.column - thread.as_ref().map_or(0, |thread| width(thread) + 1);
    let spot = places::spot(&step.place, look).map(|spot| keep_end(&spot, room));
    let room = room.saturating_sub(spot.as_ref().map_or(0, |spot| width(spot) + 1));
    let function = step.place.function.as_deref().filter(|_| room >= SHORTEST_NAME);
    let function = function.map(|function| keep_start(&printable(function), room));
    [thread, spot, function].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn place_cell(number: usize, step: &Step, cell: &[CellLine], layout: &Layout, look: &Look) -> Vec<String> {
    let digits = layout.digits;
    let mark = if step.guilty { '>' } else { ' ' };
    let first = format!("  {mark} {number:digits$}  ");
    let shift = " ".repeat(layout.start_of(step.thread));
    let mut lines = Vec::new();
    for (position, line) in cell.iter().enumerate() {
        let gutter = if position == 0 { first.clone() } else { " ".repeat(width(&first)) };
        let text = line.text.trim_end();
        let text = line.ink.map_or_else(|| text.to_owned(), |ink| look.paint(ink, text));
        lines.push(format!("{gutter}{shift}{text}"));
    }
    lines
}
