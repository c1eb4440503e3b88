//! What was made to go wrong in the runs that failed, for people.

use super::failure::Failure;
use super::ground::Ground;
use super::search::Found;
use crate::faults;
use crate::recordings::text::escaped;
use sched::{FaultKind, FaultKinds};
use std::fmt::Write as _;
use trace::Recording;

/// What the recordings tell, while they are where they were made.
pub fn describe(ground: &Ground, found: &Found, kinds: FaultKinds) -> String {
    let mut text = String::new();
    if kinds.is_empty() {
        return text;
    }
    for (Failure(signature), group) in &found.groups {
        let recording = Recording::open(&ground.recording_of(group.first));
        let lines = recording.map(|recording| faults::injected(&recording)).unwrap_or_default();
        text += &passage(signature, &lines);
    }
    if kinds.contains(FaultKind::Memory) && !found.groups.is_empty() {
        text += "A program may choose to end when it gets no memory: judge whether this one does.\n";
    }
    text
}

fn passage(signature: &str, lines: &[String]) -> String {
    let signature = escaped(signature);
    if lines.is_empty() {
        return format!("Nothing was injected before: {signature}\n");
    }
    let mut text = format!("Injected before: {signature}\n");
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_comes_with_what_led_to_it() {
        let lines = ["thread 1: write moves 3 of 9 bytes, in save (a.c:7)".to_owned()];
        let expected = "Injected before: exit status 1\n  thread 1: write moves 3 of 9 bytes, in save (a.c:7)\n";
        assert_eq!(passage("exit status 1", &lines), expected);
        assert_eq!(passage("hang", &[]), "Nothing was injected before: hang\n");
    }
}
