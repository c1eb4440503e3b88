//! Builds an exhibit in its variants, runs them, and holds the outcomes against what it claims.

use std::ffi::OsString;

use nix::libc::SIGALRM;

use super::exhibit::{Exhibit, Failure, LEVELS, Level, RoundRobin, Variant};
use crate::support::build::{Built, build};
use crate::support::compare::describe;
use crate::support::execute::{Ending, Outcome, natively, under_engine};
use crate::support::spec::Spec;

/// How often a failure must be shown in a row; the order is forced, so this is not a matter of luck.
const SHOWINGS: usize = 3;
/// `whodunit run` ends with this when every thread waits for another one.
const DEADLOCK_STATUS: i32 = 124;
/// Schedules under which a program without a bug is tried: seed and quantum.
const RANDOM_SCHEDULES: [(&str, &str); 4] = [("1", "20"), ("2", "50"), ("3", "200"), ("4", "1000")];

/// Where a program ran.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ground {
    Native,
    Engine,
}

/// What is wrong with the exhibit of this name.
pub fn check(name: &str) -> Result<(), String> {
    let exhibit = Exhibit::read(name)?;
    if let Some(inconsistency) = exhibit.inconsistency()? {
        return Err(inconsistency);
    }
    match exhibit.failure {
        None => never_fails(&exhibit),
        Some(failure) => {
            fails_when_shown(&exhibit, failure)?;
            fails_at_every_level(&exhibit, failure)?;
            passes_when_repaired(&exhibit)?;
            keeps_to_round_robin(&exhibit, failure)
        }
    }
}

fn fails_when_shown(exhibit: &Exhibit, failure: Failure) -> Result<(), String> {
    let (spec, built) = prepared(exhibit, Variant::Shown)?;
    // Only what stands still needs the alarm; the others get time for a busy machine.
    let native = if matches!(failure, Failure::Deadlock | Failure::Hang) { impatient(&spec) } else { spec.clone() };
    for _ in 0..SHOWINGS {
        must_fail(exhibit, failure, Ground::Native, &natively(&native, &built)?, "with its order forced")?;
    }
    // The engine sees a deadlock by itself.
    let engine = if failure == Failure::Hang { impatient(&spec) } else { spec };
    must_fail(exhibit, failure, Ground::Engine, &under_engine(&engine, &built, &[])?, "with its order forced")
}

/// What is to be diagnosed is diagnosed without and with optimisation.
fn fails_at_every_level(exhibit: &Exhibit, failure: Failure) -> Result<(), String> {
    let levels: &[Level] = if exhibit.diagnosis.is_some() { &LEVELS } else { &[] };
    for &level in levels {
        let spec = exhibit.spec_at(Variant::Shown, level)?;
        let built = build(&spec)?;
        let outcome = natively(&if failure == Failure::Hang { impatient(&spec) } else { spec }, &built)?;
        must_fail(exhibit, failure, Ground::Native, &outcome, &format!("with its order forced, at {level:?}"))?;
    }
    Ok(())
}

/// Waits a second only before it calls a run a standstill.
fn impatient(spec: &Spec) -> Spec {
    let mut impatient = spec.clone();
    impatient.env.push(("SHOW_SECONDS".to_owned(), "1".to_owned()));
    impatient
}

fn passes_when_repaired(exhibit: &Exhibit) -> Result<(), String> {
    let (spec, built) = prepared(exhibit, Variant::Repaired)?;
    must_pass(exhibit, &natively(&spec, &built)?, "repaired")
}

fn keeps_to_round_robin(exhibit: &Exhibit, failure: Failure) -> Result<(), String> {
    let (spec, built) = prepared(exhibit, Variant::Plain)?;
    let outcome = under_engine(&spec, &built, &[])?;
    match exhibit.round_robin {
        RoundRobin::Passes => must_pass(exhibit, &outcome, "under round robin"),
        RoundRobin::Fails => must_fail(exhibit, failure, Ground::Engine, &outcome, "under round robin"),
    }
}

fn never_fails(exhibit: &Exhibit) -> Result<(), String> {
    let (spec, built) = prepared(exhibit, Variant::Plain)?;
    must_pass(exhibit, &natively(&spec, &built)?, "natively")?;
    must_pass(exhibit, &under_engine(&spec, &built, &[])?, "under round robin")?;
    for (seed, quantum) in RANDOM_SCHEDULES {
        let options = ["--policy", "random", "--seed", seed, "--quantum", quantum].map(OsString::from);
        must_pass(exhibit, &under_engine(&spec, &built, &options)?, &format!("under random schedule {seed}"))?;
    }
    is_judged_by_the_sanitizer(exhibit)
}

/// ThreadSanitizer sees the races that there are, and no others; it ends a program in which it saw one with status 66.
fn is_judged_by_the_sanitizer(exhibit: &Exhibit) -> Result<(), String> {
    let (spec, built) = prepared(exhibit, Variant::Sanitized)?;
    let outcome = natively(&spec, &built)?;
    let sees_race = outcome.ending == Ending::Exited(66);
    if sees_race == exhibit.races.is_empty() {
        return Err(told("the races claimed are not what ThreadSanitizer sees", &outcome));
    }
    Ok(())
}

fn prepared(exhibit: &Exhibit, variant: Variant) -> Result<(Spec, Built), String> {
    let spec = exhibit.spec(variant)?;
    let built = build(&spec)?;
    Ok((spec, built))
}

fn must_pass(exhibit: &Exhibit, outcome: &Outcome, when: &str) -> Result<(), String> {
    if outcome.ending == Ending::Exited(0) && outcome.stdout == exhibit.output.as_bytes() {
        return Ok(());
    }
    Err(told(&format!("it should pass {when}"), outcome))
}

fn must_fail(exhibit: &Exhibit, failure: Failure, ground: Ground, outcome: &Outcome, when: &str) -> Result<(), String> {
    let expected = match (failure, ground) {
        (Failure::Signal(signal), _) => Ending::Killed(signal),
        (Failure::Exit(status), _) => Ending::Exited(status),
        (Failure::Output, _) => Ending::Exited(0),
        (Failure::Deadlock, Ground::Engine) => Ending::Exited(DEADLOCK_STATUS),
        (Failure::Deadlock | Failure::Hang, _) => Ending::Killed(SIGALRM),
    };
    let right_output = outcome.stdout == exhibit.output.as_bytes();
    if outcome.ending == expected && !(failure == Failure::Output && right_output) {
        return Ok(());
    }
    let ground = if ground == Ground::Native { "natively" } else { "under whodunit" };
    Err(told(&format!("it should fail {ground} {when} by `{failure}`"), outcome))
}

pub fn told(problem: &str, outcome: &Outcome) -> String {
    format!(
        "{problem}; {}\nstdout: {}\nstderr: {}",
        describe(outcome.ending),
        String::from_utf8_lossy(&outcome.stdout),
        String::from_utf8_lossy(&outcome.stderr)
    )
}
