//! Programs as Debian ships them.

use super::place::record_real;
use crate::debian;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Nobody takes a lock that another holds: in a stream, too, locks exclude each other.
fn check_locks(lines: &[Value]) -> usize {
    let mut owners: BTreeMap<String, (u64, u32)> = BTreeMap::new();
    let mut count = 0;
    for line in lines.iter().filter(|line| line["mode"] != "shared") {
        let (thread, object) = (line["thread"].as_u64().unwrap(), line["address"].to_string());
        match line["kind"].as_str().unwrap() {
            "lock" => {
                let (owner, depth) = owners.entry(object).or_insert((thread, 0));
                assert!(*depth == 0 || *owner == thread, "{line} while thread {owner} holds it");
                (*owner, *depth) = (thread, *depth + 1);
                count += 1;
            }
            "unlock" => {
                if let Some((owner, depth)) = owners.get_mut(&object) {
                    assert_eq!(*owner, thread, "{line}");
                    *depth = depth.saturating_sub(1);
                }
            }
            "forget" => {
                owners.remove(&object);
            }
            _ => {}
        }
    }
    count
}

#[test]
fn pigz_locks_and_threads() {
    debian::need(&["pigz"]);
    let content: Vec<u8> = (0..400_000u32).flat_map(|number| (number * 7 / 3).to_le_bytes()).collect();
    let recorded = record_real("pigz", &["pigz", "-k", "-p", "3", "input"], &content);
    let lines = recorded.lines(&["--only", "sync,threads"]);
    assert!(check_locks(&lines) > 20);
    let numbers = |kind: &str, field: &str| -> BTreeSet<u64> {
        lines.iter().filter(|line| line["kind"] == kind).map(|line| line[field].as_u64().unwrap()).collect()
    };
    let (made, joined) = (numbers("create", "other"), numbers("join", "other"));
    assert!(made.len() >= 2 && joined == made, "{made:?} {joined:?}");
    let doing = numbers("lock", "thread");
    assert!(made.is_subset(&doing), "{made:?} {doing:?}");
    let opened = recorded.lines(&["--only", "syscalls", "--thread", "1"]);
    assert!(opened.iter().any(|line| line["call"] == "openat"));
}

#[test]
fn python_by_function() {
    debian::need(&["python3"]);
    let script = "import threading\nt = [threading.Thread(target=print, args=(n,)) for n in range(2)]\n\
                  [x.start() for x in t]\n[x.join() for x in t]\n";
    let recorded = record_real("python", &["python3", "-S", "-c", script], b"");
    let lives = recorded.lines(&["--only", "threads", "--limit", "2"]);
    assert_eq!(lives.iter().filter(|line| line["kind"] == "create").count(), 1, "{lives:?}");
    // A function that only the symbol table of the stripped program knows.
    let lines =
        recorded.lines(&["--function", "PyThread_start_new_thread", "--only", "accesses,calls", "--limit", "40"]);
    assert!(!lines.is_empty());
    let is_meant = |line: &Value| {
        let name = "PyThread_start_new_thread";
        line["site"]["function"] == name || line["callee"]["function"] == name
    };
    assert!(lines.iter().all(is_meant), "{lines:?}");
}
