//! From suspects in numbers to findings.

use super::Case;
use super::plans::Act;
use super::trial::{Proof, Trials};
use super::wording::{Form, Part, Shown, at, title, verb};
use crate::naming::Memory;
use crate::races::names::Names;
use crate::recordings::Trouble;
use crate::study::Study;
use crate::study::entrances::{Arrival, Call, TakenLock};
use crate::study::races::{Circumstance, Told, Wanted};
use analysis::pairs::falcon::Ranked;
use analysis::pairs::{
    Apart, BugType, Couple, End, Level, Missing, Moment, Occurrence, PairId, Procedure, Runs, Suspect,
};
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use trace::finding::{
    Address, Cause, Class, Evidence, Failure, Finding, Findings, Next, Side, Status, Step, Thread, Variable,
};

/// More findings than these help nobody; the rest is counted.
const MOST_TOLD: usize = 20;
/// In how many ways the same lines are tried out.
const MOST_WAYS: usize = 3;

const NOTES: [&str; 2] = [
    "Pairs that passing runs have rarely can be here by chance: more of them (--runs) tell.",
    "Accesses of the C library count where the other side, or the variable, is the program's own.",
];

const LOOPS: &str = "never or hardly ever so with regard to the iterations of loops";
const ORDER: &str = "never or hardly ever in this order of iterations of loops";

/// What somebody is accused of, and why.
struct Charge {
    parts: Vec<Part>,
    form: Form,
    class: Class,
    grounds: Vec<String>,
}

/// What some suspects come to.
pub struct Verdict {
    found: Vec<Finding>,
    left_out: usize,
    /// What was done to get there.
    story: String,
}

impl Verdict {
    /// Tries the first `most` suspects out. If any is proved, only those are told: they explain the failure, and most else comes of it.
    pub fn on(suspects: &[Suspect], case: &Case, most: usize) -> Result<Verdict, Trouble> {
        let names = case.failing.names();
        let court = Court { case, names: &names };
        let charges: Vec<Charge> = suspects.iter().take(MOST_TOLD).map(|suspect| court.charge(suspect)).collect();
        let mut found = court.tried(&charges, most)?;
        if found.iter().any(is_proved) {
            found.retain(is_proved);
        }
        Ok(Verdict { left_out: suspects.len() - found.len(), found, story: case.story.clone() })
    }

    /// The same on suspects that are so unlikely that only a proof makes them worth telling.
    pub fn on_unlikely(suspects: &[Suspect], case: &Case, most: usize) -> Result<Verdict, Trouble> {
        let verdict = Verdict::on(&suspects[..most.min(suspects.len())], case, most)?;
        let found = if verdict.is_proved() { verdict.found } else { Vec::new() };
        Ok(Verdict { found, left_out: 0, ..verdict })
    }

    pub fn is_proved(&self) -> bool {
        self.found.iter().any(is_proved)
    }

    /// Adds what is to blame to the findings.
    pub fn pass(self, findings: &mut Findings) {
        findings.summary.left_out = self.left_out as u64;
        pass_sentence(findings, self.found, self.story);
    }
}

fn is_proved(finding: &Finding) -> bool {
    finding.status() == Status::Proved
}

fn pass_sentence(findings: &mut Findings, found: Vec<Finding>, story: String) {
    found.into_iter().for_each(|finding| findings.push(finding));
    findings.summary.text = Some(story);
    findings.notes = NOTES.map(str::to_owned).to_vec();
}

