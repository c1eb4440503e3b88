//! From rounds to a finding.

use super::background;
use super::blame::{self, Overrun};
use super::chain::{End, Trail, number};
use super::check::Checks;
use super::endings::{self, ABORT};
use super::rounds::Rounds;
use super::sites::{Area, Sites, is_foreign_source, is_library};
use program::symbols::SourceFrame;
use session::rerun::{Definition, Ending, Frame, Outcome};
use std::path::PathBuf;
use trace::finding::{Address, Cause, Class, Evidence, Failure, Finding, Place, Step, Thread, Variable};

/// The process image that is looked at.
pub struct Subject<'a> {
    /// As users call the recording.
    pub name: &'a str,
    pub log: u32,
}

pub fn finding(rounds: &Rounds, checks: &Checks<'_>, subject: &Subject<'_>) -> Finding {
    let sites = checks.sites;
    let Subject { name, log } = subject;
    let first = &rounds.rounds[0];
    let last = rounds.guilty();
    let class = class_of(rounds, sites);
    // Of memory errors, the first one counts; what others came to is its consequence.
    let n_causes = if last.is_checked() { 1 } else { last.trails.len() };
    let causes: Vec<Cause> =
        last.trails.iter().zip(&last.stacks).take(n_causes).map(|(trail, stack)| cause(trail, stack, sites)).collect();
    let place = causes.first().map(|cause| words_for(&cause.place)).unwrap_or_default();
    let title = format!("{place} {}", deed(class));
    let mut finding = match rounds.calm.as_ref().map(|outcome| &outcome.ending) {
        // What ends in any other way may not have come to where it would have crashed.
        Some(Ending::Exited { .. }) => {
            let plan = rounds.plan.text();
            Finding::proved(class, &title, &format!("whodunit rerun {name} --process {log} --plan '{plan}'"))
        }
        _ => Finding::suspected(class, &title),
    };
    finding.causes = single(causes);
    finding.failure = Some(failure(&first.outcome, rounds.crash.signal));
    finding.variable = last.trails.first().and_then(variable);
    finding.steps = steps(rounds, sites);
    finding.threads = threads(&finding);
    finding.notes = notes(rounds);
    let background = background::of(last, class, checks);
    finding.grounds = background.grounds;
    finding.sides = background.sides;
    if let (Some(made), Some(stack), Some(side)) = (last.beyond(), last.stacks.first(), finding.sides.first()) {
        let made_by: Vec<u64> = side.stack.iter().filter_map(|place| place.pc).map(|pc| pc.0).collect();
        let overrun = Overrun { thread: side.thread, size: made.size, stack, made_by: &made_by };
        blame::assign(&mut finding, &overrun, sites);
    }
    let plan = serde_json::from_str(&rounds.plan.text()).ok();
    finding.evidence =
        Evidence { recording: Some((*name).to_owned()), process: Some(*log), plan, ..Evidence::default() };
    finding
}

/// Stores of one statement are one cause.
fn single(causes: Vec<Cause>) -> Vec<Cause> {
    let mut kept: Vec<Cause> = Vec::new();
    for cause in causes {
        let is_same = |other: &Cause| (&other.place.file, other.place.line) == (&cause.place.file, cause.place.line);
        if cause.place.line.is_none() || !kept.iter().any(is_same) {
            kept.push(cause);
        }
    }
    kept
}

/// The class that the memory check gives, or what can be said without.
fn class_of(rounds: &Rounds, sites: &Sites) -> Class {
    let Some(trail) = rounds.guilty().trails.first() else { return Class::MemoryCorruption };
    if let Some(class) = trail.check.class {
        return class;
    }
    if endings::is_fortified(&rounds.rounds[0].outcome) {
        return Class::BufferOverflow;
    }
    let origin = trail.origin();
    let stored = origin.and_then(|origin| origin.memory.as_ref()).filter(|memory| memory.writes);
    let area = stored.map(|memory| sites.area(number(&memory.address)));
    let is_null = origin.is_some_and(|origin| number(&origin.value) == 0);
    match area {
        Some(Area::Stack) if trail.end == End::Moved => Class::StackOverflow,
        Some(Area::Global) if trail.end == End::Moved => Class::GlobalOverflow,
        _ if trail.end == End::Moved => Class::BufferOverflow,
        _ if rounds.crash.signal == ABORT => Class::FailedAssertion,
        _ if is_null => Class::NullDereference,
        _ => Class::WrongPointer,
    }
}

