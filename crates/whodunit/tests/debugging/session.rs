//! A recording, a server over it, and gdb with a script.

use crate::workplace::{compile, fresh_folder, whodunit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// No script takes longer, unless something hangs.
const LIMIT_SECONDS: &str = "120";

/// A recording in a folder of its own.
pub struct Recorded {
    folder: PathBuf,
    pub source: String,
}

/// What a script printed, and what the server's terminal showed.
pub struct Session {
    pub gdb: String,
    pub server: String,
}

/// Compiles a C program and records it.
pub fn record(name: &str, source: &str) -> Recorded {
    record_command(compiled(name, source), source, &["./guest"])
}

/// The same with options of `record`; tells what the program printed, too.
pub fn record_with(name: &str, source: &str, options: &[&str]) -> (Recorded, String) {
    let folder = compiled(name, source);
    let mut command = whodunit(&folder);
    let output = command.args(["record", "--no-report"]).args(options).args(["--", "./guest"]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    (Recorded { folder, source: source.to_owned() }, printed)
}

fn compiled(name: &str, source: &str) -> PathBuf {
    let folder = folder_for(name);
    fs::write(folder.join("guest.c"), source).unwrap();
    compile(&folder, &["-O0", "-fno-stack-protector", "-U_FORTIFY_SOURCE"], Path::new("guest.c"));
    folder
}

/// Records a program that is there.
pub fn record_real(name: &str, words: &[&str]) -> Recorded {
    record_command(folder_for(name), "", words)
}

fn folder_for(test: &str) -> PathBuf {
    fresh_folder(&format!("debugging-{test}"))
}

fn record_command(folder: PathBuf, source: &str, words: &[&str]) -> Recorded {
    let output = whodunit(&folder).args(["record", "--no-report", "--"]).args(words).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    Recorded { folder, source: source.to_owned() }
}

/// The server, which is ended if the test ends first.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Recorded {
    /// The number of the line on which `text` stands.
    pub fn line(&self, text: &str) -> usize {
        1 + self.source.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("no line with {text}"))
    }

    /// Runs a script of gdb commands over the recording.
    pub fn debug(&self, script: &str) -> Session {
        self.debug_from("latest", script, |_, _| {})
    }

    /// The same; gdb is interrupted when the program has written a line.
    pub fn debug_and_interrupt(&self, script: &str) -> Session {
        self.debug_from("latest", script, |server, gdb| {
            let mut line = String::new();
            server.read_line(&mut line).unwrap();
            assert_ne!(line, "");
            kill(Pid::from_raw(gdb as i32), Signal::SIGINT).unwrap();
        })
    }

    /// The same over a pack of the recording, which is gone.
    pub fn debug_packed(&self, script: &str) -> Session {
        let packed = whodunit(&self.folder).args(["pack", "latest", "-o", "packed"]).output().unwrap();
        assert!(packed.status.success(), "{packed:?}");
        fs::remove_dir_all(self.folder.join("recordings")).unwrap();
        self.debug_from("./packed", script, |_, _| {})
    }

    /// `meanwhile` gets what the server prints, and the process that gdb is.
    fn debug_from(&self, name: &str, script: &str, meanwhile: impl FnOnce(&mut Printed, u32)) -> Session {
        crate::debian::need(&["gdb"]);
        let mut server = Server(
            whodunit(&self.folder)
                .args(["replay", "--gdb", name])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let mut said = BufReader::new(server.0.stderr.take().unwrap());
        let words = command_of(&mut said);
        fs::write(self.folder.join("script.gdb"), script).unwrap();
        let gdb = gdb(&self.folder, &words).spawn().unwrap();
        let mut printed = BufReader::new(server.0.stdout.take().unwrap());
        meanwhile(&mut printed, gdb.id());
        let gdb = gdb.wait_with_output().unwrap().stdout;
        let gdb = String::from_utf8_lossy(&gdb);
        assert!(server.0.wait().unwrap().success(), "{gdb}");
        let shown = std::io::read_to_string(printed).unwrap();
        let rest = std::io::read_to_string(said).unwrap();
        Session { gdb: gdb.into_owned(), server: shown + &rest }
    }
}

/// What the server writes to standard output.
type Printed = BufReader<ChildStdout>;

/// gdb with the script. Some of what it prints comes on standard error; the order matters.
fn gdb(folder: &Path, words: &[String]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec \"$@\" 2>&1", "sh", "timeout", "--foreground", LIMIT_SECONDS, "gdb", "-nx", "-batch"])
        .args(["-ex", "set pagination off", "-ex", "set width 0", "-ex", "set debuginfod enabled off"])
        .args(words)
        .args(["-x", "script.gdb"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// The words behind `gdb` in the command that the server prints.
fn command_of(said: &mut impl BufRead) -> Vec<String> {
    for line in said.lines() {
        let line = line.unwrap();
        if let Some(words) = line.trim().strip_prefix("gdb ") {
            return split(words);
        }
    }
    panic!("the server printed no command");
}

/// Splits words as a shell does; quotes hold them together.
fn split(words: &str) -> Vec<String> {
    let parts = words.split('\'').enumerate();
    parts
        .flat_map(|(index, part)| match index % 2 {
            1 => vec![part.to_owned()],
            _ => part.split_whitespace().map(str::to_owned).collect(),
        })
        .collect()
}

impl Session {
    /// Demands that these texts come in this order.
    #[track_caller]
    pub fn shows(&self, texts: &[&str]) {
        let mut rest = self.gdb.as_str();
        for text in texts {
            let Some((_, after)) = rest.split_once(text) else {
                panic!("no {text:?} where it should be in\n{}", self.gdb)
            };
            rest = after;
        }
    }
}
