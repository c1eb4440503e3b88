//! From predictions that were tried to findings.

use super::trial::Tried;
use super::{keeping, wording};
use crate::naming::{Block, Memory};
use crate::races::Subject;
use crate::races::names::Names;
use crate::rerun::outcomes;
use analysis::predict::{Deed, Held, Kind, Lookup, Predicted, Prediction};
use session::rerun::{Outcome, Plan};
use std::collections::{BTreeMap, BTreeSet};
use trace::finding::{
    Address, Cause, Class, Evidence, Finding, Findings, Lock, LockMode, Next, Place, Side, Step, Thread, Variable,
};
use trace::stream;

const NOTES: [&str; 2] = [
    "Only what this run executed is looked at: record others (`-n`), or hunt.",
    "An order that needs three or more accesses moved is not tried.",
];

pub struct Bench<'a> {
    pub subject: &'a Subject<'a>,
    pub names: &'a Names,
}

/// Adds what was tried to the findings. Predictions that fail in the same way are one to people.
pub fn judge(findings: &mut Findings, predicted: &Predicted, tried: Vec<Tried<'_>>, bench: &Bench<'_>, suspects: bool) {
    let n_tried = tried.len();
    let lookup = |prediction: &Prediction| predicted.lookups.get(&prediction.late.pc);
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for tried in &tried {
        match &tried.proof {
            Some((plan, outcome)) => {
                let key = signature(tried.prediction, outcome);
                match known.get(&key) {
                    Some(&index) => findings.findings[index].count += 1,
                    None => {
                        known.insert(key, findings.findings.len());
                        findings.push(bench.proved(tried.prediction, lookup(tried.prediction), plan, outcome));
                    }
                }
            }
            // That any value can change is no suspicion.
            None if suspects && tried.prediction.kind != Kind::Inconsistent => {
                let note = "The order was tried, and nothing failed.";
                findings.push(bench.suspected(tried.prediction, lookup(tried.prediction), note))
            }
            None => {}
        }
    }
    findings.summary.text = Some(summary(predicted, &tried));
    findings.summary.left_out = predicted.further_pairs + (predicted.pairs.len() - n_tried) as u64;
    findings.notes = NOTES.map(str::to_owned).to_vec();
    findings.notes.extend(limits(predicted));
}

/// What a comparator tells: each pair of instructions, or each instruction, as a suspicion.
pub fn list(findings: &mut Findings, predicted: &Predicted, bench: &Bench<'_>) {
    let mut known = BTreeSet::new();
    for prediction in predicted.pairs.iter().filter_map(|pair| pair.first()) {
        let early = if prediction.kind == Kind::Race { prediction.early.pc } else { 0 };
        let pair = (early.min(prediction.late.pc), early.max(prediction.late.pc));
        if known.insert(pair) {
            findings.push(bench.suspected(prediction, None, "Told for comparison: nothing was tried."));
        }
    }
    findings.summary.left_out = predicted.further_pairs;
    findings.notes.extend(limits(predicted));
}

