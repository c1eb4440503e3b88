//! Threaded programs of Debian that do their work well give no alarm. `cargo bench --bench predicting` has more of them.

use super::looking::{findings, predictions, recorded};
use crate::debian;
use crate::support::execute::Scratch;
use std::fmt::Write as _;
use std::process::Command;

/// Each with its words, before the name of what it compresses: in blocks that go from thread to thread through queues.
const PROGRAMS: [(&str, &[&str]); 2] =
    [("pigz", &["-p", "2", "-b", "32", "-c"]), ("pbzip2", &["-p2", "-b1", "-1", "-k", "-c"])];

/// Text that is not too easy.
fn input() -> String {
    (0..12_000u32).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{} line {line}", line.wrapping_mul(2_654_435_761) % 100_003);
        text
    })
}

#[test]
fn programs_that_work_give_no_alarm() {
    for (program, words) in PROGRAMS {
        debian::need(&[program]);
        let scratch = Scratch::named(&format!("predict-{program}")).expect("a folder");
        let path = scratch.path("input");
        std::fs::write(&path, input()).expect("a file");
        let mut command = Command::new(format!("/usr/bin/{program}"));
        recorded(&scratch, command.args(words).arg(&path)).expect("a recording");
        let (told, status) = predictions(&scratch).unwrap_or_else(|problem| panic!("{program}: {problem}"));
        assert_eq!((status, findings(&told).count()), (0, 0), "{program}: {told}");
        let said = told["summary"]["text"].as_str().unwrap_or_default();
        assert!(said.contains("tried") && !said.starts_with("0 "), "{program}: nothing was looked at: {said}");
    }
}