pub fn deed(class: Class) -> &'static str {
    match class {
        Class::HeapOverflow => "writes beyond a block of the heap",
        Class::StackOverflow => "writes beyond a variable on the stack",
        Class::GlobalOverflow => "writes beyond a global variable",
        Class::BufferOverflow => "writes beyond a variable",
        Class::UseAfterFree => "writes to a block that was given back",
        Class::DoubleFree => "gives a block back that is given back again",
        Class::UninitialisedRead => "reads what nobody has stored",
        Class::FailedAssertion => "makes the value that a check fails on",
        Class::NullDereference => "makes the null pointer that is used later",
        _ => "makes the value that the program crashes on",
    }
}

pub fn words_for(place: &Place) -> String {
    place.function.as_ref().map_or_else(|| "a statement".to_owned(), |function| format!("`{function}`"))
}

/// The statement is the innermost one with a line: libraries rarely are to blame.
fn cause(trail: &Trail, stack: &[Frame], sites: &Sites) -> Cause {
    let place = statement(stack, sites);
    let thread = trail.origin().map(|origin| origin.thread);
    let text = trail.origin().map_or_else(String::new, told);
    Cause { place: place.unwrap_or_default(), thread, text }
}

/// The statement of a stack that is to be told.
pub fn statement(stack: &[Frame], sites: &Sites) -> Option<Place> {
    tail_place(stack, sites).or_else(|| own_frame(stack).map(place_of_frame))
}

/// Where a function of the program's own went on as one of a library, and left no frame.
fn tail_place(stack: &[Frame], sites: &Sites) -> Option<Place> {
    let position = stack.iter().position(|frame| !is_library(&frame.module)).filter(|position| *position > 0)?;
    let pc = sites.tail_jump(number(&stack[position].pc))?;
    let frames = sites.frames(pc);
    let frame = frames.first().filter(|frame| frame.line.is_some())?;
    Some(place_of(pc, frame))
}

/// The innermost statement of the program's own.
fn own_frame(stack: &[Frame]) -> Option<&Frame> {
    let own = stack.iter().filter(|frame| !is_library(&frame.module));
    let is_foreign = |frame: &&Frame| frame.file.as_deref().is_some_and(is_foreign_source);
    let written = own.clone().find(|frame| frame.line.is_some() && !is_foreign(frame));
    written.or_else(|| own.clone().find(|frame| frame.line.is_some())).or(own.clone().next()).or(stack.first())
}

/// What a definition did, as the rest of a sentence.
fn told(definition: &Definition) -> String {
    match &definition.memory {
        Some(memory) if memory.writes && memory.size == 1 => format!("writes a byte at {}", memory.address),
        Some(memory) if memory.writes => format!("writes {} bytes at {}", memory.size, memory.address),
        Some(memory) => format!("reads {} from {}", definition.value, memory.address),
        None => format!("computes {}", definition.value),
    }
}

pub fn place_of_frame(frame: &Frame) -> Place {
    Place {
        function: frame.function.clone(),
        file: frame.file.as_ref().map(PathBuf::from),
        line: frame.line,
        module: Some(frame.module.clone()),
        module_offset: Some(Address(number(&frame.module_offset))),
        pc: Some(Address(number(&frame.pc))),
        ..Place::default()
    }
}

