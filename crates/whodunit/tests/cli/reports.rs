//! What is said when a program crashes or deadlocks.

use super::harness::{Folder, WHODUNIT, finish, whodunit};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const NULL_WRITE: &str = "\
struct node { int value; struct node *next; };

static void store(struct node *node, int value) {
    node->value = value;
}

static void append(struct node *node) {
    store(node->next, 7);
}

int main(void) {
    struct node node = {0, 0};
    append(&node);
    return 0;
}
";

#[test]
fn null_write_with_its_callers_and_source() {
    let folder = Folder::new("null-write");
    folder.compile("list", NULL_WRITE, &[]);
    let outcome = folder.whodunit(["run", "./list"]);
    assert_eq!((outcome.signal(), outcome.stdout.as_str()), (Some(11), ""));
    outcome.assert_says(&[
        "SIGSEGV: invalid write to 0x0 (the null page) in `store` at list.c:4\n",
        "SEGV_MAPERR",
        ": mov [rax],edx\n",
        "  > 4 |     node->value = value;\n",
        "Thread 1 \"list\" (tid ",
        "#0  store ",
        "list.c:4",
        "#1  append ",
        "list.c:8",
        "#2  main ",
        "list.c:13",
        "rax 0000000000000000",
        "To run without this report: --no-report\n",
    ]);
    assert!(!outcome.stderr.contains('\x1b'), "no colours in a pipe");
}

#[test]
fn silent_on_request() {
    let folder = Folder::new("silent");
    folder.compile("list", NULL_WRITE, &[]);
    let outcome = folder.whodunit(["run", "--no-report", "./list"]);
    assert_eq!((outcome.signal(), outcome.stderr.as_str()), (Some(11), ""));
}

#[test]
fn stripped_program() {
    let folder = Folder::new("stripped");
    folder.compile("list", NULL_WRITE, &["-s"]);
    let outcome = folder.whodunit(["run", "./list"]);
    outcome.assert_says(&["SIGSEGV: invalid write to 0x0 (the null page) at list+0x", "#0  ?", "#1  ?", "list+0x"]);
}

#[test]
fn report_does_not_depend_on_who_reads_it() {
    let folder = Folder::new("broken-pipe");
    folder.compile("list", NULL_WRITE, &[]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(WHODUNIT);
    let status = command.args(["run", "./list"]).current_dir(&folder.0).stderr(writer).status().unwrap();
    assert_eq!(status.signal(), Some(11));
    let closed = format!("exec {WHODUNIT} run ./list 2>&-");
    let status = Command::new("sh").args(["-c", &closed]).current_dir(&folder.0).status().unwrap();
    assert_eq!(status.signal(), Some(11));
}

#[test]
fn abort() {
    let folder = Folder::new("abort");
    let source = "#include <stdlib.h>\nstatic void give_up(void) {\n    abort();\n}\nint main(void) { give_up(); }\n";
    folder.compile("quitter", source, &[]);
    let outcome = folder.whodunit(["run", "./quitter"]);
    assert_eq!(outcome.signal(), Some(6));
    outcome.assert_says(&["SIGABRT: aborted by `give_up` at quitter.c:3\n", "  > 3 |     abort();\n", "main "]);
}

/// Each case is a statement and the place that the report names.
#[test]
fn places_that_are_touched() {
    let cases = [
        ("*(volatile int *)&table[2] = 1;", "read-only: 8 bytes into the global `table`"),
        ("((void (*)(void))local)();", "invalid jump to 0x"),
        ("((void (*)(void))local)();", "not executable: the stack of thread 1"),
        ("deeper(1);", "below the stack of thread 1: stack overflow"),
        ("((void (*)(void))0)();", "invalid jump to 0x0 (the null page)"),
        ("return *(volatile int *)0x123456789000;", "invalid read from 0x123456789000 (unmapped)"),
        (
            "return *(volatile int *)(1ul << 63);",
            "invalid read from 0x8000000000000000 (not canonical: no memory can be there)",
        ),
    ];
    let folder = Folder::new("places");
    for (number, (statement, words)) in cases.iter().enumerate() {
        let source = format!(
            "const int table[4] = {{1, 2, 3, 4}};\n\
             int deeper(int n) {{ volatile int pad[99] = {{n}}; return n ? deeper(n + 1) + pad[0] : 0; }}\n\
             int main(void) {{ char local[64] = {{0}}; {statement} return local[0]; }}\n"
        );
        let name = format!("place{number}");
        folder.compile(&name, &source, &["-w"]);
        let outcome = folder.whodunit(["run", &format!("./{name}")]);
        assert_eq!(outcome.signal(), Some(11), "{statement}: {outcome:?}");
        // The report breaks long lines.
        let headline = outcome.stderr.replace("\n    ", " ");
        assert!(headline.contains(words), "{statement}: `{words}` is missing in\n{}", outcome.stderr);
    }
}

#[test]
fn endless_recursion_is_cut_in_the_middle() {
    let folder = Folder::new("recursion");
    folder.compile(
        "deep",
        "int deeper(int n) { return n + deeper(n + 1); }\nint main(void) { return deeper(0); }\n",
        &["-w"],
    );
    let outcome = folder.whodunit(["run", "./deep"]);
    outcome.assert_says(&["stack overflow", "frames left out", "main ", "_start"]);
    assert!(outcome.stderr.lines().count() < 100, "{}", outcome.stderr);
}

#[test]
fn crash_without_a_descriptor_left() {
    let folder = Folder::new("descriptors");
    let source = "#include <fcntl.h>\n\
        int main(void) { while (open(\"/dev/null\", O_RDONLY) >= 0); *(volatile int *)8 = 1; }\n";
    folder.compile("greedy", source, &[]);
    let line = format!("ulimit -Sn 64; exec {WHODUNIT} run ./greedy");
    let outcome = finish(Command::new("sh").args(["-c", &line]).current_dir(&folder.0));
    assert_eq!(outcome.signal(), Some(11));
    outcome.assert_says(&["in `main` at greedy.c:2"]);
}

#[test]
fn crash_of_another_thread() {
    let folder = Folder::new("thread");
    let source = "#include <pthread.h>\n\
        static void *work(void *place) { *(volatile int *)place = 1; return place; }\n\
        int main(void) { pthread_t thread; pthread_create(&thread, 0, work, 0); pthread_join(thread, 0); }\n";
    folder.compile("threads", source, &["-pthread"]);
    let outcome = folder.whodunit(["run", "./threads"]);
    assert_eq!(outcome.signal(), Some(11));
    let first = outcome.stderr.find("Thread 2").expect("the culprit");
    assert!(first < outcome.stderr.find("Thread 1").expect("the other one"), "{}", outcome.stderr);
    outcome.assert_says(&["in `work` at threads.c:2", "crashed:", "waiting for the futex at"]);
}

/// Two threads take two locks in opposite orders. With an argument, an alarm ends the wait.
const LOCK_ORDER: &str = "\
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both_hold_one;

static void *backward(void *unused) {
    pthread_mutex_lock(&second);
    pthread_barrier_wait(&both_hold_one);
    pthread_mutex_lock(&first);
    return unused;
}

static void forward(void) {
    pthread_mutex_lock(&first);
    pthread_barrier_wait(&both_hold_one);
    pthread_mutex_lock(&second);
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc > 1) alarm(1);
    pthread_barrier_init(&both_hold_one, 0, 2);
    pthread_create(&thread, 0, backward, 0);
    forward();
}
";

