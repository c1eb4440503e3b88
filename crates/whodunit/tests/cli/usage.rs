//! Help, version, `doctor`, and wrong command lines.

use super::harness::{Folder, whodunit};

#[test]
fn wrong_command_lines() {
    let lines: &[&[&str]] = &[
        &[],
        &["frobnicate"],
        &["--frobnicate"],
        &["run"],
        &["run", "--frobnicate", "true"],
        &["run", "--seed", "many", "true"],
        &["run", "--seed", "-1", "true"],
        &["run", "--quantum", "0", "true"],
        &["run", "--policy", "fair", "true"],
        &["run", "--on-deadlock", "pray", "true"],
        &["run", "--stats=/nonexistent/figures", "true"],
        &["run", "--stats=/tmp", "true"],
        &["doctor", "true"],
        &["__exec"],
        &["__exec", "words", "--", "/bin/true"],
    ];
    for line in lines {
        let outcome = whodunit(*line);
        assert_eq!(outcome.code(), Some(2), "{line:?}: {outcome:?}");
        assert_eq!(outcome.stdout, "", "{line:?}");
        assert!(!outcome.stderr.is_empty(), "{line:?}");
    }
}

#[test]
fn help_names_every_flag_and_ends_in_examples() {
    let help = whodunit(["run", "--help"]);
    assert_eq!((help.code(), help.stderr.as_str()), (Some(0), ""));
    let flags = [
        "--seed <N>",
        "--quantum <N>",
        "--policy <POLICY>",
        "--on-deadlock <WHAT>",
        "--follow",
        "--no-follow",
        "--no-report",
        "--stats[=<FILE>]",
        "--count[=<FILE>]",
        "--cache-size <MIB>",
        "round-robin",
        "random",
        "report",
        "wait",
        "EXIT STATUS:",
        "124",
        "127",
    ];
    for flag in flags {
        assert!(help.stdout.contains(flag), "`{flag}` is missing in\n{}", help.stdout);
    }
    for verb in [&["--help"][..], &["run", "--help"], &["doctor", "--help"]] {
        let help = whodunit(verb).stdout;
        let (_, examples) = help.split_once("EXAMPLES:").expect("examples");
        assert!(examples.trim_end().lines().last().unwrap().contains("whodunit "), "{help}");
    }
    let verbs = whodunit(["--help"]).stdout;
    assert!(verbs.contains("run") && verbs.contains("doctor") && !verbs.contains("__exec"), "{verbs}");
}

#[test]
fn version() {
    let outcome = whodunit(["--version"]);
    assert_eq!(outcome.stdout, format!("whodunit {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(outcome.code(), Some(0));
}

#[test]
fn doctor_says_what_its_status_says() {
    let outcome = whodunit(["doctor"]);
    let verdict = outcome.stdout.lines().last().unwrap();
    let expected = if verdict.starts_with("This machine suits whodunit") { 0 } else { 3 };
    assert_eq!(outcome.code(), Some(expected), "{outcome:?}");
}

#[test]
fn options_after_the_program_are_the_programs() {
    let outcome = whodunit(["run", "--seed", "1", "echo", "-n", "--seed", "--help", "--", "-x"]);
    assert_eq!(outcome.stdout, "--seed --help -- -x");
    let outcome = whodunit(["run", "--", "echo", "--", "--stats"]);
    assert_eq!(outcome.stdout, "-- --stats\n");
}

#[test]
fn figures_as_json() {
    let folder = Folder::new("figures");
    let file = folder.text("figures.json");
    let words =
        ["run", "--seed", "7", "--quantum", "900", "--policy", "random", &format!("--stats={file}"), "echo", "hi"];
    let outcome = folder.whodunit(words);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("hi\n", ""));
    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(figures["schema"], "whodunit/stats/1");
    assert_eq!((&figures["seed"], &figures["quantum"]), (&7.into(), &900.into()));
    assert_eq!((&figures["policy"], &figures["threads"]), (&"random".into(), &1.into()));
    for name in ["units", "instructions", "code_bytes", "system_calls", "exits", "clock"] {
        assert!(figures[name].as_u64().unwrap() > 0, "{name}: {figures}");
    }
    for name in ["flushes", "invalidated", "signals", "switches"] {
        assert!(figures[name].is_u64(), "{name}: {figures}");
    }
    assert!(figures["translation_seconds"].as_f64().unwrap() > 0.0);
    let hash = figures["schedule_hash"].as_str().unwrap();
    assert!(hash.len() == 16 && u64::from_str_radix(hash, 16).is_ok(), "{hash}");
}

#[test]
fn figures_go_where_they_were_wanted_though_the_guest_moves() {
    let folder = Folder::new("moves");
    let outcome = folder.whodunit(["run", "--stats=figures.json", "sh", "-c", "cd /; echo moved"]);
    assert_eq!(outcome.stdout, "moved\n");
    assert!(folder.path("figures.json").is_file());
}

#[test]
fn figures_as_a_table() {
    let outcome = whodunit(["run", "--stats", "sh", "-c", "echo last words >&2; exit 3"]);
    assert_eq!(outcome.code(), Some(3));
    let (guest, table) = outcome.stderr.split_once('\n').unwrap();
    assert_eq!(guest, "last words");
    for name in ["instructions", "translation seconds", "schedule hash", "round-robin"] {
        assert!(table.contains(name), "`{name}` is missing in\n{table}");
    }
}
