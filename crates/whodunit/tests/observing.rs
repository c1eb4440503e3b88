//! What translated code writes down about itself must be what can be seen one instruction at a time: the address, size,
//! kind and values of every access and the target of every branch, in program order across threads.
//!
//! The programs are those of `conformance/` whose runs depend on nothing but themselves. Numbers that the kernel and the
//! processor give out (thread ids, the number of the core, the time) differ from run to run; a few may do so here.

mod support;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use support::{build, compare, execute, spec};

/// How many different numbers from outside a program may come across, and how many more for each of its threads.
const NUMBERS: usize = 24;
const NUMBERS_A_THREAD: usize = 8;
/// Less would not be a program.
const FEWEST_EVENTS: usize = 20;

fn events_agree(group: &str, name: &str) {
    if let Err(problem) = compare_events(group, name) {
        panic!("{group}::{name}\n{problem}");
    }
}

fn compare_events(group: &str, program: &str) -> Result<(), String> {
    let spec = spec::find(group, program)?;
    let built = build::build(&spec)?;
    let scratch = execute::Scratch::new(&spec)?;
    let (written, seen) = (scratch.path("written"), scratch.path("seen"));
    let written_outcome = observed_run(&spec, &built, &written, &[])?;
    let seen_outcome = observed_run(&spec, &built, &seen, &["--by-steps".into()])?;
    let (fast, slow) = (compare::Named("written", &written_outcome), compare::Named("seen", &seen_outcome));
    if let Some(difference) = compare::difference(fast, slow) {
        return Err(difference);
    }
    Comparison::default().files(&written, &seen)
}

fn observed_run(
    spec: &spec::Spec,
    built: &build::Built,
    file: &Path,
    options: &[OsString],
) -> Result<execute::Outcome, String> {
    let mut option = OsString::from("--events=");
    option.push(file);
    let options: Vec<OsString> = std::iter::once(option).chain(options.iter().cloned()).collect();
    execute::under_engine(spec, built, &options)
}

/// Two runs side by side.
#[derive(Default)]
struct Comparison {
    /// Numbers of the one run and what the other has in their place.
    numbers: BTreeSet<(String, String)>,
    threads: usize,
    events: usize,
}

impl Comparison {
    fn files(mut self, written: &Path, seen: &Path) -> Result<(), String> {
        let (mut written, mut seen) = (lines(written)?, lines(seen)?);
        loop {
            match (next(&mut written)?, next(&mut seen)?) {
                (Some(written), Some(seen)) => self.lines(&written, &seen)?,
                (None, None) => break,
                (written, seen) => {
                    return Err(format!("one run goes on:\n  written: {written:?}\n  seen:    {seen:?}"));
                }
            }
        }
        if self.events < FEWEST_EVENTS {
            return Err(format!("only {} events", self.events));
        }
        Ok(())
    }

    fn lines(&mut self, written: &str, seen: &str) -> Result<(), String> {
        self.events += 1;
        let thread: usize = written.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
        self.threads = self.threads.max(thread);
        let is_same = written == seen || self.differ_in_numbers(written, seen);
        if is_same && self.numbers.len() <= NUMBERS + NUMBERS_A_THREAD * self.threads {
            return Ok(());
        }
        Err(format!("event {}:\n  written: {written}\n  seen:    {seen}\n", self.events))
    }

    fn differ_in_numbers(&mut self, written: &str, seen: &str) -> bool {
        let (written, seen): (Vec<&str>, Vec<&str>) = (written.split(' ').collect(), seen.split(' ').collect());
        let is_value = |at: usize| at > 0 && matches!(written[at - 1], "was" | "is");
        written.len() == seen.len()
            && (0..written.len())
                .all(|at| written[at] == seen[at] || is_value(at) && self.values(written[at], seen[at]))
    }

    /// Eight bytes at a time, as times are.
    fn values(&mut self, written: &str, seen: &str) -> bool {
        let pairs = written.as_bytes().chunks(16).zip(seen.as_bytes().chunks(16));
        let text = |lane: &[u8]| String::from_utf8_lossy(lane).into_owned();
        self.numbers
            .extend(pairs.filter(|(written, seen)| written != seen).map(|(written, seen)| (text(written), text(seen))));
        written.len() == seen.len()
    }
}

