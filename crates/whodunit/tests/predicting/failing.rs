//! What is proved comes with a recording of the run that failed.

use super::looking::{findings, predictions, record};
use crate::exhibit::{Exhibit, Variant};
use crate::support::build;
use crate::support::execute::{self, Ending, Scratch};
use crate::support::whodunit_binary;
use std::process::Command;
use std::time::Duration;

const SIGSEGV: i32 = 11;
const LIMIT: Duration = Duration::from_secs(120);

/// What a verb says of a recording that lies in the test's own store.
fn ask(scratch: &Scratch, words: &[&str]) -> (Ending, String) {
    let mut command = Command::new(whodunit_binary());
    command.args(words).env("WHODUNIT_DIR", scratch.path("recordings"));
    let outcome = execute::command(scratch, &mut command, LIMIT).expect("an answer");
    (outcome.ending, String::from_utf8_lossy(&outcome.stdout).into_owned())
}

/// The two threads of the exhibit are made to change places in the middle of their code, at calls and at accesses.
#[test]
fn the_failing_run_is_kept_and_other_verbs_open_it() {
    let exhibit = Exhibit::read("mysql_two_sections").expect("an exhibit");
    let built = build::build(&exhibit.spec(Variant::Plain).expect("flags")).expect("a program");
    let scratch = Scratch::named("predict-failing").expect("a folder");
    record(&scratch, &built.program).expect("a recording");
    let (told, _) = predictions(&scratch).expect("findings");
    let proof = findings(&told).next().unwrap_or_else(|| panic!("{told}"));
    let failing = proof["evidence"]["failing"].as_str().unwrap_or_else(|| panic!("no recording: {proof}"));
    let commands: Vec<&str> =
        proof["next"].as_array().into_iter().flatten().filter_map(|next| next["command"].as_str()).collect();
    assert_eq!(commands, [format!("whodunit why {failing}"), format!("whodunit replay --gdb {failing}")]);
    let (ending, said) = ask(&scratch, &["verify", failing]);
    assert_eq!(ending, Ending::Exited(0), "{said}");
    assert_eq!(ask(&scratch, &["replay", "--no-report", failing]).0, Ending::Killed(SIGSEGV));
    let (_, why) = ask(&scratch, &["why", failing]);
    assert!(why.contains("atomicity") || why.contains("Atomicity"), "{why}");
    assert!(why.contains("proved by a re-run"), "the recording can be left in turn: {why}");
}
