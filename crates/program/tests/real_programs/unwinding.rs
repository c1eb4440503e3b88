//! Stacks of programs that really failed, against the calls that they are known to have made.

use crate::common::{Evidence, build, fail, marked_line, run};
use program::space::{AddressSpace, Mapping};
use program::symbols::{SIGNAL_RETURN, SourceFrame, Symbolizer};
use program::unwind::{Backtrace, CodeAddressKind, Ended, Registers, backtrace};

const LIMIT: usize = 200;

fn walk(evidence: &Evidence) -> Backtrace {
    backtrace(&evidence.space, &evidence.memory, evidence.registers, LIMIT)
}

fn resolve(evidence: &Evidence, backtrace: &Backtrace) -> Vec<SourceFrame> {
    let mut symbolizer = Symbolizer::new(&evidence.space);
    backtrace.frames.iter().flat_map(|frame| symbolizer.resolve(*frame)).collect()
}

fn names(frames: &[SourceFrame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.function.as_deref().unwrap_or("?")).collect()
}

/// The stack must begin with `inner`, end with `outer` and be complete; in between may be functions of the C library.
fn check(evidence: &Evidence, inner: &[&str], outer: &[&str]) {
    let backtrace = walk(evidence);
    let frames = resolve(evidence, &backtrace);
    let names = names(&frames);
    assert!(names.starts_with(inner), "{names:?} must start with {inner:?}");
    let ends: Vec<_> = names.iter().copied().filter(|name| inner.contains(name) || outer.contains(name)).collect();
    assert_eq!(ends, [inner, outer].concat(), "all of {names:?}");
    assert_eq!(backtrace.ended, Ended::Complete, "{names:?}");
}

const INNER: &[&str] = &["gamma_writes", "beta", "alpha"];

/// Builds with `flags` and checks the failures that every kind of program must explain.
fn check_ways(test: &str, flags: &[&str]) {
    let program = build(test, "crash.c", &[&["-pthread", "-w"], flags].concat());
    check(&fail(&program, "plain"), INNER, &["main", "_start"]);
    check(&fail(&program, "sort"), &[INNER, &["compare"]].concat(), &["sorts", "main", "_start"]);
    check(&fail(&program, "null-call"), &["?", "calls_wild"], &["main", "_start"]);
    check(&fail(&program, "signal"), &[INNER, &["on_user", SIGNAL_RETURN]].concat(), &["raises", "main", "_start"]);
    check(&fail(&program, "divide"), &[INNER, &["on_user", SIGNAL_RETURN]].concat(), &["divides", "main", "_start"]);
    check(&fail(&program, "realign"), &[INNER, &["realigned"]].concat(), &["main", "_start"]);
    check(&fail(&program, "thread"), &[INNER, &["on_thread"]].concat(), &[]);
}

#[test]
fn unoptimised() {
    check_ways("unoptimised", &["-g", "-O0"]);
}

#[test]
fn optimised_without_frame_pointers() {
    check_ways("optimised", &["-g", "-O2", "-fomit-frame-pointer"]);
}

#[test]
fn at_a_fixed_address() {
    check_ways("fixed", &["-g", "-O2", "-no-pie", "-fno-pie"]);
}

#[test]
fn linked_statically() {
    check_ways("static", &["-g", "-O2", "-static"]);
}

#[test]
fn without_debug_information() {
    check_ways("plain", &["-O2"]);
}

