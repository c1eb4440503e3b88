//! `whodunit last-write` names the write that defined what is in memory: programs are compiled, recorded and asked about,
//! and the answer must be the line of the source that did it, with the values that the program itself saw.
//!
//! `WHODUNIT_BIN` names another binary to put in the place of the one just built.

#[path = "support/workplace.rs"]
mod workplace;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use workplace::{compile, fresh_folder, whodunit};

/// A program that was compiled and recorded in a folder of its own.
struct Recorded {
    folder: PathBuf,
    source: String,
    /// What the program wrote while it was recorded.
    output: String,
}

fn record(name: &str, source: &str) -> Recorded {
    record_with(name, source, &[])
}

fn record_with(name: &str, source: &str, options: &[&str]) -> Recorded {
    let folder = fresh_folder(&format!("last-write-{name}"));
    fs::write(folder.join("guest.c"), source).unwrap();
    compile(&folder, &["-O0", "-fno-stack-protector", "-U_FORTIFY_SOURCE"], Path::new("guest.c"));
    let output = whodunit(&folder).arg("record").args(options).args(["--no-report", "--", "./guest"]).output().unwrap();
    let written = String::from_utf8(output.stdout).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{written}");
    Recorded { folder, source: source.to_owned(), output: written }
}

impl Recorded {
    fn ask(&self, words: &[&str]) -> Output {
        whodunit(&self.folder).args(["last-write", "latest"]).args(words).output().unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.ask(&[words, &["--json"]].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["complete"], true, "{words:?}: {answer:#}");
        answer
    }

