//! What is told of a race: both sides, values, locks, stacks, blocks; suppressions; and bad input.

use super::looking::{findings, look, record, titles};
use crate::support::execute::{self, Ending, Scratch};
use crate::support::whodunit_binary;
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::time::Duration;

const COUNTER: &str = r#"
#include <pthread.h>
#include <stdlib.h>
struct account { long id; int balance; };
static struct account *account;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void deposit(int amount) {
    account->balance += amount;
}
static void *worker(void *unused) {
    pthread_mutex_lock(&lock);
    deposit(5);
    pthread_mutex_unlock(&lock);
    deposit(7);
    return unused;
}
int main(void) {
    account = malloc(sizeof *account);
    account->id = 1;
    account->balance = 0;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return account->balance == 24 ? 0 : 1;
}
"#;

const WAITER: &str = r#"
#include <pthread.h>
#include <sched.h>
static volatile int ready;
static int payload;
static void *waiter(void *unused) {
    while (!ready)
        sched_yield();
    return payload == 3 ? unused : NULL;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, waiter, NULL);
    for (int i = 0; i < 20; i++)
        sched_yield();
    payload = 3;
    ready = 1;
    pthread_join(thread, NULL);
    return 0;
}
"#;

/// What Go's runtime does to its own memory is synchronisation, though no instruction shows it; what it protects is not.
const GO: &str = r#"
#include <pthread.h>
static int queue, total;
void schedule(void) __asm__("runtime.schedule");
void schedule(void) {
    queue++;
}
static void *worker(void *unused) {
    total++;
    schedule();
    return unused;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return queue + total == 4 ? 0 : 1;
}
"#;

/// A program of this file, recorded.
fn recorded(name: &str, source: &str) -> Scratch {
    let scratch = Scratch::named(&format!("races-told-{name}")).expect("a folder");
    let file = scratch.path("guest.c");
    fs::write(&file, source).expect("a file");
    let program = scratch.path("guest");
    let compiled =
        Command::new("cc").args(["-g", "-O1", "-pthread", "-fno-inline", "-o"]).arg(&program).arg(&file).output();
    assert!(compiled.expect("the compiler runs").status.success());
    record(&scratch, &[], &program, &[]).expect("a recording");
    scratch
}

fn line(source: &str, text: &str) -> u64 {
    let position = source.lines().position(|line| line.contains(text));
    position.expect("the line is there") as u64 + 1
}

#[test]
fn memory_of_the_runtime_of_go_is_for_synchronisation() {
    let races_of = |name, source: &str| look(&recorded(name, source), &["--prove", "0"]).expect("an answer").0;
    let told = races_of("go", GO);
    assert!(matches!(titles(&told)[..], [title] if title.contains("total")), "{:?}", titles(&told));
    let told = races_of("not-go", &GO.replace("runtime.schedule", "schedule"));
    assert_eq!(titles(&told).len(), 2, "{:?}", titles(&told));
}

#[test]
fn both_sides_with_values_locks_and_stacks() {
    let scratch = recorded("sides", COUNTER);
    let (told, status) = look(&scratch, &[]).expect("an answer");
    assert_eq!(status, 1);
    let race = findings(&told).next().expect("a race");
    assert_eq!(race["class"], "data-race");
    let variable = race["variable"]["text"].as_str().unwrap_or_default();
    assert!(variable.contains("balance") && variable.contains("block of 16 bytes"), "{variable}");
    let sides = race["sides"].as_array().expect("sides");
    assert_eq!(sides.len(), 2);
    for side in sides {
        let stack = side["stack"].as_array().expect("a stack");
        assert_eq!(stack[0]["function"], "deposit");
        assert_eq!(stack[0]["line"], line(COUNTER, "account->balance += amount"));
        assert_eq!(stack[1]["function"], "worker");
        assert!(side["text"].as_str().is_some_and(|text| text.contains("(was ")), "{side}");
    }
    // One side does it outside of the lock.
    let held = |side: &Value| {
        side["locks"].as_array().map(|locks| locks.iter().map(|lock| lock["name"].clone()).collect::<Vec<_>>())
    };
    assert!(sides.iter().any(|side| held(side) == Some(Vec::new())), "{sides:?}");
    let created = race["threads"][0]["created"].as_array().expect("where the thread was made");
    assert!(created.iter().any(|place| place["function"] == "main"));
}

#[test]
fn waiting_in_a_loop_is_no_race_storm() {
    let scratch = recorded("waiting", WAITER);
    let (told, _) = look(&scratch, &[]).expect("an answer");
    let classes: Vec<&str> = findings(&told).filter_map(|finding| finding["class"].as_str()).collect();
    assert_eq!(classes, ["ad-hoc-synchronisation"], "{:?}", titles(&told));
    let finding = findings(&told).next().expect("a finding");
    let lines: Vec<Option<u64>> =
        finding["causes"].as_array().expect("causes").iter().map(|cause| cause["line"].as_u64()).collect();
    assert_eq!(lines, [Some(line(WAITER, "ready = 1")), Some(line(WAITER, "while (!ready)"))]);
}

#[test]
fn suppressions_silence_and_are_counted() {
    let scratch = recorded("suppressed", COUNTER);
    let file = scratch.path("quiet.txt");
    fs::write(&file, "# known\nrace:deposit\n").expect("a file");
    let file = file.to_string_lossy().into_owned();
    let (told, status) = look(&scratch, &["--suppressions", &file]).expect("an answer");
    assert_eq!((status, titles(&told)), (0, Vec::new()));
    assert!(told["summary"]["suppressed"].as_u64().is_some_and(|count| count > 0));
}

/// What a command says on standard error, and its status.
fn complaint(scratch: &Scratch, words: &[&str]) -> (String, Ending) {
    let mut command = Command::new(whodunit_binary());
    command.arg("races").args(words);
    let outcome = execute::command(scratch, &mut command, Duration::from_secs(60)).expect("an end");
    (String::from_utf8_lossy(&outcome.stderr).into_owned(), outcome.ending)
}

#[test]
fn a_suppression_file_with_an_error_is_told_by_line() {
    let scratch = recorded("malformed", COUNTER);
    let file = scratch.path("quiet.txt");
    fs::write(&file, "race:fine\nraces:deposit\n").expect("a file");
    let (said, ending) =
        complaint(&scratch, &["--suppressions", &file.to_string_lossy(), &scratch.path("recording").to_string_lossy()]);
    assert_eq!(ending, Ending::Exited(2));
    assert!(said.contains("line 2") && said.contains("race_top"), "{said}");
}

#[test]
fn a_recording_that_is_none() {
    let scratch = Scratch::named("races-none").expect("a folder");
    let (said, ending) = complaint(&scratch, &["no-such-recording"]);
    assert_eq!(ending, Ending::Exited(3));
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn one_thread_cannot_race() {
    let scratch = recorded("alone", "int main(void) { return 0; }");
    let (told, status) = look(&scratch, &[]).expect("an answer");
    assert_eq!(status, 0);
    assert!(told["summary"]["text"].as_str().is_some_and(|text| text.contains("one thread")));
}
