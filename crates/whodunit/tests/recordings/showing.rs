//! `whodunit show`.

use std::fs;
use std::path::PathBuf;

use trace::event::{
    Abort, Death, Effect, EndKind, Exec, File, FilePart, Fork, Map, Note, SignalPlace, SwitchReason, Written,
};
use trace::{Event, List, format};

use super::builder::{Home, Recorder, STARTED_DATE, started_age};
use super::failing::SEGMENTATION_FAULT;
use super::listing::flip;

/// Three threads that take turns.
fn threads(home: &Home) -> PathBuf {
    let mut recorder = home.record(&["./threads", "-n", "2"], 60);
    let log = &mut recorder.log;
    log.start(&["./threads", "-n", "2"], 100, None);
    log.thread(1, 40, 2, 101);
    log.switch(1, 2, 50, SwitchReason::QuantumOver);
    log.call(2, 10, 39, [0; 6], 100);
    log.thread(2, 20, 3, 102);
    log.switch(2, 1, 30, SwitchReason::Waiting);
    let effects = [Effect { address: 0x5000, bytes: b"hello" }];
    log.add(Event::Call(trace::event::Call {
        thread: 1,
        clock: 60,
        number: 0,
        result: 5,
        arguments: Some([3, 0x7f00_0000_5000, 4096, 9, 9, 9]),
        effects: List::of(&effects),
    }));
    log.call(1, 61, 257, [0xffff_ff9c, 0x40_1000, 0, 0, 9, 9], -2);
    log.add(Event::Output(Written { thread: 1, descriptor: 1, bytes: b"say \x1b[1mhi\n" }));
    log.switch(1, 3, 70, SwitchReason::Yielded);
    log.thread_end(3, 5, 0);
    log.switch(3, 2, 0, SwitchReason::Ended);
    log.add(Event::Note(Note { thread: Some(2), text: "replay may diverge: io_uring" }));
    log.switch(2, 1, 45, SwitchReason::Signal);
    log.end(EndKind::Exited(0), &[]);
    log.close();
    recorder.folder
}

#[test]
fn a_recording_in_full() {
    let home = Home::new();
    let folder = threads(&home);
    let bytes = fs::metadata(folder.join("1.log")).unwrap().len();
    home.run(&["show", "threads"]).says(&format!(
        "\
threads-1: ./threads -n 2
  recording  {folder}
  program    ./threads
  folder     /home/ada
  started    {STARTED_DATE}, {age}, by whodunit 0.1.0
  machine    Test CPU (x86-64-v1, 2 features), kernel 6.1.0
  schedule   round-robin, quantum 50000, seed 7
  size       {bytes} B in 1 log, 15 events, {each} bytes an event
  ended      exited 0

Processes:
  1  ./threads -n 2  pid 100, exited 0
     thread 1, tid 100, last seen at clock 900
     thread 2, tid 101, started by thread 1 in event 1, last seen at clock 45
     thread 3, tid 102, started by thread 2 in event 4, ended with status 0 at clock 5

Notes:
  process 1, event 12: replay may diverge: io_uring

Events:                   number        data
  switch                       5
  call                         3         5 B
  thread                       2
  end                          1
  note                         1
  output                       1        11 B
  start                        1
  thread-end                   1

System calls:             number        data
  getpid                       1
  openat                       1
  read                         1         5 B
",
        folder = folder.display(),
        age = started_age(),
        each = bytes / 15,
    ));
}

#[test]
fn events_one_a_line() {
    let home = Home::new();
    threads(&home);
    home.run(&["show", "latest", "--events"]).says(
        r#"      0                  starts ./threads -n 2 in /home/ada, pid 100
      1  T1 @40          starts T2, tid 101
      2  T1 @50          turn to T2: quantum over
      3  T2 @10          getpid() = 100
      4  T2 @20          starts T3, tid 102
      5  T2 @30          turn to T1: waits
      6  T1 @60          read(3, 0x7f0000005000, 4096) = 5, 5 bytes
      7  T1 @61          openat(-100, 0x401000, 0, 0) = -2 ENOENT
      8  T1              writes 11 bytes to 1: "say \u{1b}[1mhi\n"
      9  T1 @70          turn to T3: yielded
     10  T3 @5           thread ends, status 0
     11  T3 @0           turn to T2: thread ended
     12  T2              note: replay may diverge: io_uring
     13  T2 @45          turn to T1: signal
     14  T1 @900         end: exited 0
"#,
    );
    home.run(&["show", "--process", "1", "--events", "3..4", "latest"])
        .says("      3  T2 @10          getpid() = 100\n      4  T2 @20          starts T3, tid 102\n");
    home.run(&["show", "latest", "--events=100.."]).says("");
    let json = home.run(&["show", "latest", "--events=7", "--json"]);
    let expected = serde_json::json!({
        "event": 7, "kind": "call", "thread": 1, "clock": 61, "call": "openat",
        "arguments": [0xffff_ff9c_u32, 0x40_1000, 0, 0, 9, 9], "result": -2,
        "text": "openat(-100, 0x401000, 0, 0) = -2 ENOENT",
    });
    assert_eq!(json.json(), expected);
}

