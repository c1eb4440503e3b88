//! Filters leave things out and change nothing else.

use super::place::{BANK, Recorded, record};
use serde_json::Value;

const ACCESSES: [&str; 4] = ["read", "write", "update", "atomic"];

fn accesses(recorded: &Recorded, words: &[&str]) -> Vec<String> {
    let lines = recorded.lines(words);
    let accesses = lines.iter().filter(|line| ACCESSES.contains(&line["kind"].as_str().unwrap()));
    let told = |line: &Value| {
        let names = ["ordinal", "event", "thread", "kind", "address", "size", "variable"];
        let told: Vec<String> = names.iter().map(|name| line[*name].to_string()).collect();
        format!("{} {}", told.join(" "), line["site"]["pc"])
    };
    accesses.map(told).collect()
}

#[test]
fn accesses_do_not_depend_on_what_else_is_asked_for() {
    let recorded = record("detail", BANK, "-O0");
    let plain = accesses(&recorded, &["--only", "accesses", "--from", "100"]);
    assert!(plain.len() > 1000, "{}", plain.len());
    for words in [&["--values"][..], &["--only", "accesses,calls"], &["--only", "accesses,sync,syscalls"], &[]] {
        let others = accesses(&recorded, &[words, &["--from", "100"]].concat());
        assert!(others == plain, "{words:?}: {} accesses instead of {}", others.len(), plain.len());
    }
}

/// Of a global alone, calls are not followed: what is told of it is the same.
#[test]
fn a_variable_alone_is_told_as_among_all() {
    let recorded = record("alone", BANK, "-O0");
    let alone = accesses(&recorded, &["--only", "accesses", "--variable", "counter", "--from", "100"]);
    let with_values = accesses(&recorded, &["--values", "--variable", "counter", "--from", "100"]);
    let all = accesses(&recorded, &["--only", "accesses", "--from", "100"]);
    let meant: Vec<String> = all.into_iter().filter(|access| access.contains("\"counter\"")).collect();
    assert_eq!(alone.len(), 5);
    assert_eq!((&alone, &with_values), (&meant, &meant));
}

fn ordinals(recorded: &Recorded, words: &[&str]) -> Vec<u64> {
    recorded.lines(words).iter().map(|line| line["ordinal"].as_u64().unwrap()).collect()
}

#[test]
fn events_without_accesses_have_the_same_ordinals() {
    let recorded = record("ordinals", BANK, "-O0");
    let kinds = "sync,threads,memory,syscalls";
    let alone = ordinals(&recorded, &["--only", kinds]);
    let lines = recorded.lines(&["--values"]);
    let mut expected = Vec::new();
    for line in lines {
        let kind = line["kind"].as_str().unwrap();
        if !ACCESSES.contains(&kind) && kind != "call" && kind != "return" {
            expected.push(line["ordinal"].as_u64().unwrap());
        }
    }
    assert_eq!(alone, expected);
    assert!(alone.is_sorted_by(|one, next| one < next));
}

#[test]
fn filters_agree_with_what_is_told_without_them() {
    let recorded = record("filters", BANK, "-O0");
    let all = recorded.lines(&["--only", "accesses,sync,syscalls"]);
    let expected = |is_meant: &dyn Fn(&Value) -> bool| -> Vec<u64> {
        all.iter().filter(|line| is_meant(line)).map(|line| line["ordinal"].as_u64().unwrap()).collect()
    };
    let told = |words: &[&str]| ordinals(&recorded, &[words, &["--only", "accesses,sync,syscalls"]].concat());
    let thread = told(&["--thread", "2"]);
    assert!(!thread.is_empty() && thread == expected(&|line| line["thread"] == 2));
    let function = told(&["--function", "deposit"]);
    assert!(!function.is_empty() && function == expected(&|line| line["site"]["function"] == "deposit"));
    let (from, to) = (all[all.len() / 2]["event"].as_u64().unwrap(), all[all.len() - 200]["event"].as_u64().unwrap());
    let time = told(&["--from", &from.to_string(), "--to", &to.to_string()]);
    assert!(from < to && !time.is_empty());
    assert_eq!(time, expected(&|line| (from..=to).contains(&line["event"].as_u64().unwrap())));
    let both = told(&["--thread", "2", "--function", "deposit", "--function", "main"]);
    assert_eq!(both, expected(&|line| line["thread"] == 2 && line["site"]["function"] == "deposit"));
    assert_eq!(told(&["--limit", "3", "--thread", "2"]), thread[..3]);
}

#[test]
fn traces_are_the_same_every_time_and_go_to_files() {
    let recorded = record("again", BANK, "-O0");
    let words = ["--only", "sync,threads,calls", "--from", "100"];
    let first = recorded.text(&words);
    assert_eq!(recorded.text(&[&words[..], &["-o", "trace.jsonl"]].concat()), "");
    assert!(first.lines().count() > 50);
    assert!(std::fs::read_to_string(recorded.folder.join("trace.jsonl")).unwrap() == first);
}
