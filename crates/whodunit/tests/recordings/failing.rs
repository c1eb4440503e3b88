//! `whodunit show` on processes that failed: stacks and source lines, and what is said where they cannot be had.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trace::event::{Death, End, EndKind, File, FilePart, Fork, Map};
use trace::{Digest, Event, List};

use super::builder::{Home, Recorder};
use super::listing::flip;

pub const SEGMENTATION_FAULT: EndKind = EndKind::Killed(Death { signal: 11, code: 1, address: 0x10 });

const SOURCE: &str = "\
struct list { int length; };

int push(struct list *list)
{
\treturn ++list->length;
}

int main(void)
{
    return push(0);
}
";

/// Where the file is mapped.
const BASE: u64 = 0x6555_0000;

/// A program with debug information, and the addresses of two of its functions.
fn compiled(home: &Home) -> (PathBuf, u64, u64) {
    fs::write(home.folder.join("list.c"), SOURCE).unwrap();
    let mut compiler = Command::new("gcc");
    let status =
        compiler.args(["-g", "-O0", "-pie", "-fPIE", "-o", "list", "list.c"]).current_dir(&home.folder).status();
    assert!(status.unwrap().success());
    let program = home.folder.join("list");
    let output = Command::new("nm").arg(&program).output().unwrap();
    let symbols = String::from_utf8(output.stdout).unwrap();
    let address = |name: &str| {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" T {name}"))).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    let (push, main) = (address("push"), address("main"));
    (program, push, main)
}

/// As if the whole file were mapped at once.
fn map_whole(recorder: &mut Recorder, program: &Path) {
    let bytes = fs::read(program).unwrap();
    recorder.log.add(Event::File(File {
        id: 7,
        path: program.as_os_str().as_encoded_bytes(),
        device: 1,
        inode: 2,
        size: bytes.len() as u64,
        modified: 0,
        build_id: &[0xab, 0xcd],
        checksum: Some(Digest::of(&bytes)),
    }));
    let (length, file) = (bytes.len() as u64, Some(FilePart { id: 7, offset: 0 }));
    let (protection, flags, content) = (5, 2, None);
    recorder.log.add(Event::Map(Map { thread: 1, address: BASE, length, protection, flags, file, content }));
}

/// The program crashes in `push`, called from `main`, called from nowhere.
fn crash(home: &Home, program: &Path, push: u64, main: u64) {
    let mut recorder = home.record(&["./list"], 60);
    recorder.log.start(&["./list"], 100, None);
    map_whole(&mut recorder, program);
    // A return address: the call is before it.
    recorder.log.end(SEGMENTATION_FAULT, &[BASE + push, BASE + main + 1, 0x10]);
    recorder.log.close();
}

#[test]
fn a_failure_with_its_source_line() {
    let home = Home::new();
    let (program, push, main) = compiled(&home);
    crash(&home, &program, push, main);
    let outcome = home.run(&["show", "list"]);
    let expected = "
SIGSEGV: invalid access to 0x10 in `push` at list.c:4
  process 1 (pid 100), thread 1, clock 900, event 3; SEGV_MAPERR: nothing is mapped at the address

    2 |
    3 | int push(struct list *list)
  > 4 | {
    5 |     return ++list->length;
    6 | }

  #0  push  list.c:4:1
  #1  main  list.c:9:1
  #2  ?     0xf

Processes:
";
    assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let json = home.run(&["show", "list", "--json"]).json();
    let frame = &json["failures"][0]["frames"][0];
    assert_eq!(
        (&frame["function"], &frame["line"], &frame["module_offset"]),
        (&"push".into(), &4.into(), &push.into())
    );
}

/// The end of a process that maps the program, with registers but without a backtrace.
fn end_in(home: &Home, program: &Path, pc: u64, kind: EndKind) {
    let mut recorder = home.record(&["./list"], 60);
    recorder.log.start(&["./list"], 100, None);
    map_whole(&mut recorder, program);
    let mut words = [0_u64; 20];
    words[16] = pc;
    let registers: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let backtrace = List::EMPTY;
    recorder.log.add(Event::End(End { kind, thread: 1, clock: 9, registers: &registers, backtrace, details: &[] }));
    recorder.log.close();
}

