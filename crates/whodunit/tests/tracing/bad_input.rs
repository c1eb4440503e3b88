//! What cannot be told is refused in one line.

use super::place::{BANK, record, whodunit};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

#[test]
fn refusals_say_what_to_do() {
    let recorded = record("refusals", BANK, "-O0");
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--thread", "9"], 3, "whodunit: there is no thread 9; there are 1, 2\n"),
        (&["--function", "wrok"], 3, "whodunit: there is no function `wrok`; did you mean `work`?\n"),
        (&["--variable", "coutner"], 3, "whodunit: there is no variable `coutner`; did you mean `counter`?\n"),
        (&["--process", "7"], 3, "whodunit: guest-1 has no process 7; `whodunit show guest-1` lists those it has\n"),
        (&["-o", "missing/trace"], 3, "whodunit: cannot write missing/trace: No such file or directory (os error 2)\n"),
        (&["--from", "9", "--to", "3"], 2, "whodunit: --from must not be above --to\n"),
        (&["--variable", "a b"], 2, "whodunit: `a b` has `b` where `.`, `->`, `[` or the end is expected\n"),
        (&["--variable", "0xffffffffffffffff:8"], 3, "whodunit: 8 bytes at 0xffffffffffffffff go beyond all memory\n"),
    ];
    for (words, status, expected) in cases {
        assert_eq!(recorded.refusal(words, status), expected, "{words:?}");
    }
    let kinds = recorded.refusal(&["--only", "locks"], 2);
    assert!(kinds.contains("accesses, sync, memory, threads, calls, syscalls"), "{kinds}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let recorded = record("pipe", BANK, "-O0");
    let mut command = whodunit(&recorded.folder);
    let mut child = command.args(["trace", "latest"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("{\"ordinal\":1,"), "{line}");
    let status = child.wait().unwrap();
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((status.code(), errors.as_str()), (Some(0), ""));
}

#[test]
fn a_damaged_recording_is_told_up_to_where_it_is_whole() {
    let recorded = record("damaged", BANK, "-O0");
    let folder = recorded.folder.join("recordings").join("guest-1");
    let log = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0x5a);
    std::fs::write(&log, bytes).unwrap();
    let output = recorded.trace(&["--only", "syscalls,threads"]);
    assert!([Some(0), Some(3)].contains(&output.status.code()), "{:?}", output.status);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!errors.contains("panic") && !errors.contains("internal error"), "{errors}");
}
