//! Failures that another order of the threads would not have had, by exhibits of the museum.
//!
//! Which schedule fails depends on the processor's string functions; what is the matter with it does not.

use super::{Place, fresh_folder, whodunit};
use crate::workplace::compile;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

struct Exhibit {
    folder: PathBuf,
    /// Lines with a mark.
    marked: Vec<u64>,
    /// What a correct run writes.
    output: String,
    /// What execution suppression made of it.
    diagnosis: Option<toml::Table>,
}

impl Exhibit {
    /// Built, and recorded while it fails.
    #[track_caller]
    fn failing(name: &str) -> Exhibit {
        Exhibit::hunted(name, "-O1", &["--shrink", "0"])
    }

    #[track_caller]
    fn hunted(name: &str, level: &str, words: &[&str]) -> Exhibit {
        let museum = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../museum");
        let folder = fresh_folder(&format!("why-threads-{name}"));
        let source = museum.join(name).join("program.c");
        let description: toml::Table = read(&museum.join(name).join("exhibit.toml")).parse().unwrap();
        let output = description["output"].as_str().unwrap().to_owned();
        fs::write(folder.join("expected"), &output).unwrap();
        compile(&folder, &[level, "-I", &museum.to_string_lossy()], &source);
        let hunt = ["hunt", "-n", "1000"];
        let hunted = whodunit(&folder).args(hunt).args(words).args(["--", "./guest"]).output().unwrap();
        assert_eq!(hunted.status.code(), Some(1), "{}", String::from_utf8_lossy(&hunted.stdout));
        let text = read(&source);
        let numbered = text.lines().zip(1_u64..).filter(|(line, _)| line.contains("/* guilty: "));
        let marked = numbered.map(|(_, number)| number).collect();
        let diagnosis = description.get("diagnosis").and_then(|diagnosis| diagnosis.as_table()).cloned();
        Exhibit { folder, marked, output, diagnosis }
    }

    #[track_caller]
    fn told(&self, words: &[&str]) -> Value {
        let output = whodunit(&self.folder).args(["why", "latest", "--format", "json"]).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The only finding, which is proved, names marked lines alone, and whose command shows a run that ends well.
    #[track_caller]
    fn finding(&self, class: &str) -> Value {
        self.proved(&self.told(&[]), class)
    }

    #[track_caller]
    fn proved(&self, findings: &Value, class: &str) -> Value {
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
        assert!(self.output.lines().all(|line| said.contains(line)), "{plan}: {said}");
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Of a bug that execution suppression was published with: its class, in no more executions than were published.
#[track_caller]
fn published(name: &str, level: &str) {
    let exhibit = Exhibit::hunted(name, level, &["--seed", "1"]);
    let findings = exhibit.told(&[]);
    let diagnosis = exhibit.diagnosis.as_ref().expect("a published diagnosis");
    exhibit.proved(&findings, diagnosis["class"].as_str().unwrap());
    let summary = findings["summary"]["text"].as_str().unwrap();
    let (before, _) = summary.split_once(" what-if run").unwrap();
    let trials: i64 = before.rsplit(' ').next().unwrap().parse().unwrap();
    // The recording, the run that was followed back, and those in other orders.
    let most = diagnosis["paper-executions"].as_integer().unwrap();
    assert!(2 + trials <= most, "{name}: {summary}, and {most} executions were published");
}

#[test]
fn a_pointer_that_is_cleared_between_its_test_and_its_use_is_a_race() {
    let exhibit = Exhibit::failing("mysql_proc_info");
    let finding = exhibit.finding("data-race");
    assert!(finding["title"].as_str().unwrap().contains("proc_info"), "{finding:#}");
    let threads = finding["threads"].as_array().map(Vec::len);
    assert_eq!(threads, Some(2), "{finding:#}");
    let grounds = finding["grounds"].to_string();
    // Which control is the first to fail depends on the schedule that was hunted.
    assert!(grounds.to_lowercase().contains("it fails when"), "a control was made: {grounds}");
    has_threads_in_every_format(&exhibit, &finding);
}

/// Each thread has a flow of its own in SARIF, in order, and a column in HTML, and each cause its thread in JSON.
#[track_caller]
fn has_threads_in_every_format(exhibit: &Exhibit, finding: &Value) {
    let causes = finding["causes"].as_array().unwrap();
    assert!(causes.iter().all(|cause| cause["thread"].is_u64()), "{finding:#}");
    let told = |format| {
        let output = whodunit(&exhibit.folder).args(["why", "latest", "--format", format]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let sarif: Value = serde_json::from_str(&told("sarif")).unwrap();
    let flows = sarif["runs"][0]["results"][0]["codeFlows"][0]["threadFlows"].as_array().unwrap();
    assert_eq!(flows.len(), 2, "{sarif:#}");
    let orders = flows.iter().map(|flow| {
        let locations = flow["locations"].as_array().unwrap();
        locations.iter().map(|location| location["executionOrder"].as_u64().unwrap()).collect::<Vec<u64>>()
    });
    for order in orders {
        assert!(!order.is_empty() && order.is_sorted(), "{sarif:#}");
    }
    let page = told("html");
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"), "it needs nothing from elsewhere");
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

#[test]
fn an_update_that_is_lost_and_selects_what_is_not_there() {
    published("esmt_figure_4", "-O2");
}

#[test]
fn a_table_that_is_destroyed_between_two_lookups() {
    published("mozilla_file_names", "-O0");
}

#[test]
fn a_signal_that_comes_before_anybody_waits() {
    published("mozilla_shutdown", "-O0");
}

#[test]
fn records_that_two_threads_copy_to_the_same_place() {
    published("apache_log_buffer", "-O2");
}

#[test]
fn a_log_that_is_closed_for_a_moment() {
    published("mysql_log_closed", "-O0");
}

#[test]
fn a_condition_that_is_torn_down_while_it_is_used() {
    published("pbzip2_condition", "-O0");
}

/// The program dies before anybody writes what was read: who would have, another run tells.
#[test]
fn a_read_that_comes_before_the_first_write_is_an_order_violation() {
    let finding = Exhibit::failing("transmission_bandwidth").finding("order-violation");
    let grounds = finding["grounds"].to_string();
    assert!(grounds.contains("Nothing makes the reader wait."), "{grounds}");
}

#[test]
fn a_thread_that_waits_with_a_lock_for_those_who_need_it_is_a_deadlock() {
    let finding = Exhibit::failing("join_with_lock").finding("deadlock");
    let title = finding["title"].as_str().unwrap();
    assert!(title.starts_with("thread 1 waits while it holds a lock"), "{title}");
}

/// Flags and barriers made by hand leave no other order, and neither do conditions: the pointer was wrong before.
#[test]
fn what_is_handed_from_thread_to_thread_is_no_race() {
    let place = Place::new("handed", "-O1");
    for way in ["flag", "barrier", "condition"] {
        let finding = place.finding(&["./guest", way]);
        let class = finding["class"].as_str().unwrap();
        let orders = ["data-race", "atomicity-violation", "order-violation", "deadlock"];
        assert!(!orders.contains(&class), "{way}: {finding:#}");
        assert_eq!(finding["causes"][0]["line"], place.line("guilty"), "{way}: {finding:#}");
    }
}
