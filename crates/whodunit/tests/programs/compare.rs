//! Owns the comparison of two runs of a line, and the words that tell where they part.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::tree::{Entry, Tree};

/// Bytes shown from the first difference on.
const SHOWN_BYTES: usize = 160;

/// Bytes shown before the first difference, to recognise the place.
const SHOWN_BEFORE: usize = 40;

/// Everything that can be seen of a run from outside.
pub struct Outcome {
    /// None if the run reached its time limit and was killed.
    pub status: Option<ExitStatus>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub tree: Tree,
}

/// One entry for every way in which the second run differs from the native one.
pub fn differences(native: &Outcome, observed: &Outcome) -> Vec<String> {
    let mut found = Vec::new();
    if native.status != observed.status {
        let (expected, actual) = (describe_status(native.status), describe_status(observed.status));
        found.push(format!("ended differently: native {expected}, whodunit {actual}"));
    }
    found.extend(bytes_differ("standard output", &native.stdout, &observed.stdout));
    found.extend(bytes_differ("standard error", &native.stderr, &observed.stderr));
    found.extend(trees_differ(&native.tree, &observed.tree));
    found
}

pub fn describe_status(status: Option<ExitStatus>) -> String {
    match status {
        None => "killed at the time limit".to_owned(),
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => status.to_string(),
        },
    }
}

fn bytes_differ(what: &str, native: &[u8], observed: &[u8]) -> Option<String> {
    if native == observed {
        return None;
    }
    let at = native.iter().zip(observed).take_while(|(left, right)| left == right).count();
    Some(format!(
        "{what} differs from byte {at} on ({} bytes natively, {} under whodunit)\n\
         \x20   native:   {}\n\
         \x20   whodunit: {}",
        native.len(),
        observed.len(),
        excerpt(native, at),
        excerpt(observed, at),
    ))
}

fn excerpt(bytes: &[u8], at: usize) -> String {
    let from = at.saturating_sub(SHOWN_BEFORE);
    let to = bytes.len().min(at + SHOWN_BYTES);
    let ellipsis = if to < bytes.len() { "…" } else { "" };
    format!("\"{}\"{ellipsis}", bytes[from..to].escape_ascii())
}

fn trees_differ(native: &Tree, observed: &Tree) -> Vec<String> {
    let missing = native.keys().filter(|path| !observed.contains_key(*path));
    let extra = observed.keys().filter(|path| !native.contains_key(*path));
    let mut found: Vec<String> = missing
        .map(|path| format!("{} is missing under whodunit", path.display()))
        .chain(extra.map(|path| format!("{} exists only under whodunit", path.display())))
        .collect();
    for (path, entry) in native {
        let other = observed.get(path);
        found.extend(other.and_then(|other| entries_differ(&path.display().to_string(), entry, other)));
    }
    found
}

fn entries_differ(path: &str, native: &Entry, observed: &Entry) -> Option<String> {
    match (native, observed) {
        (Entry::File { mode, bytes }, Entry::File { mode: other_mode, bytes: other_bytes }) if mode == other_mode => {
            bytes_differ(path, bytes, other_bytes)
        }
        _ if native == observed => None,
        _ => Some(format!("{path}: native {}, whodunit {}", describe_entry(native), describe_entry(observed))),
    }
}

fn describe_entry(entry: &Entry) -> String {
    match entry {
        Entry::Folder { mode } => format!("folder with mode {mode:o}"),
        Entry::File { mode, bytes } => format!("file of {} bytes with mode {mode:o}", bytes.len()),
        Entry::Link { target } => format!("link to {}", target.display()),
        Entry::Special(kind) => (*kind).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(raw_status: i32, stdout: &str, files: &[(&str, &str)]) -> Outcome {
        let file = |text: &str| Entry::File { mode: 0o644, bytes: text.into() };
        Outcome {
            status: Some(ExitStatus::from_raw(raw_status)),
            stdout: stdout.into(),
            stderr: Vec::new(),
            tree: files.iter().map(|(path, text)| (path.into(), file(text))).collect(),
        }
    }

    fn check(native: Outcome, observed: Outcome, expected: &[&str]) {
        let found = differences(&native, &observed);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found:?} does not say {expected:?}");
        }
    }

    #[test]
    fn equal_runs_have_no_differences() {
        check(outcome(0, "a", &[("f", "x")]), outcome(0, "a", &[("f", "x")]), &[]);
    }

    #[test]
    fn a_signal_is_not_the_exit_status_a_shell_makes_of_it() {
        check(outcome(15, "", &[]), outcome(143 << 8, "", &[]), &["native signal 15, whodunit exit status 143"]);
    }

    #[test]
    fn the_first_differing_byte_is_named() {
        check(
            outcome(0, "same, left", &[]),
            outcome(0, "same, right", &[]),
            &["standard output differs from byte 6 on"],
        );
    }

    #[test]
    fn files_are_compared_by_name_and_content() {
        check(
            outcome(0, "", &[("both", "x"), ("lost", "y")]),
            outcome(0, "", &[("both", "z"), ("new", "y")]),
            &["lost is missing", "new exists only", "both differs from byte 0"],
        );
    }
}
