//! Says why a schedule fails: which thread lost the turn behind what, and what others did meanwhile.
//!
//! Which accesses those are is known from the choices of the shrunk run (`plot`); a replay of its recording adds
//! stacks and values.

mod plot;
mod wording;

use super::failure::Failure;
use super::order::{Answer, Kind};
use super::search::Group;
use crate::inquiry::{self, Subject, Task};
use crate::naming::{Memory, Naming};
use crate::races::names::Names;
use crate::recordings::Trouble;
use crate::show;
use crate::study::Study;
use crate::study::races::Circumstance;
use crate::study::steps::Wanted;
use plot::{Hold, Interest, Made, Plot};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trace::Recording;
use trace::finding::{self, Address, Class, Evidence, Finding, Next, Passage, Place, Preemption, Step, Variable};

/// A failure with the recording of a run that has it.
pub struct Case<'a> {
    pub failure: &'a Failure,
    pub group: &'a Group,
    pub folder: &'a Path,
    /// As users call the recording.
    pub name: &'a str,
    pub answer: &'a Answer,
    /// Whether the recording is of a run with nothing needless in its schedule.
    pub is_shrunk: bool,
}

pub fn explain(case: &Case<'_>) -> Result<Finding, Trouble> {
    let Failure(signature) = case.failure;
    let rerun = format!("whodunit replay {}", case.name);
    let mut finding = Finding::proved(class(case.failure, case.answer), signature, &rerun);
    finding.count = case.group.times;
    finding.failure = Some(failure(case));
    finding.evidence =
        Evidence { recording: Some(case.name.to_owned()), seed: Some(case.group.seed), ..Evidence::default() };
    if case.is_shrunk {
        match Explanation::new(case) {
            Ok(explanation) => explanation.fill(&mut finding),
            // The failure has been found all the same.
            Err(Trouble::Refused(sentence)) => finding.notes.push(format!("It cannot be explained: {sentence}")),
            Err(trouble) => return Err(trouble),
        }
    } else if case.group.first > 0 {
        finding.notes.push("The schedule is as it was found: most of its switches may be needless.".to_owned());
    }
    finding.next.extend(next(case.name));
    Ok(finding)
}

fn class(Failure(signature): &Failure, answer: &Answer) -> Class {
    match answer.crash.as_ref().map(|crash| crash.kind) {
        Some(Kind::Signal(_)) => Class::Crash,
        Some(Kind::Assertion) => Class::FailedAssertion,
        Some(Kind::Deadlock) => Class::Deadlock,
        Some(Kind::Hang) => Class::Hang,
        None if signature.starts_with("--fail-if") => Class::FailedCheck,
        None if signature.starts_with("other output") => Class::WrongOutput,
        None if signature.starts_with("no end") => Class::Hang,
        None if signature.starts_with("exit status") => Class::BadExit,
        None => Class::Crash,
    }
}

fn failure(case: &Case<'_>) -> finding::Failure {
    let Failure(signature) = case.failure;
    let signal = match case.answer.crash.as_ref().map(|crash| crash.kind) {
        Some(Kind::Signal(signal)) => Some(signal),
        _ => None,
    };
    let exit_status = signature.strip_prefix("exit status ").and_then(|status| status.parse().ok());
    finding::Failure { text: signature.clone(), signal, exit_status, ..finding::Failure::default() }
}

fn next(name: &str) -> [Next; 2] {
    [
        Next { command: format!("whodunit replay --gdb {name}"), text: "the run, forwards and backwards".to_owned() },
        Next { command: format!("whodunit races {name}"), text: "what is not synchronised in it".to_owned() },
    ]
}

/// What the loader does, and what the C library does to its own memory, tells nothing.
fn interest(names: &Names, access: sched::Access) -> Interest {
    let (by, of) = (names.module(access.site), names.module(access.address));
    let is_library = |name: &Option<String>| name.as_deref().is_some_and(wording::is_library);
    match (is_library(&by), is_library(&of)) {
        (_, true) => Interest::None,
        _ if by.is_some_and(|name| name.starts_with("ld-linux")) => Interest::None,
        (true, false) => Interest::Some,
        (false, false) => Interest::Most,
    }
}

struct Explanation {
    plot: Plot,
    names: Names,
    /// By places in `Plot::made`.
    circumstances: BTreeMap<usize, Circumstance>,
}

impl Explanation {
    fn new(case: &Case<'_>) -> Result<Explanation, Trouble> {
        let recording = Recording::open(case.folder)?;
        let log = recording.logs().first().copied().unwrap_or(0);
        let recorded = show::recorded(&recording, log)
            .ok_or_else(|| Trouble::Refused("the recording holds no process".to_owned()))?;
        let naming = Naming::new(&recording, log, &recorded);
        let names = Names::new(recorded.space.clone(), naming);
        let plot = Plot::new(&case.answer.choices, |access| interest(&names, access));
        let circumstances = circumstances(case.folder, log, &plot)?;
        Ok(Explanation { plot, names, circumstances })
    }

