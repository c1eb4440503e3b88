//! Builds an exhibit of a memory error without and with optimisation, runs it on its inputs, and holds the outcomes against what
//! it claims.

use super::claims::told;
use super::exhibit::{Failure, LEVELS, Level};
use super::memory::{Build, Input, MemoryExhibit};
use crate::support::build::build;
use crate::support::execute::{Ending, Outcome, natively, under_engine};

/// What is wrong with the exhibit of this name.
pub fn check(name: &str) -> Result<(), String> {
    let exhibit = MemoryExhibit::read(name)?;
    if let Some(inconsistency) = exhibit.inconsistency()? {
        return Err(inconsistency);
    }
    for input in &exhibit.inputs {
        check_input(&exhibit, input).map_err(|problem| format!("input {}: {problem}", input.name))?;
    }
    Ok(())
}

fn check_input(exhibit: &MemoryExhibit, input: &Input) -> Result<(), String> {
    for level in LEVELS {
        let spec = exhibit.spec(input, Build::Faulty, level)?;
        must_end_as_claimed(input, &natively(&spec, &build(&spec)?)?, &format!("natively at {level:?}"))?;
        fails_at_its_mark(exhibit, input, level)?;
    }
    must_be_repaired(exhibit, input)?;
    is_judged_by_the_sanitizer(exhibit, input)
}

fn must_end_as_claimed(input: &Input, outcome: &Outcome, when: &str) -> Result<(), String> {
    let expected = match input.failure {
        None | Some(Failure::Output) => Ending::Exited(0),
        Some(Failure::Signal(signal)) => Ending::Killed(signal),
        Some(Failure::Exit(status)) => Ending::Exited(status),
        Some(Failure::Deadlock | Failure::Hang) => {
            return Err("memory errors are not claimed to stand still".to_owned());
        }
    };
    let as_claimed = match (&input.silent, input.failure) {
        (Some(silent), _) => outcome.stdout == silent.as_bytes(),
        (None, Some(Failure::Output)) => outcome.stdout != input.output.as_bytes(),
        (None, _) => true,
    };
    if outcome.ending == expected && as_claimed {
        return Ok(());
    }
    let claim = input.failure.map_or("nothing to be seen".to_owned(), |failure| format!("`{failure}`"));
    Err(told(&format!("it should end with {claim} {when}"), outcome))
}

/// Under the engine it ends the same way, and the report of a crash names the claimed line.
fn fails_at_its_mark(exhibit: &MemoryExhibit, input: &Input, level: Level) -> Result<(), String> {
    let mut spec = exhibit.spec(input, Build::Faulty, level)?;
    spec.crashes = false;
    let outcome = under_engine(&spec, &build(&spec)?, &[])?;
    must_end_as_claimed(input, &outcome, &format!("under whodunit at {level:?}"))?;
    let Some(crash) = &input.crash else {
        return Ok(());
    };
    let at_its_mark = match first_line(&outcome.stderr, "") {
        Some(line) => exhibit.has_mark_at(crash, line),
        // Behind an overwritten return address there is no line, and no way back to the one that returned.
        None => exhibit.is_return(crash)? && String::from_utf8_lossy(&outcome.stderr).contains("(unmapped)"),
    };
    if at_its_mark {
        return Ok(());
    }
    Err(told(&format!("at {level:?}, the crash should be reported at `{crash}`"), &outcome))
}

fn must_be_repaired(exhibit: &MemoryExhibit, input: &Input) -> Result<(), String> {
    let spec = exhibit.spec(input, Build::Repaired, Level::O2)?;
    let outcome = natively(&spec, &build(&spec)?)?;
    if outcome.ending == Ending::Exited(input.status) && outcome.stdout == input.output.as_bytes() {
        return Ok(());
    }
    Err(told(&format!("repaired, it should end with status {} and its output", input.status), &outcome))
}

/// AddressSanitizer sees the claimed error first, at the claimed line.
fn is_judged_by_the_sanitizer(exhibit: &MemoryExhibit, input: &Input) -> Result<(), String> {
    let Some(sanitizer) = &input.sanitizer else {
        return Ok(());
    };
    let spec = exhibit.spec(input, Build::Sanitized, Level::O0)?;
    let outcome = natively(&spec, &build(&spec)?)?;
    let report = format!("ERROR: AddressSanitizer: {}", sanitizer.report);
    let seen = String::from_utf8_lossy(&outcome.stderr).contains(&report);
    let line = first_line(&outcome.stderr, &report);
    let at_its_mark = sanitizer.at.as_ref().is_none_or(|mark| line.is_some_and(|line| exhibit.has_mark_at(mark, line)));
    if seen && at_its_mark {
        return Ok(());
    }
    Err(told(&format!("AddressSanitizer should see {} at {:?}", sanitizer.report, sanitizer.at), &outcome))
}

/// The first line of the program that a report names after `beginning`.
fn first_line(report: &[u8], beginning: &str) -> Option<u32> {
    let report = String::from_utf8_lossy(report);
    let (_, rest) = report.split_once(beginning)?;
    let (_, rest) = rest.split_once("program.c:")?;
    rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}
