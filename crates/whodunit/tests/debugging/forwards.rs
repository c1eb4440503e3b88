//! Stops, stacks, values and threads on the way forwards.

use super::session::{record, record_with};

const SUM: &str = r#"
#include <stdio.h>
static int square(int n) {
    int result = n * n;
    return result;
}
int main(void) {
    int sum = 0;
    for (int i = 1; i <= 3; i++)
        sum += square(i);
    printf("sum %d\n", sum);
    return sum;
}
"#;

#[test]
fn breakpoints_stacks_and_values() {
    let recorded = record("sum", SUM);
    let line = recorded.line("return result");
    let session = recorded.debug(&format!(
        "break {line}\ncontinue\nbacktrace\nprint result\ncontinue\nprint result\nup\nprint sum\ndown\nfinish\nnext\nnext\nprint i\n"
    ));
    session.shows(&[
        "in _start ()",
        "square (n=1)",
        "#0  square (n=1)",
        "#1  ",
        " in main () at guest.c",
        "$1 = 1",
        "square (n=2)",
        "$2 = 4",
        "$3 = 1",
        "Value returned is $4 = 4",
        "$5 = 3",
    ]);
}

#[test]
fn the_end_is_a_stop_and_then_the_end() {
    let recorded = record("end", SUM);
    let session = recorded.debug("continue\nmonitor when\ncontinue\n");
    session.shows(&[
        "No more reverse-execution history",
        "_exit",
        "event ",
        ", thread 1, clock ",
        "exited with code 016",
    ]);
    assert!(session.server.contains("sum 14\n"), "{}", session.server);
}

#[test]
fn the_recording_cannot_be_changed() {
    let recorded = record("unchanged", SUM);
    let line = recorded.line("return result");
    let session = recorded.debug(&format!("break {line}\ncontinue\nset $rax = 5\nset var result = 7\nprint result\n"));
    assert!(session.server.contains("a recording cannot be changed"), "{}", session.server);
    assert!(!session.gdb.contains("= 7"), "{}", session.gdb);
}

const THREADS: &str = r#"
#include <pthread.h>
static pthread_barrier_t barrier;
static __thread int own;
static int shared;
static void work(int n) {
    own = 10 * n;
    pthread_barrier_wait(&barrier);
    __sync_fetch_and_add(&shared, own);
}
static void *first(void *argument) { work(1); return argument; }
static void *second(void *argument) { work(2); return argument; }
int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&barrier, 0, 3);
    pthread_create(&threads[0], 0, first, 0);
    pthread_create(&threads[1], 0, second, 0);
    pthread_barrier_wait(&barrier);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return shared != 30;
}
"#;

#[test]
fn all_threads_are_there() {
    let recorded = record("threads", THREADS);
    let line = recorded.line("__sync_fetch");
    let session = recorded.debug(&format!(
        "break {line}\ncontinue\ninfo threads\nthread apply all backtrace\ncontinue\nprint n\nmonitor when\n"
    ));
    session.shows(&[
        "hit Breakpoint 1, work (n=",
        "has the turn",
        "in main () at guest.c",
        "hit Breakpoint 1, work (n=",
        ", thread ",
    ]);
    assert!(session.gdb.contains("in first (") && session.gdb.contains("in second ("), "{}", session.gdb);
    assert_eq!(session.gdb.matches("work (n=1)").count() > 0, session.gdb.matches("work (n=2)").count() > 0);
}

#[test]
fn watched_memory_stops_behind_the_write() {
    let recorded = record("watched", SUM);
    let session = recorded.debug("break main\ncontinue\nnext\nwatch sum\ncontinue\ncontinue\nprint i\ncontinue\n");
    session.shows(&[
        "Hardware watchpoint 2: sum",
        "Old value = 0",
        "New value = 1",
        "Old value = 1",
        "New value = 5",
        "$1 = 2",
        "Old value = 5",
        "New value = 14",
    ]);
}

const READER: &str = r#"
#include <string.h>
#include <unistd.h>
static char buffer[64];
int main(void) {
    int ends[2];
    pipe(ends);
    write(ends[1], "from outside", 12);
    memset(buffer, 'x', 40);
    read(ends[0], buffer, sizeof buffer);
    return buffer[0] != 'f';
}
"#;

#[test]
fn system_calls_and_string_instructions_write_too() {
    let recorded = record("reader", READER);
    let session = recorded.debug(
        "break main\ncontinue\nwatch buffer[3]\ncontinue\nbacktrace 2\ncontinue\nbacktrace 2\nreverse-continue\nprint buffer[0]\n",
    );
    session.shows(&[
        "New value = 120 'x'",
        "main () at guest.c:9",
        "New value = 109 'm'",
        "main () at guest.c:10",
        "New value = 120 'x'",
        "$1 = 120 'x'",
    ]);
}

/// Waits whose time is over already, until one of them ends for no reason.
const INJECTED: &str = r#"
#include <pthread.h>
#include <stdio.h>
int main(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec past = {0, 0};
    int result = -1, i = 0;
    pthread_mutex_lock(&mutex);
    while (++i < 400) {
        result = pthread_cond_timedwait(&condition, &mutex, &past);
        if (!result)
            break;
    }
    printf("%d", i);
    return 0;
}
"#;

#[test]
fn a_wait_that_was_made_to_end_is_stepped_over() {
    let (recorded, round) = record_with("injected", INJECTED, &["--faults=wakeups", "--seed", "2"]);
    let wait = recorded.line("pthread_cond_timedwait");
    let come = format!("break {wait} if i == {round}\ncontinue\nprint result\n");
    let session = recorded.debug(&format!("{come}next\nprint result\nnext\nnext\n"));
    session.shows(&["$1 = 110", &format!("{}\t", wait + 1), "$2 = 0", "break;", "printf"]);
    // From the first instruction of the wait to that behind its call.
    let session =
        recorded.debug(&format!("{come}break *pthread_cond_timedwait\ncontinue\nstepi\nnext\nprint result\n"));
    session.shows(&["$1 = 110", "Breakpoint 2", &format!("{wait}\t"), "$2 = 0"]);
}

const SIGNAL: &str = r#"
#include <signal.h>
static int seen;
static void handler(int number) { seen = number; }
int main(void) {
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    return seen != SIGUSR1;
}
"#;

#[test]
fn the_first_instruction_of_a_handler_is_a_place_to_stop() {
    let recorded = record("handler", SIGNAL);
    let session = recorded.debug("break *handler\ncontinue\nprint seen\nfinish\nprint seen\n");
    session.shows(&["Breakpoint 1, handler (number=", "$1 = 0", "$2 = 10"]);
}
