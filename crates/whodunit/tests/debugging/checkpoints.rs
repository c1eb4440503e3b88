//! Programs that run long enough for checkpoints: what may be skipped on the way back and what may not, memory of shared
//! mappings at checkpoints, an interrupt, and a pack.

use super::session::{Session, record};

/// Takes some tenths of a second, in which only its own stack is written.
const WORK: &str = r#"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static unsigned long work(void) {
    unsigned long state = 88172645463325252ul;
    for (int i = 0; i < 60 * 1000 * 1000; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    return state;
}
"#;

/// Through how many stretches between checkpoints the last way back led, and how many it came by.
fn searched(session: &Session) -> (u32, u32) {
    let words = session.gdb.rsplit_once("the last way back led through ").expect("no figures").1;
    let mut numbers = words.split_whitespace().filter_map(|word| word.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

const RARE: &str = r#"
static struct { char before[4096]; long balance; char after[4096]; } account;
int main(void) {
    account.balance = 100;
    work();
    account.balance = 13;
    for (int i = 0; i < 5; i++)
        work();
    return 0;
}
"#;

#[test]
fn stretches_that_cannot_have_written_are_skipped() {
    let recorded = record("rare", &format!("{WORK}{RARE}"));
    let session = recorded.debug(
        "continue\nwatch account.balance\nreverse-continue\nbacktrace 1\nmonitor checkpoints\nreverse-continue\nreverse-continue\n",
    );
    session.shows(&["Old value = 13", "New value = 100", "account.balance = 13", "Old value = 100", "New value = 0"]);
    session.shows(&["No more reverse-execution history", "No more reverse-execution history"]);
    let (led, passed) = searched(&session);
    assert!(led <= 2 && led <= passed, "{}", session.gdb);
}

/// A breakpoint that was there during the first run was not come by where that run did not stop.
const STOPS: &str = r#"
static long counter;
static void visit(void) { counter++; }
int main(void) {
    visit();
    work();
    work();
    visit();
    work();
    work();
    return counter != 2;
}
"#;

#[test]
fn breakpoints_are_found_again_wherever_they_were_set() {
    let recorded = record("stops", &format!("{WORK}{STOPS}"));
    let session = recorded.debug(
        "break visit\ncontinue\nprint counter\ncontinue\nprint counter\ncontinue\nreverse-continue\nprint counter\nreverse-continue\n\
         print counter\ndelete\ncontinue\nbreak visit\nreverse-continue\nprint counter\nreverse-continue\nprint counter\n",
    );
    session.shows(&["$1 = 0", "$2 = 1", "No more", "$3 = 1", "$4 = 0", "No more", "$5 = 1", "$6 = 0"]);
}

const REMAPPED: &str = r#"
static char *memory;
int main(void) {
    memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory[8] = 1;
    work();
    madvise(memory, 4096, MADV_DONTNEED);
    work();
    memory[8] = 5;
    work();
    mmap(memory, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    work();
    return memory[8];
}
"#;

#[test]
fn memory_that_is_discarded_or_mapped_anew_has_changed() {
    let recorded = record("remapped", &format!("{WORK}{REMAPPED}"));
    let session = recorded.debug(
        "continue\nwatch -location memory[8]\nreverse-continue\nreverse-continue\nbacktrace 1\nreverse-continue\nreverse-continue\nbacktrace 1\n",
    );
    session.shows(&[
        "Old value = 0",
        "New value = 5",
        "Old value = 5",
        "New value = 0",
        "memory[8] = 5",
        "Old value = 0",
        "New value = 1",
        "Old value = 1",
        "New value = 0",
        "memory[8] = 1",
    ]);
}

const SHARED: &str = r#"
#include <fcntl.h>
static char *memory;
int main(void) {
    int file = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    ftruncate(file, 8192);
    memory = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *other = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memory[5000] = 1;
    work();
    other[5000] = 2;
    work();
    pwrite(file, "\3", 1, 5000);
    work();
    return memory[5000] != 3;
}
"#;

#[test]
fn every_checkpoint_has_shared_memory_of_its_own() {
    let recorded = record("shared", &format!("{WORK}{SHARED}"));
    let session = recorded.debug(
        "continue\nprint memory[5000]\nbreak work\nreverse-continue\nprint memory[5000]\nreverse-continue\nprint memory[5000]\n\
         reverse-continue\nprint memory[5000]\ncontinue\nprint memory[5000]\ndelete\ncontinue\nprint memory[5000]\n\
         watch -location memory[5000]\nreverse-continue\nreverse-continue\n",
    );
    session.shows(&["$1 = 3", "$2 = 3", "$3 = 2", "$4 = 1", "$5 = 2", "$6 = 3"]);
    session.shows(&["Old value = 3", "New value = 2"]);
}

const LINE: &str = r#"
int main(void) {
    write(1, "working\n", 8);
    unsigned long state = 0;
    for (int i = 0; i < 12; i++)
        state += work();
    return state == 1;
}
"#;

#[test]
fn an_interrupt_stops_a_long_run() {
    let recorded = record("interrupt", &format!("{WORK}{LINE}"));
    let session = recorded.debug_and_interrupt("continue\nbacktrace\nstepi\nreverse-stepi\nmonitor when\n");
    session.shows(&["Program received signal SIGINT", "#0  ", "main () at guest.c", "event ", ", thread 1, clock "]);
}

#[test]
fn a_pack_is_debugged_like_a_recording() {
    let recorded = record("packed", &format!("{WORK}{RARE}"));
    let session = recorded.debug_packed("continue\nwatch account.balance\nreverse-continue\nbacktrace 1\n");
    session.shows(&["Old value = 13", "New value = 100", "account.balance = 13"]);
}