#[test]
fn with_rules_in_debug_frame_only() {
    let flags = ["-g", "-O2", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    check_ways("debug-frame", &flags);
}

/// Without any rules there is the chain of frame pointers, and the return address that a leaf has on top.
#[test]
fn without_rules() {
    let flags = ["-O1", "-w", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-omit-frame-pointer"];
    let program = build("no-rules", "crash.c", &flags);
    for (way, inner) in [("plain", INNER), ("null-call", &["?", "calls_wild"])] {
        let evidence = fail(&program, way);
        check(&evidence, inner, &["main", "_start"]);
    }
}

#[test]
fn stripped_frames_have_module_and_offset() {
    let program = build("stripped", "crash.c", &["-O2", "-w"]);
    let with_names = fail(&program, "plain");
    let expected: Vec<_> = resolve(&with_names, &walk(&with_names)).iter().map(|frame| frame.module_offset).collect();
    run("strip", &[program.to_str().unwrap()]);
    let evidence = fail(&program, "plain");
    let backtrace = walk(&evidence);
    assert_eq!(backtrace.ended, Ended::Complete);
    let frames = resolve(&evidence, &backtrace);
    assert_eq!(names(&frames)[..4], ["?"; 4]);
    assert_eq!(frames[0].module, "program");
    assert_eq!(frames.iter().map(|frame| frame.module_offset).collect::<Vec<_>>(), expected);
}

/// With the section headers gone, the rules are found by the program header.
#[test]
fn without_section_headers() {
    let program = build("sectionless", "crash.c", &["-O2", "-w"]);
    let mut bytes = std::fs::read(&program).unwrap();
    let (section_header_offset, counts) = (0x28..0x30, 0x3c..0x40);
    bytes[section_header_offset].fill(0);
    bytes[counts].fill(0);
    let cut = program.with_extension("cut");
    std::fs::write(&cut, bytes).unwrap();
    // Another process writes what will be executed: a file that this one has open cannot be, and tests run in parallel.
    run("cp", &[cut.to_str().unwrap(), program.to_str().unwrap()]);
    let evidence = fail(&program, "plain");
    let backtrace = walk(&evidence);
    assert_eq!(backtrace.ended, Ended::Complete);
    assert!(backtrace.frames.len() >= 6, "{backtrace:?}");
}

#[test]
fn frames_carry_lines_and_inlined_calls() {
    let program = build("lines", "crash.c", &["-g", "-O2", "-w"]);
    let evidence = fail(&program, "inline");
    let frames = resolve(&evidence, &walk(&evidence));
    let shown: Vec<_> = frames[..3]
        .iter()
        .map(|frame| (frame.function.as_deref().unwrap(), frame.line.unwrap(), frame.inlined))
        .collect();
    let line = |mark| marked_line("crash.c", mark);
    assert_eq!(
        shown,
        [
            ("inlined_inner", line("inlined write"), true),
            ("inlined_outer", line("inlined call"), true),
            ("has_inlined", line("outer call"), false),
        ]
    );
    assert_eq!(frames[0].file.as_deref(), Some(&*crate::common::source("crash.c")));
}

/// The call is named, though the return address already belongs to the next statement.
#[test]
fn return_addresses_resolve_to_the_call() {
    let program = build("calls", "crash.c", &["-g", "-O0", "-w"]);
    let evidence = fail(&program, "plain");
    let frames = resolve(&evidence, &walk(&evidence));
    assert_eq!(frames[0].line, Some(marked_line("crash.c", "write")));
    assert_eq!(frames[1].line, Some(marked_line("crash.c", "beta")));
}

/// The interrupted frame is exact: it has not called anything.
#[test]
fn code_below_a_signal_handler_is_exact() {
    let program = build("interrupted", "crash.c", &["-g", "-O2", "-w"]);
    let evidence = fail(&program, "divide");
    let backtrace = walk(&evidence);
    let mut symbolizer = Symbolizer::new(&evidence.space);
    let mut exact = backtrace.frames.iter().filter(|frame| frame.kind == CodeAddressKind::Exact);
    let lines: Vec<_> = exact.by_ref().map(|frame| symbolizer.resolve(*frame)[0].line).collect();
    assert_eq!(lines, [Some(marked_line("crash.c", "write")), Some(marked_line("crash.c", "divide"))]);
}

#[test]
fn endless_recursion_ends_at_the_limit() {
    let program = build("overflow", "crash.c", &["-g", "-O1", "-w", "-fno-optimize-sibling-calls"]);
    let evidence = fail(&program, "overflow");
    let few = walk(&evidence);
    assert_eq!((few.frames.len(), few.ended), (LIMIT, Ended::Limit));
    let all = backtrace(&evidence.space, &evidence.memory, evidence.registers, 1_000_000);
    assert_eq!(all.ended, Ended::Complete);
    assert!(all.frames.len() > 2_000, "{}", all.frames.len());
    let last = Backtrace { frames: all.frames[all.frames.len() - 6..].to_vec(), ended: all.ended };
    let frames = resolve(&evidence, &last);
    assert_eq!(names(&frames)[..3], ["recurses", "recurses", "main"]);
}

#[test]
fn overwritten_stack_is_lost_not_invented() {
    let program = build("smash", "crash.c", &["-g", "-O1", "-w", "-fno-stack-protector"]);
    let evidence = fail(&program, "smash");
    let backtrace = walk(&evidence);
    assert_eq!(backtrace.ended, Ended::Lost);
    assert_eq!(names(&resolve(&evidence, &backtrace)), ["smashes"]);
}

/// A signal frame whose saved registers are those of the handler itself leads back to where the walk came from.
#[test]
fn signal_frame_that_leads_to_itself_ends() {
    let program = build("loop", "crash.c", &["-g", "-O0", "-w"]);
    let mut evidence = fail(&program, "divide");
    let general = evidence.registers.general.map(Option::unwrap);
    let frame = saved_registers(&evidence);
    // Stack pointer and program counter as the kernel saves them.
    evidence.memory.write(frame + 8 * 15, &general[4].to_le_bytes());
    evidence.memory.write(frame + 8 * 10, &general[5].to_le_bytes());
    evidence.memory.write(frame + 8 * 16, &evidence.registers.pc.to_le_bytes());
    let backtrace = backtrace(&evidence.space, &evidence.memory, evidence.registers, 1_000_000);
    assert_eq!(backtrace.ended, Ended::Lost);
    assert!(backtrace.frames.len() < 50, "{}", backtrace.frames.len());
}

/// Where the kernel saved the registers of the interrupted code: found by the address of the interrupted instruction.
fn saved_registers(evidence: &Evidence) -> u64 {
    use program::unwind::Memory;
    let backtrace = walk(evidence);
    let exact = backtrace.frames.iter().rfind(|frame| frame.kind == CodeAddressKind::Exact).unwrap();
    let start = evidence.registers.sp().unwrap();
    let holds_pc = |address: &u64| {
        let mut word = [0; 8];
        evidence.memory.read(*address, &mut word) && u64::from_le_bytes(word) == exact.pc
    };
    (start..).step_by(8).take(10_000).find(holds_pc).expect("the interrupted pc on the stack") - 8 * 16
}

/// Whatever the stack holds, a walk ends without a panic.
#[test]
fn random_stacks_end() {
    let program = build("random", "crash.c", &["-g", "-O2", "-w"]);
    let mut evidence = fail(&program, "sort");
    let sp = evidence.registers.sp().unwrap();
    let mut state = 1u64;
    let code: Vec<u64> = walk(&evidence).frames.iter().map(|frame| frame.pc).collect();
    for round in 0..300 {
        for slot in 0..64 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let value = match state >> 62 {
                0 => state >> 8,
                1 => sp + (state >> 40) % 512,
                _ => code[(state >> 33) as usize % code.len()],
            };
            evidence.memory.write(sp + 8 * slot, &value.to_le_bytes());
        }
        let start = Registers::new(code[round % code.len()], sp, sp + (state >> 50) % 256);
        let walked = backtrace(&evidence.space, &evidence.memory, start, LIMIT);
        assert!(walked.frames.len() <= LIMIT);
    }
}

/// The kernel's vdso is a module without a file. Here the program itself is made one.
#[test]
fn module_that_exists_in_memory_only() {
    let flags = ["-O2", "-w", "-fomit-frame-pointer", "-Wl,-z,noseparate-code"];
    let program = build("in-memory", "crash.c", &flags);
    let mut evidence = fail(&program, "plain");
    let expected = walk(&evidence);
    let bytes = std::fs::read(&program).unwrap();
    let (start, end) = evidence.memory.place(evidence.base_of(&program), &bytes);
    let of_other_files = |mapping: &&Mapping| mapping.path.as_ref() != Some(&program);
    let mut mappings: Vec<Mapping> = evidence.space.mappings().iter().filter(of_other_files).cloned().collect();
    mappings.push(Mapping { start, end, offset: 0, executable: true, path: None });
    evidence.space = AddressSpace::new(mappings);
    assert_eq!(walk(&evidence), expected);
}

/// Some C libraries give no rules for the code that returns from a signal handler.
#[test]
fn signal_return_without_rules() {
    let program = build("bare-signal", "crash.c", &["-g", "-O2", "-w"]);
    let inner = [INNER, &["on_user", SIGNAL_RETURN, "divides"]].concat();
    check(&fail(&program, "bare-signal"), &inner, &["main", "_start"]);
}
