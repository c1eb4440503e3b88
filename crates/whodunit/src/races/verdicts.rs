//! From races in numbers to findings.

use super::Subject;
use super::flip::{Flip, Flips};
use super::names::Names;
use super::passes::{Occurrence, Seen};
use crate::naming::Memory;
use crate::study::races::Circumstance;
use analysis::races::{Action, AdHoc, Race, Side};
use analysis::suppressions::{Frame, Suppressions};
use std::collections::BTreeSet;
use std::path::Path;
use trace::finding::{
    Address, Cause, Class, Evidence, Finding, Findings, Lock, LockMode, Next, Place, Step, Thread, Variable,
};
use trace::stream;

/// Values beyond this are no numbers to people.
pub const LONGEST_NUMBER: usize = 8;

const NOTES: [&str; 2] = [
    "Races whose accesses happened to be ordered in this run are not seen: record another (`--seed`), or hunt.",
    "Locks of the C library's own, such as that of standard output, order accesses too.",
];

/// Adds what was seen to the findings.
pub(super) fn judge(findings: &mut Findings, court: &Court<'_>, mut flips: Flips<'_>) {
    let seen = court.seen;
    let mut told = BTreeSet::new();
    for (number, race) in seen.found.races.iter().enumerate() {
        for occurrence in seen.occurrences(number) {
            if court.is_internal(&occurrence) {
                continue;
            }
            let stacks = [court.stack(occurrence.first), court.stack(occurrence.second)];
            if !told.insert(signature(&stacks)) {
                continue;
            }
            if court.is_suppressed(&stacks) {
                findings.summary.suppressed += 1;
                continue;
            }
            let flip = if race.both_orders { None } else { flips.try_out(&occurrence) };
            findings.push(court.finding(race, &occurrence, stacks, flip));
        }
    }
    // Waiting for an atomic variable is what it is for.
    let is_atomic = |ad_hoc: &&AdHoc| {
        [ad_hoc.reader, ad_hoc.writer].iter().any(|side| court.names.is_atomic(side.pc, ad_hoc.address))
    };
    for ad_hoc in seen.ad_hoc.iter().filter(|ad_hoc| !is_atomic(ad_hoc)) {
        findings.push(court.ad_hoc(ad_hoc));
    }
    findings.summary.left_out = seen.found.further_races;
    findings.notes = NOTES.map(str::to_owned).to_vec();
}

/// Races with the same functions and lines on both stacks are one to people.
fn signature(stacks: &[Vec<Place>; 2]) -> Vec<String> {
    let mut sides = stacks.each_ref().map(|stack| {
        let frames = stack.iter().map(|place| format!("{:?} {:?} {:?}", place.function, place.file, place.line));
        frames.collect::<Vec<_>>().join("\n")
    });
    sides.sort();
    sides.to_vec()
}

type Told<'a> = (&'a Side, Option<&'a Circumstance>);

pub(super) struct Court<'a> {
    pub seen: &'a Seen,
    pub names: &'a Names,
    pub suppressions: &'a [Suppressions],
    pub subject: &'a Subject<'a>,
}

