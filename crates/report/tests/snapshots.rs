//! Whole reports of facts made by hand, against files in `tests/expected`. `BLESS=1` rewrites the files.

use program::symbols::SourceFrame;
use report::crash::{Access, CrashFacts, FrameFacts, ThreadFacts, render};
use report::deadlock::{DeadlockFacts, render_deadlock};

mod support;

use support::check;

/// No line of these reports is wider.
const WIDTH: usize = 100;

/// A frame in the program's own source.
fn in_list(function: &str, line: u32) -> SourceFrame {
    SourceFrame {
        function: Some(function.to_owned()),
        file: Some("/home/you/list/src/list.c".into()),
        line: Some(line),
        column: None,
        inlined: false,
        module: "list".to_owned(),
        module_offset: 0x1139,
    }
}

/// A frame of which the debug information is not installed.
fn in_module(function: Option<&str>, module: &str, module_offset: u64) -> SourceFrame {
    SourceFrame {
        function: function.map(str::to_owned),
        file: None,
        line: None,
        column: None,
        inlined: false,
        module: module.to_owned(),
        module_offset,
    }
}

fn frame(resolved: Vec<SourceFrame>) -> FrameFacts {
    FrameFacts { pc: 0x5555_5555_5139, resolved }
}

fn thread(id: u32, state: &str, frames: Vec<FrameFacts>) -> ThreadFacts {
    let tid = 4710 + i32::try_from(id).unwrap();
    ThreadFacts { id, tid, name: None, state: state.to_owned(), frames, truncated: false }
}

fn start_of_program() -> Vec<FrameFacts> {
    let libc = |name, offset| frame(vec![in_module(Some(name), "libc.so.6", offset)]);
    vec![
        frame(vec![in_list("main", 13)]),
        libc("__libc_start_call_main", 0x2724a),
        libc("__libc_start_main", 0x27305),
        frame(vec![in_module(Some("_start"), "list", 0x1071)]),
    ]
}

fn crash(frames: Vec<FrameFacts>) -> CrashFacts {
    CrashFacts {
        program: "list".to_owned(),
        pid: 4711,
        signal: 11,
        signal_code: 1,
        fault_address: Some(0x10),
        access: Some(Access::Write),
        faulting_instruction: Some("mov dword ptr [rax+10h],esi".to_owned()),
        registers: std::array::from_fn(|position| 0x7fff_ffff_e000 + position as u64 * 8),
        pc: 0x5555_5555_5139,
        flags: 0x10246,
        threads: vec![thread(1, "crashed", frames)],
        what: Some("the null page".to_owned()),
    }
}

fn check_crash(name: &str, facts: &CrashFacts) {
    check(name, WIDTH, |sources, look| render(facts, sources, look));
}

#[test]
fn null_write_in_an_inlined_function_with_other_threads() {
    let inlined = SourceFrame { inlined: true, column: Some(21), ..in_list("last", 4) };
    let mut frames = vec![frame(vec![inlined, in_list("list_push", 8)])];
    frames.extend(start_of_program());
    let mut facts = crash(frames);
    let worker = ["futex_wait", "pthread_cond_wait", "worker", "start_thread", "clone3"];
    let worker_frames = |count: usize| {
        let names = worker.iter().cycle().take(count);
        names.map(|name| frame(vec![in_module(Some(name), "libc.so.6", 0x85c00)])).collect()
    };
    facts.threads.push(thread(2, "runnable", worker_frames(5)));
    facts.threads.push(thread(3, "waiting for a futex at 0x7ffff7d3a910", worker_frames(9)));
    facts.threads[0].name = Some("list".to_owned());
    facts.threads[2].name = Some("worker-2".to_owned());
    check_crash("null_write", &facts);
}

#[test]
fn read_inside_the_c_library() {
    let mut frames = vec![frame(vec![in_module(Some("strlen"), "libc.so.6", 0x16ad0d)])];
    frames.extend(start_of_program());
    let facts = CrashFacts {
        access: Some(Access::Read),
        fault_address: Some(0x5555_5555_8064),
        signal_code: 2,
        what: Some("12 bytes past the global `table`".to_owned()),
        ..crash(frames)
    };
    check_crash("library_read", &facts);
}

#[test]
fn wild_call() {
    let mut frames = vec![FrameFacts { pc: 0, resolved: vec![in_module(None, "[unmapped]", 0)] }];
    frames.push(frame(vec![in_list("main", 15)]));
    let facts = CrashFacts {
        access: Some(Access::Execute),
        fault_address: Some(0),
        faulting_instruction: None,
        pc: 0,
        ..crash(frames)
    };
    check_crash("wild_call", &facts);
}

