//! Debug files and sources that come with a pack, and reports that show them where nothing else is left.

use super::bench::{Bench, refused, text};
use std::fs;
use std::process::Command;

const SOURCE: &str = r#"#include "padding.h"
#include <stdlib.h>
struct node { struct node *next; int value; };
struct node *head;
int pushed;
static void push(int value) {
    struct node *node = malloc(sizeof *node);
    node->value = value;
    node->next = head;
    head = node;
    pushed++;
}
int main(void) {
    for (int i = 0; i < 3; i++) push(i);
    head->next = (struct node *)16;
    return head->next->value;
}
"#;

const CRASH_LINE: &str = "> 16 |     return head->next->value;";
const WRITE_LINE: &str = "> 11 |     pushed++;";

fn run(bench: &Bench, program: &str, words: &[&str]) {
    let status = Command::new(program).args(words).current_dir(bench.path("made")).status().unwrap();
    assert!(status.success(), "{program} {words:?}");
}

/// With a recording `rec` of a program in `made` that crashes; its debug information is in a file of its own. The header
/// that it includes has this many bytes.
fn recorded(padding: usize) -> Bench {
    let bench = Bench::new();
    fs::create_dir(bench.path("made")).unwrap();
    fs::write(bench.path("made/crash.c"), SOURCE).unwrap();
    let header =
        format!("int padded;\nstatic inline int unpadded(void) {{ return padded; }}\n//{}\n", "x".repeat(padding));
    fs::write(bench.path("made/padding.h"), header).unwrap();
    run(&bench, "gcc", &["-g", "-Wl,--build-id", "-o", "crash", "crash.c"]);
    run(&bench, "objcopy", &["--only-keep-debug", "crash", "crash.debug"]);
    run(&bench, "strip", &["crash"]);
    run(&bench, "objcopy", &["--add-gnu-debuglink=crash.debug", "crash"]);
    let output = bench.here(["record", "--no-report", "-o", "rec", "--", "made/crash"]);
    assert_eq!(output.status.code(), None, "{output:?}");
    bench
}

/// Packs with these options, takes the pack away, and removes all else. Gives what the verb said.
fn carried(bench: &Bench, options: &[&str]) -> String {
    let words = ["pack", "./rec", "-o", "there/crash.wdp"];
    let packed = bench.here(words.iter().chain(options));
    assert_eq!(packed.status.code(), Some(0), "{packed:?}");
    for folder in ["made", "rec", "here"] {
        let _ = fs::remove_dir_all(bench.path(folder));
    }
    text(&packed.stdout)
}

#[test]
fn reports_have_the_source_lines_that_came_with_the_pack() {
    let bench = recorded(10);
    let said = carried(&bench, &[]);
    for words in ["debug files:\n", "made/crash.debug\n", "sources:\n", "made/crash.c\n", "made/padding.h\n"] {
        assert!(said.contains(words), "`{words}` is missing in\n{said}");
    }
    let place =
        format!("{}:16", bench.path("made/crash.c").canonicalize().unwrap_or(bench.path("made/crash.c")).display());
    let replayed = text(&bench.there(["replay", "crash.wdp"]).stderr);
    let shown = text(&bench.there(["show", "crash.wdp"]).stdout);
    for report in [&replayed, &shown] {
        assert!(report.contains(CRASH_LINE) && report.contains(&place), "{report}");
        // The copy's own name is of no interest.
        assert!(report.contains("_start") && report.contains("  crash+0x"), "{report}");
    }
    let written = text(&bench.there(["last-write", "crash.wdp", "pushed"]).stdout);
    assert!(written.contains("2 → 3") && written.contains(WRITE_LINE), "{written}");
    assert!(written.contains("main at "), "{written}");
}

#[test]
fn sources_and_debug_files_can_be_left_out() {
    let bench = recorded(10);
    let said = carried(&bench, &["--no-sources"]);
    assert!(said.contains("debug files:\n") && !said.contains("sources:\n"), "{said}");
    let replayed = text(&bench.there(["replay", "crash.wdp"]).stderr);
    assert!(replayed.contains("made/crash.c:16") && !replayed.contains(CRASH_LINE), "{replayed}");

    let bench = recorded(10);
    let said = carried(&bench, &["--no-debug"]);
    assert!(!said.contains("debug files:\n") && said.contains("made/crash.c\n"), "{said}");
    let replayed = text(&bench.there(["replay", "crash.wdp"]).stderr);
    assert!(replayed.contains("crash+0x") && !replayed.contains("crash.c"), "{replayed}");
}

