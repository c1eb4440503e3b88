//! Watching reads and accesses, forwards and backwards.

use super::session::record;

const READERS: &str = r#"
#include <string.h>
static long secret = 7, other;
static char copy[64], text[64] = "text that is copied";
static long look(void) {
    return secret;
}
static void set(long value) {
    secret = value;
}
int main(void) {
    other = 1;
    long sum = look();
    set(8);
    other = sum;
    set(8);
    sum += look();
    memcpy(copy, text, sizeof copy);
    other = copy[0];
    return sum != 15;
}
"#;

#[test]
fn reads_forwards_and_backwards() {
    let recorded = record("reads", READERS);
    let session = recorded.debug(
        "break main\ncontinue\nrwatch secret\ncontinue\nbacktrace\ncontinue\nbacktrace\ncontinue\n\
         reverse-continue\nreverse-continue\nbacktrace\nreverse-continue\nbacktrace\n",
    );
    session.shows(&[
        "Hardware read watchpoint 2: secret",
        "Value = 7",
        "#0  look",
        "Value = 8",
        "#0  look",
        "Value = 8",
        "Value = 7",
        "#0  look",
        "#0  main",
    ]);
}

/// A write that leaves the value as it was is an access too.
#[test]
fn accesses_forwards_and_backwards() {
    let recorded = record("accesses", READERS);
    let forwards = "continue\nbacktrace 1\n".repeat(4);
    let backwards = "reverse-continue\nbacktrace 1\n".repeat(5);
    let session =
        recorded.debug(&format!("break main\ncontinue\nawatch secret\n{forwards}tbreak exit\ncontinue\n{backwards}"));
    session.shows(&[
        "Hardware access (read/write) watchpoint 2: secret",
        "Value = 7",
        "#0  look",
        "Old value = 7",
        "New value = 8",
        "#0  set",
        "Value = 8",
        "#0  set",
        "Value = 8",
        "#0  look",
        "#0  look",
        "in set (value=8)",
        "New value = 7",
        "in set (value=8)",
        "#0  look",
        "#0  main",
    ]);
}

/// Whatever instructions the C library copies with, the bytes are read by one of them.
#[test]
fn reads_of_a_copy() {
    let recorded = record("copies", READERS);
    let session = recorded.debug("break main\ncontinue\nrwatch text[40]\ncontinue\ninfo symbol $pc\ncontinue\n");
    session.shows(&["Hardware read watchpoint 2: text[40]", "Value = 0 '\\000'", "in section"]);
}
