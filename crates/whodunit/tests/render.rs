//! `whodunit render`: the real binary on files of findings, good and bad.
//!
//! The findings are those that `report` is tested with.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/expected/findings.json")
}

/// A folder that is empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("render-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn render(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whodunit"));
    command.current_dir(folder).arg("render").args(words).env("NO_COLOR", "");
    command
}

fn status_and_words(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_format_on_standard_output() {
    let folder = folder("formats");
    fs::copy(example(), folder.join("f.json")).unwrap();
    let starts = [
        ("text", "1. `lookup` counts `hits`"),
        ("json", "{\n  \"schema\": \"whodunit/findings/1\""),
        ("sarif", "{\n  \"$schema\""),
        ("html", "<!DOCTYPE html>"),
    ];
    for (format, start) in starts {
        let (status, out, err) = status_and_words(&render(&folder, &["f.json", "--format", format]).output().unwrap());
        assert_eq!((status, err.as_str()), (Some(1), ""), "{format}");
        assert!(out.starts_with(start), "{format}: {out}");
    }
    let json = render(&folder, &["f.json", "--format", "json"]).output().unwrap();
    assert_eq!(json.stdout, fs::read(example()).unwrap());
}

#[test]
fn files_are_written_as_their_names_say() {
    let folder = folder("files");
    fs::copy(example(), folder.join("f.json")).unwrap();
    let (status, out, err) = status_and_words(&render(&folder, &["f.json", "-o", "f.sarif"]).output().unwrap());
    assert_eq!((status, out.as_str(), err.as_str()), (Some(1), "", "whodunit: 4 findings written to f.sarif\n"));
    let log: Value = serde_json::from_slice(&fs::read(folder.join("f.sarif")).unwrap()).unwrap();
    assert_eq!(log["version"], "2.1.0");
}

#[test]
fn no_findings_are_a_success() {
    let folder = folder("none");
    let text = r#"{"schema": "whodunit/findings/1", "tool": {"name": "whodunit", "version": "1"}, "verb": "races",
        "program": "server", "findings": []}"#;
    fs::write(folder.join("f.json"), text).unwrap();
    let told = status_and_words(&render(&folder, &["f.json"]).output().unwrap());
    assert_eq!(told, (Some(0), "No findings in server.\n".to_owned(), String::new()));
}

/// The status is that of the findings, however much of them is read.
#[test]
fn a_reader_that_stops_changes_nothing() {
    let folder = folder("pipe");
    fs::copy(example(), folder.join("f.json")).unwrap();
    let mut child = render(&folder, &["f.json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(status_and_words(&output), (Some(1), String::new(), String::new()));
}

#[test]
fn what_cannot_be_read_or_written_is_told() {
    let folder = folder("refused");
    fs::copy(example(), folder.join("f.json")).unwrap();
    fs::write(folder.join("empty.json"), "").unwrap();
    fs::write(folder.join("other.json"), r#"{"schema": "whodunit/ls/1"}"#).unwrap();
    fs::write(folder.join("bytes.json"), b"\xff\xfe").unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["missing.json"], "cannot read missing.json: No such file"),
        (&["empty.json"], "empty.json holds no findings: EOF while parsing"),
        (&["other.json"], "its schema is \"whodunit/ls/1\", and this whodunit reads \"whodunit/findings/1\""),
        (&["bytes.json"], "cannot read bytes.json"),
        (&["f.json", "-o", "no/such/folder.html"], "cannot write the findings to no/such/folder.html"),
        (&["f.json", "-o", "/dev/full"], "cannot write the findings to /dev/full: No space left"),
    ];
    for (words, sentence) in cases {
        let (status, out, err) = status_and_words(&render(&folder, words).output().unwrap());
        assert_eq!((status, out.as_str(), err.lines().count()), (Some(3), "", 1), "{words:?}: {err}");
        assert!(err.contains(sentence), "{words:?}: {err}");
    }
    let (status, ..) = status_and_words(&render(&folder, &["f.json", "--format", "xml"]).output().unwrap());
    assert_eq!(status, Some(2));
}
