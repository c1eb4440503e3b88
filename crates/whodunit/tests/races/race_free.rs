//! Programs without races: a dozen and more for each kind of synchronisation, under a schedule that switches often.

use super::looking::{BUSY, look, record, titles};
use crate::support::execute::Scratch;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Records every program that an executable lists, and demands that nothing is found in it.
fn nothing_is_found(kind: &str, program: &Path, is_meant: impl Fn(&str) -> bool) {
    let listing = Command::new(program).output().expect("the programs list themselves");
    let names = String::from_utf8(listing.stdout).expect("names");
    let meant: Vec<&str> = names.lines().filter(|name| is_meant(name)).collect();
    assert!(meant.len() >= 12, "only {} programs of {kind}", meant.len());
    let mut alarms = Vec::new();
    for name in meant {
        if let Err(problem) = calm(program, name) {
            alarms.push(format!("{name}: {problem}"));
        }
    }
    assert!(alarms.is_empty(), "{kind}:\n{}", alarms.join("\n"));
}

fn calm(program: &Path, name: &str) -> Result<(), String> {
    let scratch = Scratch::named(&format!("race-free-{name}"))?;
    record(&scratch, &BUSY, program, &[name])?;
    match look(&scratch, &[])? {
        (_, 0) => Ok(()),
        (told, status) => Err(format!("status {status}, {:?}", titles(&told))),
    }
}

/// Compiles a file of this folder.
fn compiled(compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/race_free").join(source);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("race-free-{compiler}"));
    let output = Command::new(compiler).args(["-g", "-O1"]).args(flags).arg(path).arg("-o").arg(&program).output();
    let output = output.expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Cargo builds examples with the tests, and puts them beside.
fn rust_programs() -> PathBuf {
    let own = std::env::current_exe().expect("the test has a path");
    own.ancestors().nth(2).expect("cargo's folder").join("examples/race_free")
}

#[test]
fn of_the_c_plus_plus_library() {
    nothing_is_found("C++", &compiled("g++", "standard.cpp", &["-std=c++20", "-pthread"]), |_| true);
}

#[test]
fn of_openmp() {
    nothing_is_found("OpenMP", &compiled("gcc", "openmp.c", &["-fopenmp"]), |_| true);
}

#[test]
fn of_the_rust_library() {
    nothing_is_found("Rust std", &rust_programs(), |name| name.starts_with("std_"));
}

#[test]
fn of_parking_lot() {
    nothing_is_found("parking_lot", &rust_programs(), |name| name.starts_with("parking_"));
}

#[test]
fn of_crossbeam() {
    nothing_is_found("crossbeam", &rust_programs(), |name| name.starts_with("crossbeam_"));
}
