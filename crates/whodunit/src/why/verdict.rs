//! From rounds to a finding.

use super::chain::{End, Trail, number};
use super::rounds::{Rounds, is_null};
use super::sites::{Area, Sites, is_library};
use program::symbols::SourceFrame;
use session::rerun::{Definition, Ending, Frame, Outcome};
use std::path::PathBuf;
use trace::finding::{Address, Cause, Class, Evidence, Failure, Finding, Place, Step, Thread, Variable};

pub fn finding(rounds: &Rounds, sites: &Sites, name: &str, log: u32) -> Finding {
    let first = &rounds.rounds[0];
    let last = &rounds.rounds[rounds.rounds.len() - 1];
    let class = class_of(&last.trails, &last.outcome, sites);
    let causes: Vec<Cause> = last.trails.iter().zip(&last.stacks).map(|(trail, stack)| cause(trail, stack)).collect();
    let place = causes.first().map(|cause| words_for(&cause.place)).unwrap_or_default();
    let title = format!("{place} {}", deed(class));
    let plan = serde_json::from_str(&rounds.plan.text()).ok();
    let mut finding = match &rounds.calm {
        Some(_) => Finding::proved(
            class,
            &title,
            &format!("whodunit rerun {name} --process {log} --plan '{}'", rounds.plan.text()),
        ),
        None => Finding::suspected(class, &title),
    };
    finding.causes = causes;
    finding.failure = Some(failure(&first.outcome, rounds.crash.signal));
    finding.variable = last.trails.first().and_then(|trail| variable(trail, sites));
    finding.steps = steps(rounds, sites);
    finding.threads = threads(&finding);
    finding.notes = notes(rounds);
    finding.evidence = Evidence { recording: Some(name.to_owned()), process: Some(log), plan, seed: None };
    finding
}

fn class_of(trails: &[Trail], outcome: &Outcome, sites: &Sites) -> Class {
    let moved = trails.iter().find(|trail| trail.end == End::Moved).and_then(Trail::origin);
    let area = moved.and_then(|origin| origin.memory.as_ref()).map(|memory| sites.area(number(&memory.address)));
    match area {
        Some(Area::Heap) => Class::HeapOverflow,
        Some(Area::Stack) => Class::StackOverflow,
        Some(Area::Global) => Class::GlobalOverflow,
        _ if is_null(outcome) => Class::NullDereference,
        _ => Class::MemoryCorruption,
    }
}

fn deed(class: Class) -> &'static str {
    match class {
        Class::HeapOverflow => "writes beyond a block of the heap",
        Class::StackOverflow => "writes beyond a variable on the stack",
        Class::GlobalOverflow => "writes beyond a global variable",
        Class::NullDereference => "makes the null pointer that is used later",
        _ => "makes the value that the program crashes on",
    }
}

fn words_for(place: &Place) -> String {
    place.function.clone().unwrap_or_else(|| "a statement".to_owned())
}

/// The statement is the innermost one with a line: libraries rarely are to blame.
fn cause(trail: &Trail, stack: &[Frame]) -> Cause {
    let frame = own_frame(stack);
    let thread = trail.origin().map(|origin| origin.thread);
    let text = trail.origin().map_or_else(String::new, told);
    Cause { place: frame.map(place_of_frame).unwrap_or_default(), thread, text }
}

/// The innermost statement of the program's own.
fn own_frame(stack: &[Frame]) -> Option<&Frame> {
    let own = stack.iter().filter(|frame| !is_library(&frame.module));
    own.clone().find(|frame| frame.line.is_some()).or(own.clone().next()).or(stack.first())
}

/// What a definition did, as the rest of a sentence.
fn told(definition: &Definition) -> String {
    match &definition.memory {
        Some(memory) if memory.writes => format!("writes {} bytes at {}", memory.size, memory.address),
        Some(memory) => format!("reads {} from {}", definition.value, memory.address),
        None => format!("computes {}", definition.value),
    }
}

fn place_of_frame(frame: &Frame) -> Place {
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

fn place_of(pc: u64, frame: &SourceFrame) -> Place {
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

fn variable(trail: &Trail, sites: &Sites) -> Option<Variable> {
    let memory = trail.origin()?.memory.as_ref().filter(|memory| memory.writes)?;
    let address = number(&memory.address);
    let text = match sites.area(address) {
        Area::Heap => "on the heap",
        Area::Stack => "on the stack",
        Area::Global => "among global variables",
        Area::Nowhere => return None,
    };
    Some(Variable {
        address: Some(Address(address)),
        size: Some(u64::from(memory.size)),
        text: Some(text.to_owned()),
        ..Variable::default()
    })
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

fn notes(rounds: &Rounds) -> Vec<String> {
    let ending = rounds.calm.as_ref().map(|outcome| match &outcome.ending {
        Ending::Exited { status } => format!("Without it the program ends with status {status}."),
        Ending::LeftTheRecording { needs } => {
            format!("Without it the program goes on beyond the crash, until it needs {needs}.")
        }
        Ending::Limit {} => "Without it the program goes on beyond the crash.".to_owned(),
        Ending::Killed { name, .. } => format!("Without it the program ends by {name}."),
        Ending::Deadlock {} | Ending::Stopped {} => "Without it the program goes on beyond the crash.".to_owned(),
    });
    let unfinished = "The program still crashes without it: this is on the way from the cause, not the cause.";
    vec![ending.unwrap_or_else(|| unfinished.to_owned())]
}
