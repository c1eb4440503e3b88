//! Owns a folder for a test with a guest, its recordings and plans, and runs `whodunit` there.

use crate::workplace::{self, compile, fresh_folder};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub struct Place {
    pub folder: PathBuf,
    source: String,
}

impl Place {
    /// A folder of its own, for a guest in `guests/`.
    pub fn new(test: &str, guest: &str) -> Place {
        Place::with(test, &format!("rerunning/guests/{guest}.c"))
    }

    /// The same for a program anywhere among the tests.
    pub fn with(test: &str, source: &str) -> Place {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let path = tests.join(source);
        let place = Place { source: fs::read_to_string(&path).unwrap(), ..Place::empty(test) };
        let include = tests.join("conformance/include").to_string_lossy().into_owned();
        compile(
            &place.folder,
            &["-O0", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-D_GNU_SOURCE", "-I", &include],
            &path,
        );
        place
    }

    /// A folder for a program that is there already.
    pub fn empty(test: &str) -> Place {
        let folder = fresh_folder(&format!("rerunning-{test}"));
        Place { folder, source: String::new() }
    }

    pub fn whodunit(&self, words: &[&str]) -> Command {
        let mut command = workplace::whodunit(&self.folder);
        command.args(words);
        command
    }

    pub fn record(&self, words: &[&str]) -> Output {
        self.whodunit(&["record", "--no-report", "--"]).args(words).output().unwrap()
    }

    /// Where in the guest's source a mark is, as plans say it: the line of `guest.c` with that comment.
    pub fn at(&self, guest: &str, mark: &str) -> String {
        let comment = format!("/* {mark} */");
        let line = self.source.lines().position(|line| line.contains(&comment));
        format!("{guest}.c:{}", line.unwrap_or_else(|| panic!("no line has {comment}")) + 1)
    }

    pub fn plan(&self, steps: &Value) -> PathBuf {
        let path = self.folder.join("plan.json");
        fs::write(&path, json!({ "schema": "whodunit/plan/1", "steps": steps }).to_string()).unwrap();
        path
    }

    pub fn rerun(&self, steps: &Value, words: &[&str]) -> Output {
        let plan = self.plan(steps);
        self.whodunit(&["rerun", "latest", "--plan"]).arg(plan).args(words).output().unwrap()
    }

    /// The outcome as JSON, in words and as a value.
    #[track_caller]
    pub fn outcome(&self, steps: &Value, words: &[&str]) -> (String, Value) {
        let output = self.rerun(steps, &[words, &["--json"]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{steps}: {text}{said}"));
        (text, value)
    }

    /// How many events the recording's first process has.
    pub fn events(&self) -> u64 {
        let output = self.whodunit(&["show", "latest", "--events", "0.."]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().count() as u64
    }

    /// The first event whose line has these words.
    pub fn event(&self, words: &str) -> u64 {
        let output = self.whodunit(&["show", "latest", "--events", "0.."]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("no event has {words}"));
        line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap()
    }
}

/// What the program wrote to a descriptor.
pub fn written(outcome: &Value, descriptor: i64) -> String {
    let output = outcome["output"].as_array().unwrap();
    let pieces = output.iter().filter(|piece| piece["descriptor"] == descriptor);
    pieces.map(|piece| piece["text"].as_str().unwrap()).collect()
}

/// The innermost line of the thread that brought the end about, in a function.
pub fn line_of(outcome: &Value, function: &str) -> Option<u64> {
    let threads = outcome["threads"].as_array()?;
    let thread = threads.iter().find(|thread| thread["thread"] == outcome["thread"])?;
    let frames = thread["stack"].as_array()?;
    frames.iter().find(|frame| frame["function"] == function)?["line"].as_u64()
}
