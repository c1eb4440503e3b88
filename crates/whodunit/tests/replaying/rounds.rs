//! A hundred rounds of recording and verifying programs with threads, under other schedules each time.

use super::place::Place;
use crate::guest_programs;
use crate::support::{build, compare, execute, spec};

const ROUNDS: u64 = 10;

fn rounds_are_as_recorded(group: &str, name: &str) {
    check_rounds(group, name).unwrap_or_else(|problem| panic!("{group}::{name}\n{problem}"));
}

fn check_rounds(group: &str, name: &str) -> Result<(), String> {
    let spec = spec::find(group, name)?;
    let built = build::build(&spec)?;
    let native = execute::natively(&spec, &built)?;
    let place = Place::new(name);
    for seed in 1..=ROUNDS {
        let recording = place.path(&format!("recording-{seed}"));
        let options = ["--policy", "random", "--seed", &seed.to_string()].map(Into::into);
        let recorded = execute::recorded(&spec, &built, &recording, &options)?;
        let problem = compare::difference(compare::Named("native", &native), compare::Named("recorded", &recorded))
            .or_else(|| place.not_verified(&recording));
        if let Some(problem) = problem {
            return Err(format!("  with seed {seed}:\n{problem}"));
        }
    }
    Ok(())
}

#[test]
fn there_are_a_hundred() {
    assert!(LISTED.len() as u64 * ROUNDS >= 100);
}

guest_programs! {
    super::rounds_are_as_recorded;
    unwind { exceptions_threads }
    insn { vector_threads }
    threads {
        c11_threads create_join exit_in_thread local_destructors mutexes primitives raw_clone rust_threads std_threads
    }
}