fn lines(file: &Path) -> Result<Lines<BufReader<File>>, String> {
    let file = File::open(file).map_err(|error| format!("no events in {}: {error}", file.display()))?;
    Ok(BufReader::with_capacity(1 << 20, file).lines())
}

/// The next event that does not depend on how code is cut.
fn next(lines: &mut Lines<BufReader<File>>) -> Result<Option<String>, String> {
    for line in lines {
        let line = line.map_err(|error| format!("events cannot be read: {error}"))?;
        if line.split(' ').nth(2) != Some("entry") {
            return Ok(Some(line));
        }
    }
    Ok(None)
}

guest_programs! { crate::events_agree;
    elf { auxv constructors execstack fixed ifunc pie start_state static_fixed static_pie stripped tls_dynamic tls_initial }
    insn {
        atomics avx bits_crypto branches division flags_flow misc mxcsr odd_places rip_relative segment sse stack
        syscall_abi tight_loops traps vector_threads x87
    }
    memory { code_threads kernel_pointers mmap_forms mremap_mprotect own_code self_modifying }
    proc { closed_input closed_output cmdline }
    signals { alternate_stack dispositions fault_kinds fault_registers longjmp_repeated }
    threads { c11_threads exit_in_thread main_exits primitives raw_clone }
    unwind { coroutines longjmp panics }
}

/// Programs that make processes, look at their descriptors, or die.
const UNDISTURBED: [(&str, &str); 12] = [
    ("process", "exec_threads"),
    ("process", "fork_basic"),
    ("process", "spawn"),
    ("memory", "own_code"),
    ("process", "vfork"),
    ("proc", "descriptors"),
    ("signals", "children"),
    ("signals", "crash_segv"),
    ("signals", "during_vfork"),
    ("signals", "fault_kinds"),
    ("signals", "fault_registers"),
    ("signals", "from_outside"),
];

/// The observer's thread is not there in children, has no part in signals, and its file is out of the way.
#[test]
fn programs_do_not_notice_who_watches_them() {
    for (group, name) in UNDISTURBED {
        let result = compare_with_native(group, name);
        assert!(result.is_ok(), "{group}::{name}\n{}", result.unwrap_err());
    }
}

fn compare_with_native(group: &str, name: &str) -> Result<(), String> {
    let spec = spec::find(group, name)?;
    let built = build::build(&spec)?;
    let scratch = execute::Scratch::new(&spec)?;
    let events = scratch.path("events");
    let native = execute::natively(&spec, &built)?;
    let observed = observed_run(&spec, &built, &events, &[])?;
    match compare::difference(compare::Named("native", &native), compare::Named("observed", &observed)) {
        Some(difference) => Err(difference),
        None if next(&mut lines(&events)?)?.is_none() => Err("no event was told".to_owned()),
        None => Ok(()),
    }
}

#[test]
fn the_list_is_not_empty() {
    assert!(LISTED.len() >= 50, "{}", LISTED.len());
}

#[test]
fn other_addresses_and_targets_and_many_other_values_are_noticed() {
    let mut comparison = Comparison::default();
    let check = |comparison: &mut Comparison, written: &str, seen: &str| comparison.lines(written, seen).is_ok();
    assert!(check(&mut comparison, "1 40 load 10 4 was 01000000", "1 40 load 10 4 was 01000000"));
    assert!(check(&mut comparison, "1 40 load 10 4 was 0a000000", "1 40 load 10 4 was 0b000000"));
    assert!(check(&mut comparison, "1 40 load 10 9 was 01000000020000000a", "1 40 load 10 9 was 01000000020000000b"));
    assert!(!check(&mut comparison, "1 40 load 10 4 was 01000000", "1 40 load 14 4 was 01000000"));
    assert!(!check(&mut comparison, "1 40 branch 50 taken", "1 40 branch 42 passed"));
    let mut values = (0..100).map(|value| (format!("1 40 load 10 1 was {value:02x}"), "1 40 load 10 1 was ff"));
    assert!(!values.all(|(written, seen)| check(&mut comparison, &written, seen)));
}
