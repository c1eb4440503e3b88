//! Recordings that there is nothing to predict from.

use super::looking::{ask, compiled, predictions, record};
use crate::support::execute::Scratch;

#[test]
fn one_thread_has_one_order() {
    let scratch = Scratch::named("predict-alone").expect("a folder");
    record(&scratch, &compiled(&scratch, "int main(void) { return 0; }")).expect("a recording");
    let (told, status) = predictions(&scratch).expect("findings");
    assert_eq!(status, 0);
    assert!(told["summary"]["text"].as_str().is_some_and(|text| text.contains("one thread only")), "{told}");
}

#[test]
fn what_failed_by_itself_is_left_to_others() {
    let scratch = Scratch::named("predict-failed").expect("a folder");
    let source = "#include <pthread.h>\n#include <stdlib.h>\n\
                  static void *worker(void *unused) { return unused; }\n\
                  int main(void) { pthread_t thread; pthread_create(&thread, 0, worker, 0); pthread_join(thread, 0); abort(); }";
    record(&scratch, &compiled(&scratch, source)).expect("a recording");
    let (_, said, status) = ask(&scratch, "predict", &[]).expect("an answer");
    assert_eq!(status, 3, "{said}");
    assert!(said.contains("failed by itself") && said.contains("whodunit show"), "{said}");
    assert!(said.contains("whodunit why"), "what to use instead: {said}");
}

/// Two threads add to the same 64 kB.
const LARGE: &str = "#include <pthread.h>\n\
    static volatile long cells[8192];\n\
    static void *add(void *unused) { for (int at = 0; at < 8192; at++) cells[at]++; return unused; }\n\
    int main(void) {\n\
        pthread_t threads[2];\n\
        for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);\n\
        for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);\n\
        return 0;\n\
    }\n";

#[test]
fn what_is_too_large_is_said() {
    let scratch = Scratch::named("predict-large").expect("a folder");
    record(&scratch, &compiled(&scratch, LARGE)).expect("a recording");
    let (said, _, status) = ask(&scratch, "predict", &["--most", "1", "--watch", "1"]).expect("an answer");
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("accesses were left out: they are to more contended memory"), "{said}");
    let (said, ..) = ask(&scratch, "predict", &["--most", "1"]).expect("an answer");
    assert!(!said.contains("left out"), "all of it is watched: {said}");
}
