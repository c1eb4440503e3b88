//! An instruction that comes so often that it is told now and then.

use super::looking::{ask, compiled, findings, record};
use crate::support::execute::Scratch;
use serde_json::Value;

/// One thread uses a pointer very often, and another clears it when that is over.
const SOURCE: &str = "#include <pthread.h>\n#include <stdlib.h>\n\
    struct share { long n; };\n\
    static struct share *volatile open_share;\n\
    static volatile long sum;\n\
    static void *query(void *unused) {\n\
        for (long i = 0; i < 200000; i++) {\n\
            struct share *mine = open_share;\n\
            sum += mine->n;\n\
            for (volatile int k = 0; k < 20; k++);\n\
        }\n\
        return unused;\n\
    }\n\
    static void *flush(void *unused) {\n\
        for (volatile long k = 0; k < 12000000; k++);\n\
        open_share = NULL;\n\
        return unused;\n\
    }\n\
    int main(void) {\n\
        open_share = calloc(1, sizeof *open_share);\n\
        pthread_t threads[2];\n\
        pthread_create(&threads[0], NULL, query, NULL);\n\
        pthread_create(&threads[1], NULL, flush, NULL);\n\
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);\n\
        return 0;\n\
    }\n";

/// Of the many executions, the one to be held is counted from a clock of its thread on: what came before was left out in part.
#[test]
fn what_comes_very_often_is_found_by_a_late_execution() {
    let scratch = Scratch::named("predict-often").expect("a folder");
    record(&scratch, &compiled(&scratch, SOURCE)).expect("a recording");
    let (stdout, stderr, status) = ask(&scratch, "predict", &["--format", "json"]).expect("findings");
    let told: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    let plans: Vec<&Value> = findings(&told).map(|finding| &finding["evidence"]["plan"]).collect();
    assert_eq!((plans.len(), status), (1, 1), "{told}");
    let hold = &plans[0]["steps"][0]["hold"];
    assert!(hold["clock"].as_u64().is_some_and(|clock| clock > 0), "{hold}");
    assert!(hold["time"].as_u64().is_some_and(|time| time > 0), "{hold}");
}