    fn text(&self, words: &[&str]) -> String {
        let output = self.ask(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn refusal(&self, words: &[&str], status: i32) -> String {
        let output = self.ask(words);
        assert_eq!(output.status.code(), Some(status), "{words:?}");
        assert_eq!(output.stdout, b"", "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// The number of the line with a mark in it.
    fn line(&self, mark: &str) -> u64 {
        let position = self.source.lines().position(|line| line.contains(mark));
        position.unwrap_or_else(|| panic!("no line has {mark}")) as u64 + 1
    }
}

fn history(answer: &Value) -> &[Value] {
    answer["history"].as_array().map_or(&[], Vec::as_slice)
}

fn last(answer: &Value) -> &Value {
    history(answer).last().unwrap_or_else(|| panic!("no history: {answer:#}"))
}

/// Writes by instructions and system calls, without what mappings bring.
fn writes(answer: &Value) -> Vec<&Value> {
    history(answer).iter().filter(|change| change["by"] != "mapping").collect()
}

/// The line in `function` that a change came from, directly or through what it called.
fn line_in(change: &Value, function: &str) -> Option<u64> {
    let frames = change["stack"].as_array()?;
    frames.iter().find(|frame| frame["function"] == function)?["line"].as_u64()
}

fn values(change: &Value) -> (&str, &str) {
    (change["old"].as_str().unwrap_or("?"), change["new"].as_str().unwrap_or("?"))
}

const TWO_THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
int counter = 3;
static void *first(void *unused) {
    for (int round = 0; round < 3; round++)
        counter += 10; /* first write */
    return unused;
}
static void *second(void *unused) {
    counter = 500; /* second write */
    return unused;
}
int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, first, 0);
    pthread_join(threads[0], 0);
    pthread_create(&threads[1], 0, second, 0);
    pthread_join(threads[1], 0);
    printf("%d\n", counter);
    return 0;
}
"#;

#[test]
fn global_of_two_threads() {
    let recorded = record("threads", TWO_THREADS);
    assert_eq!(recorded.output, "500\n");
    let answer = recorded.json(&["counter"]);
    assert_eq!((&answer["type"], &answer["length"]), (&"int".into(), &4.into()));
    let change = last(&answer);
    assert_eq!(change["thread"], 3);
    assert_eq!(change["stack"][0]["function"], "second");
    assert_eq!(line_in(change, "second"), Some(recorded.line("second write")));
    assert_eq!(values(change), ("33", "500"));
    assert!(change["instruction"].as_str().is_some_and(|text| text.starts_with("mov dword ptr")), "{change:#}");
}

#[test]
fn answer_for_people() {
    let recorded = record("people", TWO_THREADS);
    let text = recorded.text(&["counter"]);
    let line = recorded.line("second write");
    for part in [
        "counter: int, 4 bytes at 0x".to_owned(),
        ", at the end 500\n".to_owned(),
        ": 33 → 500\n".to_owned(),
        format!("  thread 3, second at guest.c:{line}\n"),
        format!("    > {line} |     counter = 500; /* second write */\n"),
        "next: whodunit last-write guest-1 counter --all ".to_owned(),
    ] {
        assert!(text.contains(&part), "{part:?} is not in\n{text}");
    }
    let all = recorded.text(&["counter", "--all"]);
    let steps: Vec<&str> =
        all.lines().filter_map(|line| line.split_once(": ")?.1.split_once(", thread")).map(|parts| parts.0).collect();
    assert_eq!(steps, ["3 → 13", "13 → 23", "23 → 33", "33 → 500"], "{all}");
}

#[test]
fn writes_before_an_event() {
    let recorded = record("earlier", TWO_THREADS);
    let all = recorded.json(&["counter", "--all"]);
    let event = |position: usize| writes(&all)[position]["event"].as_u64().unwrap();
    let (of_first, of_second) = (event(2), event(3));
    assert!(of_first < of_second, "{all:#}");
    // Everything that guest code did on its way to an event comes before it.
    for (at, expected) in [(of_second, ("33", "500")), (of_second - 1, ("23", "33")), (of_first, ("23", "33"))] {
        let answer = recorded.json(&["counter", "--at", &at.to_string()]);
        assert_eq!(values(last(&answer)), expected, "at {at}");
        assert_eq!(answer["value"], expected.1, "at {at}");
    }
    let answer = recorded.json(&["counter", "--at", &(of_first - 1).to_string()]);
    assert_eq!((&last(&answer)["by"], &answer["value"]), (&"mapping".into(), &"3".into()));
}

#[test]
fn only_the_last_of_a_long_history() {
    let recorded = record("limit", TWO_THREADS);
    let answer = recorded.json(&["counter", "--all", "--limit", "2"]);
    assert_eq!(history(&answer).iter().map(values).collect::<Vec<_>>(), [("23", "33"), ("33", "500")]);
    assert_eq!(answer["left_out"], 3);
    assert!(recorded.text(&["counter", "--all", "--limit", "2"]).contains("(3 earlier changes are not shown"));
}

#[test]
fn history_is_what_the_program_saw() {
    let recorded = record(
        "history",
        r#"
#include <stdio.h>
unsigned long state = 1;
int main(void) {
    for (int round = 0; round < 200; round++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        printf("%lu\n", state);
    }
    return 0;
}
"#,
    );
    let answer = recorded.json(&["state", "--all"]);
    let told: Vec<&str> = writes(&answer).iter().map(|change| values(change).1).collect();
    assert_eq!(told, recorded.output.lines().collect::<Vec<_>>());
    assert_eq!(told.len(), 200);
    for pair in writes(&answer).windows(2) {
        assert_eq!(values(pair[0]).1, values(pair[1]).0);
    }
}

/// Every write tells by its value which thread it is of.
#[test]
fn threads_are_told_apart_however_often_they_take_turns() {
    let recorded = record_with(
        "turns",
        r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/syscall.h>
static __thread long own;
volatile long shared;
volatile long order[4096];
volatile long writes;
static void *work(void *number) {
    own = 1000 * (long)number;
    for (int round = 0; round < 300; round++) {
        shared = own + round;
        order[__atomic_fetch_add(&writes, 1, __ATOMIC_SEQ_CST)] = own;
        if (round % 50 == 0)
            syscall(SYS_getppid);
    }
    return 0;
}
int main(void) {
    pthread_t threads[3];
    for (long number = 0; number < 3; number++)
        pthread_create(&threads[number], 0, work, (void *)(number + 2));
    for (int number = 0; number < 3; number++)
        pthread_join(threads[number], 0);
    int turns = 0;
    for (int position = 1; position < writes; position++)
        turns += order[position] != order[position - 1];
    printf("%d %ld\n", turns, shared);
    return 0;
}
"#,
        &["--quantum", "40"],
    );
    let mut words = recorded.output.split_whitespace();
    let turns: usize = words.next().unwrap().parse().unwrap();
    assert!(turns > 20, "the threads must take turns: {}", recorded.output);
    let answer = recorded.json(&["shared", "--all"]);
    assert_eq!(writes(&answer).len(), 900);
    let mut next = [0; 5];
    for change in writes(&answer) {
        let value: u64 = values(change).1.parse().unwrap();
        let thread = change["thread"].as_u64().unwrap();
        assert_eq!((value / 1000, value % 1000), (thread, next[thread as usize]), "{change:#}");
        next[thread as usize] += 1;
        assert_eq!(line_in(change, "work"), Some(recorded.line("shared = own + round")));
    }
    assert_eq!(answer["value"].as_str(), words.next());
}

#[test]
fn field_of_a_structure_on_the_heap() {
    let recorded = record(
        "heap",
        r#"
#include <stdio.h>
#include <stdlib.h>
struct session { int id; struct { short low; short high; } limits; enum { CLOSED, OPEN } state; };
struct session *head;
static void raise_limit(struct session *any, int by) {
    any->limits.high += by; /* the write */
}
int main(void) {
    head = calloc(1, sizeof *head);
    head->id = 4;
    head->limits.high = 6;
    head->state = OPEN; /* opened */
    raise_limit(head, 30);
    printf("%d\n", head->limits.high);
    return 0;
}
"#,
    );
    let answer = recorded.json(&["head->limits.high"]);
    let change = last(&answer);
    assert_eq!(values(change), ("6", "36"));
    assert_eq!(line_in(change, "raise_limit"), Some(recorded.line("the write")));
    assert_eq!(line_in(change, "main"), Some(recorded.line("raise_limit(head, 30)")));
    let change = recorded.json(&["head->state"]);
    assert_eq!(values(last(&change)), ("CLOSED", "OPEN"));
    // The same bytes by their address, of which nobody knows a type.
    let address = format!("{}:2", answer["address"].as_str().unwrap());
    assert_eq!(values(last(&recorded.json(&[&address]))), ("6", "36 (0x24)"));
}

#[test]
fn overrun_by_a_neighbour() {
    let recorded = record(
        "overrun",
        r#"
#include <stdio.h>
#include <string.h>
struct { char name[8]; int table[4]; } box = { "", { 1, 2, 3, 4 } };
volatile size_t length = 12;
static void rename_box(const char *text) {
    memcpy(box.name, text, length); /* overrun */
}
int main(void) {
    box.table[1] = 20; /* harmless */
    rename_box("a name of 26 letters here");
    printf("%d\n", box.table[0]);
    return 0;
}
"#,
    );
    let answer = recorded.json(&["box.table[0]"]);
    let change = last(&answer);
    assert_eq!(line_in(change, "rename_box"), Some(recorded.line("overrun")));
    assert_eq!(values(change), ("1", recorded.output.trim()));
    assert_eq!(line_in(last(&recorded.json(&["box.table[1]"])), "main"), Some(recorded.line("harmless")));
    // Of a whole variable, the part that was written is named.
    let whole = recorded.json(&["box", "--all"]);
    let part = writes(&whole)[0];
    assert_eq!((part["part"].as_str(), values(part)), (Some("box.table[1]"), ("2", "20")));
}

#[test]
fn written_by_the_kernel() {
    let recorded = record(
        "kernel",
        r#"
#include <stdio.h>
#include <unistd.h>
char buffer[16];
int main(void) {
    int ends[2];
    pipe(ends);
    buffer[0] = 'x'; /* by hand */
    write(ends[1], "hello", 6);
    read(ends[0], buffer, sizeof buffer); /* by the kernel */
    buffer[15] = 1; /* past what was read */
    puts(buffer);
    return 0;
}
"#,
    );
    let answer = recorded.json(&["buffer", "--all"]);
    let writes = writes(&answer);
    let told: Vec<(&str, u64)> =
        writes.iter().map(|change| (change["by"].as_str().unwrap(), line_in(change, "main").unwrap_or(0))).collect();
    let line = |mark| recorded.line(mark);
    let expected = [
        ("instruction", line("by hand")),
        ("system call", line("by the kernel")),
        ("instruction", line("past what was read")),
    ];
    assert_eq!(told, expected);
    assert_eq!((writes[1]["call"].as_str(), writes[1]["size"].as_u64()), (Some("read"), Some(6)));
    assert_eq!(writes[1]["new_bytes"], "68656c6c6f00");
    let change = recorded.json(&["buffer[1]"]);
    assert_eq!((last(&change)["call"].as_str(), values(last(&change))), (Some("read"), ("0 '\\x00'", "101 'e'")));
    // The event that read is not part of what was before it.
    let at = writes[1]["event"].as_u64().unwrap();
    let before = recorded.json(&["buffer[0]", "--at", &at.to_string()]);
    assert_eq!(line_in(last(&before), "main"), Some(line("by hand")));
}

#[test]
fn nobody_wrote() {
    let source = "int given = 42, zero;\nint main(void) { return given + zero - 42; }\n";
    let recorded = record("nobody", source);
    for (name, value) in [("given", "42"), ("zero", "0")] {
        let answer = recorded.json(&[name, "--all"]);
        assert_eq!(writes(&answer), [] as [&Value; 0], "{name}");
        assert_eq!(answer["value"], value, "{name}");
    }
    let text = recorded.text(&["given"]);
    assert!(text.contains("nothing has written it: event ") && text.contains("guest, with 42\n"), "{text}");
}

#[test]
fn what_a_crash_came_from() {
    let recorded = record(
        "crash",
        r#"
#include <signal.h>
#include <stdio.h>
int cell = 7;
int *pointer = &cell;
static void spoil(long value) {
    pointer = (int *)value; /* spoilt */
}
static void handler(int signal) {
    spoil(16 * signal);
}
int main(void) {
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    return *pointer;
}
"#,
    );
    let answer = recorded.json(&["pointer"]);
    let change = last(&answer);
    assert_eq!(line_in(change, "spoil"), Some(recorded.line("spoilt")));
    assert_eq!(line_in(change, "handler"), Some(recorded.line("spoil(16 * signal)")));
    assert_eq!(change["new_bytes"], "a000000000000000");
}

#[test]
fn exchanges_that_fail_write_nothing() {
    let recorded = record(
        "exchange",
        r#"
int word = 1;
int main(void) {
    int expected = 1;
    __atomic_compare_exchange_n(&word, &expected, 2, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); /* succeeds */
    __atomic_compare_exchange_n(&word, &expected, 3, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    expected = 2;
    __atomic_compare_exchange_n(&word, &expected, 4, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return 0;
}
"#,
    );
    let answer = recorded.json(&["word", "--all"]);
    let succeeded: Vec<_> = writes(&answer).iter().map(|change| values(change)).collect();
    assert_eq!(succeeded, [("1", "2"), ("2", "4")]);
}

#[test]
fn child_with_its_parents_history() {
    let recorded = record(
        "child",
        r#"
#include <sys/wait.h>
#include <unistd.h>
int before = 1, both = 1;
int main(void) {
    before = 2; /* by the parent */
    both = 3;
    if (fork() == 0) {
        both = 4; /* by the child */
        _exit(0);
    }
    wait(0);
    both = 5; /* afterwards */
    return 0;
}
"#,
    );
    let answer = recorded.json(&["before", "--process", "2"]);
    let change = last(&answer);
    assert_eq!((change["inherited"].as_bool(), values(change)), (Some(true), ("1", "2")));
    assert_eq!(line_in(change, "main"), Some(recorded.line("by the parent")));
    let child = recorded.json(&["both", "--process", "2"]);
    assert_eq!((last(&child)["inherited"].as_bool(), values(last(&child))), (Some(false), ("3", "4")));
    assert!(recorded.refusal(&["neither"], 3).contains("--process tells another"));
    let parent = recorded.json(&["both"]);
    assert_eq!(values(last(&parent)), ("3", "5"));
}

#[test]
fn what_cannot_be_answered() {
    let recorded = record(
        "refused",
        "char huge[100000]; int counter;\nint main(void) { int local = 1; counter = local; return 0; }\n",
    );
    assert!(recorded.refusal(&["countr"], 3).contains("no variable `countr`; did you mean `counter`"));
    assert!(recorded.refusal(&["main:local"], 3).contains("`local` is a local variable"));
    assert!(recorded.refusal(&["guest.c:2:nothing"], 3).contains("no variable `nothing`"));
    assert!(recorded.refusal(&["huge"], 3).contains("that is 100000 bytes"));
    assert!(recorded.refusal(&["0xffffffffffffffff:8"], 3).contains("beyond all memory"));
    assert!(recorded.refusal(&["counter.."], 2).contains("counter.."));
    assert!(recorded.refusal(&["counter", "--process", "9"], 3).starts_with("whodunit: "));
    // An address that is never mapped has no history, and that is an answer.
    let answer = recorded.json(&["0x10:4"]);
    assert_eq!((history(&answer).len(), &answer["value"]), (0, &Value::Null));
    // A line that reads a global is a place like any other.
    assert_eq!(values(last(&recorded.json(&["guest.c:2:counter"]))), ("0", "1"));
}
