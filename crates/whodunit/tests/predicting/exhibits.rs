//! Exhibits that fail in other orders than the recorded one; and those that never do.

use super::looking::{ask, findings, predictions, record};
use crate::exhibit::{Exhibit, Variant};
use crate::support::build;
use crate::support::execute::Scratch;
use serde_json::Value;
use std::fs;

/// Each with the class of its prediction.
const PREDICTED: [(&str, &str); 6] = [
    ("mysql_proc_info", "concurrency-null"),
    ("mysql_two_sections", "concurrency-null"),
    ("pbzip2_queue", "concurrency-null"),
    ("pbzip2_dangling", "concurrency-dangling"),
    ("apache_cache_evict", "concurrency-dangling"),
    ("transmission_bandwidth", "concurrency-uninit"),
];

const CALM: [&str; 5] =
    ["calm_queue_ownership", "calm_lock_overwrite", "calm_recycled_address", "calm_spin_flag", "calm_condition"];

fn predict(name: &str) -> Result<(Scratch, Value), String> {
    let built = build::build(&Exhibit::read(name)?.spec(Variant::Plain)?)?;
    let scratch = Scratch::named(&format!("predict-{name}"))?;
    record(&scratch, &built.program)?;
    let (told, _) = predictions(&scratch)?;
    Ok((scratch, told))
}

/// The plan of a proof makes the program fail again, by the verb that carries out plans.
fn fails_again(scratch: &Scratch, finding: &Value) -> Result<bool, String> {
    let plan = scratch.path("plan.json");
    fs::write(&plan, finding["evidence"]["plan"].to_string()).map_err(|error| error.to_string())?;
    let (_, _, status) = ask(scratch, "rerun", &["--plan", plan.to_str().unwrap_or_default()])?;
    Ok(status == 1)
}

#[test]
fn bugs_that_do_not_show_are_proved() {
    for (name, class) in PREDICTED {
        let (scratch, told) = predict(name).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        let proof = findings(&told).find(|finding| finding["class"] == class);
        let proof = proof.unwrap_or_else(|| panic!("{name}: no {class} in {told}"));
        assert_eq!(proof["status"], "proved", "{name}");
        assert!(fails_again(&scratch, proof).expect("a rerun"), "{name}: {proof}");
    }
}

#[test]
fn look_alikes_are_left_alone() {
    for name in CALM {
        let (_, told) = predict(name).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert_eq!(findings(&told).count(), 0, "{name}: {told}");
    }
}
