//! Owns a folder for a test with a guest, and hunts there.

use crate::workplace::{self, compile, fresh_folder};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub struct Place {
    pub folder: PathBuf,
}

impl Place {
    /// A folder of its own, for a guest in `guests/`.
    pub fn new(test: &str, guest: &str) -> Place {
        Place::with(test, &format!("hunting/guests/{guest}.c"))
    }

    /// The same for a program anywhere among the tests.
    pub fn with(test: &str, source: &str) -> Place {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let place = Place::empty(test);
        let include = tests.join("conformance/include").to_string_lossy().into_owned();
        compile(&place.folder, &["-O1", "-D_GNU_SOURCE", "-I", &include], &tests.join(source));
        place
    }

    /// The same for one of the museum's.
    pub fn exhibit(test: &str, name: &str) -> Place {
        let museum = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../museum");
        let place = Place::empty(&format!("museum-{test}-{name}"));
        let include = museum.to_string_lossy().into_owned();
        compile(&place.folder, &["-O1", "-I", &include], &museum.join(name).join("program.c"));
        place
    }

    pub fn empty(test: &str) -> Place {
        let folder = fresh_folder(&format!("hunting-{test}"));
        Place { folder }
    }

    pub fn whodunit(&self, words: &[&str]) -> Command {
        let mut command = workplace::whodunit(&self.folder);
        command.args(words);
        command
    }

    /// A hunt whose failing schedule stays as it was found, which is faster.
    pub fn search(&self, words: &[&str]) -> (Option<i32>, String) {
        self.hunt(&[&["--shrink", "0"], words].concat())
    }

    /// Hunts the guest; tells the status and what was said.
    pub fn hunt(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.whodunit(&[&["hunt"], words, &["--", "./guest"]].concat()).output().unwrap();
        told(&output)
    }

    /// The latest recording must replay as it was recorded.
    #[track_caller]
    pub fn verify(&self) {
        let (status, text) = told(&self.whodunit(&["verify", "latest"]).output().unwrap());
        assert_eq!(status, Some(0), "{text}");
    }
}

/// The status of a command, and what it said.
pub fn told(output: &Output) -> (Option<i32>, String) {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// The schedule that failed first: `schedule 7 (policy pos, seed 6)`.
pub fn first_schedule(text: &str) -> &str {
    let start = text.find("first in schedule").unwrap_or_else(|| panic!("{text}"));
    text[start..].lines().next().unwrap()
}
