//! Owns a folder for a test with a guest, and hunts there.

use std::fs;
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
        let compiled = Command::new("cc")
            .args(["-g", "-O1", "-D_GNU_SOURCE", "-pthread", "-w", "-I"])
            .arg(tests.join("conformance/include"))
            .args(["-o", "guest"])
            .arg(tests.join(source))
            .current_dir(&place.folder)
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        place
    }

    pub fn empty(test: &str) -> Place {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hunting-{test}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Place { folder }
    }

    pub fn whodunit(&self, words: &[&str]) -> Command {
        let binary = std::env::var_os("WHODUNIT_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_whodunit").into());
        let mut command = Command::new(binary);
        command.current_dir(&self.folder).env("WHODUNIT_DIR", self.folder.join("recordings")).env("NO_COLOR", "1");
        command.args(words);
        command
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
