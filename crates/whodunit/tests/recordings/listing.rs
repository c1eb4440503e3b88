//! `whodunit ls`.

use std::fs;

use trace::event::{EndKind, Exec, Fork};
use trace::{Event, format};

use super::builder::Home;
use super::failing::SEGMENTATION_FAULT;

/// Ages are told with half a unit to spare.
const MINUTES_3: u64 = 210;
const HOURS_2: u64 = 9_000;
const DAYS_1: u64 = 130_000;

#[test]
fn an_empty_store_says_how_to_record() {
    let home = Home::new();
    let root = home.root();
    let expected = format!("No recordings in {} yet; make one with: whodunit record -- PROG ARGS\n", root.display());
    home.run(&["ls"]).says(&expected);
    fs::remove_dir(&root).unwrap();
    home.run(&["ls"]).says(&expected);
    let json = home.run(&["ls", "--json"]).json();
    assert_eq!((&json["schema"], &json["recordings"]), (&"whodunit/ls/1".into(), &serde_json::json!([])));
}

#[test]
fn the_newest_comes_first_and_the_latest_is_marked() {
    let home = Home::new();
    home.exited(&["sort", "a file"], DAYS_1, 0);
    home.exited(&["sort"], HOURS_2, 2);
    let mut crash = home.record(&["./server", "--port", "8080"], MINUTES_3);
    crash.log.start(&["./server", "--port", "8080"], 100, None);
    crash.log.end(SEGMENTATION_FAULT, &[]);
    crash.log.close();
    drop(crash);
    let [first, second, server] = ["sort-1", "sort-2", "server-1"].map(|name| home.size_of(name));
    home.run(&["ls"]).says(&format!(
        "\
NAME               WHEN        SIZE  PROCESSES  ENDED     PROGRAM
server-1 (latest)  3 min ago  {server}          1  SIGSEGV   ./server --port 8080
sort-2             2 h ago    {second}          1  exited 2  sort
sort-1             1 day ago  {first}          1  exited 0  sort 'a file'
"
    ));
}

#[test]
fn every_way_to_end() {
    let home = Home::new();
    let mut cut = home.record(&["cut"], 70);
    cut.log.start(&["cut"], 1, None);
    cut.log.store_tail();
    drop(cut);
    let damaged = home.exited(&["damaged"], 80, 0);
    flip(&damaged.join("1.log"), format::LogHeader::SIZE + 50);
    let header = home.exited(&["header"], 90, 0);
    flip(&header.join("1.log"), 20);
    let newer = home.exited(&["newer"], 100, 0);
    flip(&newer.join("1.log"), 9);
    let mut live = home.record(&["live"], 60);
    live.log.start(&["live"], 1, None);
    fs::create_dir_all(home.path("photos-1/summer")).unwrap();

    let json = home.run(&["ls", "--json"]).json();
    let recordings = json["recordings"].as_array().unwrap();
    let ends: std::collections::BTreeMap<&str, (&str, &str)> = recordings
        .iter()
        .map(|r| (r["name"].as_str().unwrap(), (&r["ended"]["state"], &r["ended"]["text"])))
        .map(|(name, (state, text))| (name, (state.as_str().unwrap(), text.as_str().unwrap())))
        .collect();
    let expected = [
        ("cut-1", ("cut", "cut short (killed)")),
        ("damaged-1", ("damaged", "damaged at byte 64 of 1.log")),
        ("header-1", ("unreadable", "damaged at byte 0 of 1.log")),
        ("live-1", ("live", "still recording")),
        ("newer-1", ("unreadable", "format 513.2 (newer)")),
        ("photos-1", ("unreadable", "not a recording")),
    ];
    assert_eq!(ends.into_iter().collect::<Vec<_>>(), expected);
    let table = home.run(&["ls"]);
    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""));
    assert_eq!(table.stdout.lines().count(), 1 + expected.len());
}

/// Flips a bit.
pub fn flip(file: &std::path::Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 2;
    fs::write(file, bytes).unwrap();
}

#[test]
fn processes_are_counted_and_followed_through_what_they_execute() {
    let home = Home::new();
    let mut shell = home.record(&["sh"], MINUTES_3);
    shell.log.start(&["sh"], 100, None);
    let (mut child, mut next) = (shell.next_log(), shell.next_log());
    let fork = shell.log.add(Event::Fork(Fork { thread: 1, clock: 5, child_pid: 101, child_log: child.number }));
    child.start(&["sh"], 101, Some((1, fork)));
    child.end(EndKind::Exited(0), &[]);
    child.close();
    let exec = shell.log.add(Event::Exec(Exec { thread: 1, clock: 9, next_log: next.number }));
    shell.log.close();
    next.start(&["ls"], 100, Some((1, exec)));
    next.end(EndKind::Exited(4), &[]);
    next.close();
    drop((shell, child, next));
    let json = home.run(&["ls", "--json"]).json();
    let entry = &json["recordings"][0];
    assert_eq!((&entry["processes"], &entry["logs"]), (&2.into(), &3.into()));
    assert_eq!(entry["ended"], serde_json::json!({"state": "exited", "status": 4, "text": "exited 4"}));
    assert_eq!((&entry["latest"], &entry["live"]), (&true.into(), &false.into()));
}

#[test]
fn a_program_is_shortened_unless_asked_for_in_full() {
    let home = Home::new();
    let long = "x".repeat(200);
    home.exited(&["echo", &long], DAYS_1, 0);
    let short = home.run(&["ls"]);
    assert_eq!(short.stdout.lines().map(str::len).max(), Some(100), "{}", short.stdout);
    assert!(short.stdout.ends_with("x...\n"));
    let full = home.run(&["ls", "--long"]);
    assert!(full.stdout.ends_with(&format!("exited 0  echo {long}\n")), "{}", full.stdout);
    assert!(full.stdout.contains(" UTC, 1 day ago "), "{}", full.stdout);
}

#[test]
fn what_a_terminal_would_obey_is_escaped() {
    let home = Home::new();
    home.exited(&["echo", "\x1b[31mred\u{202e}"], 60, 0);
    let table = home.run(&["ls"]);
    assert!(table.stdout.ends_with("echo $'\\x1b[31mred\\u202e'\n"), "{}", table.stdout);
    assert!(!table.stdout.contains(['\x1b', '\u{202e}']));
}

#[test]
fn the_latest_is_listed_wherever_it_is() {
    let home = Home::new();
    home.exited(&["old"], HOURS_2, 0);
    let outside = home.folder.join("mine");
    let mut recorder = home.record_at(&outside, &["prog"], MINUTES_3);
    recorder.log.start(&["prog"], 1, None);
    recorder.log.end(EndKind::Exited(0), &[]);
    recorder.log.close();
    drop(recorder);
    let json = home.run(&["ls", "--json"]).json();
    let names: Vec<_> =
        json["recordings"].as_array().unwrap().iter().map(|entry| (&entry["name"], &entry["latest"])).collect();
    assert_eq!(names, [(&outside.to_str().unwrap().into(), &true.into()), (&"old-1".into(), &false.into())]);
}

#[test]
fn wrong_options_are_usage_errors() {
    let home = Home::new();
    for words in [["ls", "--frobnicate"].as_slice(), &["ls", "prog-1"], &["ls", "--json", "--long"]] {
        let outcome = home.run(words);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{words:?}");
    }
}