pub fn place_of(pc: u64, frame: &SourceFrame) -> Place {
    Place {
        function: frame.function.clone(),
        file: frame.file.clone(),
        line: frame.line,
        module: Some(frame.module.clone()),
        module_offset: Some(Address(frame.module_offset)),
        pc: Some(Address(pc)),
        ..Place::default()
    }
}

fn failure(outcome: &Outcome, signal: i32) -> Failure {
    let thread = outcome.threads.iter().find(|thread| thread.thread == outcome.thread);
    let at = thread.and_then(|thread| own_frame(&thread.stack));
    let text = match &outcome.ending {
        Ending::Killed { name, address: Some(address), .. } => format!("{name} at {address}"),
        Ending::Killed { name, .. } => name.clone(),
        _ => report::signals::name(signal),
    };
    Failure { text, signal: Some(signal), exit_status: None, thread: Some(outcome.thread), at: at.map(place_of_frame) }
}

fn variable(trail: &Trail) -> Option<Variable> {
    let memory = trail.origin()?.memory.as_ref()?;
    let address = Some(Address(number(&memory.address)));
    let (name, text) = (trail.check.name.clone(), trail.check.text.clone());
    Some(Variable { name, address, size: Some(u64::from(memory.size)), text, ..Variable::default() })
}

/// The way of the value from its origin to the first crash, and what crashed on the way.
fn steps(rounds: &Rounds, sites: &Sites) -> Vec<Step> {
    let mut steps = Vec::new();
    for (position, round) in rounds.rounds.iter().enumerate().rev() {
        let is_last = position + 1 == rounds.rounds.len();
        let Some(trail) = round.trails.first() else { continue };
        let origin = trail.origin().map(|origin| origin.number);
        for definition in trail.path.iter().skip(1).rev() {
            let is_origin = origin == Some(definition.number);
            steps.push(step(definition, told(definition), is_last && is_origin, sites));
        }
        if let Some(failing) = trail.path.first() {
            let text = match (position, &round.outcome.ending) {
                (0, Ending::Killed { name, .. }) => format!("crashes: {name}"),
                (_, Ending::Killed { name, .. }) => format!("would crash next: {name}"),
                _ => "fails".to_owned(),
            };
            steps.push(step(failing, text, false, sites));
        }
    }
    steps
}

fn step(definition: &Definition, text: String, guilty: bool, sites: &Sites) -> Step {
    let pc = number(&definition.pc);
    let place = sites.frames(pc).first().map(|frame| place_of(pc, frame)).unwrap_or_default();
    Step { thread: definition.thread, place, text, guilty }
}

fn threads(finding: &Finding) -> Vec<Thread> {
    let mut numbers: Vec<u32> = finding.steps.iter().map(|step| step.thread).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(|thread| Thread { thread, ..Thread::default() }).collect()
}

/// What became of the program without the cause.
pub fn sequel(rounds: &Rounds) -> String {
    let ending = match rounds.calm.as_ref().map(|outcome| &outcome.ending) {
        None => "still crashes",
        Some(Ending::Exited { status }) => return format!("Without it the program ends with status {status}."),
        Some(Ending::Killed { name, .. }) => return format!("Without it the program ends by {name}."),
        Some(Ending::LeftTheRecording { needs }) => {
            return format!("Without it the program goes on beyond the crash, until it needs {needs}.");
        }
        Some(Ending::OutOfInput {}) => "goes on beyond the crash, until it waits for more input than was recorded",
        Some(Ending::Limit {} | Ending::Deadlock {} | Ending::Stopped {}) => "goes on beyond the crash",
    };
    format!("Without it the program {ending}.")
}

fn notes(rounds: &Rounds) -> Vec<String> {
    let remarks = rounds.calm.iter().flat_map(|outcome| &outcome.remarks);
    let mut notes: Vec<String> = remarks.map(|remark| format!("In the run without it, {remark}.")).collect();
    if rounds.calm.is_none() {
        notes.push("This is on the way from the cause to the crash, not the cause itself.".to_owned());
    }
    notes
}
