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
