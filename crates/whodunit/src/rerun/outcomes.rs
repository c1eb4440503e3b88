//! What the outcome of a what-if run means to verbs that ask for one: whether it is that of the recording, how it failed, and
//! the command that shows it again.

use super::carry_out;
use crate::recordings::Trouble;
use session::rerun::{Ending, Frame, Left, Outcome, Passage, Plan, Point, Step};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace::Recording;
use trace::finding::{Failure, Place};

/// Events of the clock that a what-if run may take after it has left its recording: seconds, but no eternity.
pub const LIMIT: u64 = 100_000_000;

/// No program has code here, so a plan that speaks of it never acts.
const NOWHERE: &str = "0x1";
/// The state of a thread that was still held in the end.
pub const HELD: &str = "held by the plan";

/// The run as it was recorded.
pub fn recorded(folder: &Path, log: u32) -> Result<Outcome, Trouble> {
    let until = Passage { thread: 2, passes: NOWHERE.to_owned(), clock: None, time: 1 };
    let idle = Plan::new(vec![Step::Hold { thread: 1, before: NOWHERE.to_owned(), clock: None, time: 1, until }]);
    carry_out(folder, log, &idle)
}

/// A run that leaves the recording where another one did and changes nothing else: whatever this does to the run, the order
/// that the other one has brought about has no part in it.
pub fn counterpart(left: &Left) -> Plan {
    from_there(left, Vec::new())
}

/// Does as recorded up to where another run has left the recording, and carries holds out from there on, which count from the start.
pub fn from_there(left: &Left, holds: Vec<Step>) -> Plan {
    Plan { limit: Some(LIMIT), ..Plan::new(holds.into_iter().chain([leaving_at(left)]).collect()) }
}

/// Does as recorded up to where another run has left the recording.
pub fn leaving_at(left: &Left) -> Step {
    Step::Follow(Point {
        thread: Some(left.thread),
        clock: Some(left.clock),
        at: Some(left.pc.clone()),
        time: 1,
        ..Point::default()
    })
}

/// Whether both ended in the same way and wrote the same.
pub fn is_same(recorded: &Outcome, outcome: &Outcome) -> bool {
    outcome.ending == recorded.ending && lines(outcome) == lines(recorded)
}

/// What was written, line by line, in no order: that of threads may change without harm.
fn lines(outcome: &Outcome) -> Vec<(i32, String)> {
    let mut streams: BTreeMap<i32, String> = BTreeMap::new();
    for output in &outcome.output {
        streams.entry(output.descriptor).or_default().push_str(&output.text);
    }
    let split =
        |(descriptor, text): (i32, String)| text.lines().map(|line| (descriptor, line.to_owned())).collect::<Vec<_>>();
    let mut lines: Vec<(i32, String)> = streams.into_iter().flat_map(split).collect();
    lines.sort();
    lines
}

/// What was written to standard output.
pub fn written(outcome: &Outcome) -> String {
    let output = outcome.output.iter().filter(|output| output.descriptor == 1);
    output.map(|output| output.text.as_str()).collect()
}

/// The command that carries the plan out again.
pub fn command(recording: &Recording, name: &str, log: u32, plan: &Plan) -> String {
    let process = match recording.logs().first() {
        Some(first) if *first == log => String::new(),
        _ => format!(" --process {log}"),
    };
    format!("whodunit rerun {name}{process} --plan <(echo '{}')", plan.text())
}

/// Why the order that a plan holds threads for did not come about, if it did not.
pub fn obstacle(outcome: &Outcome, held: u32) -> Option<String> {
    let is_still_held = outcome.threads.iter().any(|thread| thread.thread == held && thread.state == HELD);
    let never_came = outcome.left.is_none() || is_still_held;
    let remark = outcome.remarks.first().cloned();
    remark.or_else(|| never_came.then(|| "the other thread did not come to its access".to_owned()))
}

pub fn failure(outcome: &Outcome) -> Failure {
    let (signal, exit_status) = match &outcome.ending {
        Ending::Killed { signal, .. } => (Some(*signal), None),
        Ending::Exited { status } => (None, Some(*status)),
        _ => (None, None),
    };
    let text = failure_text(&outcome.ending);
    Failure { text, signal, exit_status, thread: Some(outcome.thread), at: failing_frame(outcome) }
}

fn failure_text(ending: &Ending) -> String {
    match ending {
        Ending::Killed { name, address: Some(address), .. } => format!("{name} at {address}"),
        Ending::Killed { name, .. } => name.clone(),
        Ending::Exited { status: 0 } => "the program writes something else".to_owned(),
        Ending::Exited { status } => format!("the program exits with status {status}"),
        Ending::Deadlock {} => "no thread can ever run again".to_owned(),
        Ending::Limit {} => "the program does not come to an end".to_owned(),
        Ending::LeftTheRecording { .. } | Ending::OutOfInput {} | Ending::Stopped {} => String::new(),
    }
}

/// Where the thread that failed was: the innermost function with a source line of the program's.
pub fn failing_frame(outcome: &Outcome) -> Option<Place> {
    if !matches!(outcome.ending, Ending::Killed { .. }) {
        return None;
    }
    let thread = outcome.threads.iter().find(|thread| thread.thread == outcome.thread)?;
    let own = |frame: &&Frame| frame.line.is_some() && !frame.module.starts_with("libc.so");
    let frame = thread.stack.iter().find(own).or(thread.stack.first())?;
    Some(Place {
        function: frame.function.clone(),
        file: frame.file.as_ref().map(PathBuf::from),
        line: frame.line,
        module: Some(frame.module.clone()),
        ..Place::default()
    })
}

/// An outcome for tests, of a run that left its recording.
#[cfg(test)]
pub fn made_up(ending: Ending, text: &str) -> Outcome {
    use session::rerun::Output;
    Outcome {
        schema: Outcome::SCHEMA.to_owned(),
        ending,
        thread: 1,
        clock: 1,
        events: 1,
        left: Some(Left { event: 1, thread: 1, clock: 1, pc: String::new(), place: String::new() }),
        threads: Vec::new(),
        output: vec![Output { descriptor: 1, text: text.to_owned(), bytes: text.len() as u64 }],
        schedule: Vec::new(),
        spent: 1,
        origins: None,
        relaid: None,
        changed: Vec::new(),
        remarks: Vec::new(),
    }
}
