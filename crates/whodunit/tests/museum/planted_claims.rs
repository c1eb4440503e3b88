//! Holds the errors planted in programs of Debian against what they claim: without the error the program passes, with it it
//! fails.

use std::ffi::OsString;

use super::claims::told;
use super::exhibit::{Class, Failure};
use super::planted::{Garden, Growth, Planted};
use crate::debian;
use crate::support::execute::{Ending, Outcome, natively, under_engine};

/// Schedules that are tried for one under which a race fails. About one in twenty does.
const SEEDS: std::ops::Range<u32> = 1..301;

#[test]
fn planted_errors_fail_as_claimed() {
    debian::need(&["gcc", "make", "sed", "tar"]);
    let garden = Garden::new().unwrap_or_else(|problem| panic!("{problem}"));
    for exhibit in &garden.exhibits {
        check(&garden, exhibit).unwrap_or_else(|problem| panic!("museum/debian/{}: {problem}", exhibit.name));
    }
}

fn check(garden: &Garden, exhibit: &Planted) -> Result<(), String> {
    let lines = garden.marked_lines(exhibit)?;
    if !lines.contains_key("guilty") {
        return Err("no line is marked as guilty".to_owned());
    }
    let outcome = natively(&exhibit.spec()?, &garden.built(exhibit, Growth::Clean))?;
    let as_claimed = exhibit.output.as_ref().is_none_or(|output| outcome.stdout == output.as_bytes());
    if outcome.ending != Ending::Exited(0) || !as_claimed {
        return Err(told("without the error it should pass", &outcome));
    }
    if exhibit.class == Class::DataRace { fails_under_a_schedule(garden, exhibit) } else { fails(garden, exhibit) }
}

fn fails(garden: &Garden, exhibit: &Planted) -> Result<(), String> {
    let outcome = natively(&exhibit.spec()?, &garden.built(exhibit, Growth::Planted))?;
    if has_failed(exhibit, &outcome) {
        return Ok(());
    }
    Err(told(&format!("it should fail by `{}`", exhibit.failure), &outcome))
}

fn fails_under_a_schedule(garden: &Garden, exhibit: &Planted) -> Result<(), String> {
    for seed in SEEDS.map(|seed| seed.to_string()) {
        let options = ["--policy", "random", "--quantum", "400", "--seed", &seed].map(OsString::from);
        if has_failed(exhibit, &under_engine(&exhibit.spec()?, &garden.built(exhibit, Growth::Planted), &options)?) {
            return Ok(());
        }
    }
    Err(format!("it should fail by `{}` under one of {} schedules", exhibit.failure, SEEDS.len()))
}

fn has_failed(exhibit: &Planted, outcome: &Outcome) -> bool {
    matches!(exhibit.failure, Failure::Signal(signal) if outcome.ending == Ending::Killed(signal))
}