    fn fill(&self, finding: &mut Finding) {
        finding.schedule = self.plot.holds.iter().map(|hold| self.preemption(hold)).collect();
        finding.steps = self.plot.told.iter().map(|(&index, &guilty)| self.step(index, guilty)).collect();
        let threads: BTreeSet<u32> = finding.steps.iter().map(|step| step.thread).collect();
        finding.threads =
            threads.into_iter().map(|thread| finding::Thread { thread, ..finding::Thread::default() }).collect();
        let mut seen = BTreeSet::new();
        for step in finding.steps.iter().filter(|step| step.guilty) {
            let place = &step.place;
            if seen.insert((place.file.clone(), place.line, place.module_offset.map(|offset| offset.0), step.thread)) {
                let (place, text) = (place.clone(), step.text.clone());
                finding.causes.push(finding::Cause { place, thread: Some(step.thread), text });
            }
        }
        finding.variable = self.plot.holds.iter().find_map(|hold| hold.until).map(|index| self.variable(index));
    }

    fn preemption(&self, hold: &Hold) -> Preemption {
        let after = hold.after.filter(|_| hold.is_preempted).map(|index| self.place(index)).unwrap_or_default();
        let (thread, passes) = match hold.until {
            Some(index) => (self.plot.made[index].at.thread, self.place(index)),
            None => (hold.by, Place::default()),
        };
        Preemption { thread: hold.held.0, after, until: Passage { thread: thread.0, passes } }
    }

    fn step(&self, index: usize, guilty: bool) -> Step {
        let Made { at, access } = self.plot.made[index];
        let place = self.place(index);
        let circumstance = self.circumstances.get(&index);
        let memory = self.memory(index, |memory| self.names.object(memory));
        let mut text = wording::deed(access.writes, memory.as_deref(), circumstance);
        // What a library did, it did for somebody.
        let function = self.stack(index).first().and_then(|innermost| innermost.function.clone());
        if let Some(function) = function.filter(|function| place.function.as_ref() != Some(function)) {
            text += &format!(", in {function}");
        }
        Step { thread: at.thread.0, place, text, guilty }
    }

    fn stack(&self, index: usize) -> Vec<Place> {
        let callers = self.circumstances.get(&index).map_or(&[][..], |circumstance| &circumstance.callers);
        self.names.stack(self.plot.made[index].access.site, callers)
    }

    /// The innermost function of the program's own, as far as can be told.
    fn place(&self, index: usize) -> Place {
        let stack = self.stack(index);
        let own = stack
            .iter()
            .find(|place| place.file.is_some() && !place.module.as_deref().is_some_and(wording::is_library));
        own.or(stack.first()).cloned().unwrap_or_default()
    }

    fn memory<T>(&self, index: usize, ask: impl Fn(&Memory<'_>) -> T) -> T {
        let Made { at, access } = self.plot.made[index];
        let circumstance = self.circumstances.get(&index);
        let block = circumstance.and_then(|circumstance| circumstance.block.as_ref());
        let bytes = circumstance.and_then(|told| told.before.as_ref().or(told.after.as_ref()));
        let size = bytes.map_or(1, |bytes| bytes.len() as u64);
        ask(&Memory { address: access.address, size, thread: at.thread.0, block, ..Memory::default() })
    }

    fn variable(&self, index: usize) -> Variable {
        let address = self.plot.made[index].access.address;
        let (name, type_name) = self.memory(index, |memory| (self.names.object(memory), self.names.memory(memory)));
        let type_name = type_name.and_then(|(_, type_name)| type_name);
        let (name, text) = if self.names.is_global(address) { (name, None) } else { (None, name) };
        Variable { name, type_name, address: Some(Address(address)), size: None, text }
    }
}

/// Has the recording replayed for stacks and values of what is told.
fn circumstances(folder: &Path, log: u32, plot: &Plot) -> Result<BTreeMap<usize, Circumstance>, Trouble> {
    let holds = plot.holds.iter().flat_map(|hold| [hold.after, hold.until]).flatten();
    let indices: BTreeSet<usize> = plot.told.keys().copied().chain(holds).collect();
    if indices.is_empty() {
        return Ok(BTreeMap::new());
    }
    let wanted = |&index: &usize| {
        let Made { at, access } = plot.made[index];
        Wanted { thread: at.thread.0, pc: access.site, time: at.time }
    };
    let study = Study::Steps(indices.iter().map(wanted).collect());
    let task = Task::Study { study, players: None };
    let told: Vec<Option<Circumstance>> = inquiry::ask(&Subject { folder, log, until: None }, &task)?;
    let known = indices.into_iter().zip(told).filter_map(|(index, told)| Some((index, told?)));
    // An instruction with several operands may have been counted several times.
    Ok(known.filter(|(index, told)| told.address == plot.made[*index].access.address).collect())
}