/// Adds the patterns that Falcon suspects most.
pub fn judge_patterns(findings: &mut Findings, ranked: &[Ranked<'_>], case: &Case) -> Result<(), Trouble> {
    let names = case.failing.names();
    let court = Court { case, names: &names };
    let all = case.passing.len();
    let charge = |ranked: &Ranked<'_>| {
        let ends = ranked.seen.pattern.0.iter().zip(&ranked.seen.moments);
        let parts: Vec<Part> = ends.map(|(end, moment)| Part::at(*end, *moment, ranked.seen.address)).collect();
        let is_pair = parts.len() == 2;
        let (score, times) = (ranked.score, ranked.in_passing);
        Charge {
            parts,
            form: if is_pair { Form::Follows } else { Form::Between },
            class: if is_pair { Class::OrderViolation } else { Class::AtomicityViolation },
            grounds: vec![format!("Falcon: suspicion {score:.2}; {times} of {all} passing runs have this pattern.")],
        }
    };
    let charges: Vec<Charge> = ranked.iter().take(MOST_TOLD).map(charge).collect();
    pass_sentence(findings, court.tried(&charges, 0)?, case.story.clone());
    findings.summary.left_out = (ranked.len() - charges.len()) as u64;
    Ok(())
}

fn parts(suspect: &Suspect, runs: &Runs) -> Vec<Part> {
    let ends = |(id, occurrence): (PairId, Option<Occurrence>)| {
        let key = runs.key(id);
        let address = occurrence.map_or_else(|| place(runs, id), |occurrence| occurrence.address);
        let part =
            |end, moment: Option<Moment>| Part { end, moment, thread: moment.map(|moment| moment.thread), address };
        [part(key.head, occurrence.map(|it| it.head)), part(key.tail, occurrence.map(|it| it.tail))]
    };
    let mut parts: Vec<Part> = match *suspect {
        Suspect::Missing(Missing { original, reversed, .. }) => {
            let address = place(runs, original);
            let (tail_thread, head_thread) = runs.first_in_passing(original).map(|first| first.direction()).unzip();
            let part = |end, thread| Part { end, moment: None, thread, address };
            return vec![part(reversed.head, head_thread), part(reversed.tail, tail_thread)];
        }
        _ => suspect.pairs(runs).into_iter().flat_map(ends).collect(),
    };
    if let Suspect::Between { .. } = suspect {
        // The second pair begins with what the first ends with.
        parts.remove(2);
    }
    if suspect.procedure() == Procedure::III {
        parts.sort_by_key(|part| part.moment.map(|moment| moment.order));
    }
    parts
}

/// A charge, with all that is known of it.
struct Accused<'a> {
    charge: &'a Charge,
    shown: Vec<Shown>,
    /// None if no plan can tell them.
    acts: Option<Vec<Act>>,
}

impl Accused<'_> {
    /// The lines that are blamed, if all are known.
    fn lines(&self) -> Option<BTreeSet<String>> {
        let places = self.shown.iter().map(Shown::place);
        places.map(|place| place.line.is_some().then(|| at(&place))).collect()
    }

    /// How much the threads did from the first access to the last.
    fn span(&self) -> Option<u64> {
        let orders = self.charge.parts.iter().map(|part| part.moment.map(|moment| moment.order));
        let orders: Vec<u64> = orders.collect::<Option<_>>()?;
        Some(orders.iter().max()? - orders.iter().min()?)
    }
}

