//! Memory that a program's own functions hand out, named by `--alloc`.

use super::looking::{look, record, titles};
use crate::support::execute::{self, Ending, Scratch};
use crate::support::whodunit_binary;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// Of a pool, one thread takes blocks and the other gives them back. The flags of the slots are all that passes between them,
/// in no way that can be told from a race.
const POOL: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <semaphore.h>
struct job { long id, result; };
static struct job slots[4];
static volatile char is_used[4];
static struct job *volatile sent[8];
static sem_t n_sent;
__attribute__((noinline)) struct job *job_get(size_t size) {
    for (int slot = 0; slot < 4 && size == sizeof *slots; slot++)
        if (!is_used[slot]) {
            is_used[slot] = 1;
            return &slots[slot];
        }
    return NULL;
}
__attribute__((noinline)) void job_put(void *pool, struct job *job) {
    is_used[job - (struct job *)pool] = 0;
}
static void *work(void *unused) {
    for (int number = 0; number < 8; number++) {
        while (sem_wait(&n_sent) != 0)
            ;
        sent[number]->result = sent[number]->id + 1;
        job_put(slots, sent[number]);
    }
    return unused;
}
int main(void) {
    pthread_t worker;
    sem_init(&n_sent, 0, 0);
    pthread_create(&worker, NULL, work, NULL);
    for (int number = 0; number < 8; number++) {
        struct job *job = job_get(sizeof *job);
        if (!job) {
            number--;
            sched_yield();
            continue;
        }
        job->id = number;
        sent[number] = job;
        sem_post(&n_sent);
    }
    pthread_join(worker, NULL);
    return 0;
}
"#;

/// Nothing keeps main from giving a block back to the pool before the worker writes to it.
const LATE: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
static long slots[4];
static int next;
__attribute__((noinline)) long *slot_get(void) { return &slots[next++]; }
__attribute__((noinline)) void slot_put(long *slot) { next -= slot == &slots[next - 1]; }
static void *work(void *slot) {
    *(long *)slot = 7;
    return NULL;
}
int main(void) {
    pthread_t worker;
    long *slot = slot_get();
    pthread_create(&worker, NULL, work, slot);
    for (int turn = 0; turn < 20; turn++)
        sched_yield();
    slot_put(slot);
    pthread_join(worker, NULL);
    return 0;
}
"#;

/// A scratch with a recording of the program.
fn recorded(name: &str, source: &str) -> Result<Scratch, String> {
    let scratch = Scratch::named(name)?;
    let (text, program) = (scratch.path("program.c"), scratch.path("program"));
    fs::write(&text, source).map_err(|error| error.to_string())?;
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-O1", "-pthread", "-w", "-o"]).arg(&program).arg(&text);
    let compiled = execute::command(&scratch, &mut compiler, Duration::from_secs(60))?;
    if compiled.ending != Ending::Exited(0) {
        return Err(String::from_utf8_lossy(&compiled.stderr).into_owned());
    }
    record(&scratch, &[], &program, &[])?;
    Ok(scratch)
}

#[test]
fn blocks_of_a_named_pool_do_not_race_with_their_former_lives() -> Result<(), String> {
    let scratch = recorded("alloc-pool", POOL)?;
    let (told, status) = look(&scratch, &[])?;
    assert_eq!(status, 1, "without the option the pool looks like a race: {told}");
    assert!(titles(&told).iter().any(|title| title.contains("slots")), "{:?}", titles(&told));
    let (told, status) = look(&scratch, &["--alloc", "job_get:job_put@2"])?;
    assert_eq!((status, titles(&told)), (0, Vec::new()));
    Ok(())
}

#[test]
fn a_use_after_the_block_went_back_is_found() -> Result<(), String> {
    let scratch = recorded("alloc-late", LATE)?;
    assert_eq!(look(&scratch, &[])?.1, 0, "nobody but the worker touches the block itself");
    let (told, status) = look(&scratch, &["--alloc", "slot_get:slot_put:=8"])?;
    assert_eq!(status, 1, "{told}");
    let titles = titles(&told);
    let is_told = |title: &&str| title.contains("in a block of 8 bytes allocated at") && title.contains("frees it");
    assert!(titles.len() == 1 && titles.iter().all(is_told), "{titles:?}");
    Ok(())
}

#[test]
fn names_that_are_none_are_refused() -> Result<(), String> {
    let scratch = recorded("alloc-names", LATE)?;
    for (word, expected) in
        [("slot_get:slot_gone", (3, "no function with the symbol slot_gone")), ("slot_get", (2, "NAME:FREE"))]
    {
        let mut command = Command::new(whodunit_binary());
        command.arg("races").arg(scratch.path("recording")).args(["--alloc", word]);
        let outcome = execute::command(&scratch, &mut command, Duration::from_secs(60))?;
        let said = String::from_utf8_lossy(&outcome.stderr);
        assert_eq!(outcome.ending, Ending::Exited(expected.0), "{said}");
        assert!(said.contains(expected.1), "{said}");
    }
    Ok(())
}
