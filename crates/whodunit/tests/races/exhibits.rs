//! The museum's races, at their marked lines; and its look-alikes, which have none.

use super::blessed::{self, is_own};
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
    // Proving them is tested elsewhere, and takes its time.
    look(&scratch, &["--prove", "0"]).map(|(told, _)| told)
}

/// The lines of the exhibit's own source that each side of a finding has on its stack.
fn lines_of(finding: &Value) -> Vec<BTreeSet<u64>> {
    let sides = finding["sides"].as_array().into_iter().flatten();
    sides
        .map(|side| {
            side["stack"].as_array().into_iter().flatten().filter(is_own).filter_map(|at| at["line"].as_u64()).collect()
        })
        .collect()
}

/// Reports of the findings that show a claimed race.
fn shown(exhibit: &Exhibit, told: &Value) -> Result<Vec<String>, String> {
    let marked = exhibit.marked_lines()?;
    let has = |lines: &BTreeSet<u64>, mark: &str| {
        marked.get(mark).into_iter().flatten().any(|line| lines.contains(&u64::from(*line)))
    };
    let is_pair = |sides: &[BTreeSet<u64>], left: &str, right: &str| match sides {
        [one, other] => has(one, left) && has(other, right) || has(one, right) && has(other, left),
        _ => false,
    };
    let shows = |finding: &&Value| {
        let sides = lines_of(finding);
        exhibit.races.iter().any(|(left, right)| is_pair(&sides, left, right))
    };
    findings(told).filter(shows).map(|race| blessed::report(exhibit, race)).collect()
}

/// Runs until one shows a claimed race as it is blessed; all that was told otherwise, if none does.
fn is_found(exhibit: &Exhibit) -> Result<Result<(), Vec<String>>, String> {
    let seeds: Vec<String> = SEEDS.map(|seed| seed.to_string()).collect();
    let random = |seed| vec!["--policy", "random", "--quantum", "60", "--seed", seed];
    let schedules = std::iter::once(Vec::new()).chain(seeds.iter().map(|seed| random(seed.as_str())));
    let mut others = Vec::new();
    for schedule in schedules {
        let reports = shown(exhibit, &races_of(exhibit, &schedule)?)?;
        if blessed::is_blessed(exhibit, &reports)? {
            return Ok(Ok(()));
        }
        others.extend(reports);
    }
    Ok(Err(others))
}

#[test]
fn claimed_races_are_found_and_told_as_blessed() {
    let all = exhibit::all().expect("readable exhibits");
    let mut missed = Vec::new();
    for exhibit in all.iter().filter(|exhibit| !exhibit.races.is_empty()) {
        let name = &exhibit.name;
        if let Err(others) = is_found(exhibit).unwrap_or_else(|problem| panic!("{name}: {problem}")) {
            assert!(
                others.is_empty(),
                "{name}: none of these is what museum/{name}/report.txt has:\n{}",
                others.join("\n")
            );
            missed.push(name.as_str());
        }
    }
    assert_eq!(missed, ORDERED);
}

#[test]
fn look_alikes_are_left_alone() {
    let mut alarms = Vec::new();
    let all = exhibit::all().expect("readable exhibits");
    for exhibit in all.iter().filter(|exhibit| exhibit.kind == Kind::Lookalike) {
        let told = races_of(exhibit, &[]).unwrap_or_else(|problem| panic!("{}: {problem}", exhibit.name));
        let is_calm = blessed::is_blessed(exhibit, &[blessed::NOTHING.to_owned()]);
        assert!(is_calm.expect("a blessed report"), "{}: its report is not that of a look-alike", exhibit.name);
        alarms.extend(titles(&told).into_iter().map(|title| format!("{}: {title}", exhibit.name)));
    }
    assert!(alarms.is_empty(), "{}", alarms.join("\n"));
}
