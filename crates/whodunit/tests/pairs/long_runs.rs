//! Runs with so many accesses that they are not heard as a whole.

use crate::workplace;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The lines of the program that have a comment like this.
fn lines(source: &str, mark: &str) -> BTreeSet<u64> {
    (1..).zip(source.lines()).filter(|(_, line)| line.contains(mark)).map(|(number, _)| number).collect()
}

fn notes(found: &Value) -> Vec<&str> {
    found["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn what_is_beside_a_lot_of_memory_is_found_and_proved() {
    let folder = workplace::fresh_folder("pairs-grid");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pairs/grid.c");
    workplace::compile(&folder, &["-O1"], &source);
    let source = std::fs::read_to_string(source).expect("the source");
    let words = ["pairs", "--format", "json", "--runs", "12", "--", "./guest"];
    let output = workplace::whodunit(&folder).args(words).output().expect("whodunit");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("findings");
    let first = &found["findings"][0];
    let causes = first["causes"].as_array().into_iter().flatten();
    let blamed: BTreeSet<u64> = causes.filter_map(|cause| cause["line"].as_u64()).collect();
    let guilty: BTreeSet<u64> = &lines(&source, "/* read */") | &lines(&source, "/* write */");
    assert_eq!(blamed, guilty, "{found:#}");
    assert_eq!(first["status"], "proved", "{found:#}");
    assert!(notes(&found).iter().any(|note| note.contains("a lot of memory")), "{found:#}");
}
