//! `why --expect-output`: a run that failed by what it wrote.
//!
//! Of a program with threads, other orders are tried, and one in which it writes what it should is the answer. Otherwise,
//! or where none is found, corrupted memory is looked for, by other layouts of it.

use super::threads::Examiner;
use super::{END_WINDOW, Sites, silent};
use crate::races::Subject;
use crate::recordings::Trouble;
use crate::rerun::{carry_out, outcomes};
use session::rerun::{Outcome, Plan, Step};
use std::path::Path;
use trace::finding::{Failure, Findings};

/// More of a line is not shown.
const LONGEST: usize = 60;
/// So many bytes that differ are followed back.
const MOST_BYTES: usize = 3;

/// What a program should have written. What is no UTF-8 is replaced, as it is in outcomes.
pub fn read(path: &Path) -> Result<String, Trouble> {
    let cannot = |error: std::io::Error| Trouble::Refused(format!("cannot read {}: {error}", path.display()));
    Ok(String::from_utf8_lossy(&std::fs::read(path).map_err(cannot)?).into_owned())
}

pub fn follow(expected: &str, subject: &Subject<'_>, findings: &mut Findings) -> Result<(), Trouble> {
    let recorded = as_recorded(subject)?;
    let written = outcomes::written(&recorded);
    let Some(Difference { bytes, text: difference }) = difference(&written, expected) else {
        let sentence = "the recorded program wrote just what was expected; `why --silent` looks for memory corruption";
        return Err(Trouble::Refused(sentence.to_owned()));
    };
    if subject.recorded.threads.len() > 1 {
        reorder(expected, &bytes, &recorded, subject, findings)?;
    }
    if findings.findings.is_empty() {
        silent::look(subject, findings)?;
    }
    if findings.findings.is_empty() {
        let sentence = format!(
            "{difference}; neither another order of threads nor corrupted memory was found behind that. `whodunit \
             last-write` tells who wrote a variable last"
        );
        return Err(Trouble::Refused(sentence));
    }
    for finding in &mut findings.findings {
        let failure = Failure { text: difference.clone(), signal: None, exit_status: None, thread: None, at: None };
        finding.failure = Some(failure);
    }
    Ok(())
}

/// Other orders of the threads, and whether the program then writes what it should.
fn reorder(
    expected: &str,
    bytes: &[u64],
    recorded: &Outcome,
    subject: &Subject<'_>,
    findings: &mut Findings,
) -> Result<(), Trouble> {
    let sites = Sites::new(&subject.recorded.space);
    let origins =
        Step::Origins { thread: recorded.thread, clock: recorded.clock.saturating_sub(END_WINDOW), until: None };
    let examiner = Examiner::new(subject, &sites, recorded.ending.clone()).expecting(expected.to_owned());
    let mut suspected = None;
    for byte in bytes {
        let plan = Plan::new(vec![origins.clone(), Step::Output(*byte)]);
        let outcome = carry_out(subject.recording.folder(), subject.log, &plan)?;
        let examined = examiner.around(&outcome, recorded)?;
        if examined.is_proved {
            examined.tell(findings);
            return Ok(());
        }
        suspected = suspected.or(Some(examined).filter(|examined| examined.finding.is_some()));
    }
    let races = examiner.races(recorded)?;
    let best = if races.is_proved { Some(races) } else { suspected.or(Some(races)) };
    if let Some(examined) = best.filter(|examined| examined.finding.is_some()) {
        examined.tell(findings);
    }
    Ok(())
}

/// The run as it was recorded: no program has an instruction where this plan acts.
fn as_recorded(subject: &Subject<'_>) -> Result<Outcome, Trouble> {
    let nowhere =
        Step::Suppress { thread: None, at: "0x1".to_owned(), clock: None, time: 1, times: 1, dependents: false };
    carry_out(subject.recording.folder(), subject.log, &Plan::new(vec![nowhere]))
}

/// Where two texts first differ.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    /// The first few bytes that differ: a sign is not made of what the digits behind it are.
    bytes: Vec<u64>,
    text: String,
}

fn difference(written: &str, expected: &str) -> Option<Difference> {
    if written == expected {
        return None;
    }
    let byte = written.bytes().zip(expected.bytes()).take_while(|(one, other)| one == other).count();
    let line = 1 + expected.bytes().take(byte).filter(|byte| *byte == b'\n').count();
    let shown = |text: &str| match text.lines().nth(line - 1) {
        Some(line) => format!("`{}`", line.chars().take(LONGEST).collect::<String>()),
        None => "nothing".to_owned(),
    };
    let (got, wanted) = (shown(written), shown(expected));
    let text = format!("wrong output from byte {byte} on: line {line} is {got}, and not {wanted}");
    let end = byte + written.as_bytes()[byte..].iter().take_while(|letter| **letter != b'\n').count();
    let differs = |byte: &usize| expected.as_bytes().get(*byte) != written.as_bytes().get(*byte);
    let bytes = (byte..end).filter(differs).take(MOST_BYTES).map(|byte| byte as u64).collect();
    Some(Difference { bytes, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_told() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        let told = |written, expected| difference(written, expected).map(|difference| difference.text);
        let two = "wrong output from byte 5 on: line 2 is `two`, and not `ten`";
        assert_eq!(told("one\ntwo\n", "one\nten\n").as_deref(), Some(two));
        assert_eq!(difference("-1000, 5\n", "197, 5\n").map(|difference| difference.bytes), Some(vec![0, 1, 2]));
        let missing = "wrong output from byte 4 on: line 2 is nothing, and not `two`";
        assert_eq!(told("one\n", "one\ntwo\n").as_deref(), Some(missing));
    }
}
