//! What is known of a program from its source is what is told.

use super::place::{BANK, WAYS, fields, record};
use serde_json::Value;

#[test]
fn every_access_of_a_variable_in_order() {
    let recorded = record("variable", BANK, "-O0");
    let lines = recorded.lines(&["--variable", "counter", "--only", "accesses", "--values"]);
    let told = fields(&lines, &["thread", "kind", "variable", "size", "before", "after"]);
    let expected = [
        ["1", "read", "counter", "4", "3", "null"],
        ["1", "write", "counter", "4", "3", "4"],
        ["2", "read", "counter", "4", "4", "null"],
        ["2", "write", "counter", "4", "4", "5"],
        ["1", "read", "counter", "4", "5", "null"],
    ];
    assert_eq!(told, expected);
    let site = &lines[1]["site"];
    assert_eq!((&site["function"], &site["line"]), (&"deposit".into(), &recorded.line("counter++").into()));
    assert_eq!(site["file"], recorded.folder.join("guest.c").to_str().unwrap());
    assert_eq!(site["module"], "guest");
    assert_eq!((&lines[1]["before_bytes"], &lines[1]["after_bytes"]), (&"03000000".into(), &"04000000".into()));
    assert!(lines.iter().all(|line| line["address"] == lines[0]["address"] && line.get("inherited").is_none()));
}

fn written_by(lines: &[Value], thread: u32) -> Vec<Vec<String>> {
    let writes: Vec<Value> =
        lines.iter().filter(|line| line["kind"] == "write" && line["thread"] == thread).cloned().collect();
    fields(&writes, &["variable", "after"])
}

#[test]
fn memory_of_every_kind_has_a_name() {
    let recorded = record("names", BANK, "-O0");
    let lines = recorded.lines(&["--function", "work", "--function", "deposit", "--only", "accesses", "--values"]);
    let at = recorded.line("malloc(sizeof *account)");
    let balance = format!("field balance of struct account in a block of 16 bytes allocated at guest.c:{at}");
    let written = written_by(&lines, 2);
    for (variable, value) in [
        ("mine, thread-local of thread 2", "7"),
        ("local of main, stack of thread 1", "5"),
        ("table[2]", "9"),
        (balance.as_str(), "150"),
        ("amount of deposit", "100"),
    ] {
        assert!(written.contains(&vec![variable.to_owned(), value.to_owned()]), "{variable}: {written:#?}");
    }
    let block = lines.iter().find(|line| line["variable"] == balance).map(|line| line["block"].clone()).unwrap();
    assert_eq!((&block["size"], &block["site"]["line"]), (&16.into(), &at.into()));
    let number = recorded.lines(&["--function", "main", "--only", "accesses"]);
    let number =
        number.iter().find(|line| line["variable"].as_str().is_some_and(|name| name.starts_with("field number")));
    assert_eq!(number.unwrap()["address"], block["address"]);
}

#[test]
fn what_threads_do_to_each_other() {
    let recorded = record("sync", BANK, "-O0");
    let lines = recorded.lines(&["--only", "sync,threads", "--variable", "lock", "--variable", "ready"]);
    let told = fields(&lines, &["thread", "kind", "variable"]);
    let expected = [
        ["1", "forget", "ready"],
        ["1", "lock", "lock"],
        ["1", "unlock", "lock"],
        ["1", "release", "ready"],
        ["2", "acquire", "ready"],
        ["2", "lock", "lock"],
        ["2", "unlock", "lock"],
    ];
    assert_eq!(told, expected);
    assert_eq!(lines[1]["mode"], "exclusive");
    let lives = recorded.lines(&["--only", "threads"]);
    let expected = [["1", "create", "2"], ["2", "end", "null"], ["1", "join", "2"]];
    assert_eq!(fields(&lives[..3], &["thread", "kind", "other"]), expected);
    let blocks = recorded.lines(&["--only", "memory", "--function", "main"]);
    assert_eq!(fields(&blocks, &["kind", "size"]), [["allocate", "16"], ["free", "16"]]);
    assert_eq!(blocks[0]["address"], blocks[1]["address"]);
}

