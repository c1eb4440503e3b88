//! What a replay writes is what was written to standard output and error, wherever the descriptors went.

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
    check_shell("echo one; echo two >&2; echo three", "one\nthree\n", "two\n");
}

#[test]
fn nothing_while_output_goes_to_a_file() {
    check_shell("exec 3>&1 >file; echo to the file; exec >&3; echo back", "back\n", "");
}

#[test]
fn output_by_another_descriptor() {
    check_python(r"import os; os.write(os.dup(1), b'one\n'); os.write(1, b'two\n')", "one\ntwo\n", "");
}

/// A descriptor that comes in a message leads where it led before.
#[test]
fn output_by_a_descriptor_from_a_message() {
    let script = r"
import os, socket
ours, theirs = socket.socketpair()
socket.send_fds(ours, [b'x'], [1, 2, os.open('/dev/null', os.O_WRONLY)])
os.close(1)
_, received, _, _ = socket.recv_fds(theirs, 1, 3)
for number, descriptor in enumerate(received):
    os.write(descriptor, b'number %d\n' % number)
";
    check_python(script, "number 0\n", "number 1\n");
}

/// A file that is mapped shared is cut off and made longer again, by its path and by opening it.
#[test]
fn a_mapped_file_truncated_by_its_path() {
    let script = r"
import mmap, os
open('file', 'wb').write(b'x' * 12288)
memory = mmap.mmap(os.open('file', os.O_RDWR), 12288)
os.truncate('file', 8192)
os.truncate('file', 12288)
os.write(1, memory[8190:8194].hex().encode() + b'\n')
os.truncate('file', 4096)
os.truncate('file', 12288)
os.write(1, memory[4094:4098].hex().encode() + b'\n')
";
    check_python(script, "78780000\n78780000\n", "");
}

/// What processes write after each other is shown in that order, whoever wrote it.
#[test]
fn output_of_all_processes() {
    let script = "echo one; (echo two; /bin/echo three >&2); /bin/echo four | sed s/four/4/; echo five";
    check_shell(script, "one\ntwo\n4\nfive\n", "three\n");
    check_shell(&format!("exec 2>&1; {script}"), "one\ntwo\nthree\n4\nfive\n", "");
}

/// A child that began early may write late, and several may write in turn.
#[test]
fn output_of_processes_at_the_same_time() {
    let script = "mkfifo a b; (read x <a; echo $x; echo four >b) & echo one; (echo two; echo three >a); read y <b; echo $y; wait; echo five";
    check_shell(script, "one\ntwo\nthree\nfour\nfive\n", "");
}

#[test]
fn output_of_make_and_its_children() {
    debian::need(&["make"]);
    let rules = "all: b c\n\t@echo all\nb:\n\t@echo b; (echo of b)\nc:\n\t@/bin/echo c | cat\n";
    let script = format!("printf '%b' '{}' | make -f -", rules.escape_default());
    check_shell(&script, "b\nof b\nc\nall\n", "");
}

/// Children end in their own ways, and the first process in its own.
#[test]
fn ends_of_children_and_of_the_first_process() {
    let place = Place::new("ends");
    let script = "/bin/dash -c 'echo child; kill -SEGV $$'; echo $?; (exit 3); echo $?; kill -TERM $$";
    let mut record = place.whodunit(["record", "--no-report", "--", "/bin/dash", "-c", script]);
    let recorded = place.finish(&mut record);
    let replayed = place.finish(&mut place.whodunit(["replay", "--no-report", "latest"]));
    assert_eq!(recorded, replayed, "{}", told(&replayed));
    assert_eq!((recorded.ending, &*text(&recorded.stdout)), (Ending::Killed(15), "child\n139\n3\n"));
}

/// The program that a program executes goes on where that stopped.
#[test]
fn output_over_exec() {
    check_shell("echo first; exec /bin/echo second", "first\nsecond\n", "");
}

/// The program that is executed has its output where the one before it put it.
#[test]
fn redirected_output_over_exec() {
    check_shell("exec 5>&1 >file; exec /bin/dash -c 'echo to the file; echo one >&5; echo two >&2'", "one\n", "two\n");
}

/// Python closes what it does not pass on.
#[test]
fn a_copy_that_is_closed_by_exec() {
    let script = r"import os; os.dup2(1, 9, False); os.dup2(1, 8); os.execv('/bin/dash', ['dash', '-c', 'exec 9>file; echo x >&9; echo y >&8'])";
    check_python(script, "y\n", "");
}

#[test]
fn output_by_the_name_of_a_descriptor() {
    let script = r"
import os
for name in ['/dev/stderr', '/dev/fd/1', '/proc/self/fd/2', '/dev/null']:
    os.write(os.open(name, os.O_WRONLY | os.O_APPEND), name.encode() + b'\n')
";
    check_python(script, "/dev/fd/1\n", "/dev/stderr\n/proc/self/fd/2\n");
}

/// The bytes go from file to output without passing through the program's memory.
#[test]
fn output_that_the_kernel_passes_on() {
    let script = r"
import os
file = os.open('file', os.O_RDWR | os.O_CREAT)
os.write(file, b'one two three\n')
os.sendfile(1, file, 4, 4)
os.lseek(file, 8, os.SEEK_SET)
os.sendfile(2, file, None, 100)
";
    check_python(script, "two ", "three\n");
}

/// Children in `vfork` change their own descriptors and not their parent's.
#[test]
fn output_after_a_child_in_vfork() {
    let script = r"
import os, subprocess
os.write(1, b'one\n')
subprocess.run(['/bin/true'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
os.write(1, b'two\n')
os.write(2, b'three\n')
";
    check_python(script, "one\ntwo\n", "three\n");
}

#[test]
fn nothing_from_a_file_that_took_the_place_of_closed_output() {
    let place = Place::new("closed");
    let script = "exec \"$@\" >&-";
    let python = r"import os; os.open('file', os.O_WRONLY | os.O_CREAT); os.write(1, b'to the file\n')";
    debian::need(&["python3"]);
    let mut command = place.command("/bin/sh");
    command.args(["-c", script, "sh"]).arg(crate::support::whodunit_binary());
    let recorded = place.finish(command.args(["record", "--", "/usr/bin/python3", "-S", "-c", python]));
    assert_eq!((recorded.ending, &*text(&recorded.stderr)), (Ending::Exited(0), ""));
    let replayed = place.finish(&mut place.whodunit(["replay", "latest"]));
    assert_eq!((replayed.ending, &*text(&replayed.stdout)), (Ending::Exited(0), ""), "{}", told(&replayed));
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
    let place = Place::new("relative");
    let script = "cd /; /bin/echo one; /bin/echo two";
    let recorded = place.finish(&mut place.whodunit(["record", "-o", "here", "--", "/bin/dash", "-c", script]));
    assert_eq!((&*text(&recorded.stdout), &*text(&recorded.stderr)), ("one\ntwo\n", ""));
    let recording = place.path("elsewhere").join("here");
    assert_eq!(place.not_verified(&recording), None);
    assert_eq!(logs(&recording), 3, "the shell, its child, and what it executes at the end");
}
