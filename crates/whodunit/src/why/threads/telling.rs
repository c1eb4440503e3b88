//! From an order that was tried to a finding.

use super::deadlock::is_stuck;
use super::trial::Tried;
use crate::naming::{Block, Memory};
use crate::predict::verdicts::Bench;
use crate::races::verdicts::little_endian;
use crate::rerun::outcomes;
use crate::why::sites::is_library;
use analysis::neighbours::{Candidate, Entry, History, Watched};
use analysis::predict;
use session::rerun::{Ending, Outcome};
use std::collections::BTreeSet;
use trace::finding::{Address, Cause, Class, Evidence, Failure, Finding, Place, Side, Step, Thread, Variable};

/// What is known of a wrong order.
pub struct Case<'a> {
    pub history: &'a History,
    pub candidate: &'a Candidate<'a>,
    pub tried: &'a Tried,
    /// The run that failed.
    pub outcome: &'a Outcome,
}

pub fn finding(case: &Case<'_>, bench: &Bench<'_>) -> Finding {
    let Case { candidate, tried, .. } = case;
    let names = Memories::new(case, bench);
    let variable = variable(case.history.watched, case.history.block, candidate.last.deed.thread, bench);
    let title = title(candidate, &names, bench);
    let plan = tried.best().map(|trial| &trial.plan);
    let mut finding = match plan.filter(|_| tried.is_proved()) {
        Some(plan) => Finding::proved(tried.class, &title, &bench.subject.command(plan)),
        None => Finding::suspected(tried.class, &title),
    };
    let told = |entry: &Entry| deed(entry, names.of(entry));
    let between = if candidate.joins.is_some() { candidate.between.clone() } else { vec![candidate.interloper()] };
    // Who uses a block that was given back is wrong, whatever it did to the block before.
    let first = candidate.first.filter(|_| !candidate.interloper().is_release);
    for entry in between.into_iter().chain([candidate.last]).chain(first) {
        let place = own_place(entry, bench);
        finding.causes.push(Cause { place, thread: Some(entry.deed.thread), text: told(entry) });
    }
    finding.steps = steps(case, bench, &names);
    finding.failure = Some(failing(case.outcome));
    let sides = [candidate.first, Some(candidate.interloper()), Some(candidate.last)];
    finding.sides = sides.into_iter().flatten().map(|entry| side(entry, bench, told(entry))).collect();
    let threads: BTreeSet<u32> = finding.steps.iter().map(|step| step.thread).collect();
    finding.threads = threads.into_iter().map(|thread| Thread { thread, ..Thread::default() }).collect();
    finding.variable = Some(variable);
    finding.grounds = grounds(candidate, tried);
    let plan = plan.and_then(|plan| serde_json::to_value(plan).ok());
    let (recording, process) = (Some(bench.subject.name.clone()), Some(bench.subject.log));
    finding.evidence = Evidence { recording, process, plan, ..Evidence::default() };
    finding
}

fn title(candidate: &Candidate<'_>, names: &Memories<'_>, bench: &Bench<'_>) -> String {
    let who = |entry: &Entry| {
        let function = own_place(entry, bench).function;
        let thread = format!("thread {}", entry.deed.thread);
        function.map_or_else(|| thread.clone(), |function| format!("{thread} in {function}"))
    };
    let (interloper, last) = (candidate.interloper(), candidate.last);
    let verb = if interloper.writes { "changes" } else { "reads" };
    let what = names.of(interloper);
    match candidate.first {
        Some(first) if candidate.joins.is_some() => {
            let (one, other) = (names.of(first), names.of(last));
            format!("{} comes between what {} does to {one} and to {other}", who(interloper), who(first))
        }
        Some(_) => format!("{} {verb} {what} between two accesses of {}", who(interloper), who(last)),
        None => format!("{} {verb} {what} before {} {} it", who(interloper), who(last), verb_of(last)),
    }
}

fn verb_of(entry: &Entry) -> &'static str {
    if entry.writes { "writes" } else { "reads" }
}

/// What an access did, as the rest of a sentence.
fn deed(entry: &Entry, what: &str) -> String {
    let value = entry.deed.value.map(|value| little_endian(&value.to_le_bytes()));
    match (entry, value) {
        (Entry { is_release: true, .. }, _) => format!("gives the block with {what} back"),
        (Entry { writes: true, .. }, Some(value)) => format!("writes {what} = {value}"),
        (Entry { writes: true, .. }, None) => format!("writes {what}"),
        (_, Some(value)) => format!("reads {what}, which is {value}"),
        (_, None) => format!("reads {what}"),
    }
}

/// The innermost statement of the program's own.
pub fn own_place(entry: &Entry, bench: &Bench<'_>) -> Place {
    let stack = bench.stack(&entry.deed);
    let is_own = |place: &&Place| !place.module.as_deref().is_some_and(is_library);
    let own = stack.iter().filter(is_own).find(|place| place.line.is_some());
    own.or_else(|| stack.iter().find(is_own)).or(stack.first()).cloned().unwrap_or_default()
}

