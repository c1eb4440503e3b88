//! Under one seed a program whose outside input is fixed takes the same schedule every time.
//!
//! The programs are those of `conformance/` marked `//@ threaded`. Each is run many times; the hash over the whole
//! schedule and the number of switches, as `--stats` writes them, must not vary, and neither may the output.

mod support;

use support::{build, compare, execute, spec};

const RUNS: usize = 20;

/// What `--stats` says of a run's schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Schedule {
    hash: String,
    switches: String,
}

fn schedule_repeats(group: &str, name: &str) {
    if let Err(problem) = compare_schedules(group, name) {
        panic!("{group}::{name}\n{problem}");
    }
}

fn compare_schedules(group: &str, program: &str) -> Result<(), String> {
    let spec = spec::find(group, program)?;
    let built = build::build(&spec)?;
    let (first_outcome, first_schedule) = scheduled_run(&spec, &built)?;
    for run in 2..=RUNS {
        let (outcome, schedule) = scheduled_run(&spec, &built)?;
        let name = format!("run {run}");
        let first = compare::Named("run 1", &first_outcome);
        if let Some(difference) = compare::difference(first, compare::Named(&name, &outcome)) {
            return Err(difference);
        }
        if schedule != first_schedule {
            return Err(format!("  another schedule:\n    run 1: {first_schedule:?}\n    {name}: {schedule:?}\n"));
        }
    }
    Ok(())
}

fn scheduled_run(spec: &spec::Spec, built: &build::Built) -> Result<(execute::Outcome, Schedule), String> {
    let scratch = execute::Scratch::new(spec)?;
    let stats = scratch.path("stats.json");
    let mut option = std::ffi::OsString::from("--stats=");
    option.push(&stats);
    let outcome = execute::under_engine(spec, built, &[option, "--seed".into(), "1".into()])?;
    let text = std::fs::read_to_string(&stats).map_err(|error| {
        format!(
            "no statistics were written ({error}); the run ended with {}, stderr: {}",
            compare::describe(outcome.ending),
            String::from_utf8_lossy(&outcome.stderr)
        )
    })?;
    let field = |name: &str| json_scalar(&text, name).ok_or_else(|| format!("no `{name}` in the statistics: {text}"));
    let schedule = Schedule { hash: field("schedule_hash")?, switches: field("switches")? };
    if schedule.hash.is_empty() {
        return Err("the schedule's hash is empty".to_owned());
    }
    Ok((outcome, schedule))
}

/// The value of the first `"name": value` in a JSON text, for strings without escapes and for numbers.
fn json_scalar(text: &str, name: &str) -> Option<String> {
    let after_name = text.split_once(&format!("\"{name}\""))?.1;
    let value = after_name.trim_start().strip_prefix(':')?.trim_start();
    if let Some(string) = value.strip_prefix('"') {
        return string.split_once('"').map(|(value, _)| value.to_owned());
    }
    let end = value.find(|character: char| !character.is_ascii_digit())?;
    (end > 0).then(|| value[..end].to_owned())
}

#[test]
fn statistics_are_read() {
    let text = r#"{ "seed": 1, "switches" : 42, "schedule_hash": "00ff" }"#;
    assert_eq!(json_scalar(text, "switches").as_deref(), Some("42"));
    assert_eq!(json_scalar(text, "schedule_hash").as_deref(), Some("00ff"));
    assert_eq!(json_scalar(text, "missing"), None);
}

#[test]
fn every_threaded_program_is_listed() {
    let specs = spec::all().expect("the programs' headers are readable");
    let mut marked: Vec<(&str, &str)> =
        specs.iter().filter(|spec| spec.threaded).map(|spec| (spec.group.as_str(), spec.name.as_str())).collect();
    let mut listed = LISTED.to_vec();
    marked.sort_unstable();
    listed.sort_unstable();
    assert_eq!(marked, listed, "the programs marked `threaded` and the list in determinism.rs differ");
}

guest_programs! {
    super::schedule_repeats;
    elf {
        tls_dynamic tls_initial
    }
    unwind {
        exceptions_threads panics
    }
    insn {
        mxcsr segment vector_threads
    }
    threads {
        c11_threads clear_address create_join exit_in_thread large_transfers local_destructors
        main_exits mutexes openmp
        preempted_state primitives raw_clone rust_threads spinning std_threads
    }
    signals {
        longjmp_repeated
    }
    memory {
        code_threads
    }
}