impl Court<'_> {
    /// What the C library does to memory of its own is no race of the program's.
    fn is_internal(&self, occurrence: &Occurrence<'_>) -> bool {
        let is_library = |side: &Side| self.names.is_in_c_library(side.pc);
        let (first, second) = (is_library(occurrence.first.0), is_library(occurrence.second.0));
        if !first && !second {
            return false;
        }
        // What the library does when a thread ends, nobody has called.
        let is_uncalled = |(side, circumstance): Told<'_>| {
            let mut callers = circumstance.into_iter().flat_map(|circumstance| &circumstance.callers);
            is_library(side) && callers.all(|caller| self.names.is_in_c_library(*caller))
        };
        if is_uncalled(occurrence.first) || is_uncalled(occurrence.second) {
            return true;
        }
        let blocks = [occurrence.first.1, occurrence.second.1];
        let block = blocks.into_iter().flatten().find_map(|circumstance| circumstance.block.as_ref());
        match block {
            Some(block) => self.names.is_in_c_library(block.site),
            // In no block and no module: an allocator's own words, or a stack.
            None if !self.names.is_in_module(occurrence.address) => first && second,
            None => self.names.is_in_c_library(occurrence.address),
        }
    }

    fn stack(&self, (side, circumstance): Told<'_>) -> Vec<Place> {
        let callers = circumstance.map_or(&[][..], |circumstance| &circumstance.callers);
        // A block is given back at the place where the function for that was called.
        match side.action {
            Action::Freed => self.names.callers(callers),
            _ => self.names.stack(side.pc, callers),
        }
    }

    fn is_suppressed(&self, stacks: &[Vec<Place>; 2]) -> bool {
        let frames = stacks.each_ref().map(|stack| stack.iter().map(as_frame).collect::<Vec<_>>());
        let stacks = frames.each_ref().map(Vec::as_slice);
        self.suppressions.iter().any(|suppressions| suppressions.of_race(&stacks).is_some())
    }

    fn finding(
        &self,
        race: &Race,
        occurrence: &Occurrence<'_>,
        stacks: [Vec<Place>; 2],
        flip: Option<Flip>,
    ) -> Finding {
        let sides = [occurrence.first, occurrence.second];
        let variable = self.variable(occurrence);
        let title = title(&variable, &sides, &stacks);
        let is_release = sides.iter().any(|(side, _)| side.action == Action::Freed);
        let class = if is_release { Class::UseAfterFree } else { Class::DataRace };
        let mut finding = match (race.both_orders, &flip) {
            (true, _) => Finding::proved(class, &title, &self.own_command()),
            (false, Some(Flip::Shown(shown))) => Finding::proved(class, &title, &shown.command),
            (false, _) => Finding::suspected(class, &title),
        };
        let what = short_name(&variable);
        for ((side, circumstance), stack) in sides.into_iter().zip(stacks) {
            let text = deed(side, circumstance, what.as_deref());
            let place = stack.first().cloned().unwrap_or_default();
            finding.causes.push(Cause { place: place.clone(), thread: Some(side.thread), text: text.clone() });
            finding.steps.push(Step { thread: side.thread, place, text: text.clone(), guilty: true });
            let locks = side.locks.as_ref().map(|locks| locks.iter().map(|lock| self.lock(lock)).collect());
            finding.sides.push(trace::finding::Side { thread: side.thread, text, stack, locks, waits_for: None });
        }
        finding.threads = self.threads(&sides);
        finding.both_orders = Some(race.both_orders);
        finding.count = race.count;
        finding.next = self.next(&variable);
        finding.variable = Some(variable);
        finding.evidence = self.evidence();
        if let Some(flip) = flip {
            flip.describe(&mut finding);
        }
        finding
    }

    /// Shows races again that came in both orders.
    fn own_command(&self) -> String {
        format!("whodunit races {}{}", self.subject.name, self.subject.allocating.words())
    }

    fn ad_hoc(&self, ad_hoc: &AdHoc) -> Finding {
        let variable = self.variable_at(&Memory { address: ad_hoc.address, size: 1, ..Memory::default() });
        let name = variable.name.clone().unwrap_or_else(|| format!("{:#x}", ad_hoc.address));
        let title = format!(
            "thread {} waits in a loop for thread {} to write {name}",
            ad_hoc.reader.thread, ad_hoc.writer.thread
        );
        let mut finding = Finding::suspected(Class::AdHocSynchronisation, &title);
        let sides =
            [(ad_hoc.writer, format!("writes {name}")), (ad_hoc.reader, format!("waits until {name} has changed"))];
        for (side, text) in sides {
            let place = self.names.place(side.pc).into_iter().next().unwrap_or_default();
            finding.causes.push(Cause { place: place.clone(), thread: Some(side.thread), text: text.clone() });
            finding.steps.push(Step { thread: side.thread, place, text, guilty: true });
        }
        finding.count = ad_hoc.count;
        finding.next = self.next(&variable);
        finding.variable = Some(variable);
        finding.evidence = self.evidence();
        finding.notes =
            vec!["The compiler and the processor may reorder plain accesses: use an atomic variable.".to_owned()];
        finding
    }

    fn evidence(&self) -> Evidence {
        Evidence { recording: Some(self.subject.name.clone()), process: Some(self.subject.log), ..Evidence::default() }
    }

    fn variable(&self, occurrence: &Occurrence<'_>) -> Variable {
        let blocks = [occurrence.second.1, occurrence.first.1];
        let block = blocks.into_iter().flatten().find_map(|circumstance| circumstance.block.as_ref());
        let (first, second) = (occurrence.first.0, occurrence.second.0);
        let size = u64::from(first.size.min(second.size));
        self.variable_at(&Memory {
            address: occurrence.address,
            size,
            thread: second.thread,
            block,
            ..Memory::default()
        })
    }

    fn variable_at(&self, memory: &Memory<'_>) -> Variable {
        let (name, type_name) = self.names.memory(memory).unzip();
        let is_global = memory.block.is_none() && self.names.is_global(memory.address);
        let (name, text) = if is_global { (name, None) } else { (None, name) };
        let (address, size) = (Some(Address(memory.address)), Some(memory.size));
        Variable { name, type_name: type_name.flatten(), address, size, text }
    }

    fn lock(&self, held: &analysis::races::HeldLock) -> Lock {
        let mode = match held.mode {
            stream::LockMode::Exclusive => LockMode::Exclusive,
            stream::LockMode::Shared => LockMode::Shared,
        };
        Lock { name: self.names.lock(held.object), address: Some(Address(held.object)), mode, taken: None }
    }

    fn threads(&self, sides: &[Told<'_>; 2]) -> Vec<Thread> {
        let numbers: BTreeSet<u32> = sides.iter().map(|(side, _)| side.thread).collect();
        let made = |thread: u32| {
            let callers = self.seen.told.threads.get(&thread).map_or(&[][..], |origin| &origin.callers);
            // How the C library makes threads is nobody's interest.
            let own = callers.iter().position(|caller| !self.names.is_in_c_library(*caller)).unwrap_or(0);
            self.names.callers(&callers[own..])
        };
        numbers.iter().map(|&thread| Thread { thread, name: None, created: made(thread) }).collect()
    }

    fn next(&self, variable: &Variable) -> Vec<Next> {
        let name = &self.subject.name;
        let place = variable
            .name
            .clone()
            .or_else(|| Some(format!("{}:{}", variable.address?, variable.size.filter(|size| *size > 0)?)));
        let writes = place.map(|place| Next {
            command: format!("whodunit last-write {name} '{place}' --all"),
            text: "every write to it, in order".to_owned(),
        });
        let debugger = Next {
            command: format!("whodunit replay --gdb {name}"),
            text: "the run, forwards and backwards".to_owned(),
        };
        writes.into_iter().chain([debugger]).collect()
    }
}

