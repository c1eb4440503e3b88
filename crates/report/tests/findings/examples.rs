//! One finding of each shape: a race, a deadlock, a failing schedule, a chain of corruption; and unwieldy ones.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde_json::json;
use trace::finding::{
    Address, Cause, Class, Evidence, Failure, Finding, Findings, Lock, LockMode, Next, Passage, Place, Preemption,
    Side, Step, Thread, Variable, Wait,
};

/// A place in the program's own source.
pub fn cache(function: &str, line: u32) -> Place {
    Place {
        function: Some(function.to_owned()),
        file: Some("/home/you/list/src/cache.c".into()),
        line: Some(line),
        module: Some("server".to_owned()),
        module_offset: Some(Address(0x1139 + u64::from(line))),
        pc: Some(Address(0x5500_6555_5139 + u64::from(line))),
        ..Place::default()
    }
}

fn library(function: &str, offset: u64) -> Place {
    Place {
        function: Some(function.to_owned()),
        module: Some("libc.so.6".to_owned()),
        module_offset: Some(Address(offset)),
        pc: Some(Address(offset.wrapping_add(0x5500_3ff0_0000))),
        ..Place::default()
    }
}

fn worker(innermost: Place) -> Vec<Place> {
    vec![innermost, cache("first", 20), library("start_thread", 0x891c4), library("clone3", 0x1098a0)]
}

fn step(thread: u32, place: Place, text: &str, guilty: bool) -> Step {
    Step { thread, place, text: text.to_owned(), guilty }
}

fn cause(thread: u32, place: Place, text: &str) -> Cause {
    Cause { place, thread: Some(thread), text: text.to_owned() }
}

fn workers(threads: std::ops::RangeInclusive<u32>) -> Vec<Thread> {
    threads.map(|thread| Thread { thread, name: Some("worker".to_owned()), created: Vec::new() }).collect()
}

fn lock(name: &str, taken: u32) -> Lock {
    Lock {
        name: Some(name.to_owned()),
        address: Some(Address(0x5500_6555_8040)),
        mode: LockMode::Exclusive,
        taken: Some(cache("first", taken)),
    }
}

pub fn race() -> Finding {
    let title = "`lookup` counts `hits` while another thread does";
    let mut finding = Finding::proved(Class::DataRace, title, "whodunit rerun server-3 --plan server-3/races/1.json");
    finding.causes = vec![
        cause(3, cache("lookup", 7), "writes `hits` without a lock"),
        cause(2, cache("lookup", 7), "reads `hits` without a lock"),
    ];
    finding.variable = Some(Variable {
        name: Some("hits".to_owned()),
        type_name: Some("int".to_owned()),
        address: Some(Address(0x5500_6555_8010)),
        size: Some(4),
        text: Some("a global of server".to_owned()),
    });
    finding.threads = workers(2..=3);
    finding.threads[1].created = vec![library("pthread_create", 0x89a20), cache("main", 40)];
    finding.steps = vec![
        step(2, cache("lookup", 7), "reads hits = 4", true),
        step(3, cache("lookup", 7), "reads hits = 4", false),
        step(3, cache("lookup", 7), "writes hits = 5 (was 4)", true),
        step(2, cache("lookup", 7), "writes hits = 5 (was 5): one is lost", true),
    ];
    let side = |thread, text: &str, locks| Side {
        thread,
        text: text.to_owned(),
        stack: worker(cache("lookup", 7)),
        locks: Some(locks),
        waits_for: None,
    };
    let shared = Lock { mode: LockMode::Shared, ..lock("a", 19) };
    finding.sides = vec![side(2, "reads 4 bytes", vec![]), side(3, "writes 4 bytes", vec![shared])];
    finding.both_orders = Some(true);
    finding.count = 12;
    finding.evidence = Evidence {
        recording: Some("server-3".to_owned()),
        process: Some(1),
        plan: Some(json!({"schema": "whodunit/plan/1", "steps": []})),
        seed: Some(7),
        failing: None,
    };
    finding.next = vec![Next {
        command: "whodunit last-write server-3 hits --all".to_owned(),
        text: "every write to `hits`".to_owned(),
    }];
    finding
}

pub fn deadlock() -> Finding {
    let title = "threads 2 and 3 wait for each other's lock";
    let mut finding = Finding::proved(Class::Deadlock, title, "whodunit replay hunt-9");
    finding.causes = vec![
        cause(2, cache("first", 20), "waits for `b` while it holds `a`"),
        cause(3, cache("second", 26), "waits for `a` while it holds `b`"),
    ];
    let side = |thread, waits: &str, holder, holds: &str, function: &str, line| Side {
        thread,
        text: "waits".to_owned(),
        stack: vec![library("pthread_mutex_lock", 0x8c1f0), cache(function, line)],
        locks: Some(vec![lock(holds, line - 1)]),
        waits_for: Some(Wait { lock: lock(waits, line), held_by: Some(holder) }),
    };
    finding.sides = vec![side(2, "b", 3, "a", "first", 20), side(3, "a", 2, "b", "second", 26)];
    finding
}

