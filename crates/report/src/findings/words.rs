//! The sentences of findings, which text, HTML and SARIF share. All of them can be shown: what a terminal would obey is
//! replaced.

use trace::finding::{Failure, Finding, Findings, Lock, LockMode, Place, Preemption, Side, Status, Variable, Wait};

use super::classes::about;
use super::places;
use crate::look::Look;
use crate::text::{count, printable};

/// `thread 2 "worker"`.
pub(super) fn thread(finding: &Finding, number: u32) -> String {
    let known = finding.threads.iter().find(|thread| thread.thread == number);
    match known.and_then(|thread| thread.name.as_ref()) {
        Some(name) => format!("thread {number} \"{}\"", printable(name)),
        None => format!("thread {number}"),
    }
}

pub(super) fn title(finding: &Finding) -> String {
    capitalised(&printable(&finding.title))
}

/// Class, status, and how often it was seen.
pub(super) fn standing(finding: &Finding) -> String {
    let status = match finding.status() {
        Status::Proved => "proved by a re-run",
        Status::Suspected => "a suspicion that no re-run has shown yet",
    };
    let orders = match finding.both_orders {
        Some(true) => ", in both orders",
        Some(false) => ", in one order only",
        None => "",
    };
    let times = match (finding.count, orders) {
        (..=1, "") => String::new(),
        (..=1, orders) => format!("; seen once{orders}"),
        (times, orders) => format!("; seen {times} times{orders}"),
    };
    format!("{}, {status}{times}", about(finding.class).name)
}

/// `SIGSEGV: invalid write to 0x10, in thread 3 "worker", evict at cache.c:88`
pub(super) fn failure(finding: &Finding, failure: &Failure, look: &Look) -> String {
    let mut sentence = printable(&failure.text);
    if let Some(number) = failure.thread {
        sentence += &format!(", in {}", thread(finding, number));
    }
    if let Some(place) = &failure.at {
        sentence += &format!(", {}", places::words(place, look));
    }
    sentence
}

/// `thread 2 is preempted after parse at parse.c:41 until thread 3 has passed evict at cache.c:88`
///
/// A thread without a place has done nothing yet; one that passes none does what it can.
pub fn preemption(finding: &Finding, preemption: &Preemption, look: &Look) -> String {
    let is_known = |place: &Place| *place != Place::default();
    let Preemption { thread: held, after, until } = preemption;
    let lost = match is_known(after) {
        true => format!("is preempted after {}", places::words(after, look)),
        false => "is kept back".to_owned(),
    };
    let passed = match is_known(&until.passes) {
        true => format!("has passed {}", places::words(&until.passes, look)),
        false => "cannot go on".to_owned(),
    };
    format!("{} {lost} until {} {passed}", thread(finding, *held), thread(finding, until.thread))
}

/// A stack with the sentence that it is for.
pub(super) struct Told<'a> {
    pub sentence: String,
    /// Whose stack it is, if that is known.
    pub thread: Option<u32>,
    /// Innermost first.
    pub stack: &'a [Place],
}

/// All stacks of a finding: of its sides, and where its threads were made.
pub(super) fn stacks<'a>(finding: &'a Finding, look: &Look) -> Vec<Told<'a>> {
    let sides = finding.sides.iter().map(|part| Told {
        sentence: side(finding, part, look),
        thread: Some(part.thread),
        stack: &part.stack,
    });
    let made = finding.threads.iter().filter(|thread| !thread.created.is_empty()).map(|made| Told {
        sentence: format!("{} was created here", thread(finding, made.thread)),
        thread: None,
        stack: &made.created,
    });
    sides.chain(made).collect()
}

/// ``thread 2 "worker" writes 4 bytes, holding `lock` (taken in push at list.c:9)``
pub(super) fn side(finding: &Finding, side: &Side, look: &Look) -> String {
    let mut sentence = format!("{} {}", thread(finding, side.thread), printable(&side.text));
    let mut holding = ", holding";
    if let Some(wait) = &side.waits_for {
        sentence += &waiting(finding, wait);
        // Not to be taken for what the thread does that has the lock.
        holding = ", and itself holds";
    }
    let locks = side.locks.as_ref().map(|locks| locks.iter().map(|held| taken_lock(held, look)).collect::<Vec<_>>());
    match locks {
        Some(locks) if locks.is_empty() => format!("{sentence}{holding} no lock"),
        Some(locks) => format!("{sentence}{holding} {}", locks.join(" and ")),
        None => sentence,
    }
}

fn waiting(finding: &Finding, wait: &Wait) -> String {
    let holder = wait.held_by.map(|holder| format!(", which {} holds", thread(finding, holder))).unwrap_or_default();
    format!(" for {}{holder}", lock(&wait.lock))
}

fn taken_lock(held: &Lock, look: &Look) -> String {
    let taken = held.taken.as_ref().map(|place| format!(" (taken in {})", places::words(place, look)));
    lock(held) + &taken.unwrap_or_default()
}

fn lock(lock: &Lock) -> String {
    let name = match (&lock.name, lock.address) {
        (Some(name), _) => format!("`{}`", printable(name)),
        (None, Some(address)) => format!("the lock at {address}"),
        (None, None) => "a lock".to_owned(),
    };
    match lock.mode {
        LockMode::Exclusive => name,
        LockMode::Shared => name + " for reading",
    }
}

/// `` `counter`: int, 4 bytes at 0x550065558010, in the program's data ``
pub(super) fn variable(variable: &Variable) -> String {
    let name = variable.name.as_ref().map(|name| format!("`{}`", printable(name)));
    let kind = variable.type_name.as_deref().map(printable);
    let size = variable.size.map(|size| count(usize::try_from(size).unwrap_or(usize::MAX), "byte"));
    let extent = match (size, variable.address) {
        (Some(size), Some(address)) => Some(format!("{size} at {address}")),
        (Some(size), None) => Some(size),
        (None, address) => address.map(|address| format!("at {address}")),
    };
    let rest: Vec<String> = [kind, extent, variable.text.as_deref().map(printable)].into_iter().flatten().collect();
    match (name, rest.join(", ")) {
        (Some(name), rest) if rest.is_empty() => name,
        (Some(name), rest) => format!("{name}: {rest}"),
        (None, rest) => rest,
    }
}

/// `2 findings in server (recording server-3): 1 proved, 1 suspected; 3 suppressed.`
pub(super) fn summary(findings: &Findings) -> String {
    let recording = findings.recording.as_ref().map(|name| format!(" (recording {})", printable(name)));
    let subject = printable(&findings.program) + &recording.unwrap_or_default();
    let number = findings.findings.len();
    let proved = findings.findings.iter().filter(|finding| finding.status() == Status::Proved).count();
    let mut sentence = match number {
        0 => format!("No findings in {subject}"),
        _ => format!("{} in {subject}: {}", count(number, "finding"), shares(proved, number - proved)),
    };
    let besides = [(findings.summary.suppressed, "suppressed"), (findings.summary.left_out, "more left out")];
    for (number, what) in besides.into_iter().filter(|(number, _)| *number > 0) {
        sentence += &format!("; {number} {what}");
    }
    sentence + "."
}

fn shares(proved: usize, suspected: usize) -> String {
    match (proved, suspected) {
        (proved, 0) => format!("{proved} proved"),
        (0, suspected) => format!("{suspected} suspected"),
        _ => format!("{proved} proved, {suspected} suspected"),
    }
}

/// For the start of a line.
pub(super) fn capitalised(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
