//! Owns running one line in a folder of its own, natively or behind a prefix.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::compare::{Outcome, describe_status};
use super::line::{Family, Line};
use super::tree;

/// How often a running line is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The status of a line's script when its preparation failed; no line ends so by itself.
const SETUP_FAILED: i32 = 99;

/// Why the line is of no use, if its native run did not end as the line says.
pub fn broken(line: &Line, base: &Path, native: &Outcome) -> Option<String> {
    if native.status.is_some_and(|status| status.code() == Some(SETUP_FAILED)) {
        return Some(format!("the preparation failed: see {}/setup.log", base.display()));
    }
    let (expected, actual) = (describe_status(Some(line.ending)), describe_status(native.status));
    (expected != actual).then(|| {
        let words = String::from_utf8_lossy(&native.stderr);
        format!("the native run is to end with {expected} and ended with {actual}: {words}")
    })
}

/// The binary under test.
pub fn whodunit() -> PathBuf {
    std::env::var_os("WHODUNIT_BIN").map_or_else(|| env!("CARGO_BIN_EXE_whodunit").into(), PathBuf::from)
}

/// A new folder with the line's script in it.
pub fn fresh_folder(family: &Family, line: &Line) -> PathBuf {
    static SERIAL: AtomicUsize = AtomicUsize::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    let base = std::env::temp_dir().join(format!("whodunit-programs-{process}-{serial}-{}", family.name));
    fs::create_dir(&base).unwrap_or_else(|error| panic!("{}: {error}", base.display()));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/fixtures").join(family.name);
    write(&base.join("line.sh"), &line.script(family, &fixtures, &base));
    base
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Runs the line's script with `prefix` before the commands that whodunit is to run.
/// Output goes to files and not to pipes, so that a process left behind cannot keep the suite waiting.
pub fn run(line: &Line, base: &Path, prefix: &str) -> Outcome {
    let create = |name: &str| {
        let path = base.join(name);
        File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    // Shells that run something in the background have it ignore these, and so would every program here.
    let child = Command::new("/usr/bin/env")
        .args(["--default-signal=INT,QUIT", "/bin/sh"])
        .arg(base.join("line.sh"))
        .env_clear()
        .env("RUN", prefix)
        .stdin(Stdio::null())
        .stdout(create("stdout"))
        .stderr(create("stderr"))
        .process_group(0)
        .spawn()
        .expect("a shell can be started");
    let status = wait_within(child, line.limit);
    let read = |name: &str| fs::read(base.join(name)).expect("the output file was just created");
    Outcome {
        status,
        stdout: read("stdout"),
        stderr: read("stderr"),
        tree: tree::read(&base.join("work"), line.left_out),
    }
}

/// Waits for the child and then ends whatever is left of its process group. The child is reaped last, so that
/// the group's number cannot have been given to anybody else.
fn wait_within(mut child: Child, limit: Duration) -> Option<ExitStatus> {
    let leader = Pid::from_raw(child.id().try_into().expect("process ids are small"));
    let ended = poll_until(Instant::now() + limit, leader);
    killpg(leader, Signal::SIGKILL).expect("the group has its leader, dead or alive");
    let status = child.wait().expect("the child was started here");
    ended.then_some(status)
}

/// Whether the process ended by itself before the deadline.
fn poll_until(deadline: Instant, process: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    loop {
        let state = waitid(Id::Pid(process), flags).expect("the child was started here");
        if state != WaitStatus::StillAlive {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
