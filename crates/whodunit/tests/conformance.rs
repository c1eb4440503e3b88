//! `whodunit run` is invisible: every guest program in `conformance/` behaves under the engine as it does natively.
//!
//! Each program is one test. It is run twice, without and with the engine, and both runs must agree in every byte of
//! standard output and standard error and in the exit status or the terminating signal.

mod support;

use support::{build, compare, execute, spec};

fn same_under_engine(group: &str, name: &str) {
    if let Err(problem) = compare_runs(group, name) {
        panic!("{group}::{name}\n{problem}");
    }
}

fn compare_runs(group: &str, name: &str) -> Result<(), String> {
    let spec = spec::find(group, name)?;
    let built = build::build(&spec)?;
    let native = execute::natively(&spec, &built)?;
    let complaints = compare::own_complaints(&native);
    if !complaints.is_empty() {
        return Err(format!("  the program fails without the engine already:\n    {}\n", complaints.join("\n    ")));
    }
    if let execute::Ending::TimedOut(_) = native.ending {
        return Err(format!("  native run: {}\n", compare::describe(native.ending)));
    }
    let engine = execute::under_engine(&spec, &built, &[])?;
    let native = compare::Named("native", &native);
    let engine = compare::Named("engine", &engine);
    match compare::difference(native, engine) {
        None => Ok(()),
        Some(difference) => Err(format!("{difference}  by hand: {}\n", execute::by_hand(&spec, &built))),
    }
}

every_guest_program! { super::same_under_engine }