#[test]
fn abort() {
    let names = ["__pthread_kill_implementation", "raise", "abort", "__assert_fail"];
    let mut frames: Vec<_> =
        names.iter().map(|name| frame(vec![in_module(Some(name), "libc.so.6", 0x8aebc)])).collect();
    frames.push(frame(vec![in_list("check", 16)]));
    frames.extend(start_of_program());
    let facts = CrashFacts {
        signal: 6,
        signal_code: -6,
        fault_address: None,
        access: None,
        what: None,
        faulting_instruction: None,
        ..crash(frames)
    };
    check_crash("abort", &facts);
}

#[test]
fn division_in_a_stripped_program() {
    let frames = vec![frame(vec![in_module(None, "list", 0x1139)]), frame(Vec::new())];
    let facts = CrashFacts {
        signal: 8,
        fault_address: Some(0x5555_5555_5139),
        access: None,
        what: None,
        faulting_instruction: Some("idiv ecx".to_owned()),
        ..crash(frames)
    };
    check_crash("stripped_division", &facts);
}

#[test]
fn endless_recursion() {
    let mut frames = vec![frame(vec![in_list("recurse", 8)]); 9000];
    frames.extend(start_of_program());
    let mut facts = crash(frames);
    facts.fault_address = Some(0x7fff_ff7f_eff8);
    facts.what = Some("just below the stack of thread 1".to_owned());
    facts.threads[0].truncated = true;
    check_crash("endless_recursion", &facts);
}

/// Names and paths of any length fit, and what a terminal would obey is shown instead.
#[test]
fn unwieldy_names() {
    let template = "std::vector<std::pair<std::basic_string<char>, int>>::emplace_back<".to_owned();
    let name = format!("{template}{}>", "long, ".repeat(20));
    let file = format!("/opt/{}/deep.cpp", "very_long_folder_name/".repeat(6));
    let long = SourceFrame { function: Some(name), file: Some(file.into()), ..in_list("", 123) };
    let middling =
        SourceFrame { function: Some("a::name_of_fifty_characters_which_is_quite_common()".into()), ..in_list("", 8) };
    let rude = in_module(Some("evil\x1b[2Jname"), "lib\nevil.so", 1);
    let mut facts = crash(vec![frame(vec![long]), frame(vec![middling]), frame(vec![rude])]);
    facts.program = "list\x07".to_owned();
    facts.what = Some("a description ".repeat(9).trim_end().to_owned());
    check_crash("unwieldy_names", &facts);
}

#[test]
fn many_threads() {
    let mut facts = crash(start_of_program());
    facts.threads.extend((2..30).map(|id| thread(id, "runnable", Vec::new())));
    check_crash("many_threads", &facts);
}

/// The excerpt is of the program's own source, though the header's can be read as well.
#[test]
fn failure_in_a_system_header() {
    let header = SourceFrame { file: Some("/usr/include/c++/12/bits/stl_vector.h".into()), ..in_list("std::front", 4) };
    let mut frames = vec![frame(vec![SourceFrame { inlined: true, ..header }, in_list("list_push", 8)])];
    frames.extend(start_of_program());
    check_crash("system_header", &crash(frames));
}

/// A report of nothing still has a headline.
#[test]
fn nothing_known() {
    let facts = CrashFacts { threads: Vec::new(), signal: 99, ..crash(Vec::new()) };
    check_crash("nothing_known", &facts);
}

#[test]
fn deadlock() {
    let mutex = |line| {
        let mut frames = vec![frame(vec![in_module(Some("pthread_mutex_lock"), "libc.so.6", 0x8c1f0)])];
        frames.push(frame(vec![in_list("list_push", line)]));
        frames
    };
    let wait = |owner: u32| format!("waiting for a mutex at 0x55555555804{owner}, held by thread {owner}");
    let mut facts = DeadlockFacts { program: "list".to_owned(), pid: 4711, threads: Vec::new() };
    facts.threads.push(thread(1, &wait(2), [mutex(8), start_of_program()].concat()));
    facts.threads.push(thread(2, &wait(1), mutex(4)));
    check("deadlock", WIDTH, |sources, look| render_deadlock(&facts, sources, look));
    facts.threads.truncate(1);
    facts.threads[0].state = "waiting for a futex at 0x555555558040".to_owned();
    check("deadlock_alone", WIDTH, |sources, look| render_deadlock(&facts, sources, look));
}
