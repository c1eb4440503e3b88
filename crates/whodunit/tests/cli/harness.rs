//! Runs the binary, and makes the programs that it is given.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

pub const WHODUNIT: &str = env!("CARGO_BIN_EXE_whodunit");

/// No run here takes more than a moment; one that takes as long as this hangs.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Standard error is one line of whodunit's that contains `words`, and nothing ran.
    #[track_caller]
    pub fn assert_refused(&self, code: i32, words: &str) {
        assert_eq!(self.code(), Some(code), "{self:?}");
        assert_eq!(self.stdout, "");
        let is_one_line = self.stderr.matches('\n').count() == 1 && self.stderr.ends_with('\n');
        let is_ours = self.stderr.starts_with("whodunit: ");
        assert!(is_one_line && is_ours && self.stderr.contains(words), "expected `{words}` in one line: {self:?}");
    }

    #[track_caller]
    pub fn assert_says(&self, words: &[&str]) {
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is missing in\n{}", self.stderr);
        }
    }
}

/// Runs a command to its end.
pub fn finish(command: &mut Command) -> Outcome {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let (tell, hear) = mpsc::channel();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    let Ok(output) = hear.recv_timeout(PATIENCE) else {
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        panic!("{command:?} hangs");
    };
    let output = output.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Outcome { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
}

pub fn whodunit<Word: AsRef<OsStr>>(words: impl IntoIterator<Item = Word>) -> Outcome {
    finish(Command::new(WHODUNIT).args(words))
}

/// A folder that goes away with the value.
pub struct Folder(pub PathBuf);

impl Folder {
    /// `name` must be unique among the tests.
    pub fn new(name: &str) -> Folder {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().unwrap()
    }

    /// Writes a file with the given mode; gives its path.
    pub fn file(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
        self.path(name)
    }

    /// Compiles a C program; gives its path.
    pub fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let file = format!("{name}.c");
        fs::write(self.path(&file), source).unwrap();
        let words = ["-g", "-O0", "-Wall", "-o", name, &file];
        let output = Command::new("cc").args(words).args(flags).current_dir(&self.0).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.path(name)
    }

    /// `whodunit` in this folder.
    pub fn whodunit<Word: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = Word>) -> Outcome {
        finish(Command::new(WHODUNIT).args(words).current_dir(&self.0))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
