//! What a replay writes is what was written to standard output and error, wherever the descriptors went.

use super::exceptions;
use super::place::{Place, logs, text, told};
use crate::programs::debian;
use crate::support::execute::Ending;

/// Records a program and replays it; both must write the same and end the same way.
#[track_caller]
fn check_shown(words: &[&str], stdout: &str, stderr: &str) {
    let place = Place::new("output");
    let recorded = place.finish(place.whodunit(["record", "--"]).args(words));
    let expected = (Ending::Exited(0), stdout.to_owned(), stderr.to_owned());
    assert_eq!((recorded.ending, text(&recorded.stdout), text(&recorded.stderr)), expected);
    let replayed = place.finish(&mut place.whodunit(["replay", "latest"]));
    assert_eq!(recorded, replayed, "{}", told(&replayed));
}

fn check_shell(script: &str, stdout: &str, stderr: &str) {
    check_shown(&["/bin/dash", "-c", script], stdout, stderr);
}

fn check_python(script: &str, stdout: &str, stderr: &str) {
    debian::need(&["python3"]);
    check_shown(&["/usr/bin/python3", "-S", "-c", script], stdout, stderr);
}

#[test]
fn both_streams() {
    check_python(
        r"import os; os.write(1, b'one\n'); os.write(2, b'two\n'); os.write(1, b'three\n')",
        "one\nthree\n",
        "two\n",
    );
}

#[test]
fn one_stream_redirected_to_the_other() {
    exceptions::fails_today("descriptor 1 is taken for standard output whatever it is at the time", || {
        check_shell("echo one; echo two >&2; echo three", "one\nthree\n", "two\n");
    });
}

#[test]
fn nothing_while_output_goes_to_a_file() {
    exceptions::fails_today("descriptor 1 is taken for standard output whatever it is at the time", || {
        check_shell("exec 3>&1 >file; echo to the file; exec >&3; echo back", "back\n", "");
    });
}

#[test]
fn output_by_another_descriptor() {
    exceptions::fails_today("only descriptors 1 and 2 are taken for standard output and error", || {
        check_python(r"import os; os.write(os.dup(1), b'one\n'); os.write(1, b'two\n')", "one\ntwo\n", "");
    });
}

/// The program that a program executes goes on where that stopped.
#[test]
fn output_over_exec() {
    check_shell("echo first; exec /bin/echo second", "first\nsecond\n", "");
}

#[test]
fn quiet_writes_nothing() {
    let place = Place::new("quiet");
    place.finish(&mut place.whodunit(["record", "--", "/bin/dash", "-c", "echo one; echo two >&2; exit 9"]));
    let replayed = place.finish(&mut place.whodunit(["replay", "--quiet", "latest"]));
    assert_eq!((replayed.ending, &replayed.stdout[..], &replayed.stderr[..]), (Ending::Exited(9), &b""[..], &b""[..]));
}

/// A folder named from where the recorder was started stays the same when the program goes elsewhere.
#[test]
fn relative_folder_of_a_program_that_moves() {
    exceptions::fails_today("logs of children are made relative to where the program is", || {
        let place = Place::new("relative");
        let script = "cd /; /bin/echo one; /bin/echo two";
        let recorded = place.finish(&mut place.whodunit(["record", "-o", "here", "--", "/bin/dash", "-c", script]));
        assert_eq!((&*text(&recorded.stdout), &*text(&recorded.stderr)), ("one\ntwo\n", ""));
        let recording = place.path("elsewhere").join("here");
        assert_eq!(place.not_verified(&recording), None);
        assert_eq!(logs(&recording), 3, "the shell, its child, and what it executes at the end");
    });
}
