//! Races that came in one order: a what-if run makes the other one, which proves them, and tells what comes of it.

use super::looking::{findings, look, record};
use crate::exhibit::{Exhibit, Variant};
use crate::support::build;
use crate::support::execute::{self, Ending, Scratch};
use crate::support::whodunit_binary;
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// The writer comes first whatever the processor: the others go out of its way.
const HANDED_OVER: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
static volatile int value;
static void *writer(void *unused) {
    value = 1;
    return unused;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, writer, NULL);
    for (int i = 0; i < 20; i++)
        sched_yield();
    int seen = value;
    pthread_join(thread, NULL);
#ifdef CARES
    if (!seen)
        abort();
#endif
    return seen > 1;
}
"#;

fn recorded(name: &str, flags: &[&str]) -> Scratch {
    let scratch = Scratch::named(&format!("races-proving-{name}")).expect("a folder");
    let file = scratch.path("guest.c");
    fs::write(&file, HANDED_OVER).expect("a file");
    let program = scratch.path("guest");
    let compiled =
        Command::new("cc").args(["-g", "-O1", "-pthread", "-o"]).arg(&program).arg(&file).args(flags).output();
    assert!(compiled.expect("the compiler runs").status.success());
    record(&scratch, &[], &program, &[]).expect("a recording");
    scratch
}

/// The only race of a recording.
fn only_race(scratch: &Scratch, options: &[&str]) -> Value {
    let (told, _) = look(scratch, options).expect("races");
    let mut races = findings(&told);
    let race = races.next().unwrap_or_else(|| panic!("no race: {told}")).clone();
    assert!(races.next().is_none(), "{told}");
    assert_eq!(race["both_orders"], false, "{told}");
    race
}

#[test]
fn the_other_order_of_a_race_is_shown_with_what_comes_of_it() {
    let scratch = recorded("crash", &["-DCARES"]);
    let race = only_race(&scratch, &[]);
    assert_eq!(race["status"], "proved", "{race}");
    let ground = race["grounds"][0].as_str().unwrap_or_default();
    assert!(ground.contains("in the other order: the program crashed (SIGABRT)"), "{race}");
    assert_eq!(race["failure"]["signal"], 6, "{race}");

    let command = race["rerun"].as_str().unwrap_or_default();
    let plan = command.split('\'').nth(1).unwrap_or_else(|| panic!("no plan in {command}"));
    assert_eq!(serde_json::from_str::<Value>(plan).expect("a plan"), race["evidence"]["plan"]);
    let mut again = Command::new(whodunit_binary());
    again.arg("rerun").arg(scratch.path("recording")).arg("--plan").arg(plan);
    let outcome = execute::command(&scratch, &mut again, Duration::from_secs(60)).expect("a run");
    assert_eq!(outcome.ending, Ending::Exited(1));
    assert!(String::from_utf8_lossy(&outcome.stdout).contains("SIGABRT"));
}

#[test]
fn a_race_without_consequences_is_proved_too_and_only_if_wanted() {
    let scratch = recorded("harmless", &[]);
    let race = only_race(&scratch, &[]);
    assert_eq!(race["status"], "proved", "{race}");
    assert!(race["grounds"][0].as_str().is_some_and(|ground| ground.ends_with("in the same way and wrote the same.")));
    assert_eq!(race["failure"], Value::Null, "{race}");
    let untried = only_race(&scratch, &["--prove", "0"]);
    assert_eq!(untried["status"], "suspected", "{untried}");
    assert_eq!(untried["grounds"], Value::Null, "{untried}");
}

/// Its threads have never printed a time that was not there yet, until somebody makes them.
#[test]
fn an_exhibit_writes_something_else_in_the_other_order() {
    let exhibit = Exhibit::read("fft_end_time").expect("the exhibit");
    let built = build::build(&exhibit.spec(Variant::Plain).expect("a description")).expect("a program");
    let scratch = Scratch::named("races-proving-fft").expect("a folder");
    record(&scratch, &[], &built.program, &[]).expect("a recording");
    let (told, _) = look(&scratch, &[]).expect("races");
    let is_time = |race: &&Value| race["variable"]["name"] == "shared.finish_time";
    let race = findings(&told).find(is_time).unwrap_or_else(|| panic!("no race: {told}"));
    assert_eq!(race["status"], "proved", "{race}");
    assert!(race["grounds"][0].as_str().is_some_and(|ground| ground.contains("wrote something else")), "{race}");
}
