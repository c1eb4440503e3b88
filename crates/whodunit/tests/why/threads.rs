//! Failures that another order of the threads would not have had, by exhibits of the museum.
//!
//! Which schedule fails depends on the processor's string functions; what is the matter with it does not.

use super::{fresh_folder, whodunit};
use crate::workplace::compile;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

struct Exhibit {
    folder: PathBuf,
    /// Lines with a mark.
    marked: Vec<u64>,
}

impl Exhibit {
    /// Built, and recorded while it fails.
    #[track_caller]
    fn failing(name: &str) -> Exhibit {
        let museum = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../museum");
        let folder = fresh_folder(&format!("why-threads-{name}"));
        let source = museum.join(name).join("program.c");
        compile(&folder, &["-O1", "-I", &museum.to_string_lossy()], &source);
        let hunt = ["hunt", "--shrink", "0", "-n", "1000", "--", "./guest"];
        let hunted = whodunit(&folder).args(hunt).output().unwrap();
        assert_eq!(hunted.status.code(), Some(1), "{}", String::from_utf8_lossy(&hunted.stdout));
        let text = fs::read_to_string(source).unwrap();
        let numbered = text.lines().zip(1_u64..).filter(|(line, _)| line.contains("/* guilty: "));
        Exhibit { folder, marked: numbered.map(|(_, number)| number).collect() }
    }

    /// The only finding, which is proved, names marked lines alone, and whose command shows a run that ends well.
    #[track_caller]
    fn finding(&self, class: &str) -> Value {
        let output = whodunit(&self.folder).args(["why", "latest", "--format", "json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(findings["findings"].as_array().map(Vec::len), Some(1), "{findings:#}");
        let finding = findings["findings"][0].clone();
        assert_eq!((&finding["class"], &finding["status"]), (&json!(class), &json!("proved")), "{finding:#}");
        let causes = finding["causes"].as_array().unwrap();
        let is_marked = |cause: &Value| cause["line"].as_u64().is_some_and(|line| self.marked.contains(&line));
        assert!(causes.len() > 1 && causes.iter().all(is_marked), "{:?} {finding:#}", self.marked);
        self.shows_a_good_run(finding["evidence"]["plan"].to_string().as_str());
        finding
    }

    #[track_caller]
    fn shows_a_good_run(&self, plan: &str) {
        let output = whodunit(&self.folder).args(["rerun", "latest", "--plan", plan]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.starts_with("exited with status 0\n"), "{plan}: {said}");
    }
}

#[test]
fn a_pointer_that_is_cleared_between_its_test_and_its_use_is_a_race() {
    let finding = Exhibit::failing("mysql_proc_info").finding("data-race");
    assert!(finding["title"].as_str().unwrap().contains("proc_info"), "{finding:#}");
    let threads = finding["threads"].as_array().map(Vec::len);
    assert_eq!(threads, Some(2), "{finding:#}");
}

#[test]
fn what_locks_do_not_keep_together_is_an_atomicity_violation() {
    let finding = Exhibit::failing("mozilla_current_script").finding("atomicity-violation");
    assert_eq!(finding["variable"]["name"], "current_script", "{finding:#}");
    let grounds = finding["grounds"].to_string();
    assert!(grounds.contains("after the others") && grounds.contains("before the others"), "both orders: {grounds}");
}

#[test]
fn a_deadlock_is_a_ring_of_threads_and_locks() {
    let finding = Exhibit::failing("transfer_deadlock").finding("deadlock");
    let sides = finding["sides"].as_array().unwrap();
    assert_eq!(sides.len(), 2, "{finding:#}");
    let (one, other) = (&sides[0], &sides[1]);
    assert_eq!(one["waits_for"]["held_by"], other["thread"], "{finding:#}");
    assert_eq!(other["waits_for"]["held_by"], one["thread"], "{finding:#}");
}

/// The status is decided by a table and its log, which two threads change in different orders.
#[test]
fn a_bad_status_is_followed_to_two_variables_that_belong_together() {
    let finding = Exhibit::failing("mysql_table_log").finding("atomicity-violation");
    assert_eq!(finding["failure"]["exit_status"], 1, "{finding:#}");
}
