//! `whodunit why` names the statement that first corrupted memory, or the order of threads that was wrong, the class, and a
//! re-run that shows the failure gone.
//!
//! `WHODUNIT_BIN` names another binary to put in the place of the one just built.

mod support;

/// The table of Debian packages.
#[path = "programs/debian.rs"]
#[allow(dead_code, reason = "only what installs packages is used")]
mod debian;
#[path = "museum/diagnosed.rs"]
mod diagnosed;
#[path = "museum/exhibit.rs"]
mod exhibit;
#[path = "museum/memory.rs"]
mod memory;
#[path = "museum/planted.rs"]
mod planted;
#[path = "support/workplace.rs"]
mod workplace;

// Said because rustfmt looks elsewhere for modules of a file that has a folder of its own name.
#[path = "why/exhibits.rs"]
mod exhibits;
#[path = "why/guards.rs"]
mod guards;
#[path = "why/refusals.rs"]
mod refusals;
#[path = "why/silent.rs"]
mod silent;
#[path = "why/threads.rs"]
mod threads;

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use workplace::{compile, fresh_folder, whodunit};

struct Place {
    folder: PathBuf,
    source: String,
}

impl Place {
    fn new(guest: &str, level: &str) -> Place {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/why/guests/{guest}.c"));
        let folder = fresh_folder(&format!("why-{guest}{level}"));
        compile(&folder, &[level], &path);
        Place { folder, source: fs::read_to_string(path).unwrap() }
    }

    /// The same of another language, built by a compiler of its own.
    fn with(guest: &str, extension: &str, compiler: &str, flags: &[&str]) -> Place {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/why/guests/{guest}.{extension}"));
        let folder = fresh_folder(&format!("why-{guest}"));
        let compiled =
            Command::new(compiler).args(flags).args(["-o", "guest"]).arg(&path).current_dir(&folder).output();
        let compiled = compiled.unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Place { folder, source: fs::read_to_string(path).unwrap() }
    }

    fn record(&self, words: &[&str]) -> Output {
        let mut record = whodunit(&self.folder);
        record.env_remove("RUST_BACKTRACE").args(["record", "--no-report", "--"]).args(words);
        match fs::File::open(self.folder.join("input")) {
            Ok(input) => record.stdin(input),
            Err(_) => record.stdin(Stdio::null()),
        };
        record.output().unwrap()
    }

    fn why(&self, words: &[&str]) -> Output {
        whodunit(&self.folder).args(["why", "latest"]).args(words).output().unwrap()
    }

    fn line(&self, mark: &str) -> u64 {
        let comment = format!("/* {mark} */");
        1 + self.source.lines().position(|line| line.contains(&comment)).unwrap() as u64
    }

    /// The only finding about a program that was recorded crashing.
    #[track_caller]
    fn finding(&self, words: &[&str]) -> Value {
        let recorded = self.record(words);
        assert_eq!(recorded.status.code(), None, "it crashes: {}", recorded.status);
        let output = self.why(&["--format", "json"]);
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(findings["findings"].as_array().map(Vec::len), Some(1));
        findings["findings"][0].clone()
    }

    /// The finding names the guilty line and the class, and its command shows a run without the crash.
    #[track_caller]
    fn blames(&self, finding: &Value, class: &str) {
        assert_eq!(finding["causes"][0]["line"], self.line("guilty"), "{finding:#}");
        assert_eq!(finding["failure"]["at"]["line"], self.line("crash"), "{finding:#}");
        assert_eq!((&finding["class"], &finding["status"]), (&json!(class), &json!("proved")), "{finding:#}");
        let command = finding["rerun"].as_str().unwrap();
        let (words, plan) = command.split_once(" --plan ").unwrap();
        let words = words.strip_prefix("whodunit ").unwrap().split(' ');
        let mut rerun = whodunit(&self.folder);
        let output = rerun.args(words).args(["--plan", plan.trim_matches('\'')]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.starts_with("exited with status 0\n"), "{command}: {said}");
    }
}

const LONG_NAME: &str = "a-name-that-is-far-too-long-for-it";

#[test]
fn an_overrun_far_from_the_crash_is_named() {
    for level in ["-O0", "-O2"] {
        let place = Place::new("names", level);
        let finding = place.finding(&["./guest", LONG_NAME]);
        // What is overrun and what is overwritten are parts of the same block.
        place.blames(&finding, "buffer-overflow");
    }
}

#[test]
fn whoever_wrote_beyond_a_block_is_named() {
    let place = Place::new("table", "-O0");
    let finding = place.finding(&["./guest", "14"]);
    place.blames(&finding, "heap-overflow");
    let steps = finding["steps"].as_array().unwrap();
    assert_eq!(steps[0]["guilty"], true, "{finding:#}");
    assert!(steps[steps.len() - 1]["text"].as_str().unwrap().starts_with("crashes: SIGSEGV"), "{finding:#}");
}

#[test]
fn input_beyond_the_crash_ends_and_the_size_of_the_block_is_told() {
    let place = Place::new("lines", "-O0");
    // More than the C library reads at once.
    let lines = format!("{LONG_NAME}\n{}", "a\n".repeat(4000));
    fs::write(place.folder.join("input"), lines).unwrap();
    let finding = place.finding(&["./guest"]);
    place.blames(&finding, "heap-overflow");
    let notes = finding["notes"].to_string();
    assert!(notes.contains("standard input ends where the recording does"), "{notes}");
    let made = finding["sides"][0]["stack"].as_array().unwrap();
    assert_eq!(made[0]["line"], place.line("block"), "{finding:#}");
    let size = format!("The size of the block, 16, is computed at size_of (lines.c:{})", place.line("size"));
    assert!(finding["grounds"][0].as_str().unwrap().starts_with(&size), "{finding:#}");
}

#[test]
fn a_cause_millions_of_rounds_before_the_crash_is_named() {
    let place = Place::new("far", "-O1");
    let finding = place.finding(&["./guest", "a-name-that-goes-far-beyond-the-block-for-it"]);
    place.blames(&finding, "heap-overflow");
}

#[test]
fn what_a_check_noticed_is_followed_back_from_there() {
    let place = Place::new("checks", "-O0");
    let failed = place.finding(&["./guest", LONG_NAME]);
    assert_eq!((&failed["class"], &failed["status"]), (&json!("global-overflow"), &json!("proved")), "{failed:#}");
    assert_eq!(failed["causes"][0]["line"], place.line("overrun"), "{failed:#}");
    assert_eq!(failed["variable"]["name"], "label", "{failed:#}");
    assert_eq!(failed["failure"]["at"]["line"], place.line("check"), "{failed:#}");
    let freed = place.finding(&["./guest", "twice"]);
    assert_eq!((&freed["class"], &freed["status"]), (&json!("double-free"), &json!("proved")), "{freed:#}");
    assert_eq!(freed["causes"][0]["line"], place.line("release"), "{freed:#}");
}

#[test]
fn a_run_that_did_not_crash_is_told_so() {
    let place = Place::new("table", "-O1");
    assert!(place.record(&["./guest"]).status.success());
    let output = place.why(&[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0));
    assert!(said.contains("the recording did not crash: it ended with exited 0"), "{said}");
    assert!(said.contains("`why --silent`") && said.contains("`why --expect-output FILE`"), "{said}");
}
