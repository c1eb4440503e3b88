//! The walls between the crates: who may use whom, and where `unsafe` may stand.
//!
//! A failure here is a change of the design. If it is meant, change the lists below together with the documentation
//! of the crates concerned.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each crate of ours with the crates of ours that it may use, in any section of its manifest.
const MAY_USE: &[(&str, &[&str])] = &[
    ("analysis", &["trace"]),
    ("guest", &[]),
    ("sched", &[]),
    ("engine", &["guest", "sched", "trace"]),
    ("program", &[]),
    ("report", &["program", "trace"]),
    ("session", &["engine", "trace"]),
    ("trace", &[]),
    ("whodunit", &["analysis", "engine", "guest", "program", "report", "sched", "session", "trace"]),
];

/// The only source files in which `unsafe` may stand.
const MAY_BE_UNSAFE: &[&str] = &[
    "engine/src/code/memory.rs",
    "engine/src/code/tests/home.rs",
    "engine/src/code/tests/machine.rs",
    "engine/src/code/tests/names.rs",
    "engine/src/code/tests/native.rs",
    "engine/src/context.rs",
    "engine/src/guest_code.rs",
    "engine/src/kernel.rs",
    "engine/src/observation/buffer.rs",
    "engine/src/process.rs",
    "engine/src/signals/frame.rs",
    "engine/src/signals/host.rs",
    "engine/src/startup.rs",
];

/// Libraries that need not forbid `unsafe` as a whole.
const MAY_HOLD_UNSAFE_FILES: &[&str] = &["engine"];

/// Crate to the crates of ours that it uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

#[test]
fn crates_use_only_what_they_may() {
    assert_eq!(forbidden_arrows(&workspace_arrows()), Vec::<String>::new());
}

#[test]
fn libraries_forbid_unsafe() {
    for (krate, _) in MAY_USE.iter().filter(|(krate, _)| !MAY_HOLD_UNSAFE_FILES.contains(krate)) {
        let path = crates_folder().join(krate).join("src/lib.rs");
        let Ok(source) = fs::read_to_string(&path) else {
            assert!(path.with_file_name("main.rs").exists(), "{krate} has neither lib.rs nor main.rs");
            continue;
        };
        assert!(
            source.lines().any(|line| line == "#![forbid(unsafe_code)]"),
            "{krate}/src/lib.rs must say #![forbid(unsafe_code)]"
        );
    }
}

#[test]
fn unsafe_stands_only_in_the_listed_files() {
    let found: BTreeSet<String> = source_files()
        .into_iter()
        .filter(|path| has_unsafe(&fs::read_to_string(crates_folder().join(path)).unwrap()))
        .collect();
    let allowed: BTreeSet<String> = MAY_BE_UNSAFE.iter().map(|&path| path.to_owned()).collect();
    let strays: Vec<_> = found.difference(&allowed).collect();
    assert!(strays.is_empty(), "unsafe outside the files listed in MAY_BE_UNSAFE: {strays:?}");
    let tamed: Vec<_> = allowed.difference(&found).collect();
    assert!(tamed.is_empty(), "no unsafe any more; take out of MAY_BE_UNSAFE: {tamed:?}");
}

#[test]
fn forbidden_arrows_are_noticed() {
    let arrows = |pairs: &[(&str, &[&str])]| -> Arrows {
        pairs
            .iter()
            .map(|(krate, used)| (krate.to_string(), used.iter().map(|name| name.to_string()).collect()))
            .collect()
    };
    assert_eq!(forbidden_arrows(&arrows(&[("engine", &["guest"])])), Vec::<String>::new());
    assert_eq!(forbidden_arrows(&arrows(&[("guest", &["sched"])])), ["guest may not use sched"]);
    assert_eq!(forbidden_arrows(&arrows(&[("newcomer", &[])])), ["newcomer has no line in MAY_USE"]);
}

#[test]
fn unsafe_is_told_from_talk_about_it() {
    assert!(has_unsafe("// SAFETY: both are valid.\nlet copied = unsafe { copy(from, to) };"));
    assert!(has_unsafe("pub(crate) unsafe fn enter() {}"));
    assert!(has_unsafe("#![allow(unsafe_code)]"));
    assert!(has_unsafe("#[expect(unsafe_code, reason = \"leaf\")]"));
    assert!(!has_unsafe("//! This crate has no unsafe code."));
    assert!(!has_unsafe("#![forbid(unsafe_code)]"));
    assert!(!has_unsafe("let unsafety = 1; // unsafe"));
}

fn forbidden_arrows(arrows: &Arrows) -> Vec<String> {
    let mut complaints = Vec::new();
    for (krate, used) in arrows {
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| name == krate) else {
            complaints.push(format!("{krate} has no line in MAY_USE"));
            continue;
        };
        for other in used.iter().filter(|other| !allowed.contains(&other.as_str())) {
            complaints.push(format!("{krate} may not use {other}"));
        }
    }
    complaints
}

/// Whether `source` uses `unsafe` or lifts the lint against it. Looks at each line up to its comment.
fn has_unsafe(source: &str) -> bool {
    source.lines().any(|line| {
        let code = line.split("//").next().unwrap_or_default();
        let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        let lifts_lint = code.contains("allow(unsafe_code") || code.contains("expect(unsafe_code");
        lifts_lint || words.any(|word| word == "unsafe")
    })
}

/// Asks cargo, which knows of renamed, inherited and target-specific dependencies.
fn workspace_arrows() -> Arrows {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(crates_folder())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let name_of = |value: &serde_json::Value| value["name"].as_str().unwrap().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name_of).collect();
    let used_by = |package: &serde_json::Value| {
        let dependencies = package["dependencies"].as_array().unwrap();
        dependencies.iter().map(name_of).filter(|name| ours.contains(name)).collect()
    };
    packages.iter().map(|package| (name_of(package), used_by(package))).collect()
}

/// Every Rust file under a crate's `src`, as a path from the folder of all crates.
fn source_files() -> Vec<String> {
    let mut files = Vec::new();
    for krate in fs::read_dir(crates_folder()).unwrap() {
        collect_sources(&krate.unwrap().path().join("src"), &mut files);
    }
    assert!(files.contains(&"engine/src/lib.rs".to_owned()), "{files:?}");
    files
}

fn collect_sources(folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let relative = path.strip_prefix(crates_folder()).unwrap();
            files.push(relative.to_str().unwrap().to_owned());
        }
    }
}

fn crates_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