#[test]
fn sources_are_limited_and_the_verb_says_so() {
    let bench = recorded(5 << 20);
    let said = text(&bench.here(["pack", "./rec", "-o", "large.wdp"]).stdout);
    assert!(said.contains("made/padding.h, 5.2 MB; sources have up to 4.2 MB\n"), "{said}");
    assert!(said.contains("made/crash.c\n"), "{said}");
    let small = bench.here(["pack", "./rec", "-o", "small.wdp", "--max-sources", "100"]);
    let said = text(&small.stdout);
    assert!(
        !said.contains("sources:\n") && said.contains("beyond 100 B; --max-sources tells another limit\n"),
        "{said}"
    );
    // Sources of the system come last: the limit takes in the program's own, and hardly any other.
    let limit = SOURCE.len().to_string();
    let own = bench.here(["pack", "./rec", "-o", "own.wdp", "--max-sources", &limit]);
    let said = text(&own.stdout);
    assert!(said.contains("made/crash.c\n") && !said.contains("stdlib.h\n"), "{said}");
    let both = bench.here(["pack", "./rec", "-o", "both.wdp", "--max-sources", "1M", "--no-sources"]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");
}

/// Whoever made a pack could name any file of this machine as a source.
#[test]
fn a_pack_that_is_packed_again_gets_no_files_of_this_machine() {
    let bench = recorded(10);
    assert_eq!(bench.here(["pack", "./rec", "-o", "bare.wdp", "--no-sources", "--no-debug"]).status.code(), Some(0));
    let again = bench.there(["pack", "../bare.wdp", "-o", "again.wdp"]);
    let said = text(&again.stdout);
    assert!(said.contains("made/crash\n"), "{again:?}");
    assert!(!said.contains("sources:\n") && !said.contains("debug files:\n"), "{said}");
    assert_eq!(fs::read(bench.path("bare.wdp")).unwrap(), fs::read(bench.path("there/again.wdp")).unwrap());

    assert_eq!(bench.here(["pack", "./rec", "-o", "full.wdp"]).status.code(), Some(0));
    let fewer = bench.there(["pack", "../full.wdp", "-o", "fewer.wdp", "--no-sources", "--no-debug"]);
    assert_eq!(fewer.status.code(), Some(0), "{fewer:?}");
    assert_eq!(fs::read(bench.path("bare.wdp")).unwrap(), fs::read(bench.path("there/fewer.wdp")).unwrap());
}

#[test]
fn a_damaged_index_costs_no_more_than_source_lines() {
    let bench = recorded(10);
    carried(&bench, &[]);
    bench.there(["show", "crash.wdp"]);
    let unpacked = fs::read_dir(bench.path("there/store")).unwrap().next().unwrap().unwrap().path();
    for content in ["", "{\"schema\": \"whodunit/files/1\", \"files\": [{\"kind\": \"source\"}]}", "[[["] {
        fs::write(unpacked.join("files/index.json"), content).unwrap();
        let shown = bench.there(["show", unpacked.to_str().unwrap()]);
        let said = text(&shown.stdout);
        assert!(shown.status.success() && said.contains("SIGSEGV") && !said.contains(CRASH_LINE), "{shown:?}");
    }
}

#[test]
fn a_changed_program_is_refused_with_both_build_ids() {
    let bench = recorded(10);
    let build_id = || {
        let output = Command::new("readelf").args(["-n", "made/crash"]).current_dir(&bench.folder).output().unwrap();
        let said = text(&output.stdout);
        said.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap().to_owned()
    };
    let then = build_id();
    let events = text(&bench.here(["show", "./rec", "--events"]).stdout);
    assert!(events.contains(&format!("build id {then}")), "{events}");
    let files = text(&bench.here(["show", "./rec", "--files"]).stdout);
    assert!(files.contains(&format!("made/crash, build id {then}\n")), "{files}");
    let json = text(&bench.here(["show", "./rec", "--files", "--json"]).stdout);
    assert!(
        json.contains(&format!("\"build_id\":\"{then}\"")) && json.lines().count() == files.lines().count(),
        "{json}"
    );
    run(&bench, "gcc", &["-O1", "-Wl,--build-id", "-o", "crash", "crash.c"]);
    let now = build_id();
    let difference = format!("made/crash has changed since the recording was made (build id {then} then, {now} now)");
    refused(&bench.here(["replay", "./rec"]), &difference);
    refused(&bench.here(["pack", "./rec", "-o", "crash.wdp"]), &difference);
}