pub fn schedule() -> Finding {
    let title = "`lookup` uses `newest` after another thread has freed it";
    let mut finding = Finding::proved(Class::Crash, title, "whodunit replay hunt-12");
    finding.causes = vec![cause(3, cache("evict", 15), "sets `newest` to null between check and use")];
    finding.failure = Some(Failure {
        text: "SIGSEGV: invalid read from 0x4 (the null page)".to_owned(),
        signal: Some(11),
        thread: Some(2),
        at: Some(cache("lookup", 8)),
        ..Failure::default()
    });
    finding.threads = workers(2..=2);
    finding.schedule = vec![Preemption {
        thread: 2,
        after: cache("lookup", 6),
        until: Passage { thread: 3, passes: cache("evict", 15) },
    }];
    finding.steps = vec![
        step(1, library("pthread_create", 0x89a20), "creates thread 3", false),
        step(2, cache("lookup", 6), "reads newest = 0x550065561040", true),
        step(3, cache("evict", 14), "frees 0x550065561040", false),
        step(3, cache("evict", 15), "writes newest = 0 (was 0x550065561040)", true),
        step(2, cache("lookup", 8), "reads newest = 0", true),
    ];
    finding.evidence = Evidence { recording: Some("hunt-12".to_owned()), seed: Some(41), ..Evidence::default() };
    finding.next = vec![
        Next { command: "whodunit replay --gdb hunt-12".to_owned(), text: "look around in gdb".to_owned() },
        Next { command: "whodunit show hunt-12".to_owned(), text: String::new() },
    ];
    finding
}

/// Only concluded, and with little known.
pub fn corruption() -> Finding {
    let mut finding = Finding::suspected(Class::MemoryCorruption, "a write past `table` reaches `newest`");
    finding.causes =
        vec![Cause { place: library("memcpy", 0x16ad0d), thread: None, text: "copies 24 bytes into 16".into() }];
    finding.sides = vec![Side { thread: 1, text: "allocated the block".to_owned(), ..Side::default() }];
    finding.notes = vec!["What other processes write to shared memory is not seen.".to_owned()];
    finding
}

pub fn findings(all: Vec<Finding>) -> Findings {
    let mut findings = Findings::new("races", "server");
    findings.arguments = vec!["--port".to_owned(), "8080".to_owned()];
    findings.recording = Some("server-3".to_owned());
    // Versions of the tool are no part of what is compared.
    findings.tool.version = "1.2.3".to_owned();
    all.into_iter().for_each(|finding| findings.push(finding));
    findings
}

pub fn everything() -> Findings {
    let mut findings = findings(vec![race(), deadlock(), schedule(), corruption()]);
    findings.summary.suppressed = 3;
    findings.summary.left_out = 10;
    findings.summary.text = Some("1,204,331 accesses of 3 threads were looked at.".to_owned());
    findings.notes = vec!["Accesses of the kernel are not looked at.".to_owned()];
    findings
}

pub fn nothing() -> Findings {
    findings(Vec::new())
}

/// A source file whose name is no UTF-8.
pub fn odd_path() -> PathBuf {
    PathBuf::from(OsStr::from_bytes(b"/home/you/list/caf\xe9 \xff/odd.c"))
}

/// Names of any length and content, a path that is no UTF-8, no source, fifty threads, and hundreds of steps.
pub fn unwieldy() -> Findings {
    let name = format!("std::vector<std::pair<{}int>>::emplace_back[abi:cxx11](int)", "std::string, ".repeat(30));
    let evil = "<script>alert(\"&\")</script>\x1b[2J\nname";
    let odd = Place { file: Some(odd_path()), line: Some(u32::MAX), column: Some(0), ..Place::default() };
    let long = Place { function: Some(name.clone()), ..cache("", 7) };
    let places = [
        odd.clone(),
        Place { file: odd.file.clone(), ..long.clone() },
        long,
        Place::default(),
        library(evil, u64::MAX),
    ];
    let mut finding =
        Finding::proved(Class::UseAfterFree, &format!("{evil} {name}"), &format!("whodunit replay '{evil}'"));
    finding.threads = (1..=50).map(|thread| Thread { thread, name: Some(evil.repeat(9)), created: vec![] }).collect();
    for position in 0..400_u32 {
        let place = places[position as usize % places.len()].clone();
        let text = if position % 7 == 0 { evil.repeat(4) } else { String::new() };
        finding.steps.push(step(position % 50 + 1, place, &text, position % 40 == 0));
    }
    finding.causes = places.iter().map(|place| cause(50, place.clone(), evil)).collect();
    finding.failure = Some(Failure { text: name.clone(), at: Some(places[3].clone()), ..Failure::default() });
    finding.variable =
        Some(Variable { name: Some(evil.to_owned()), address: Some(Address(u64::MAX)), ..Variable::default() });
    let locks = vec![Lock { name: Some(evil.to_owned()), ..Lock::default() }, Lock::default()];
    let waits_for = Some(Wait { lock: Lock::default(), held_by: Some(99) });
    finding.sides =
        vec![Side { thread: 2, text: evil.to_owned(), stack: places.to_vec(), locks: Some(locks), waits_for }];
    finding.schedule =
        vec![Preemption { thread: 1, after: odd, until: Passage { thread: 2, passes: Place::default() } }];
    finding.notes = vec![evil.repeat(30)];
    finding.next = vec![Next { command: format!("whodunit show {name}"), text: evil.to_owned() }];
    finding.count = 0;
    let mut findings = findings(vec![finding, Finding::suspected(Class::Hang, "")]);
    (findings.program, findings.verb) = (evil.repeat(20), evil.to_owned());
    (findings.recording, findings.summary.text) = (Some(evil.to_owned()), Some(evil.to_owned()));
    findings.notes = vec![evil.to_owned()];
    findings.arguments = vec![evil.to_owned()];
    findings
}
