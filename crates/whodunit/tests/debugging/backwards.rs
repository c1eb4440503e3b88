//! Going back: to the write that spoilt a value, over lines and calls, from a crash, and to the very start.

use super::session::record;

const ACCOUNTS: &str = r#"
#include <stdlib.h>
#include <string.h>
struct account { char name[16]; long balance; };
static struct account accounts[4];
static void rename_account(struct account *account, const char *name) {
    strcpy(account->name, name);
}
static long total(void) {
    long sum = 0;
    for (int i = 0; i < 4; i++)
        sum += accounts[i].balance;
    return sum;
}
int main(void) {
    for (int i = 0; i < 4; i++)
        accounts[i].balance = 100 * (i + 1);
    rename_account(&accounts[1], "a name that is too long");
    if (total() != 1000)
        abort();
    return 0;
}
"#;

#[test]
fn back_to_the_write_that_spoilt_a_value() {
    let recorded = record("accounts", ACCOUNTS);
    let session = recorded.debug(
        "continue\nwatch accounts[1].balance\nreverse-continue\nbacktrace\nreverse-continue\nprint i\nreverse-continue\nmonitor when\ncontinue\n",
    );
    session.shows(&[
        "received signal SIGABRT",
        "Hardware watchpoint 1: accounts[1].balance",
        "Old value = 29113347435687791",
        "New value = 200",
        "in rename_account (",
        "in main () at guest.c",
        "Old value = 200",
        "New value = 0",
        "$1 = 1",
        "No more reverse-execution history",
        "clock 0",
        "Old value = 0",
        "New value = 200",
    ]);
}

const STEPS: &str = r#"
static int twice(int n) {
    int result = 2 * n;
    return result;
}
static int fibonacci(int n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
int main(void) {
    int value = 1;
    value = value + 4;
    value = twice(value);
    value = value + 3;
    value = value + fibonacci(12);
    return value;
}
"#;

#[test]
fn back_over_lines_and_into_calls() {
    let recorded = record("steps", STEPS);
    let line = recorded.line("value + 3");
    let session = recorded.debug(&format!(
        "break {line}\ncontinue\nprint value\nreverse-next\nprint value\nreverse-next\nprint value\nnext\nnext\nprint value\n\
         reverse-step\nprint result\nreverse-finish\nreverse-stepi\nstepi\nx/i $pc\n"
    ));
    session.shows(&[
        "$1 = 10",
        "value = twice(value)",
        "$2 = 5",
        "value = value + 4",
        "$3 = 1",
        "$4 = 10",
        "twice (n=5)",
        "$5 = 10",
        "value = twice(value)",
        "call",
    ]);
}

/// Calls and returns are no events of the clock: all of the recursion lies between two of them.
#[test]
fn back_through_recursion() {
    let recorded = record("recursion", STEPS);
    let session = recorded.debug(
        "break fibonacci if n == 9\ncontinue\nbacktrace\ncontinue\ncontinue\nbacktrace\nreverse-continue\nreverse-continue\nbacktrace\n\
         delete\nreverse-stepi\nreverse-stepi\nstepi\nstepi\nprint n\nbacktrace 1\n",
    );
    session.shows(&[
        "#0  fibonacci (n=9)",
        "fibonacci (n=10)",
        "fibonacci (n=11)",
        "fibonacci (n=12)",
        "#0  fibonacci (n=9)",
        "fibonacci (n=10)",
        "fibonacci (n=12)",
        "#0  fibonacci (n=9)",
        "fibonacci (n=10)",
        "fibonacci (n=11)",
        "fibonacci (n=12)",
        "= 9",
        "#0  fibonacci (n=9)",
    ]);
}

const CRASH: &str = r#"
#include <pthread.h>
static int *target;
static int counter;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void set_target(int *value) {
    target = value;
}
static void *worker(void *argument) {
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&lock);
        counter++;
        pthread_mutex_unlock(&lock);
    }
    if ((long)argument == 2)
        set_target(0);
    return 0;
}
int main(void) {
    pthread_t threads[3];
    int here = 5;
    set_target(&here);
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, worker, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    *target = 7;
    return 0;
}
"#;

#[test]
fn back_from_a_crash_to_another_thread() {
    let recorded = record("crash", CRASH);
    let session = recorded.debug(
        "continue\nprint target\nwatch target\nreverse-continue\nbacktrace\ninfo threads\ndelete\nbreak worker\nreverse-continue\nreverse-continue\n\
         print (long)argument\ncontinue\ndelete\ncontinue\ncontinue\n",
    );
    session.shows(&[
        "received signal SIGSEGV",
        "*target = 7",
        "$1 = (int *) 0x0",
        "hit Hardware watchpoint 1: target",
        "Old value = (int *) 0x0",
        "set_target (value=0x0)",
        "worker (argument=0x2)",
        "in a system call",
        "hit Breakpoint 2, worker (",
        "hit Breakpoint 2, worker (",
        "hit Breakpoint 2, worker (",
        "received signal SIGSEGV",
        "Program terminated with signal SIGSEGV",
    ]);
}