/// What people would call the variable within a sentence.
fn short_name(variable: &Variable) -> Option<String> {
    let text = variable.name.as_ref().or(variable.text.as_ref())?;
    text.split(" in a block of ").next().filter(|name| !name.starts_with("a block of ")).map(str::to_owned)
}

/// Names that are no text cannot be meant by a pattern.
fn as_frame(place: &Place) -> Frame<'_> {
    Frame {
        function: place.function.as_deref().unwrap_or_default(),
        file: place.file.as_deref().and_then(Path::to_str).unwrap_or_default(),
        module: place.module.as_deref().unwrap_or_default(),
    }
}

fn title(variable: &Variable, sides: &[Told<'_>; 2], stacks: &[Vec<Place>; 2]) -> String {
    let what = match (&variable.name, variable.address) {
        (Some(name), _) => name.clone(),
        (None, address) => {
            variable.text.clone().or(address.map(|address| format!("memory at {address}"))).unwrap_or_default()
        }
    };
    let verb = |side: &Side| match side.action {
        Action::Read => "reads",
        Action::Write | Action::Update | Action::Atomic => "writes",
        Action::Freed => "frees",
    };
    let function = |stack: &[Place]| stack.iter().find_map(|place| place.function.clone());
    let who = |side: &Side, stack: &[Place]| match function(stack) {
        Some(function) => format!("thread {} in {function}", side.thread),
        None => format!("thread {}", side.thread),
    };
    let [(first, _), (second, _)] = sides;
    let (one, other) = (who(first, &stacks[0]), who(second, &stacks[1]));
    format!("{one} {} {what}, {other} {} it, and nothing orders them", verb(first), verb(second))
}

/// What a side did, as the rest of a sentence that starts with the thread.
fn deed(side: &Side, circumstance: Option<&Circumstance>, variable: Option<&str>) -> String {
    let size = side.size;
    let what = variable.map_or_else(|| format!("{size} bytes"), str::to_owned);
    let number =
        |bytes: Option<&Vec<u8>>| bytes.filter(|bytes| bytes.len() <= LONGEST_NUMBER).map(|bytes| little_endian(bytes));
    let before = number(circumstance.and_then(|circumstance| circumstance.before.as_ref()));
    let after = number(circumstance.and_then(|circumstance| circumstance.after.as_ref()));
    match (side.action, before, after) {
        (Action::Freed, ..) => "frees the block".to_owned(),
        (Action::Read, Some(value), _) => format!("reads {what}, which is {value}"),
        (Action::Read, ..) => format!("reads {what}"),
        (_, Some(old), Some(new)) => format!("writes {what} = {new} (was {old})"),
        (_, None, Some(new)) => format!("writes {what} = {new}"),
        _ => format!("writes {what}"),
    }
}

/// Small numbers as people write them, others as addresses are written.
pub fn little_endian(bytes: &[u8]) -> String {
    let number = bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    if number < 1 << 20 { number.to_string() } else { format!("{number:#x}") }
}
