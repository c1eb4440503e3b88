//! The museum's races, at their marked lines; and its look-alikes, which have none.

use super::looking::{findings, look, record, titles};
use crate::exhibit::{self, Exhibit, Kind, Variant};
use crate::support::build;
use crate::support::execute::Scratch;
use serde_json::Value;
use std::collections::BTreeSet;

/// Exhibits of which one run under the default schedule shows no claimed race: what they claim is ordered in that run, by a
/// lock that both happened to take. The list only shrinks.
const ORDERED_IN_ONE_RUN: [&str; 6] = [
    "accidental_order",
    "cherokee_buffer",
    "mysql_log_closed",
    "pbzip2_condition",
    "pbzip2_queue",
    "transmission_bandwidth",
];

fn races_of(exhibit: &Exhibit) -> Result<Value, String> {
    let spec = exhibit.spec(Variant::Plain)?;
    let built = build::build(&spec)?;
    let scratch = Scratch::named(&format!("races-{}", exhibit.name))?;
    record(&scratch, &[], &built.program, &[])?;
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

#[test]
fn claimed_races_are_found() {
    let mut missed = Vec::new();
    for exhibit in exhibit::all().expect("readable exhibits").iter().filter(|exhibit| !exhibit.races.is_empty()) {
        let told = races_of(exhibit).unwrap_or_else(|problem| panic!("{}: {problem}", exhibit.name));
        if !is_shown(exhibit, &told).expect("a readable source") {
            missed.push((exhibit.name.clone(), titles(&told).join("; ")));
        }
    }
    let unexpected: Vec<_> = missed.iter().filter(|(name, _)| !ORDERED_IN_ONE_RUN.contains(&name.as_str())).collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
}

#[test]
fn look_alikes_are_left_alone() {
    let mut alarms = Vec::new();
    let all = exhibit::all().expect("readable exhibits");
    for exhibit in all.iter().filter(|exhibit| exhibit.kind == Kind::Lookalike) {
        let told = races_of(exhibit).unwrap_or_else(|problem| panic!("{}: {problem}", exhibit.name));
        alarms.extend(titles(&told).into_iter().map(|title| format!("{}: {title}", exhibit.name)));
    }
    assert!(alarms.is_empty(), "{}", alarms.join("\n"));
}