#[test]
fn the_schedule_in_columns() {
    let home = Home::new();
    threads(&home);
    home.run(&["show", "latest", "--schedule"]).says(
        "\
Process 1, ./threads -n 2: 6 turns, 3 threads
  until event  T1       T2      T3    why it stopped
            2  0..50                  quantum over
            5           0..30         waits
            9  50..70                 yielded
           11                   0..5  thread ended
           13           30..45        signal
           14  70..900                exited 0
",
    );
    let json = home.run(&["show", "latest", "--schedule", "--json"]);
    let lines: Vec<serde_json::Value> = json.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = serde_json::json!({"thread": 1, "first_clock": 70, "last_clock": 900, "event": 14, "why": "exited 0"});
    assert_eq!((lines.len(), lines.last()), (6, Some(&last)));
}

#[test]
fn many_threads_share_a_column() {
    let home = Home::new();
    let mut recorder = home.record(&["many"], 60);
    recorder.log.start(&["many"], 1, None);
    for thread in 1..20 {
        recorder.log.switch(thread, thread + 1, u64::from(thread) * 100_000, SwitchReason::QuantumOver);
    }
    recorder.log.end(EndKind::Exited(0), &[]);
    recorder.log.close();
    let outcome = home.run(&["show", "latest", "--schedule"]);
    outcome.has_lines(&[
        "Process 1, many: 20 turns, 19 threads",
        "  until event  thread    clock        why it stopped",
        "           19  T19       0..1900000   quantum over",
        "           20  T1        100000..900  exited 0",
    ]);
}

/// A shell that forks a child and then executes a program; the child crashes.
fn family(home: &Home) -> Recorder {
    let mut shell = home.record(&["sh", "-c", "./crash & exec ls"], 60);
    shell.log.start(&["sh", "-c", "./crash & exec ls"], 100, None);
    let (mut child, mut crash, mut next) = (shell.next_log(), shell.next_log(), shell.next_log());
    let fork = shell.log.add(Event::Fork(Fork { thread: 1, clock: 5, child_pid: 101, child_log: 2 }));
    child.start(&["sh", "-c", "./crash & exec ls"], 101, Some((1, fork)));
    let exec = child.add(Event::Exec(Exec { thread: 1, clock: 9, next_log: 3 }));
    child.close();
    crash.start(&["./crash"], 101, Some((2, exec)));
    crash.end(SEGMENTATION_FAULT, &[]);
    crash.close();
    // A recorder does not know the log of a program that it is about to execute.
    let exec = shell.log.add(Event::Exec(Exec { thread: 1, clock: 9, next_log: 0 }));
    shell.log.close();
    next.start(&["ls"], 100, Some((1, exec)));
    next.end(EndKind::Exited(0), &[]);
    next.close();
    shell
}

#[test]
fn processes_and_what_they_execute() {
    let home = Home::new();
    drop(family(&home));
    let outcome = home.run(&["show", "latest"]);
    let expected = "
SIGSEGV: invalid access to 0x10
  process 3 (pid 101), thread 1, clock 900, event 1; SEGV_MAPERR: nothing is mapped at the address

Processes:
  1  sh -c './crash & exec ls'     pid 100, executed 4
     2  sh -c './crash & exec ls'  pid 101, executed 3
     3  ./crash                    pid 101, SIGSEGV
  4  ls                            pid 100, exited 0

";
    assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    outcome.has_lines(&["  ended      exited 0"]);
    let one = home.run(&["show", "latest", "--process", "3"]);
    one.has_lines(&["sh-1: ./crash", "  ended      SIGSEGV", "  3  ./crash  pid 101, SIGSEGV"]);
    home.run(&["show", "latest", "--process", "3", "--events=1"]).says("      1  T1 @900         end: SIGSEGV\n");
    home.run(&["show", "latest", "--process", "5"])
        .refuses("sh-1 has no process 5; `whodunit show sh-1` lists those it has");
    let json = home.run(&["show", "latest", "--json"]).json();
    let order: Vec<_> = json["processes"].as_array().unwrap().iter().map(|process| &process["process"]).collect();
    assert_eq!(order, [1, 2, 3, 4]);
    assert_eq!(json["failures"][0]["text"], "SIGSEGV: invalid access to 0x10");
    assert_eq!(json["processes"][2]["ended"]["signal"], 11);
}

