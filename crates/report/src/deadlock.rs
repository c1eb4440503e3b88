//! A program in which nobody can go on.

use program::source::SourceCache;

use crate::excerpt;
use crate::look::{Ink, Look, WIDTH};
use crate::stack::{self, Extent};
use crate::text::{Indent, count, keep_start, printable, wrap};
pub use crate::threads::{FrameFacts, ThreadFacts};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockFacts {
    pub program: String,
    pub pid: i32,
    pub threads: Vec<ThreadFacts>,
}

/// The report, ending in a line feed.
pub fn render_deadlock(facts: &DeadlockFacts, sources: &mut SourceCache, look: &Look) -> String {
    let mut lines: Vec<String> = headline(facts).iter().map(|line| look.paint(Ink::Alarm, line)).collect();
    for thread in &facts.threads {
        lines.push(String::new());
        lines.extend(stack::heading(thread, look));
        lines.extend(waiting_line(thread, sources, look));
        lines.extend(stack::frames(thread, Extent::FULL, look));
    }
    lines.push(String::new());
    lines.extend(ADVICE.map(|line| look.paint(Ink::Faint, line)));
    lines.join("\n") + "\n"
}

const ADVICE: [&str; 2] = [
    "No thread is left that could wake one of these.",
    "To keep waiting all the same, for a signal from outside: --on-deadlock wait",
];

fn headline(facts: &DeadlockFacts) -> Vec<String> {
    let who = if facts.threads.len() == 1 { "The only thread" } else { "Every thread" };
    let threads = count(facts.threads.len(), "thread");
    let text = format!("{who} waits: deadlock in {} (process {}, {threads})", printable(&facts.program), facts.pid);
    wrap(&text, WIDTH, Indent(0, 4))
}

/// The statement in which the thread waits: the innermost one with a source that can be read.
fn waiting_line(thread: &ThreadFacts, sources: &mut SourceCache, look: &Look) -> Option<String> {
    let frame = thread.functions().find(|frame| excerpt::is_readable(frame, sources))?;
    let line = keep_start(&excerpt::single_line(frame, sources)?, WIDTH - 4);
    Some(format!("  > {}", look.paint(Ink::Strong, &line)))
}