fn steps(case: &Case<'_>, bench: &Bench<'_>, names: &Memories<'_>) -> Vec<Step> {
    let Candidate { first, between, last, began, .. } = case.candidate;
    let interloper = case.candidate.interloper();
    let guilty = [first.map(|first| first.number), Some(interloper.number), Some(last.number)];
    // Of much that was done between, the beginning and the end tell enough.
    let between = between.first().into_iter().chain([&interloper]).chain(between.last());
    let mut entries: Vec<&Entry> = first.iter().chain(began).chain(between).chain([last]).copied().collect();
    entries.sort_by_key(|entry| entry.number);
    entries.dedup_by_key(|entry| entry.number);
    let step = |entry: &Entry| Step {
        thread: entry.deed.thread,
        place: own_place(entry, bench),
        text: deed(entry, names.of(entry)),
        guilty: guilty.contains(&Some(entry.number)),
    };
    let mut steps: Vec<Step> = entries.into_iter().map(step).collect();
    let failure = failing(case.outcome);
    let text = match &case.outcome.ending {
        Ending::Killed { name, .. } => format!("crashes: {name}"),
        _ => failure.text,
    };
    let place = failure.at.unwrap_or_default();
    steps.push(Step { thread: case.outcome.thread, place, text, guilty: false });
    steps
}

fn side(entry: &Entry, bench: &Bench<'_>, text: String) -> Side {
    let locks = Some(entry.deed.locks.iter().map(|held| bench.lock(held)).collect());
    Side { thread: entry.deed.thread, text, stack: bench.stack(&entry.deed), locks, waits_for: None }
}

/// What the memory is called that an order is about.
struct Memories<'a> {
    name: String,
    /// Of two pieces of memory, the second.
    other: Option<(&'a History, String)>,
}

impl<'a> Memories<'a> {
    fn new(case: &Case<'a>, bench: &Bench<'_>) -> Memories<'a> {
        let thread = case.candidate.last.deed.thread;
        let name = |history: &History, size| {
            let watched = Watched { size, ..history.watched };
            short_name(&variable(watched, history.block, thread, bench), watched)
        };
        let History { watched, .. } = case.history;
        // The second piece is as large as what is watched at a time, not as the variable.
        let other = case.candidate.joins.map(|other| (other, name(other, 1)));
        Memories { name: name(case.history, watched.size), other }
    }

    fn of(&self, entry: &Entry) -> &str {
        let is_in = |history: &History| history.entries.iter().any(|other| other.number == entry.number);
        match &self.other {
            Some((history, name)) if is_in(history) => name,
            _ => &self.name,
        }
    }
}

fn variable(watched: Watched, block: Option<predict::Block>, thread: u32, bench: &Bench<'_>) -> Variable {
    let block = block.map(|block| Block { address: block.address, size: block.size, site: block.site });
    let memory =
        Memory { address: watched.address, size: watched.size, thread, block: block.as_ref(), ..Memory::default() };
    let (name, type_name) = bench.names.memory(&memory).unzip();
    let is_global = block.is_none() && bench.names.is_global(watched.address);
    let (name, text) = if is_global { (name, None) } else { (None, name) };
    let (address, size) = (Some(Address(watched.address)), Some(watched.size));
    Variable { name, type_name: type_name.flatten(), address, size, text }
}

/// What people would call the memory within a sentence.
fn short_name(variable: &Variable, watched: Watched) -> String {
    let text = variable.name.as_ref().or(variable.text.as_ref());
    let name = text.and_then(|text| text.split(" in a block of ").next());
    let name = name.filter(|name| !name.starts_with("a block of "));
    name.map_or_else(|| format!("the {} bytes at {:#x}", watched.size, watched.address), str::to_owned)
}

fn grounds(candidate: &Candidate<'_>, tried: &Tried) -> Vec<String> {
    let pattern = candidate.pattern();
    let mut grounds = vec![match candidate.first {
        Some(_) if candidate.joins.is_some() => {
            "Two pieces of memory are accessed by two threads in different orders: one comes between the other."
                .to_owned()
        }
        Some(_) => format!("The accesses follow the pattern {pattern}: 1 is the thread of the first and the last."),
        None => format!("The accesses follow the pattern {pattern}."),
    }];
    grounds.push(match tried.class {
        Class::DataRace => "Nothing orders them.".to_owned(),
        Class::OrderViolation if tried.waits_for_a_change() => "Nothing makes the reader wait.".to_owned(),
        _ => "They are synchronised, and may come in any order.".to_owned(),
    });
    let other = candidate.interloper().deed.thread;
    for (trial, when) in [(&tried.after, "after"), (&tried.before, "before")] {
        let Some(trial) = trial else { continue };
        let came = match &trial.outcome.ending {
            Ending::Exited { status } => format!("the program ends with status {status}"),
            Ending::LeftTheRecording { needs } => {
                format!("the program goes on beyond the failure, until it needs {needs}")
            }
            Ending::OutOfInput {} => {
                "the program goes on beyond the failure, until it waits for more input than was recorded".to_owned()
            }
            _ => "the program goes on beyond the failure".to_owned(),
        };
        grounds.push(format!("With what thread {other} does {when} the others, in a what-if run, {came}."));
    }
    grounds.extend(match tried.control {
        Some(control) => Some(control.text()),
        None if tried.is_gone() => Some("It does so, too, when nobody is held from the same point on.".to_owned()),
        None => None,
    });
    grounds
}

/// How the recording failed: a run that no thread could go on with was ended by a status.
pub fn failing(outcome: &Outcome) -> Failure {
    let failure = outcomes::failure(outcome);
    if is_stuck(outcome) {
        return Failure { text: "no thread can ever run again".to_owned(), exit_status: None, ..failure };
    }
    failure
}
