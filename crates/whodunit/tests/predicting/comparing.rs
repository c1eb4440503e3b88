//! The methods that predictions are compared with tell more, and prove nothing.

use super::looking::{ask, findings, record};
use crate::exhibit::{Exhibit, Variant};
use crate::support::build;
use crate::support::execute::Scratch;
use serde_json::Value;

/// How many findings of which class a method has.
fn told_by(scratch: &Scratch, method: &str) -> Vec<Value> {
    let (stdout, stderr, _) = ask(scratch, "predict", &["--method", method, "--format", "json"]).expect("an answer");
    let told: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    findings(&told).cloned().collect()
}

/// Every access of the exhibit is locked, so nothing races; but a test and a use are apart.
#[test]
fn races_miss_what_is_locked_and_atomicity_does_not() {
    let built =
        build::build(&Exhibit::read("mysql_two_sections").expect("an exhibit").spec(Variant::Plain).expect("flags"));
    let scratch = Scratch::named("predict-compared").expect("a folder");
    record(&scratch, &built.expect("a program").program).expect("a recording");
    assert_eq!(told_by(&scratch, "race"), Vec::<Value>::new());
    let broken = told_by(&scratch, "atom");
    assert!(!broken.is_empty());
    for finding in broken {
        assert_eq!((&finding["class"], &finding["status"]), (&"atomicity-violation".into(), &"suspected".into()));
    }
}
