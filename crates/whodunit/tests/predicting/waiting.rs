//! A block that is given back after a wait for a flag under a lock.

use super::looking::{ask, compiled, findings, record};
use crate::support::execute::Scratch;
use serde_json::Value;

/// The main thread fills blocks, waits for a worker to be done with each of them, and gives them back. They are large, so that who comes to
/// one too late finds no memory.
const SOURCE: &str = "#include <pthread.h>\n#include <stdlib.h>\n#include <string.h>\n\
    enum { BLOCKS = 3, SIZE = 1 << 18 };\n\
    struct block { int done; unsigned char bytes[SIZE]; };\n\
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n\
    static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;\n\
    static void *sum(void *argument) {\n\
        struct block *block = argument;\n\
        unsigned long sum = 0;\n\
        for (int i = 0; i < 100; i++) sum += block->bytes[i];\n\
        pthread_mutex_lock(&lock);\n\
        block->done = 1;\n\
        pthread_cond_broadcast(&changed);\n\
        pthread_mutex_unlock(&lock);\n\
        AFTER;\n\
        return (void *)sum;\n\
    }\n\
    int main(void) {\n\
        pthread_t workers[BLOCKS];\n\
        for (int i = 0; i < BLOCKS; i++) {\n\
            struct block *block = calloc(1, sizeof *block);\n\
            memset(block->bytes, i, 100);\n\
            pthread_create(&workers[i], NULL, sum, block);\n\
            pthread_mutex_lock(&lock);\n\
            while (!block->done) pthread_cond_wait(&changed, &lock);\n\
            pthread_mutex_unlock(&lock);\n\
            free(block);\n\
        }\n\
        for (int i = 0; i < BLOCKS; i++) pthread_join(workers[i], NULL);\n\
        return 0;\n\
    }\n";

/// What is said of blocks that are given back too early, and the exit status, if the worker does this in the end.
fn dangling(after: &str) -> (Vec<Value>, i32) {
    let scratch = Scratch::named("predict-waiting").expect("a folder");
    record(&scratch, &compiled(&scratch, &SOURCE.replace("AFTER", after))).expect("a recording");
    let (stdout, stderr, status) = ask(&scratch, "predict", &["--suspects", "--format", "json"]).expect("findings");
    let told: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    (findings(&told).filter(|finding| finding["class"] == "concurrency-dangling").cloned().collect(), status)
}

#[test]
fn who_waits_for_a_flag_may_give_the_block_back() {
    assert_eq!(dangling(""), (Vec::new(), 0), "not even a suspicion");
}

#[test]
fn an_access_after_the_flag_was_set_may_come_too_late() {
    let (found, status) = dangling("sum += block->bytes[0]");
    let statuses: Vec<_> = found.iter().filter_map(|finding| finding["status"].as_str()).collect();
    assert_eq!((statuses, status), (vec!["proved"], 1), "{found:?}");
}