#[test]
fn deadlock_shows_every_stack() {
    let folder = Folder::new("deadlock");
    folder.compile("locks", LOCK_ORDER, &["-pthread"]);
    let outcome = folder.whodunit(["run", "./locks"]);
    assert_eq!((outcome.code(), outcome.stdout.as_str()), (Some(124), ""));
    outcome.assert_says(&[
        "Every thread waits: deadlock in locks (process ",
        "  > pthread_mutex_lock(&second);\n",
        "forward ",
        "locks.c:17",
        "  > pthread_mutex_lock(&first);\n",
        "backward ",
        "locks.c:10",
        "--on-deadlock wait\n",
    ]);
    let sentences = outcome.stderr.replace("\n    ", " ");
    for words in ["(the global `second`), held by thread 2:", "(the global `first`), held by thread 1:"] {
        assert!(sentences.contains(words), "`{words}` is missing in\n{}", outcome.stderr);
    }
}

#[test]
fn deadlock_waits_on_request() {
    let folder = Folder::new("deadlock-wait");
    folder.compile("locks", LOCK_ORDER, &["-pthread"]);
    let outcome = folder.whodunit(["run", "--on-deadlock", "wait", "./locks", "alarm"]);
    assert_eq!((outcome.signal(), outcome.stderr.as_str()), (Some(14), ""));
}

#[test]
fn every_order_of_threads_comes_from_the_seed() {
    let folder = Folder::new("seed");
    let source = "#include <pthread.h>\n\
        static void *work(void *unused) { for (volatile int i = 0; i < 100000; i++); return unused; }\n\
        int main(void) { pthread_t threads[3]; for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, 0);\n\
        for (int i = 0; i < 3; i++) pthread_join(threads[i], 0); }\n";
    let program = folder.compile("threads", source, &["-pthread"]);
    let schedule = |seed: &str| {
        let file = folder.text("figures.json");
        let stats = format!("--stats={file}");
        let words = ["run", "--policy", "random", "--seed", seed, &stats, program.to_str().unwrap()];
        assert_eq!(whodunit(words).code(), Some(0));
        let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(figures["threads"], 4);
        figures["schedule_hash"].clone()
    };
    assert_eq!(schedule("1"), schedule("1"));
    assert_ne!(schedule("1"), schedule("2"));
}
