//! A block that two threads could give back.

use super::looking::{compiled, findings, predictions, record};
use crate::support::execute::Scratch;

/// Whoever comes second finds a null pointer, unless it comes between the release and the store.
const SOURCE: &str = "#include <pthread.h>\n#include <stdlib.h>\n\
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n\
    static char *volatile buffer;\n\
    static void give_back(void) { if (buffer) { free(buffer); buffer = NULL; } }\n\
    static void *close_it(void *is_careful) {\n\
        if (is_careful) pthread_mutex_lock(&lock);\n\
        give_back();\n\
        if (is_careful) pthread_mutex_unlock(&lock);\n\
        return NULL;\n\
    }\n\
    int main(int count, char **words) {\n\
        pthread_t threads[2];\n\
        buffer = malloc(4096);\n\
        for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, close_it, CAREFUL ? words[0] : NULL);\n\
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);\n\
        return 0;\n\
    }\n";

#[test]
fn a_block_that_two_threads_give_back_is_proved() {
    let scratch = Scratch::named("predict-double").expect("a folder");
    record(&scratch, &compiled(&scratch, &SOURCE.replace("CAREFUL", "0"))).expect("a recording");
    let (told, status) = predictions(&scratch).expect("findings");
    assert_eq!(status, 1, "{told}");
    let proof = findings(&told).find(|finding| finding["class"] == "concurrency-double-free");
    assert_eq!(proof.unwrap_or_else(|| panic!("{told}"))["status"], "proved");
}

#[test]
fn a_lock_around_both_keeps_it_from_happening() {
    let scratch = Scratch::named("predict-single").expect("a folder");
    record(&scratch, &compiled(&scratch, &SOURCE.replace("CAREFUL", "1"))).expect("a recording");
    let (told, status) = predictions(&scratch).expect("findings");
    assert_eq!((status, findings(&told).count()), (0, 0), "{told}");
}
