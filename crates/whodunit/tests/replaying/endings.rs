//! However a program is ended, its recording tells, and a replay ends the same way.

use super::place::{Place, text, told};
use crate::programs::debian;
use crate::support::execute::Ending;

/// Records a program and replays it; both must write the same and end by the signal.
#[track_caller]
fn check_killed(words: &[&str], signal: i32, stdout: &str) {
    let place = Place::new("endings");
    let recorded = place.finish(place.whodunit(["record", "--no-report", "--"]).args(words));
    assert_eq!((recorded.ending, &*text(&recorded.stdout)), (Ending::Killed(signal), stdout), "{}", told(&recorded));
    let replayed = place.finish(&mut place.whodunit(["replay", "--no-report", "latest"]));
    assert_eq!(recorded, replayed, "{}", told(&replayed));
}

fn check_python(script: &str, signal: i32, stdout: &str) {
    debian::need(&["python3"]);
    check_killed(&["/usr/bin/python3", "-S", "-u", "-c", script], signal, stdout);
}

#[test]
fn by_a_signal_of_its_own() {
    check_killed(&["/bin/dash", "-c", "echo one; kill -TERM $$; echo two"], 15, "one\n");
    check_killed(&["/bin/dash", "-c", "echo one; kill -KILL $$; echo two"], 9, "one\n");
}

#[test]
fn by_a_timer_while_it_computes() {
    check_python("import signal; print(1); signal.setitimer(signal.ITIMER_REAL, 0.05)\nwhile True: pass", 14, "1\n");
}

#[test]
fn by_a_timer_while_it_waits() {
    check_python("import signal, os; print(1); signal.alarm(1); os.read(os.pipe()[0], 1)", 14, "1\n");
}

#[test]
fn by_a_child() {
    check_killed(&["/bin/dash", "-c", "echo one; (kill -TERM $$); while :; do :; done"], 15, "one\n");
}

#[test]
fn by_writing_to_nobody() {
    let script = "import os, signal; print(1); signal.signal(signal.SIGPIPE, signal.SIG_DFL); r, w = os.pipe(); os.close(r); os.write(w, b'x'); print(2)";
    check_python(script, 13, "1\n");
}

#[test]
fn by_another_thread() {
    let script = "import os, threading, time; print(1); threading.Thread(target=lambda: os.kill(os.getpid(), 15)).start(); time.sleep(100)";
    check_python(script, 15, "1\n");
}

/// A child in `vfork` that dies ends neither its parent nor its parent's recording.
#[test]
fn by_a_signal_after_a_child_died_of_one() {
    let script = "import subprocess, os; print(subprocess.run(['/bin/dash', '-c', 'kill -TERM $$']).returncode); os.kill(os.getpid(), 12)";
    check_python(script, 12, "-15\n");
}
