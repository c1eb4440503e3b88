//! Runs with so many accesses that they are not heard as a whole.

use crate::workplace;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

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

/// Asks a replay of the recording `run` something.
fn ask(folder: &Path, study: &Value) -> Value {
    let question = json!({"study": {"study": study, "allocators": []}}).to_string();
    let words = ["replay", "--quiet", "--no-report", "--inquire", "--process", "1", "./run"];
    let mut replay = workplace::whodunit(folder);
    let replay = replay.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut replay = replay.expect("whodunit");
    replay.stdin.take().expect("a pipe").write_all(question.as_bytes()).expect("the question");
    let output = replay.wait_with_output().expect("an answer");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Ends, directions and numbers of pairs. When they came is counted in what is told.
fn pairs_of(answer: &Value) -> Vec<[Value; 4]> {
    let pairs = answer["pairs"].as_array().expect("pairs").iter();
    pairs.map(|pair| ["head", "tail", "directions", "times"].map(|part| pair[part].clone())).collect()
}

#[test]
fn a_run_that_is_told_in_part_has_the_same_pairs() {
    let folder = workplace::fresh_folder("pairs-told-in-part");
    workplace::compile(&folder, &["-O1"], &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pairs/grid.c"));
    let words = ["record", "--policy", "random", "--quantum", "3000", "-o", "run", "./guest"];
    let recorded = workplace::whodunit(&folder).args(words).output().expect("whodunit");
    assert!(folder.join("run").exists(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let scope = json!({"ignored_code": [], "synchronising_code": [], "ignored_memory": []});
    let places = ask(&folder, &json!({"meeting-places": scope}));
    let visitors = ask(&folder, &json!({"visitors": {"scope": scope, "places": places}}));
    assert_ne!(visitors["sweeping"], json!([]), "{visitors:#}");
    let [in_full, in_part] = [true, false].map(|counts_all| {
        let wanted = json!({
            "scope": scope, "looping_sites": [], "two_by_two": false, "contexts": false, "counts_all": counts_all,
            "among": visitors["instructions"], "sweeping": visitors["sweeping"],
        });
        ask(&folder, &json!({"pairs": wanted}))
    });
    assert!(
        in_part["accesses"].as_u64() < in_full["accesses"].as_u64().map(|accesses| accesses / 4),
        "most is left out"
    );
    assert_eq!(pairs_of(&in_part), pairs_of(&in_full));
    assert!(pairs_of(&in_part).len() > 4, "{in_part:#}");
}