#[test]
fn a_program_that_was_not_recorded() {
    let home = Home::new();
    let mut recorder = home.record(&["a"], 60);
    recorder.log.start(&["a"], 1, None);
    recorder.log.add(Event::Exec(Exec { thread: 1, clock: 3, next_log: 0 }));
    recorder.log.close();
    drop(recorder);
    home.run(&["show", "a"]).has_lines(&["  ended      executed a program", "  1  a  pid 1, executed a program"]);
    let json = home.run(&["ls", "--json"]).json();
    assert_eq!(json["recordings"][0]["ended"]["text"], "executed a program");
}

#[test]
fn a_killed_recording_is_shown_to_its_last_event() {
    let home = Home::new();
    let mut recorder = home.record(&["victim"], 60);
    recorder.log.start(&["victim"], 100, None);
    recorder.log.call(1, 10, 39, [0; 6], 100);
    recorder.log.store_tail();
    drop(recorder);
    let outcome = home.run(&["show", "latest"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    outcome.has_lines(&["  ended      cut short (killed)", "  1  victim  pid 100, cut short (killed)"]);
    outcome.has_lines(&["  size       64 B in 1 log, 2 events, and tails of 65.5 kB"]);
    home.run(&["show", "latest", "--schedule"]).has_lines(&["            1  0..10  cut short (killed)"]);
}

#[test]
fn a_live_recording_can_be_looked_at() {
    let home = Home::new();
    let mut recorder = home.record(&["server"], 60);
    recorder.log.start(&["server"], 100, None);
    recorder.log.store_tail();
    let outcome = home.run(&["show", "latest"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    outcome.has_lines(&["  ended      still recording", "  1  server  pid 100, still recording"]);
}

#[test]
fn a_damaged_recording_is_shown_as_far_as_it_holds() {
    let home = Home::new();
    let mut recorder = home.record(&["prog"], 60);
    recorder.log.start(&["prog"], 100, None);
    // Two chunks, of which the second is damaged.
    let noise: Vec<u8> = (0..60_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for _ in 0..2 {
        recorder.log.add(Event::Output(Written { thread: 1, descriptor: 1, bytes: &noise }));
    }
    recorder.log.end(EndKind::Exited(0), &[]);
    recorder.log.close();
    let file = recorder.folder.join("1.log");
    drop(recorder);
    let length = fs::metadata(&file).unwrap().len() as usize;
    flip(&file, length - 100);
    let outcome = home.run(&["show", "latest"]);
    assert_eq!(outcome.code, Some(3));
    let at = outcome.stdout.lines().find_map(|line| line.strip_prefix("  ended      damaged at byte ")).unwrap();
    let at: u64 = at.strip_suffix(" of 1.log").unwrap().parse().unwrap();
    assert!(at > 64 && (at as usize) < length - 100, "{at} of {length}");
    let sentence = format!(
        "prog-1 is damaged at byte {at} of 1.log; all before it can be used; \
         take a copy of the recording if there is one, or record again for the rest"
    );
    outcome.refuses(&sentence);
    home.run(&["show", "latest", "--events"]).refuses(&sentence);
    home.run(&["show", "latest", "--events=0"]).says("      0                  starts prog in /home/ada, pid 100\n");
}

#[test]
fn what_cannot_be_opened_is_refused() {
    let home = Home::new();
    let root = home.root();
    let root = root.display();
    home.run(&["show", "nothing"])
        .refuses(&format!("there is no recording `nothing` in {root}; `whodunit ls` lists those there are"));
    home.run(&["show", "./none"]).refuses("./none does not exist; `whodunit ls` lists the recordings there are");
    fs::create_dir(home.folder.join("photos")).unwrap();
    fs::write(home.folder.join("photos/summer.jpg"), "").unwrap();
    home.run(&["show", "./photos"])
        .refuses("./photos is not a recording; `whodunit ls` lists the recordings there are");
    home.run(&["show", "./photos/summer.jpg"]).refuses(
        "./photos/summer.jpg is no packed recording; name the folder of a recording, or a file that `whodunit pack` has made",
    );
    fs::create_dir(home.folder.join("empty")).unwrap();
    home.run(&["show", "./empty"]).refuses("./empty is empty: the recorder ended before its first event; record again");
    let newer = home.exited(&["newer"], 60, 0);
    flip(&newer.join("1.log"), 9);
    let log = newer.join("1.log");
    home.run(&["show", "newer"]).refuses(&format!(
        "{} has format 513.2, and this whodunit reads up to 1.x; use the whodunit that recorded it, or a newer one",
        log.display()
    ));
    home.run(&["show", "\x1b[1mx"])
        .refuses(&format!("there is no recording `\\u{{1b}}[1mx` in {root}; `whodunit ls` lists those there are"));
}

#[test]
fn wrong_command_lines() {
    let home = Home::new();
    home.exited(&["a"], 60, 0);
    let lines: [&[&str]; 7] = [
        &["show"],
        &["show", "a", "b"],
        &["show", "a", "--events=9..1"],
        &["show", "a", "--events=x"],
        &["show", "--events", "a"],
        &["show", "a", "--events", "--schedule"],
        &["show", "a", "--process", "first"],
    ];
    for words in lines {
        let outcome = home.run(words);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{words:?}");
    }
}

/// Nothing in a recording is to be trusted, least of all what it says of itself.
#[test]
fn lies_are_harmless() {
    let home = Home::new();
    let mut recorder = home.record(&["liar"], 60);
    let mut second = recorder.next_log();
    let log = &mut recorder.log;
    log.start(&["liar", "\x1b]0;title\x07"], u32::MAX, Some((2, u64::MAX)));
    log.add(Event::Fork(Fork { thread: 1, clock: u64::MAX, child_pid: 0, child_log: 1 }));
    log.add(Event::Fork(Fork { thread: 1, clock: 0, child_pid: 0, child_log: 99 }));
    log.thread(u32::MAX, u64::MAX, 0, 0);
    let zero: &[u8] = b"/dev/zero";
    for (id, path) in [(1, zero), (2, b"relative\n"), (3, b"")] {
        log.add(Event::File(File {
            id,
            path,
            device: 0,
            inode: 0,
            size: 0,
            modified: i64::MIN,
            build_id: &[],
            checksum: None,
        }));
    }
    for (address, id) in [(0x1000, 1), (0x2000, 2), (0x3000, 3), (0x4000, 4), (u64::MAX, 1), (u64::MAX - 5, 9)] {
        let (length, file) = (u64::MAX, Some(FilePart { id, offset: u64::MAX }));
        let (protection, flags, content) = (u32::MAX, 0, None);
        log.add(Event::Map(Map { thread: 0, address, length, protection, flags, file, content }));
    }
    log.add(Event::Signal(trace::event::Signal {
        thread: 1,
        clock: 0,
        place: SignalPlace::Other(99),
        pc: u64::MAX,
        info: &[0xff; 128],
    }));
    log.call(1, 5, u32::MAX, [u64::MAX; 6], i64::MIN);
    log.add(Event::Note(Note { thread: None, text: "\x1b[2J\u{202e}" }));
    log.end(EndKind::Aborted(Abort::Other(9)), &[]);
    let backtrace: Vec<u64> = [0, 1, 0x1000, 0x2001, 0x3001, 0x4001, u64::MAX].into_iter().cycle().take(500).collect();
    let death = Death { signal: u32::MAX, code: i32::MIN, address: u64::MAX };
    log.end(EndKind::Killed(death), &backtrace);
    log.close();
    second.start(&["liar"], 1, Some((2, 0)));
    second.add(Event::Exec(Exec { thread: 1, clock: 0, next_log: 2 }));
    second.close();
    drop((recorder, second));
    for option in ["", "--events", "--schedule", "--json"] {
        let words: Vec<&str> = ["show", "latest", option].into_iter().filter(|word| !word.is_empty()).collect();
        let outcome = home.run(&words);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{words:?}");
        assert!(!outcome.stdout.contains(['\x1b', '\x07', '\u{202e}']) || option == "--json", "{}", outcome.stdout);
        assert!(!outcome.stdout.is_empty());
    }
    let text = home.run(&["show", "latest"]);
    text.has_lines(&["      ... 450 frames left out ...", "  process 99 is not in the recording"]);
    let json = home.run(&["show", "latest", "--json"]);
    assert!(!json.stdout.contains(['\x1b', '\x07']), "{}", json.stdout);
    assert_eq!(json.json()["processes"].as_array().map(Vec::len), Some(2));
    assert_eq!(home.run(&["ls"]).code, Some(0));
}

/// Whatever is overwritten: an answer or a refusal, and never a bug.
#[test]
fn no_damage_makes_it_fall_over() {
    let home = Home::new();
    let log = threads(&home).join("1.log");
    let whole = fs::read(&log).unwrap();
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&log, bytes).unwrap();
        let outcome = home.run(&["show", "latest"]);
        assert_eq!(outcome.code, Some(3), "byte {at}: {outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "byte {at}: {outcome:?}");
    }
    for length in (format::LogHeader::SIZE..whole.len()).step_by(11) {
        fs::write(&log, &whole[..length]).unwrap();
        let outcome = home.run(&["show", "latest", "--events"]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "cut at {length}");
    }
}
