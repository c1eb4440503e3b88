//! A hundred rounds of recording and verifying programs with threads, under other schedules each time.

use super::exceptions;
use super::place::Place;
use crate::guest_programs;
use crate::support::{build, compare, execute, spec};

const ROUNDS: u64 = 10;

fn rounds_are_as_recorded(group: &str, name: &str) {
    match (check_rounds(group, name), exceptions::find(exceptions::ROUNDS, group, name)) {
        (Err(problem), None) => panic!("{group}::{name}\n{problem}"),
        (Ok(()), Some((_, reason))) => {
            panic!("{group}::{name} is well now; take it from the exceptions, which say: {reason}")
        }
        (Ok(()), None) | (Err(_), Some(_)) => {}
    }
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
    let n_good = LISTED.len() - exceptions::ROUNDS.len();
    assert!(n_good as u64 * ROUNDS >= 100);
    for (group, name, ..) in exceptions::ROUNDS {
        assert!(LISTED.contains(&(group, name)), "there is no {group}::{name} any more");
    }
}

guest_programs! {
    super::rounds_are_as_recorded;
    unwind { exceptions_threads }
    insn { vector_threads }
    threads {
        c11_threads create_join exit_in_thread local_destructors mutexes primitives raw_clone rust_threads std_threads
    }
}
