//! A source line with its neighbours and a mark.

use program::source::SourceCache;
use program::symbols::SourceFrame;

use crate::look::{Ink, Look, WIDTH};
use crate::text::{keep_start, printable};

const TAB: usize = 4;

/// Lines shown before and after the marked one.
pub(crate) const CONTEXT: u32 = 2;

/// Whether the source of a frame can be shown.
pub(crate) fn is_readable(frame: &SourceFrame, sources: &mut SourceCache) -> bool {
    line_of(frame, sources, 0).is_some()
}

/// The frame's line alone, without its indentation.
pub(crate) fn single_line(frame: &SourceFrame, sources: &mut SourceCache) -> Option<String> {
    Some(printable(line_of(frame, sources, 0)?.trim()))
}

/// The frame's line in its surroundings; nothing if it cannot be read.
pub(crate) fn lines(frame: &SourceFrame, sources: &mut SourceCache, look: &Look) -> Vec<String> {
    let Some(marked) = frame.line.filter(|_| is_readable(frame, sources)) else { return Vec::new() };
    let first = marked.saturating_sub(CONTEXT).max(1);
    let last = marked.saturating_add(CONTEXT);
    let digits = last.to_string().len();
    let mut shown = Vec::new();
    for number in first..=last {
        let Some(text) = line_of(frame, sources, i64::from(number) - i64::from(marked)) else { continue };
        let code = keep_start(&printable(&expand_tabs(&text)), WIDTH - digits - 6);
        let mark = if number == marked { ">" } else { " " };
        let line = format!("  {mark} {number:digits$} | {code}").trim_end().to_owned();
        shown.push(if number == marked { look.paint(Ink::Strong, &line) } else { line });
        if number == marked {
            shown.extend(caret(frame, &text, digits).map(|caret| look.paint(Ink::Alarm, &caret)));
        }
    }
    shown
}

fn line_of(frame: &SourceFrame, sources: &mut SourceCache, distance: i64) -> Option<String> {
    let line = u32::try_from(i64::from(frame.line?) + distance).ok()?;
    sources.source_line(frame.file.as_ref()?, line)
}

/// A mark below the column; columns count bytes from one.
fn caret(frame: &SourceFrame, text: &str, digits: usize) -> Option<String> {
    let before = text.get(..usize::try_from(frame.column?).ok()?.checked_sub(1)?)?;
    let position = expand_tabs(before).chars().count();
    let line = format!("    {:digits$} | {:position$}^", "", "");
    (line.len() <= WIDTH).then_some(line)
}

pub(crate) fn expand_tabs(text: &str) -> String {
    let mut expanded = String::new();
    let mut column = 0;
    for character in text.chars() {
        let width = if character == '\t' { TAB - column % TAB } else { 1 };
        match character {
            '\t' => expanded.extend(std::iter::repeat_n(' ', width)),
            _ => expanded.push(character),
        }
        column += width;
    }
    expanded
}