#[test]
fn a_signal_needs_no_backtrace_for_its_source_line() {
    let home = Home::new();
    let (program, push, _) = compiled(&home);
    end_in(&home, &program, BASE + push, SEGMENTATION_FAULT);
    let outcome = home.run(&["show", "list"]);
    outcome.has_lines(&["SIGSEGV: invalid access to 0x10 in `push` at list.c:4", "  #0  push  list.c:4:1"]);
}

#[test]
fn an_exit_is_no_failure() {
    let home = Home::new();
    let (program, push, _) = compiled(&home);
    end_in(&home, &program, BASE + push, EndKind::Exited(1));
    let outcome = home.run(&["show", "list"]);
    outcome.has_lines(&["  ended      exited 1", "  1  ./list  pid 100, exited 1"]);
    assert!(!outcome.stdout.contains("push"), "{}", outcome.stdout);
}

/// An address without an address space: what the kernel tells is of no use.
#[test]
fn a_general_protection_fault_has_no_address() {
    let home = Home::new();
    let mut recorder = home.record(&["a"], 60);
    recorder.log.start(&["a"], 1, None);
    recorder.log.end(EndKind::Killed(Death { signal: 11, code: 0x80, address: 0 }), &[]);
    recorder.log.close();
    home.run(&["show", "a"]).has_lines(&["SIGSEGV: invalid memory access"]);
}

#[test]
fn a_changed_or_missing_program_gives_offsets() {
    let home = Home::new();
    let (program, push, main) = compiled(&home);
    crash(&home, &program, push, main);
    let check = |gap: &str| {
        let outcome = home.run(&["show", "list"]);
        let first = format!("  #0  ?  list+{push:#x}");
        let second = format!("  #1  ?  list+{:#x}", main + 1);
        let headline = format!("SIGSEGV: invalid access to 0x10 at list+{push:#x}");
        outcome.has_lines(&[&headline, &first, &second, gap]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    };
    let path = program.display();
    flip(&program, 5000);
    check(&format!("  {path} has changed since it was recorded; its functions have no names here"));
    fs::remove_file(&program).unwrap();
    let why = "No such file or directory (os error 2)";
    check(&format!("  {path} cannot be read ({why}); its functions have no names here"));
}

#[test]
fn a_copy_in_the_recording_serves_as_well() {
    let home = Home::new();
    let (program, push, main) = compiled(&home);
    crash(&home, &program, push, main);
    let copy = trace::file_copy(&home.path("list-1"), Digest::of(&fs::read(&program).unwrap()));
    fs::create_dir(copy.parent().unwrap()).unwrap();
    fs::rename(program, copy).unwrap();
    home.run(&["show", "list"]).has_lines(&["SIGSEGV: invalid access to 0x10 in `push` at list.c:4"]);
}

#[test]
fn a_forked_child_has_its_parents_mappings() {
    let home = Home::new();
    let (program, push, main) = compiled(&home);
    let size = fs::metadata(&program).unwrap().len();
    let mut parent = home.record(&["./list"], 60);
    parent.log.start(&["./list"], 100, None);
    map_whole(&mut parent, &program);
    let mut child = parent.next_log();
    let fork = parent.log.add(Event::Fork(Fork { thread: 1, clock: 5, child_pid: 101, child_log: 2 }));
    parent.log.call(1, 6, 11, [BASE, size, 0, 0, 0, 0], 0);
    parent.log.end(EndKind::Exited(0), &[]);
    parent.log.close();
    child.start(&["./list"], 101, Some((1, fork)));
    child.end(SEGMENTATION_FAULT, &[BASE + main]);
    child.close();
    assert_ne!(push, main);
    home.run(&["show", "list"]).has_lines(&["SIGSEGV: invalid access to 0x10 in `main` at list.c:9"]);
}
