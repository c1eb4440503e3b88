//! An outcome for people.

use super::layout::overrun;
use crate::recordings::text::{Ink, Paint, count, escaped};
use session::rerun::{Ending, Frame, Outcome, Relaid, Thread};
use std::fmt::Write as _;
use std::path::Path;

/// More frames of a stack are in the JSON.
const SHOWN_FRAMES: usize = 12;
/// More output is, too.
const SHOWN_LINES: usize = 40;

pub fn render(outcome: &Outcome, paint: Paint) -> String {
    let mut text = String::new();
    let ink = if outcome.is_good() { Ink::Strong } else { Ink::Alarm };
    let _ = writeln!(text, "{}", paint.paint(ink, &headline(outcome)));
    match &outcome.left {
        Some(left) => {
            let place = if left.place.is_empty() { left.pc.clone() } else { escaped(&left.place) };
            let _ = writeln!(
                text,
                "  left the recording before event {}: thread {} at {place}, clock {}",
                left.event, left.thread, left.clock
            );
            let switches = count(outcome.schedule.len(), "switch").replace("switchs", "switches");
            let _ = writeln!(text, "  from there on: {switches}, {} spent", count(outcome.spent as usize, "event"));
        }
        None => text += "  as recorded: the plan never came to act\n",
    }
    if let Some(relaid) = &outcome.relaid {
        let Relaid { blocks, globals, locals, broken } = relaid;
        let _ = writeln!(text, "  moved: {blocks} blocks of the heap, {globals} globals, {locals} variables of frames");
        let more = if outcome.ending == (Ending::Stopped {}) { 1 } else { 0 };
        for broken in broken.iter().skip(more) {
            let _ = writeln!(text, "  written to: {}", escaped(&overrun(broken)));
        }
    }
    for remark in &outcome.remarks {
        let _ = writeln!(text, "  note: {remark}");
    }
    if !matches!(outcome.ending, Ending::Exited { .. }) {
        let culprit = outcome.threads.iter().filter(|thread| thread.thread == outcome.thread);
        let others = outcome.threads.iter().filter(|thread| thread.thread != outcome.thread);
        culprit.chain(others).for_each(|thread| text += &stack(thread, paint));
    }
    text + &output(outcome)
}

fn headline(outcome: &Outcome) -> String {
    let thread = outcome.thread;
    let broken = outcome.relaid.as_ref().and_then(|relaid| relaid.broken.first());
    if let Some(broken) = broken.filter(|_| outcome.ending == Ending::Stopped {}) {
        return format!("a guard was written to: {}, in thread {thread}", escaped(&overrun(broken)));
    }
    match &outcome.ending {
        Ending::Exited { status } => format!("exited with status {status}"),
        Ending::Killed { name, address: Some(address), .. } => {
            format!("killed by {name} at {address}, in thread {thread}")
        }
        Ending::Killed { name, .. } => format!("killed by {name}, in thread {thread}"),
        Ending::Deadlock {} => "deadlock: no thread can ever run again".to_owned(),
        Ending::Limit {} => "still running at the limit of events; --limit allows more".to_owned(),
        Ending::OutOfInput {} => "waits for input when all that was recorded has come".to_owned(),
        Ending::LeftTheRecording { needs } => {
            format!("left the recording: thread {thread} needs {}, which it does not tell", escaped(needs))
        }
        Ending::Stopped {} => format!("stopped as the plan says, in thread {thread}"),
    }
}

fn stack(thread: &Thread, paint: Paint) -> String {
    let mut text = format!("\n  thread {}: {}\n", thread.thread, escaped(&thread.state));
    for (position, frame) in thread.stack.iter().take(SHOWN_FRAMES).enumerate() {
        let name = escaped(frame.function.as_deref().unwrap_or("?"));
        let _ = writeln!(text, "    #{position:<2} {}  {}", paint.paint(Ink::Function, &name), escaped(&source(frame)));
    }
    if thread.stack.len() > SHOWN_FRAMES {
        let _ = writeln!(text, "    ... and {} more", thread.stack.len() - SHOWN_FRAMES);
    }
    text
}

/// Where the code of a frame is: its line, or its place in the module.
pub fn source(frame: &Frame) -> String {
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => {
            let name = Path::new(file).file_name().map_or(file.clone(), |name| name.to_string_lossy().into_owned());
            format!("{name}:{line}")
        }
        _ => format!("{}+{}", frame.module, frame.module_offset),
    }
}

fn output(outcome: &Outcome) -> String {
    let shown = outcome.output.iter().filter(|output| matches!(output.descriptor, 1 | 2));
    let written: String = shown.map(|output| output.text.as_str()).collect();
    if written.is_empty() {
        return String::new();
    }
    let lines: Vec<&str> = written.lines().collect();
    let mut text = "\n  output:\n".to_owned();
    for line in lines.iter().take(SHOWN_LINES) {
        let _ = writeln!(text, "  | {}", escaped(line));
    }
    if lines.len() > SHOWN_LINES {
        let _ = writeln!(text, "  ... and {}; --json has them all", count(lines.len() - SHOWN_LINES, "line"));
    }
    text
}
