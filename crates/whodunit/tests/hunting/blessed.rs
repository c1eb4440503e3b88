//! Blessed reports of exhibits that do not race: how `hunt` calls their failure, kept in `report.txt` beside the exhibit.
//! `BLESS=1 cargo test --test hunting` writes them anew. Exhibits that race have theirs from `tests/races`.

use super::place::Place;
use crate::exhibit::{self, Exhibit, Failure, Variant};
use crate::support::build;
use std::collections::BTreeMap;
use std::fs;

/// Far more than any of them takes.
const SCHEDULES: &str = "400";

/// What has to go wrong for these.
const FAULTS: [(&str, &str); 4] = [
    ("eintr_ignored", "--faults=eintr"),
    ("malloc_unchecked", "--faults=memory"),
    ("short_write", "--faults=short"),
    ("spurious_wakeup", "--faults=wakeups"),
];

/// Its claimed race is ordered in all runs, so nothing is told of it.
const ORDERED: &str = "accidental_order";

/// What `hunt` says first, with names of marked lines in the place of their numbers.
fn report(exhibit: &Exhibit) -> String {
    let place = Place::empty(&format!("blessed-{}", exhibit.name));
    let spec = exhibit.spec(Variant::Plain).expect("a readable exhibit");
    let built = build::build(&spec).unwrap_or_else(|problem| panic!("{problem}"));
    fs::copy(&built.program, place.folder.join("guest")).expect("the folder is new");
    fs::write(place.folder.join("good.txt"), &exhibit.output).expect("the folder is new");
    let mut words = vec!["-n", SCHEDULES, "--expect-output", "good.txt"];
    words.extend(FAULTS.iter().find(|(name, _)| *name == exhibit.name).map(|(_, faults)| *faults));
    let (status, text) = place.search(&words);
    assert_eq!(status, Some(1), "{}: {text}", exhibit.name);
    let first = text.lines().next().unwrap_or_default();
    match exhibit.failure {
        // Where it stands in its loop when it is given up is chance.
        Some(Failure::Hang) => first.split(" in ").next().unwrap_or_default().to_owned(),
        _ => with_marks(first, &exhibit.marked_lines().expect("readable marks")),
    }
}

/// Lines that have no mark are left out.
fn with_marks(text: &str, marked: &BTreeMap<String, Vec<u32>>) -> String {
    let mut told = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" (program.c") {
        let (place, behind) = after.split_once(')').unwrap_or((after, ""));
        // The file may be of C++.
        let line = place.trim_start_matches(['c', ':']);
        let mark = marked.iter().find(|(_, lines)| line.parse().is_ok_and(|line| lines.contains(&line)));
        told += before;
        told += &mark.map(|(mark, _)| format!(" at {mark}")).unwrap_or_default();
        rest = behind;
    }
    told + rest
}

#[test]
fn exhibits_without_races_fail_as_blessed() {
    let mut others = Vec::new();
    let is_meant =
        |exhibit: &&Exhibit| exhibit.failure.is_some() && (exhibit.races.is_empty() || exhibit.name == ORDERED);
    for exhibit in exhibit::all().expect("readable exhibits").iter().filter(is_meant) {
        let told = report(exhibit) + "\n";
        let file = exhibit.folder.join("report.txt");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&file, &told).expect("reports can be written");
        }
        if fs::read_to_string(&file).is_ok_and(|blessed| blessed == told) {
            continue;
        }
        others.push(format!("{}: {told}", exhibit.name));
    }
    assert!(others.is_empty(), "not as in their report.txt:\n{}", others.concat());
}

#[test]
fn every_exhibit_has_a_report() {
    let all = exhibit::all().expect("readable exhibits");
    let without: Vec<&str> =
        all.iter().filter(|exhibit| !exhibit.folder.join("report.txt").is_file()).map(|it| it.name.as_str()).collect();
    assert!(without.is_empty(), "{}", without.join(", "));
}
