//! A thread and its stack, as lines.

use program::symbols::{SourceFrame, UNMAPPED};

use crate::look::{Ink, Look};
use crate::text::{Indent, count, keep_end, keep_start, printable, width, wrap};
use crate::threads::{FrameFacts, ThreadFacts};

/// How much of a stack is shown. Of endless recursion, the start and what led to it matter.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub innermost: usize,
    pub outermost: usize,
}

impl Extent {
    pub const FULL: Extent = Extent { innermost: 40, outermost: 10 };
    pub const SHORT: Extent = Extent { innermost: 6, outermost: 0 };
}

/// Where the column after the function names starts at most.
const MAX_NAME_WIDTH: usize = 44;

/// `Thread 2 "worker" (tid 4712), waiting for a futex at 0x7f10:`
pub(crate) fn heading(thread: &ThreadFacts, look: &Look) -> Vec<String> {
    let name = thread.name.as_ref().map(|name| format!(" \"{}\"", printable(name))).unwrap_or_default();
    let text = format!("Thread {}{name} (tid {}), {}:", thread.id, thread.tid, printable(&thread.state));
    wrap(&text, look.width(), Indent(0, 4)).iter().map(|line| look.paint(Ink::Strong, line)).collect()
}

pub(crate) fn frames(thread: &ThreadFacts, extent: Extent, look: &Look) -> Vec<String> {
    if thread.frames.is_empty() {
        return vec!["  (no frames)".to_owned()];
    }
    let total = thread.frames.len();
    let gap_start = extent.innermost.min(total);
    let gap_end = total.saturating_sub(extent.outermost).max(gap_start);
    // Leaving one frame out saves nothing.
    let gap_end = if gap_end - gap_start == 1 { gap_start } else { gap_end };
    let numbered = number(&thread.frames);
    let shown = |position: usize| position < gap_start || position >= gap_end;
    let columns = Columns::fitting(numbered.iter().filter(|entry| shown(entry.frame_position)));
    let mut lines = Vec::new();
    let mut gap_pending = gap_end > gap_start;
    for entry in &numbered {
        if shown(entry.frame_position) {
            lines.extend(entry.lines(columns, look));
        } else if std::mem::take(&mut gap_pending) {
            lines.push(format!("      ... {} left out ...", count(gap_end - gap_start, "frame")));
        }
    }
    if thread.truncated {
        lines.push("      ... the stack goes on; its end is not known ...".to_owned());
    }
    lines
}

/// A function of the stack with the number that it is shown under.
struct Entry<'a> {
    number: usize,
    frame_position: usize,
    pc: u64,
    frame: Option<&'a SourceFrame>,
}

/// Every function gets a number, inlined ones too.
fn number(frames: &[FrameFacts]) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    for (frame_position, facts) in frames.iter().enumerate() {
        let resolved: Vec<Option<&SourceFrame>> =
            if facts.resolved.is_empty() { vec![None] } else { facts.resolved.iter().map(Some).collect() };
        for frame in resolved {
            entries.push(Entry { number: entries.len(), frame_position, pc: facts.pc, frame });
        }
    }
    entries
}

#[derive(Clone, Copy)]
struct Columns {
    number: usize,
    name: usize,
}

impl Columns {
    fn fitting<'a>(entries: impl Iterator<Item = &'a Entry<'a>>) -> Columns {
        let mut columns = Columns { number: 1, name: 0 };
        for entry in entries {
            let name = width(&entry.name());
            columns.number = columns.number.max(entry.number.to_string().len());
            columns.name = columns.name.max(if name <= MAX_NAME_WIDTH { name } else { 0 });
        }
        columns
    }
}

impl Entry<'_> {
    fn name(&self) -> String {
        let Some(frame) = self.frame else { return "?".to_owned() };
        let name = frame.function.as_deref().map_or("?".to_owned(), printable);
        if frame.inlined { format!("{name} (inlined)") } else { name }
    }

    /// One line, or two if the name leaves no room for the place.
    fn lines(&self, columns: Columns, look: &Look) -> Vec<String> {
        let number = format!("  #{:<1$}  ", self.number, columns.number);
        let name = self.name();
        let used = width(&number) + columns.name + 2;
        let place = self.place(look);
        if width(&name) <= columns.name && used + width(&place) <= look.width() {
            let padding = " ".repeat(columns.name - width(&name));
            return vec![format!("{number}{}{padding}  {place}", look.paint(Ink::Function, &name))];
        }
        let name = keep_start(&name, look.width() - width(&number));
        let indent = " ".repeat(width(&number) + 4);
        let place = keep_end(&place, look.width() - indent.len());
        vec![format!("{number}{}", look.paint(Ink::Function, &name)), format!("{indent}{place}")]
    }

    fn place(&self, look: &Look) -> String {
        match self.frame {
            Some(frame) => place(frame, look),
            None => format!("{:#x}", self.pc),
        }
    }
}

/// The source line, or else the module with an offset.
pub(crate) fn place(frame: &SourceFrame, look: &Look) -> String {
    let Some(file) = &frame.file else {
        return match frame.module.as_str() {
            UNMAPPED => format!("{:#x} (unmapped)", frame.module_offset),
            module => printable(&format!("{module}+{:#x}", frame.module_offset)),
        };
    };
    let file = printable(&look.path(file));
    match (frame.line, frame.column) {
        (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
        (Some(line), None) => format!("{file}:{line}"),
        (None, _) => file,
    }
}
