//! Owns running the lines of a family both ways, and the report of those that differ.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::compare::{Outcome, describe_status, differences};
use super::debian;
use super::line::{Family, Line};
use super::tree;

/// How often a running line is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The status of a line's script when its preparation failed; no line ends so by itself.
const SETUP_FAILED: i32 = 99;

/// Runs every line natively and under whodunit, and fails with a report of all lines that differ.
pub fn check(family: &Family, lines: &[Line]) {
    debian::need(family.needs);
    // Some lines are meant to crash, and reports have tests of their own.
    let prefix = format!("{} run --no-report --", whodunit().display());
    let failures: Vec<String> = lines.iter().filter_map(|line| check_line(family, line, &prefix)).collect();
    assert!(
        failures.is_empty(),
        "{} of {} lines of {} differ\n\n{}",
        failures.len(),
        lines.len(),
        family.name,
        failures.join("\n"),
    );
}

/// Returns the report of a line whose run behind `prefix` differs from the native one. Its folder is then kept.
fn check_line(family: &Family, line: &Line, prefix: &str) -> Option<String> {
    let base = fresh_folder(family.name);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/fixtures").join(family.name);
    write(&base.join("line.sh"), &line.script(family, &fixtures, &base));
    let native = run(line, &base, "");
    let found = match broken(line, &base, &native) {
        Some(reason) => vec![reason],
        None => differences(&native, &run(line, &base, prefix)),
    };
    if found.is_empty() {
        fs::remove_dir_all(&base).unwrap_or_else(|error| panic!("{}: {error}", base.display()));
        return None;
    }
    Some(report(line, &base, prefix, &native, &found))
}

/// Why the line is of no use, if its native run did not end as the line says.
fn broken(line: &Line, base: &Path, native: &Outcome) -> Option<String> {
    if native.status.is_some_and(|status| status.code() == Some(SETUP_FAILED)) {
        return Some(format!("the preparation failed: see {}/setup.log", base.display()));
    }
    let (expected, actual) = (describe_status(Some(line.ending)), describe_status(native.status));
    (expected != actual).then(|| {
        let words = String::from_utf8_lossy(&native.stderr);
        format!("the native run is to end with {expected} and ended with {actual}: {words}")
    })
}

fn report(line: &Line, base: &Path, prefix: &str, native: &Outcome, found: &[String]) -> String {
    let script = base.join("line.sh");
    format!(
        "--- {}\n  {}\n  (native run: {})\n  again by hand, natively: env -i sh {script}\n\
         \x20 and under whodunit:      env -i RUN='{prefix}' sh {script}\n",
        line.title(),
        found.join("\n  "),
        describe_status(native.status),
        script = script.display(),
    )
}

fn whodunit() -> PathBuf {
    std::env::var_os("WHODUNIT_BIN").map_or_else(|| env!("CARGO_BIN_EXE_whodunit").into(), PathBuf::from)
}

fn fresh_folder(name: &str) -> PathBuf {
    static SERIAL: AtomicUsize = AtomicUsize::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    let path = std::env::temp_dir().join(format!("whodunit-programs-{process}-{serial}-{name}"));
    fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Output goes to files and not to pipes, so that a process left behind cannot keep the suite waiting.
fn run(line: &Line, base: &Path, prefix: &str) -> Outcome {
    let create = |name: &str| {
        let path = base.join(name);
        File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let child = Command::new("/bin/sh")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::line::guest;

    const FAMILY: Family = Family { name: "harness", needs: &[], setup: "" };

    /// A prefix in the place of whodunit, and what the report of a line run behind it must say.
    fn check_report(line: Line, prefix: &str, expected: &str) {
        let report = check_line(&FAMILY, &line, prefix).expect("the runs differ");
        assert!(report.contains(expected), "{report}");
        let folder = report.split("sh ").last().and_then(|path| Path::new(path.trim()).parent());
        fs::remove_dir_all(folder.expect("the report names the script")).expect("the folder was kept");
    }

    #[test]
    fn a_prefix_that_changes_nothing_is_not_reported() {
        assert_eq!(check_line(&FAMILY, &guest("sh -c 'echo out; echo err >&2; echo file >f'"), "env"), None);
    }

    #[test]
    fn a_prefix_that_changes_the_output_is_reported() {
        check_report(guest("echo text"), "env echo", "standard output differs from byte 0");
    }

    #[test]
    fn a_prefix_that_changes_the_status_is_reported() {
        check_report(guest("true"), "false", "native exit status 0, whodunit exit status 1");
    }

    #[test]
    fn a_prefix_that_hangs_is_ended_and_reported() {
        let mut line = guest("true");
        line.limit = Duration::from_secs(2);
        check_report(line, "tail -f /dev/null", "whodunit killed at the time limit");
    }

    #[test]
    fn a_line_that_fails_natively_is_reported() {
        check_report(guest("false"), "env", "is to end with exit status 0 and ended with exit status 1");
    }
}
