//! An exhibit of the museum in a folder of its own, and `whodunit pairs` at work on it.

use crate::exhibit::{self, Exhibit};
use crate::workplace;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};

pub struct Place {
    exhibit: Exhibit,
    folder: PathBuf,
}

impl Place {
    #[track_caller]
    pub fn new(test: &str, name: &str) -> Place {
        let exhibit = Exhibit::read(name).expect("an exhibit of this name");
        let folder = workplace::fresh_folder(&format!("pairs-{test}"));
        let museum = exhibit::folder();
        workplace::compile(&folder, &["-O1", "-I", museum.to_str().expect("a name")], &exhibit.source());
        Place { exhibit, folder }
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = workplace::whodunit(&self.folder);
        command.args(words);
        command
    }

    pub fn whodunit(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("whodunit")
    }

    /// Where a recording is that whodunit has named.
    pub fn recording(&self, name: &str) -> PathBuf {
        self.folder.join("recordings").join(name)
    }

    /// Runs the program many times and compares; tells what was found.
    #[track_caller]
    pub fn pairs(&self, options: &[&str]) -> Value {
        self.compare(&[options, &["--", "./guest"]].concat())
    }

    #[track_caller]
    pub fn compare(&self, words: &[&str]) -> Value {
        let output = self.whodunit(&[&["pairs", "--format", "json"], words].concat());
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("findings")
    }

    /// The marks of the lines that a finding blames.
    #[track_caller]
    pub fn blamed(&self, finding: &Value) -> BTreeSet<String> {
        let marked = self.exhibit.marked_lines().expect("marked lines");
        let causes = finding["causes"].as_array().into_iter().flatten();
        let lines: BTreeSet<u64> = causes.filter_map(|cause| cause["line"].as_u64()).collect();
        let is_blamed = |mark: &&String| marked[*mark].iter().any(|line| lines.contains(&u64::from(*line)));
        marked.keys().filter(is_blamed).cloned().collect()
    }
}