#[test]
fn inlined_functions_are_told_with_where_they_are() {
    let recorded = record("inlined", WAYS, "-O1");
    let lines = recorded.lines(&["--variable", "inlined_counter", "--only", "accesses", "--function", "main"]);
    assert!(!lines.is_empty());
    for line in lines {
        assert_eq!(line["site"]["function"], "bump");
        assert_eq!(line["site"]["line"], recorded.line("inlined_counter += 1"));
        let outer = &line["site"]["inlined_into"][0];
        assert_eq!((&outer["function"], &outer["line"]), (&"main".into(), &recorded.line("    bump();").into()));
    }
}

#[test]
fn functions_are_left_by_returns_and_by_jumps() {
    let recorded = record("calls", WAYS, "-O0");
    let lines =
        recorded.lines(&["--only", "calls", "--function", "outer", "--function", "inner", "--function", "push"]);
    let told: Vec<(String, String, bool)> = lines
        .iter()
        .map(|line| {
            let name = line["callee"]["function"].as_str().unwrap_or("?").to_owned();
            (line["kind"].as_str().unwrap().to_owned(), name, line["jump"] == true)
        })
        .filter(|(_, name, _)| ["outer", "inner", "push"].contains(&name.as_str()))
        .collect();
    let told: Vec<(&str, &str, bool)> =
        told.iter().map(|(kind, name, jump)| (kind.as_str(), name.as_str(), *jump)).collect();
    let expected = [
        ("call", "outer", false),
        ("call", "inner", false),
        ("return", "inner", true),
        ("return", "outer", true),
        ("call", "push", false),
        ("return", "push", false),
        ("call", "push", false),
        ("return", "push", false),
    ];
    assert_eq!(told, expected);
}

#[test]
fn blocks_have_the_type_that_was_measured() {
    let recorded = record("measured", WAYS, "-O1");
    let lines = recorded.lines(&["--function", "push", "--function", "main", "--only", "accesses", "--values"]);
    let at = recorded.line("malloc(sizeof(struct node))");
    let value = format!("field value of struct node in a block of 16 bytes allocated at guest.c:{at}");
    let written: Vec<&Value> =
        lines.iter().filter(|line| line["variable"] == value && line["kind"] == "write").collect();
    assert_eq!(written.iter().map(|line| line["after"].as_str().unwrap()).collect::<Vec<_>>(), ["4", "5", "6"]);
}

/// `calloc` leaves the clearing of a large block to another function, and goes there by a jump.
#[test]
fn cleared_blocks_are_known_and_what_follows_them_is_told() {
    let recorded = record("cleared", WAYS, "-O0");
    let lines = recorded.lines(&["--function", "main", "--only", "accesses,memory", "--values"]);
    let at = recorded.line("calloc(20, sizeof(long))");
    let row = lines.iter().position(|line| line["kind"] == "allocate" && line["site"]["line"] == at).expect("a block");
    assert_eq!(lines[row]["size"], 160);
    let name = format!("[3] of long int in a block of 160 bytes allocated at guest.c:{at}");
    let written = fields(&lines[row + 1..row + 4], &["kind", "variable", "after"]);
    assert_eq!(written[0][..2], ["write", "row"]);
    assert_eq!(written[1][..2], ["read", "row"]);
    assert_eq!(written[2], ["write", &name, "9"]);
}

#[test]
fn calls_of_other_libraries_have_names() {
    let recorded = record("linkage", WAYS, "-O0");
    let lines = recorded.lines(&["--function", "push", "--only", "calls"]);
    let allocations = lines.iter().filter(|line| line["kind"] == "call" && line["site"]["function"] == "push");
    let names: Vec<&str> = allocations.map(|line| line["callee"]["function"].as_str().unwrap_or("?")).collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| name.contains("malloc")), "{names:?}");
}

#[test]
fn a_forked_process_goes_on_from_its_parent() {
    let recorded = record("forked", WAYS, "-O0");
    let words = ["--process", "2", "--variable", "sum", "--only", "accesses", "--values"];
    let all = recorded.lines(&[&words[..], &["--function", "main", "--function", "inner"]].concat());
    let told = fields(&all, &["kind", "after", "inherited"]);
    assert_eq!(told, [["read", "null", "true"], ["write", "1", "true"], ["write", "77", "null"]]);
    let own = recorded.lines(&[&words[..], &["--from", "0"]].concat());
    assert_eq!(own.len(), 1);
    assert_eq!(own[0]["ordinal"], all[2]["ordinal"]);
}
