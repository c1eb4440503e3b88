//! `run --count` must equal a count that goes one instruction at a time, which is right by inspection.
//!
//! The programs are those of `conformance/` that take nothing from outside: whatever happens to them is their own
//! doing, in every run alike.

mod support;

use std::ffi::OsString;
use support::{build, compare, execute, spec};

fn counts_agree(group: &str, name: &str) {
    if let Err(problem) = compare_counts(group, name) {
        panic!("{group}::{name}\n{problem}");
    }
}

fn compare_counts(group: &str, program: &str) -> Result<(), String> {
    let spec = spec::find(group, program)?;
    let built = build::build(&spec)?;
    let (outcome, counts) = counted_run(&spec, &built, &[])?;
    let (slow_outcome, slow_counts) = counted_run(&spec, &built, &["--by-steps".into()])?;
    let (fast, slow) = (compare::Named("recorded", &outcome), compare::Named("stepped", &slow_outcome));
    if let Some(difference) = compare::difference(fast, slow) {
        return Err(difference);
    }
    match counts.lines().zip(slow_counts.lines()).find(|(fast, slow)| fast != slow) {
        Some((fast, slow)) => Err(format!("  other counts:\n    recorded: {fast}\n    stepped:  {slow}\n")),
        None if counts.len() != slow_counts.len() => Err("  other functions were counted\n".to_owned()),
        None => Ok(()),
    }
}

fn counted_run(
    spec: &spec::Spec,
    built: &build::Built,
    options: &[OsString],
) -> Result<(execute::Outcome, String), String> {
    let scratch = execute::Scratch::new(spec)?;
    let file = scratch.path("count.json");
    let mut option = OsString::from("--count=");
    option.push(&file);
    let options: Vec<OsString> = std::iter::once(option).chain(options.iter().cloned()).collect();
    let outcome = execute::under_engine(spec, built, &options)?;
    let counts = std::fs::read_to_string(&file).map_err(|error| {
        let ending = compare::describe(outcome.ending);
        format!("no counts were written ({error}); {ending}, stderr: {}", String::from_utf8_lossy(&outcome.stderr))
    })?;
    let total = counts.lines().find(|line| line.contains("\"total\"")).unwrap_or_default();
    if !total.contains("\"instructions\": ") || total.contains("\"instructions\": 0,") {
        return Err(format!("nothing was counted: {counts}"));
    }
    Ok((outcome, counts))
}

guest_programs! { crate::counts_agree;
    elf { auxv constructors execstack fixed ifunc pie start_state static_fixed static_pie stripped tls_dynamic tls_initial }
    insn {
        atomics avx bits_crypto branches division flags_flow misc mxcsr odd_places rip_relative segment sse stack
        syscall_abi traps x87
    }
    memory { code_threads kernel_pointers mmap_forms mremap_mprotect own_code self_modifying shared_memory }
    proc { closed_input closed_output cmdline }
    signals { alternate_stack dispositions fault_kinds fault_registers longjmp_repeated }
    threads { c11_threads exit_in_thread futexes main_exits primitives raw_clone }
    unwind { coroutines longjmp panics }
}

#[test]
fn the_list_is_not_empty() {
    assert!(LISTED.len() >= 50, "{}", LISTED.len());
}
