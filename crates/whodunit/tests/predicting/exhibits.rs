//! Exhibits that fail in other orders than the recorded one; and those that never do.

use super::looking::{ask, findings, predictions, predictions_of, record};
use crate::exhibit::{Exhibit, Variant};
use crate::support::build;
use crate::support::execute::Scratch;
use serde_json::Value;
use std::fs;

/// Each with the class of its prediction.
const PREDICTED: [(&str, &str); 11] = [
    ("mysql_two_sections", "concurrency-null"),
    ("pbzip2_queue", "concurrency-null"),
    ("mozilla_property", "concurrency-null"),
    ("apache_cache_evict", "concurrency-dangling"),
    ("pbzip2_dangling", "concurrency-dangling"),
    ("apache_log_overflow", "concurrency-overflow"),
    ("cherokee_buffer", "concurrency-overflow"),
    ("transmission_bandwidth", "concurrency-uninit"),
    ("fft_end_time", "concurrency-uninit"),
    ("closed_connection", "concurrency-dangling"),
    ("left_frame", "concurrency-dangling"),
];

const CALM: [&str; 4] = ["calm_queue_ownership", "calm_lock_overwrite", "calm_read_copy_update", "calm_spin_flag"];

/// How many runs may be needed until one executes the guilty lines of an exhibit whose usual run does not.
const RUNS: &str = "20";

fn predict(name: &str) -> Result<(Scratch, Value), String> {
    let built = build::build(&Exhibit::read(name)?.spec(Variant::Plain)?)?;
    let scratch = Scratch::named(&format!("predict-{name}"))?;
    record(&scratch, &built.program)?;
    let (told, _) = predictions(&scratch)?;
    Ok((scratch, told))
}

/// The plan of a proof makes the program fail again, or write something else, by the verb that carries out plans.
fn is_shown_again(scratch: &Scratch, finding: &Value, good_output: &str) -> Result<bool, String> {
    let plan = scratch.path("plan.json");
    fs::write(&plan, finding["evidence"]["plan"].to_string()).map_err(|error| error.to_string())?;
    let (outcome, _, status) = ask(scratch, "rerun", &["--json", "--plan", plan.to_str().unwrap_or_default()])?;
    let outcome: Value = serde_json::from_str(&outcome).map_err(|error| error.to_string())?;
    let written = outcome["output"].as_array().into_iter().flatten().filter_map(|output| output["text"].as_str());
    Ok(status == 1 || written.collect::<String>() != good_output)
}

#[test]
fn bugs_that_do_not_show_are_proved() {
    for (name, class) in PREDICTED {
        let (scratch, told) = predict(name).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        let proof = findings(&told).find(|finding| finding["class"] == class);
        let proof = proof.unwrap_or_else(|| panic!("{name}: no {class} in {told}"));
        assert_eq!(proof["status"], "proved", "{name}");
        if class == "concurrency-overflow" {
            let is_range =
                |ground: &Value| ground.as_str().is_some_and(|ground| ground.contains("lead beyond the end"));
            assert!(proof["grounds"].as_array().is_some_and(|grounds| grounds.iter().any(is_range)), "{name}: {proof}");
        }
        let good = Exhibit::read(name).expect("an exhibit").output;
        assert!(is_shown_again(&scratch, proof, &good).expect("a rerun"), "{name}: {proof}");
    }
}

/// The usual schedule ends the threads that set the pointer before the one that uses it begins.
#[test]
fn several_runs_find_what_one_does_not_execute() {
    let exhibit = Exhibit::read("mysql_proc_info").expect("an exhibit");
    let built = build::build(&exhibit.spec(Variant::Plain).expect("a way to build")).expect("a program");
    let scratch = Scratch::named("predict-several").expect("a folder");
    let told = predictions_of(&scratch, RUNS, &built.program).expect("findings");
    let classes: Vec<&Value> = findings(&told).map(|finding| &finding["class"]).collect();
    assert!(classes.contains(&&Value::from("concurrency-null")), "{told}");
}

#[test]
fn look_alikes_are_left_alone() {
    for name in CALM {
        let (_, told) = predict(name).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert_eq!(findings(&told).count(), 0, "{name}: {told}");
    }
}