/// Puts those together that blame the same lines: another order or another element of an array says nothing new.
fn same_lines(accused: Vec<Accused<'_>>) -> Vec<Vec<Accused<'_>>> {
    let mut groups: Vec<Vec<Accused<'_>>> = Vec::new();
    let mut known: BTreeMap<BTreeSet<String>, usize> = BTreeMap::new();
    for one in accused {
        let place = one.lines().map_or(groups.len(), |lines| *known.entry(lines).or_insert(groups.len()));
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(one);
    }
    groups
}

/// What of the same lines is tried out: those first whose accesses are closest to each other, since less else lies between.
fn likeliest(ways: &[Accused<'_>]) -> Vec<Vec<Act>> {
    let mut ways: Vec<&Accused<'_>> = ways.iter().collect();
    ways.sort_by_key(|way| way.span().unwrap_or(u64::MAX));
    let mut acts: Vec<Vec<Act>> = ways.into_iter().filter_map(|way| way.acts.clone()).collect();
    acts.dedup();
    acts.truncate(MOST_WAYS);
    acts
}

fn place(runs: &Runs, id: PairId) -> u64 {
    runs.places(id).first().copied().unwrap_or(0)
}

/// Stacks and values of all parts, in their order.
fn circumstances(charges: &[Charge], case: &Case) -> Result<Vec<Option<Circumstance>>, Trouble> {
    // An end of a pair may be an access or the release of a block.
    let wanted = |part: &Part| {
        let moment = part.moment.unwrap_or(Moment { thread: 0, ordinal: 0, order: 0 });
        let (pc, address) = (part.end.pc, part.address);
        [false, true].map(|is_release| Wanted {
            thread: moment.thread,
            ordinal: moment.ordinal,
            pc,
            address,
            is_release,
        })
    };
    let wanted: Vec<Wanted> = charges.iter().flat_map(|charge| &charge.parts).flat_map(wanted).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let told: Told = case.failing.ask(Study::Circumstances(wanted))?;
    let mut told = told.circumstances.into_iter();
    // A release comes at just that moment, an access there or later.
    let either = iter::from_fn(|| {
        let (access, release) = (told.next()?, told.next()?);
        Some(release.or(access))
    });
    Ok(either.collect())
}

struct Court<'a> {
    case: &'a Case,
    names: &'a Names,
}

impl Court<'_> {
    fn shown(&self, part: Part, circumstance: Option<Circumstance>) -> Shown {
        let callers = circumstance.as_ref().map_or(&[][..], |circumstance| &circumstance.callers);
        let stack = self.names.stack(part.end.pc, callers);
        let memory = Memory {
            address: part.address,
            size: 1,
            thread: part.moment.map_or(0, |moment| moment.thread),
            block: circumstance.as_ref().and_then(|circumstance| circumstance.block.as_ref()),
            ..Memory::default()
        };
        let (name, type_name) = self.names.memory(&memory).unzip();
        let is_global = memory.block.is_none() && self.names.is_global(part.address);
        let (name, text) = if is_global { (name, None) } else { (None, name) };
        let address = Some(Address(part.address));
        let variable = Variable { name, type_name: type_name.flatten(), address, size: None, text };
        let mut shown = Shown { part, stack, variable, text: String::new() };
        shown.text = format!("{} {}", verb(part.end.deed), shown.name());
        shown
    }

    fn charge(&self, suspect: &Suspect) -> Charge {
        let bug_type = self.bug_type(suspect);
        let class = match bug_type {
            Some(bug_type) if bug_type.is_order_violation() => Class::OrderViolation,
            _ => Class::AtomicityViolation,
        };
        let form = match suspect {
            Suspect::Pair(_) => Form::Follows,
            Suspect::Between { .. } => Form::Between,
            Suspect::Missing(_) => Form::Missing,
            Suspect::Couple(..) | Suspect::InStep(_) | Suspect::Ring(_) => Form::Couple,
        };
        Charge { parts: parts(suspect, &self.case.runs), form, class, grounds: self.grounds(suspect, bug_type) }
    }

    /// Makes a finding of each charge, with stacks and names, and tries the first ones out. Those that are proved come first. Of
    /// charges with the same lines, one is told: if any of them can be proved, that one.
    fn tried(&self, charges: &[Charge], most: usize) -> Result<Vec<Finding>, Trouble> {
        let mut trials = Trials::new(self.case, most);
        let mut found = Vec::new();
        for ways in same_lines(self.accused(charges)?) {
            let first = &ways[0];
            let proof = trials.try_out(&likeliest(&ways));
            let (way, proof) = proof.map_or((first, None), |(acts, proof)| {
                (ways.iter().find(|way| way.acts.as_ref() == Some(&acts)).unwrap_or(first), Some(proof))
            });
            found.push(self.finding(way.charge, &way.shown, proof));
        }
        found.sort_by_key(|finding| finding.status() == Status::Suspected);
        Ok(found)
    }

    fn accused<'a>(&self, charges: &'a [Charge]) -> Result<Vec<Accused<'a>>, Trouble> {
        let mut circumstances = circumstances(charges, self.case)?.into_iter();
        let accused = charges.iter().map(|charge| {
            let known: Vec<Option<Circumstance>> =
                charge.parts.iter().map(|_| circumstances.next().flatten()).collect();
            let acts = self.acts(charge, &known);
            let shown = charge.parts.iter().zip(known).map(|(part, circumstance)| self.shown(*part, circumstance));
            Accused { charge, shown: shown.collect(), acts }
        });
        Ok(accused.collect())
    }

    /// The parts as a plan tells them; nothing if it cannot.
    fn acts(&self, charge: &Charge, known: &[Option<Circumstance>]) -> Option<Vec<Act>> {
        let act = |(part, known): (&Part, &Option<Circumstance>)| {
            let (at, locks) = self.arrival(part, known.as_ref()).filter(|(at, _)| at.time > 0)?;
            Some(Act { thread: part.thread?, at, locks })
        };
        charge.parts.iter().zip(known).map(act).collect()
    }

    /// Where a part is made, and with which locks: for releases and accesses in the C library, the call that leads there from outside
    /// of it. Arrivals within are not counted as they come, since what allocators call is not told.
    fn arrival(&self, part: &Part, known: Option<&Circumstance>) -> Option<(Arrival, Vec<TakenLock>)> {
        let is_inside = self.names.is_in_c_library(part.end.pc);
        match (part.moment, known) {
            // What the failing run did not come to is met when it first comes.
            (None, _) => (!is_inside).then_some((Arrival { pc: part.end.pc, time: 1 }, Vec::new())),
            (Some(_), Some(known)) if !is_inside && known.time > 0 => {
                Some((Arrival { pc: part.end.pc, time: known.time }, known.locks.clone()))
            }
            (Some(_), Some(known)) => {
                let outside = known.callers.iter().position(|caller| !self.names.is_in_c_library(*caller))?;
                known.calls.get(outside).cloned().map(|Call { at, locks }| (at, locks))
            }
            (Some(_), None) => None,
        }
    }

    fn finding(&self, charge: &Charge, shown: &[Shown], proof: Option<Proof>) -> Finding {
        let title = title(charge.form, shown);
        let mut finding = match &proof {
            Some(proof) => Finding::proved(charge.class, &title, &proof.command),
            None => Finding::suspected(charge.class, &title),
        };
        for part in shown {
            let place = part.place();
            let thread = part.part.moment.map(|moment| moment.thread);
            finding.causes.push(Cause { place: place.clone(), thread, text: part.text.clone() });
            if let Some(thread) = thread {
                let (text, stack) = (part.text.clone(), part.stack.clone());
                finding.steps.push(Step { thread, place, text: text.clone(), guilty: true });
                finding.sides.push(Side { thread, text, stack, locks: None, waits_for: None });
            }
        }
        let threads: BTreeSet<u32> = finding.steps.iter().map(|step| step.thread).collect();
        finding.threads = threads.into_iter().map(|thread| Thread { thread, ..Thread::default() }).collect();
        finding.variable = shown.first().map(|part| part.variable.clone());
        finding.failure = self.case.failure.as_ref().map(|text| Failure { text: text.clone(), ..Failure::default() });
        finding.grounds = charge.grounds.clone();
        finding.evidence = Evidence {
            recording: Some(self.case.failing.name()),
            process: Some(self.case.failing.log),
            ..Evidence::default()
        };
        if let Some(proof) = proof {
            finding.grounds.push(proof.ground);
            let (recording, process) = (Some(proof.recording), Some(proof.process));
            finding.evidence =
                Evidence { recording, process, plan: serde_json::to_value(&proof.plan).ok(), ..Evidence::default() };
        }
        finding.next = self.next();
        finding
    }

    fn bug_type(&self, suspect: &Suspect) -> Option<BugType> {
        let runs = &self.case.runs;
        match *suspect {
            Suspect::Pair(pair) => BugType::of_pair(runs.key(pair)),
            Suspect::Between { into, back } => {
                BugType::of_triple(runs.key(into).head, runs.key(into).tail, runs.key(back).tail)
            }
            Suspect::Missing(missing) => BugType::of_pair(missing.reversed),
            Suspect::Couple(..) | Suspect::InStep(_) | Suspect::Ring(_) => {
                // The table has two pairs of two threads: three are judged by the first two.
                let members = suspect.pairs(runs);
                let member = |number: usize| members.get(number).map(|(id, came)| (runs.key(*id), *came));
                let ((one, Some(first)), (other, Some(second))) = (member(0)?, member(1)?) else { return None };
                BugType::of_couple((one, &first), (other, &second))
            }
        }
    }

    fn grounds(&self, suspect: &Suspect, bug_type: Option<BugType>) -> Vec<String> {
        let runs = &self.case.runs;
        let all = runs.n_passing();
        let why = match *suspect {
            Suspect::Pair(pair) => match runs.times_in_passing(pair) {
                0 => format!("Procedure I: none of {all} passing runs has this order of accesses."),
                times => format!("Only {times} of {all} passing runs have this order of accesses."),
            },
            Suspect::Between { into, back } => match runs.times_together(into, back) {
                0 => format!("Procedure I: none of {all} passing runs has an access in between."),
                times => format!("Only {times} of {all} passing runs have an access in between."),
            },
            Suspect::Missing(Missing { original, partner: None, .. }) => {
                let times = runs.times_in_passing(original);
                format!(
                    "Procedure II: {times} of {all} passing runs have both accesses in the other order, this one has not."
                )
            }
            Suspect::Missing(Missing { original, partner: Some(partner), .. }) => {
                let (times, key) = (runs.times_in_passing(original), runs.key(partner));
                let place = |end: End| self.names.place(end.pc).first().map_or_else(String::new, at);
                format!(
                    "Procedure II: in {times} of {all} passing runs the other order comes along with the accesses at {} and {}, \
                     here only those came.",
                    place(key.head),
                    place(key.tail)
                )
            }
            Suspect::Couple(Couple { first, second }, level) => {
                let how = match level {
                    Level::Pc | Level::Third => "never together",
                    Level::Tid => "never from one thread to another and back",
                    Level::Loop => LOOPS,
                    Level::Context => "never together by way of these calls",
                };
                self.couple_ground([first, second], how)
            }
            Suspect::InStep(found) => {
                let how = if found.apart == Apart::Order { ORDER } else { LOOPS };
                self.couple_ground([found.couple.first, found.couple.second], how)
            }
            Suspect::Ring(ring) => {
                let times = ring.pairs.map(|pair| runs.times_in_passing(pair).to_string()).join(", ");
                format!(
                    "Procedure III with three pairs: of {all} passing runs, {times} have one each, but never all three in \
                     these iterations of loops."
                )
            }
        };
        let row = bug_type.map(|row| format!("Type {} of LOCON's table 1: {}.", row.0, row.description()));
        [why].into_iter().chain(row).collect()
    }

    fn couple_ground(&self, couple: [PairId; 2], how: &str) -> String {
        let all = self.case.runs.n_passing();
        let [one, other] = couple.map(|pair| self.case.runs.times_in_passing(pair));
        format!("Procedure III: of {all} passing runs, {one} have the one pair and {other} the other, but {how}.")
    }

    fn next(&self) -> Vec<Next> {
        let name = self.case.failing.name();
        vec![Next {
            command: format!("whodunit replay --gdb {name}"),
            text: "the failing run, forwards and backwards".to_owned(),
        }]
    }
}
