//! The museum's races, at their marked lines; and its look-alikes, which have none.

use super::looking::{findings, look, record, titles};
use crate::exhibit::{self, Exhibit, Kind, Variant};
use crate::support::build;
use crate::support::execute::Scratch;
use serde_json::Value;
use std::collections::BTreeSet;

/// Seeds of the random schedules that follow the usual one until a run shows a claimed race.
///
/// Many, since a third of the schedules order some exhibits' races by a lock within the C library, and which those are
/// depends on the processor: the library's choice of string functions shifts every seed's switches.
const SEEDS: std::ops::Range<u32> = 1..13;

/// What these claim to race is ordered in all runs, by a lock that both threads happen to take. The list only shrinks.
const ORDERED: [&str; 1] = ["accidental_order"];

fn races_of(exhibit: &Exhibit, schedule: &[&str]) -> Result<Value, String> {
    let spec = exhibit.spec(Variant::Plain)?;
    let built = build::build(&spec)?;
    let scratch = Scratch::named(&format!("races-{}", exhibit.name))?;
    record(&scratch, schedule, &built.program, &[])?;
    look(&scratch, &[]).map(|(told, _)| told)
}

/// The lines of the exhibit's own source that each side of a finding has on its stack.
fn lines_of(finding: &Value) -> Vec<BTreeSet<u64>> {
    let sides = finding["sides"].as_array().into_iter().flatten();
    let own = |place: &&Value| place["file"].as_str().is_some_and(|file| file.contains("/museum/"));
    sides
        .map(|side| {
            side["stack"].as_array().into_iter().flatten().filter(own).filter_map(|at| at["line"].as_u64()).collect()
        })
        .collect()
}

fn is_shown(exhibit: &Exhibit, told: &Value) -> Result<bool, String> {
    let marked = exhibit.marked_lines()?;
    let has = |lines: &BTreeSet<u64>, mark: &str| {
        marked.get(mark).into_iter().flatten().any(|line| lines.contains(&u64::from(*line)))
    };
    let is_pair = |sides: &[BTreeSet<u64>], left: &str, right: &str| match sides {
        [one, other] => has(one, left) && has(other, right) || has(one, right) && has(other, left),
        _ => false,
    };
    let shows = |finding: &Value| {
        let sides = lines_of(finding);
        exhibit.races.iter().any(|(left, right)| is_pair(&sides, left, right))
    };
    Ok(findings(told).any(shows))
}

/// Whether one of the runs shows a claimed race.
fn is_found(exhibit: &Exhibit) -> Result<bool, String> {
    if is_shown(exhibit, &races_of(exhibit, &[])?)? {
        return Ok(true);
    }
    for seed in SEEDS.map(|seed| seed.to_string()) {
        let schedule = ["--policy", "random", "--quantum", "60", "--seed", &seed];
        if is_shown(exhibit, &races_of(exhibit, &schedule)?)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[test]
fn claimed_races_are_found() {
    let all = exhibit::all().expect("readable exhibits");
    let is_missed =
        |exhibit: &&Exhibit| !is_found(exhibit).unwrap_or_else(|problem| panic!("{}: {problem}", exhibit.name));
    let racy = all.iter().filter(|exhibit| !exhibit.races.is_empty());
    let missed: Vec<&str> = racy.filter(is_missed).map(|exhibit| exhibit.name.as_str()).collect();
    assert_eq!(missed, ORDERED);
}

#[test]
fn look_alikes_are_left_alone() {
    let mut alarms = Vec::new();
    let all = exhibit::all().expect("readable exhibits");
    for exhibit in all.iter().filter(|exhibit| exhibit.kind == Kind::Lookalike) {
        let told = races_of(exhibit, &[]).unwrap_or_else(|problem| panic!("{}: {problem}", exhibit.name));
        alarms.extend(titles(&told).into_iter().map(|title| format!("{}: {title}", exhibit.name)));
    }
    assert!(alarms.is_empty(), "{}", alarms.join("\n"));
}