/// What was left out for want of memory.
fn limits(predicted: &Predicted) -> Vec<String> {
    let Predicted { unwatched_memory, uncompared_accesses, unwatched_threads, .. } = *predicted;
    let limits = [
        (
            unwatched_memory,
            "accesses were left out: they are to more contended memory than is watched at a time (--watch).",
        ),
        (
            uncompared_accesses,
            "accesses were left out: they are to more memory than is compared among threads (256 MB).",
        ),
        (unwatched_threads, "threads were left out: there were more than can be told apart."),
    ];
    limits.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

fn summary(predicted: &Predicted, tried: &[Tried<'_>]) -> String {
    let n_tried = tried.len();
    let further = predicted.pairs.len() - n_tried;
    let n_open = tried.iter().filter(|tried| !tried.has_verdict).count();
    let plural = if n_tried == 1 { "" } else { "s" };
    let open = if n_open > 0 { format!(", {n_open} of them without a verdict") } else { String::new() };
    let rest = if further > 0 { format!(", {further} more were left (--most)") } else { String::new() };
    format!("{n_tried} fatal order{plural} tried{open}{rest}.")
}

/// Crashes at one place are one to people; otherwise the pair of instructions tells.
fn signature(prediction: &Prediction, outcome: &Outcome) -> String {
    match outcomes::failing_frame(outcome) {
        Some(place) => format!("{:?} {:?} {:?}", place.file, place.function, place.line),
        None => format!("{:#x} {:#x}", prediction.early.pc, prediction.late.pc),
    }
}

impl Bench<'_> {
    fn proved(&self, prediction: &Prediction, lookup: Option<&Lookup>, plan: &Plan, outcome: &Outcome) -> Finding {
        let command = self.subject.command(plan);
        let variable = self.variable(prediction);
        let mut finding =
            Finding::proved(class(prediction.kind), &self.title(prediction, &variable, "nothing"), &command);
        self.describe(&mut finding, prediction, variable);
        finding.grounds.extend(self.range(prediction, lookup));
        finding.grounds.push(wording::NOTHING_ORDERS.to_owned());
        finding.failure = Some(outcomes::failure(outcome));
        finding.evidence.plan = serde_json::to_value(plan).ok();
        if let Some(name) = keeping::keep(self.subject, plan, outcome) {
            let next =
                |verb: &str, text: &str| Next { command: format!("whodunit {verb} {name}"), text: text.to_owned() };
            finding.next = vec![
                next("why", "what led to the failure, from the recording of the failing run"),
                next("replay --gdb", "look around in the failing run"),
            ];
            finding.evidence.failing = Some(name);
        }
        finding
    }

    fn suspected(&self, prediction: &Prediction, lookup: Option<&Lookup>, note: &str) -> Finding {
        let variable = self.variable(prediction);
        let mut finding =
            Finding::suspected(class(prediction.kind), &self.title(prediction, &variable, "nothing seen"));
        self.describe(&mut finding, prediction, variable);
        finding.grounds.extend(self.range(prediction, lookup));
        if !finding.grounds.is_empty() {
            finding.grounds.push(wording::NOTHING_SEEN_ORDERS.to_owned());
        }
        finding.notes = vec![note.to_owned()];
        finding
    }

    /// Which values of an index lead beyond what it is one of, as far as that is known.
    fn range(&self, prediction: &Prediction, lookup: Option<&Lookup>) -> Option<String> {
        let lookup = lookup.filter(|_| prediction.kind == Kind::Overflow)?;
        let within = match lookup.block {
            Some(block) => {
                Some((format!("a block of {} bytes", block.size), block.address..block.address + block.size))
            }
            None => self.names.array_at(lookup.base),
        };
        let (what, range) = within.filter(|(_, range)| range.contains(&lookup.base))?;
        Some(wording::range(&what, lookup.step, (range.end - lookup.base).div_ceil(lookup.step), prediction))
    }

    fn describe(&self, finding: &mut Finding, prediction: &Prediction, variable: Variable) {
        let what = short_name(prediction, &variable);
        let (early, late) = wording::deeds(prediction.kind);
        let parts = [(&prediction.early, early), (&prediction.late, late)];
        for (deed, verb) in parts {
            let stack = self.stack(deed);
            let place = stack.first().cloned().unwrap_or_default();
            let text = format!("{verb} {what}");
            finding.causes.push(Cause { place: place.clone(), thread: Some(deed.thread), text: text.clone() });
            finding.steps.push(Step { thread: deed.thread, place, text: text.clone(), guilty: true });
            let locks = Some(deed.locks.iter().map(|held| self.lock(held)).collect());
            finding.sides.push(Side { thread: deed.thread, text, stack, locks, waits_for: None });
        }
        let mut threads = [prediction.early.thread, prediction.late.thread];
        threads.sort_unstable();
        finding.threads = threads.map(|thread| Thread { thread, ..Thread::default() }).to_vec();
        finding.variable = Some(variable);
        finding.grounds = self.grounds(prediction);
        finding.evidence = Evidence {
            recording: Some(self.subject.name.clone()),
            process: Some(self.subject.log),
            ..Evidence::default()
        };
    }

    /// The order that was seen, and why nothing keeps the threads from the other one.
    fn grounds(&self, prediction: &Prediction) -> Vec<String> {
        if matches!(prediction.kind, Kind::Race | Kind::Atomicity) {
            return Vec::new();
        }
        let names = |deed: &Deed| deed.locks.iter().map(|held| (held.object, self.names.lock(held.object))).collect();
        vec![
            wording::order_seen(prediction),
            wording::locks(prediction, &names(&prediction.early), &names(&prediction.late)),
        ]
    }

    pub fn stack(&self, deed: &Deed) -> Vec<Place> {
        // A block is given back, and a library enters, at the program's call of it.
        let is_call =
            deed.pc == deed.place.pc && deed.callers.first().is_some_and(|caller| is_behind(*caller, deed.pc));
        if is_call { self.names.callers(&deed.callers) } else { self.names.stack(deed.pc, &deed.callers) }
    }

    fn title(&self, prediction: &Prediction, variable: &Variable, obstacle: &str) -> String {
        let what = short_name(prediction, variable);
        let who = |deed: &Deed| {
            let function = self.stack(deed).into_iter().find_map(|place| place.function);
            function
                .map_or_else(|| format!("thread {}", deed.thread), |name| format!("thread {} in {name}", deed.thread))
        };
        let (early, late) = wording::deeds(prediction.kind);
        format!(
            "{} {early} {what}, {} {late} it, and {obstacle} keeps them from this order",
            who(&prediction.early),
            who(&prediction.late)
        )
    }

    fn variable(&self, prediction: &Prediction) -> Variable {
        if prediction.kind == Kind::Closed {
            return Variable { text: Some(format!("descriptor {}", prediction.address)), ..Variable::default() };
        }
        let block = prediction.block.map(|block| Block { address: block.address, size: block.size, site: block.site });
        let memory = Memory {
            address: prediction.address,
            size: prediction.size,
            thread: prediction.late.thread,
            block: block.as_ref(),
            ..Memory::default()
        };
        let (name, type_name) = self.names.memory(&memory).unzip();
        let is_global = block.is_none() && self.names.is_global(prediction.address);
        let (name, text) = if is_global { (name, None) } else { (None, name) };
        let (address, size) = (Some(Address(prediction.address)), Some(prediction.size));
        Variable { name, type_name: type_name.flatten(), address, size, text }
    }

    pub fn lock(&self, held: &Held) -> Lock {
        let mode = match held.mode {
            stream::LockMode::Exclusive => LockMode::Exclusive,
            stream::LockMode::Shared => LockMode::Shared,
        };
        let taken = self.names.place(held.taken.pc).into_iter().next();
        Lock { name: self.names.lock(held.object), address: Some(Address(held.object)), mode, taken }
    }
}

/// What people would call the memory within a sentence, or the descriptor.
fn short_name(prediction: &Prediction, variable: &Variable) -> String {
    match prediction.kind {
        Kind::Dangling => return format!("a block of {} bytes", prediction.size),
        Kind::Left => return format!("an object on thread {}'s stack", prediction.early.thread),
        _ => {}
    }
    let text = variable.name.as_ref().or(variable.text.as_ref());
    let name =
        text.and_then(|text| text.split(" in a block of ").next()).filter(|name| !name.starts_with("a block of "));
    name.map_or_else(|| format!("the {} bytes at {:#x}", prediction.size, prediction.address), str::to_owned)
}

/// Whether a return address belongs to the call at an instruction.
pub fn is_behind(return_address: u64, call: u64) -> bool {
    (1..=15).contains(&return_address.wrapping_sub(call))
}

fn class(kind: Kind) -> Class {
    match kind {
        // What is told of these has failed by a null pointer.
        Kind::Null | Kind::Inconsistent => Class::ConcurrencyNull,
        Kind::Dangling | Kind::Left | Kind::Closed => Class::ConcurrencyDangling,
        Kind::Overflow => Class::ConcurrencyOverflow,
        Kind::Uninitialised => Class::ConcurrencyUninit,
        Kind::DoubleFree => Class::ConcurrencyDoubleFree,
        Kind::Race => Class::DataRace,
        Kind::Atomicity => Class::AtomicityViolation,
    }
}
