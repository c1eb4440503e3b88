//! A program that was compiled and recorded in a folder of its own, and what is traced of it.

use crate::debian::SEARCH_PATH;
pub use crate::workplace::whodunit;
use crate::workplace::{compile, fresh_folder};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

pub struct Recorded {
    pub folder: PathBuf,
    source: String,
}

pub const BANK: &str = include_str!("guests/bank.c");
pub const WAYS: &str = include_str!("guests/ways.c");

pub fn record(name: &str, source: &str, level: &str) -> Recorded {
    let folder = fresh_folder(&format!("trace-{name}"));
    fs::write(folder.join("guest.c"), source).unwrap();
    compile(&folder, &[level, "-fno-stack-protector", "-U_FORTIFY_SOURCE"], Path::new("guest.c"));
    let recorded = Recorded { folder, source: source.to_owned() };
    recorded.record(&["./guest"], None);
    recorded
}

/// A program that is there already; `content` is what the file `input` holds.
pub fn record_real(name: &str, words: &[&str], content: &[u8]) -> Recorded {
    let folder = fresh_folder(&format!("trace-{name}"));
    fs::write(folder.join("input"), content).unwrap();
    let recorded = Recorded { folder, source: String::new() };
    recorded.record(words, Some(SEARCH_PATH));
    recorded
}

impl Recorded {
    fn record(&self, words: &[&str], search_path: Option<&str>) {
        let mut command = whodunit(&self.folder);
        command.args(["record", "--no-report", "--"]).args(words);
        search_path.map(|path| command.env("PATH", path));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn trace(&self, words: &[&str]) -> Output {
        whodunit(&self.folder).args(["trace", "latest"]).args(words).output().unwrap()
    }

    pub fn text(&self, words: &[&str]) -> String {
        let output = self.trace(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn lines(&self, words: &[&str]) -> Vec<Value> {
        let text = self.text(words);
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    pub fn refusal(&self, words: &[&str], status: i32) -> String {
        let output = self.trace(words);
        assert_eq!(output.status.code(), Some(status), "{words:?}");
        assert_eq!(output.stdout, b"", "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// The number of the line with a mark in it.
    pub fn line(&self, mark: &str) -> u64 {
        let position = self.source.lines().position(|line| line.contains(mark));
        position.unwrap_or_else(|| panic!("no line has {mark}")) as u64 + 1
    }
}

/// What is told of each event, as text.
pub fn fields(lines: &[Value], names: &[&str]) -> Vec<Vec<String>> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    lines.iter().map(|line| names.iter().map(|name| text(&line[*name])).collect()).collect()
}
