//! Errors planted in programs of Debian (`museum/debian/`): reads their descriptions, has the programs built, and says how to run
//! them.
//!
//! Another test binary can have this module by its path, beside `exhibit.rs` and `memory.rs`; it needs `mod support` at its root,
//! too.

#![allow(dead_code, reason = "each test binary that reads the exhibits uses its own part of what they say")]

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::fcntl::{Flock, FlockArg};
use serde::Deserialize;

use super::exhibit::{self, Class, Failure};
use super::memory::repeated;
use crate::support::build::Built;
use crate::support::spec::Spec;

/// A program that somebody else wrote, with an error that we know.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Planted {
    #[serde(skip)]
    pub name: String,
    pub title: String,
    /// The source package.
    pub package: String,
    pub class: Class,
    /// The file with the error, in which the marks are.
    pub source: PathBuf,
    /// It takes too long for tests; people build it and look at it.
    #[serde(default)]
    by_hand: bool,
    /// Run in the program's folder, before it.
    #[serde(default)]
    prepare: String,
    arguments: Vec<String>,
    #[serde(default)]
    stdin: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// How the program fails; a race needs the right schedule for it.
    pub failure: Failure,
    /// What the program without the error writes, if that is text.
    #[serde(default)]
    pub output: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    Clean,
    Planted,
}

/// The built programs of all exhibits.
#[derive(Debug)]
pub struct Garden {
    folder: PathBuf,
    pub exhibits: Vec<Planted>,
}

impl Garden {
    /// Builds every program, or finds what an earlier test has built. Needs the network for the first time.
    pub fn new() -> Result<Garden, String> {
        let exhibits = all()?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("planted-{:016x}", fingerprint(&exhibits)?));
        let lock = File::create(folder.with_extension("lock")).map_err(|error| format!("cannot lock: {error}"))?;
        let _lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, error)| format!("cannot lock: {error}"))?;
        // Debugging information names the folder in which a program was built, so it is not built elsewhere and moved.
        let complete = folder.join("complete");
        if !complete.is_file() {
            let _ = fs::remove_dir_all(&folder);
            build_all(&folder, &exhibits)?;
            File::create(&complete).map_err(|error| format!("cannot create {}: {error}", complete.display()))?;
        }
        Ok(Garden { folder, exhibits })
    }

    pub fn built(&self, exhibit: &Planted, growth: Growth) -> Built {
        let program = if growth == Growth::Clean { "clean" } else { "planted" };
        Built { program: self.folder.join(&exhibit.name).join(program) }
    }

    /// The marks of the source and the numbers of their lines, counted from one.
    pub fn marked_lines(&self, exhibit: &Planted) -> Result<BTreeMap<String, Vec<u32>>, String> {
        exhibit::lines_marked(&self.folder.join(&exhibit.name).join("source").join(&exhibit.source), "mark")
    }
}

impl Planted {
    /// How to run it.
    pub fn spec(&self) -> Result<Spec, String> {
        let mut spec = Spec::read(&recipe(&self.name))?;
        spec.name = self.name.clone();
        spec.crashes = true;
        spec.args = self.arguments.clone();
        spec.stdin = Some(self.stdin.clone());
        for (name, text) in &self.files {
            spec.files.insert(name.clone(), repeated(text)?);
        }
        if !self.prepare.is_empty() {
            spec.run = Some(format!("{} && exec \"$@\"", self.prepare));
        }
        Ok(spec)
    }
}

/// Every exhibit for tests, by name.
pub fn all() -> Result<Vec<Planted>, String> {
    let read = exhibit::names_in(&folder())?.into_iter().map(|name| read(&name)).collect::<Result<Vec<_>, _>>()?;
    Ok(read.into_iter().filter(|planted| !planted.by_hand).collect())
}

fn read(name: &str) -> Result<Planted, String> {
    let path = folder().join(name).join("exhibit.toml");
    let mut planted: Planted =
        toml::from_str(&exhibit::read(&path)?).map_err(|error| format!("{}: {error}", path.display()))?;
    planted.name = name.to_owned();
    Ok(planted)
}

fn folder() -> PathBuf {
    exhibit::folder().join("debian")
}

fn recipe(name: &str) -> PathBuf {
    folder().join(name).join("recipe.sh")
}

fn build_all(target: &Path, exhibits: &[Planted]) -> Result<(), String> {
    let mut command = Command::new(folder().join("build.sh"));
    command.arg(target).args(exhibits.iter().map(|exhibit| &exhibit.name));
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr)))
}

/// A hash of all that decides what is built.
fn fingerprint(exhibits: &[Planted]) -> Result<u64, String> {
    let mut hasher = DefaultHasher::new();
    exhibit::read(&folder().join("build.sh"))?.hash(&mut hasher);
    for exhibit in exhibits {
        exhibit::read(&recipe(&exhibit.name))?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}
