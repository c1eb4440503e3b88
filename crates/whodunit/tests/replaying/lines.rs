//! Real programs: lines of the families of `programs.rs`, natively and recorded, must not tell the difference, and
//! every recording they leave must verify.
//!
//! Stands in the place of `programs/harness.rs`: the families call `check` through `programs::harness`.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::programs::compare::differences;
use crate::programs::debian;
use crate::programs::line::{Family, Line};
use crate::programs::running::{broken, fresh_folder, run, whodunit};
use crate::replaying::place::Place;

/// Which lines of a family are taken, if not all: some families take long.
const TAKEN: &[(&str, Range<usize>)] = &[
    ("cmake", 1..2),
    ("cplusplus", 1..2),
    ("gcc", 1..6),
    ("gdb", 0..1),
    ("git", 0..5),
    ("haskell", 0..1),
    ("java", 0..1),
    ("node", 0..1),
    ("openssl", 0..4),
    ("python", 0..9),
    ("rustc", 3..4),
];

/// Records the lines and fails with a report of all that differ or do not verify.
pub fn check(family: &Family, lines: &[Line]) {
    debian::need(family.needs);
    let range = TAKEN.iter().find(|(name, _)| *name == family.name).map(|(_, range)| range.clone());
    let taken = &lines[range.unwrap_or(0..lines.len())];
    let failures: Vec<String> = taken.iter().filter_map(|line| check_line(family, line)).collect();
    assert!(
        failures.is_empty(),
        "{} of {} lines of {} fail\n\n{}",
        failures.len(),
        taken.len(),
        family.name,
        failures.join("\n"),
    );
}

fn check_line(family: &Family, line: &Line) -> Option<String> {
    let base = fresh_folder(family, line);
    let prefix = recorder(&base);
    let native = run(line, &base, "");
    let mut found: Vec<String> = match broken(line, &base, &native) {
        Some(reason) => vec![reason],
        None => differences(&native, &run(line, &base, &prefix.to_string_lossy())),
    };
    if found.is_empty() {
        found = not_verified(&base.join("store"));
    }
    if found.is_empty() {
        fs::remove_dir_all(&base).unwrap_or_else(|error| panic!("{}: {error}", base.display()));
        return None;
    }
    Some(format!("--- {}\n  {}\n  in {}\n", line.title(), found.join("\n  "), base.display()))
}

/// A script that stands before a command and records it; a line may use it more than once.
fn recorder(base: &Path) -> PathBuf {
    let path = base.join("record");
    let script = format!(
        "#!/bin/sh\nWHODUNIT_DIR='{}' exec '{}' record --no-report -- \"$@\"\n",
        base.join("store").display(),
        whodunit().display()
    );
    fs::write(&path, script).expect("the folder is new");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the script is ours");
    path
}

/// What is wrong with the recordings that a line left.
fn not_verified(store: &Path) -> Vec<String> {
    let entries = fs::read_dir(store).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let recordings = entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut recordings: Vec<PathBuf> = recordings.map(|entry| entry.path()).collect();
    recordings.sort();
    if recordings.is_empty() {
        return vec!["nothing was recorded".to_owned()];
    }
    recordings.iter().filter_map(|recording| verify(recording)).collect()
}

fn verify(recording: &Path) -> Option<String> {
    let place = Place::new("verify");
    place.not_verified(recording).map(|problem| format!("{}:\n{problem}", recording.display()))
}
