//! Reads the exhibits: what `exhibit.toml` says, where the guilty lines of the program are, and how it is built.
//!
//! Another test binary can have this module by its path; it needs `mod support` at its root, too.

#![allow(dead_code, reason = "each test binary that reads the exhibits uses its own part of what they say")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use nix::libc::{SIGABRT, SIGSEGV};
use serde::Deserialize;

use crate::support::spec::Spec;

/// A program of the museum and what it claims of itself.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Exhibit {
    #[serde(skip)]
    pub name: String,
    #[serde(skip)]
    pub folder: PathBuf,
    pub title: String,
    /// Where the bug comes from: ids of the catalogue of published bugs, or its common name.
    pub origin: Vec<String>,
    pub kind: Kind,
    /// The classes that the literature gives it, such as `SAV RWR`.
    #[serde(default)]
    pub class: String,
    /// How it fails with the guilty order; nothing for programs that never fail.
    #[serde(default)]
    pub failure: Option<Failure>,
    /// How many threads take part in the failure.
    #[serde(default)]
    pub threads: u32,
    /// What a correct run writes.
    pub output: String,
    #[serde(default)]
    pub round_robin: RoundRobin,
    /// The guilty order, as marks.
    #[serde(default)]
    pub order: Vec<String>,
    /// Pairs of marks that race: no synchronisation orders them.
    #[serde(default)]
    pub races: Vec<(String, String)>,
    #[serde(default)]
    pub marks: BTreeMap<String, Mark>,
    /// For bugs that were diagnosed by execution suppression.
    #[serde(default)]
    pub diagnosis: Option<Diagnosis>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Race,
    Atomicity,
    Order,
    Deadlock,
    LostWakeup,
    Livelock,
    /// A call ends in a way that nobody looks at.
    Fault,
    /// Racy, and harmless.
    Benign,
    /// Neither racy nor faulty, whatever it looks like.
    Lookalike,
}

/// What execution suppression makes of a bug.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Diagnosis {
    pub class: Class,
    /// How many executions the published tool needed, the failing one included.
    pub paper_executions: u32,
}

/// What a diagnosis may call the cause of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    HeapOverflow,
    StackOverflow,
    GlobalOverflow,
    UseAfterFree,
    DoubleFree,
    UninitialisedRead,
    NullDereference,
    WrongPointer,
    DataRace,
    AtomicityViolation,
    OrderViolation,
    Deadlock,
}

/// How a run fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Failure {
    Signal(i32),
    Exit(i32),
    Deadlock,
    Hang,
    Output,
}

/// What comes of the program as it is under `whodunit run`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoundRobin {
    #[default]
    Passes,
    Fails,
}

/// A guilty place; the source has `/* guilty: NAME */` at the end of its lines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// The part that the thread plays.
    pub thread: String,
    pub access: Access,
    /// The variable, lock or condition.
    pub of: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    Read,
    Write,
    /// A read and a write in one statement.
    Update,
    Free,
    /// A call of the system or of a library.
    Call,
    Lock,
    Wait,
    Wake,
}

/// The builds of an exhibit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// As it is.
    Plain,
    /// With the guilty order forced.
    Shown,
    /// Repaired, and still pushed towards the guilty order.
    Repaired,
    /// As it is, with ThreadSanitizer.
    Sanitized,
}

/// How much the compiler optimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    O0,
    O1,
    O2,
}

/// The levels at which a bug that is to be diagnosed must fail in the same way.
pub const LEVELS: [Level; 2] = [Level::O0, Level::O2];

/// Every exhibit, by name.
pub fn all() -> Result<Vec<Exhibit>, String> {
    names_in(&folder())?.iter().map(|name| Exhibit::read(name)).collect()
}

/// The names of the exhibits in one of the museum's folders.
pub fn names_in(folder: &Path) -> Result<BTreeSet<String>, String> {
    let listing = fs::read_dir(folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let exhibits = listing.flatten().filter(|entry| entry.path().join("exhibit.toml").is_file());
    Ok(exhibits.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// The museum itself.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../museum")
}

impl Exhibit {
    pub fn read(name: &str) -> Result<Exhibit, String> {
        let folder = folder().join(name);
        let path = folder.join("exhibit.toml");
        let text = read(&path)?;
        let mut exhibit: Exhibit = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        exhibit.name = name.to_owned();
        exhibit.folder = folder;
        Ok(exhibit)
    }

    pub fn source(&self) -> PathBuf {
        let written_in_c = self.folder.join("program.c");
        if written_in_c.is_file() { written_in_c } else { self.folder.join("program.cc") }
    }

    /// The marks of the source and the numbers of their lines, counted from one.
    pub fn marked_lines(&self) -> Result<BTreeMap<String, Vec<u32>>, String> {
        lines_marked(&self.source(), "guilty")
    }

    /// How to build and run it.
    pub fn spec(&self, variant: Variant) -> Result<Spec, String> {
        self.spec_at(variant, Level::O1)
    }

    pub fn spec_at(&self, variant: Variant, level: Level) -> Result<Spec, String> {
        let mut spec = Spec::read(&self.source())?;
        spec.name = self.name.clone();
        spec.include = folder();
        spec.crashes = true;
        spec.compiler_flags.extend(["-pthread".to_owned(), format!("-{level:?}")]);
        let flags: &[&str] = match variant {
            Variant::Plain => &[],
            Variant::Shown => &["-DSHOW"],
            Variant::Repaired => &["-DFIXED", "-DSHOW"],
            Variant::Sanitized => &["-fsanitize=thread"],
        };
        spec.compiler_flags.extend(flags.iter().map(|&flag| flag.to_owned()));
        Ok(spec)
    }

    /// What is wrong with the description itself.
    pub fn inconsistency(&self) -> Result<Option<String>, String> {
        let described: Vec<&String> = self.marks.keys().collect();
        let lines = self.marked_lines()?;
        if described != lines.keys().collect::<Vec<_>>() {
            return Ok(Some(format!("exhibit.toml describes {described:?}, the source marks {:?}", lines.keys())));
        }
        let mut named = self.order.iter().chain(self.races.iter().flat_map(|(left, right)| [left, right]));
        if let Some(unknown) = named.find(|name| !self.marks.contains_key(*name)) {
            return Ok(Some(format!("there is no mark `{unknown}`")));
        }
        let calm = matches!(self.kind, Kind::Benign | Kind::Lookalike);
        if calm != self.failure.is_none() || calm != (self.threads == 0) || calm != self.order.is_empty() {
            return Ok(Some("failure, threads and order go with each other and with the kind".to_owned()));
        }
        let raceless = self.kind == Kind::Lookalike;
        let racy = matches!(self.kind, Kind::Benign | Kind::Race);
        let contradicts = (raceless && !self.races.is_empty()) || (racy && self.races.is_empty());
        Ok(contradicts.then(|| "the kind and the races contradict each other".to_owned()))
    }
}

impl Kind {
    /// As it is written in `exhibit.toml`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Race => "race",
            Kind::Atomicity => "atomicity",
            Kind::Order => "order",
            Kind::Deadlock => "deadlock",
            Kind::LostWakeup => "lost-wakeup",
            Kind::Livelock => "livelock",
            Kind::Fault => "fault",
            Kind::Benign => "benign",
            Kind::Lookalike => "lookalike",
        }
    }
}

impl Class {
    /// As it is written in `exhibit.toml`, and in findings.
    pub fn word(self) -> &'static str {
        match self {
            Class::HeapOverflow => "heap-overflow",
            Class::StackOverflow => "stack-overflow",
            Class::GlobalOverflow => "global-overflow",
            Class::UseAfterFree => "use-after-free",
            Class::DoubleFree => "double-free",
            Class::UninitialisedRead => "uninitialised-read",
            Class::NullDereference => "null-dereference",
            Class::WrongPointer => "wrong-pointer",
            Class::DataRace => "data-race",
            Class::AtomicityViolation => "atomicity-violation",
            Class::OrderViolation => "order-violation",
            Class::Deadlock => "deadlock",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Signal(SIGABRT) => formatter.write_str("abort"),
            Failure::Signal(SIGSEGV) => formatter.write_str("signal SIGSEGV"),
            Failure::Signal(signal) => write!(formatter, "signal {signal}"),
            Failure::Exit(status) => write!(formatter, "exit {status}"),
            Failure::Deadlock => formatter.write_str("deadlock"),
            Failure::Hang => formatter.write_str("hang"),
            Failure::Output => formatter.write_str("output"),
        }
    }
}

impl TryFrom<String> for Failure {
    type Error = String;

    fn try_from(text: String) -> Result<Failure, String> {
        match text.split_once(' ').unwrap_or((&text, "")) {
            ("signal", "SIGSEGV") => Ok(Failure::Signal(SIGSEGV)),
            ("abort", "") => Ok(Failure::Signal(SIGABRT)),
            ("exit", status) => status.parse().map(Failure::Exit).map_err(|_| format!("`{status}` is no exit status")),
            ("deadlock", "") => Ok(Failure::Deadlock),
            ("hang", "") => Ok(Failure::Hang),
            ("output", "") => Ok(Failure::Output),
            _ => Err(format!("`{text}` is no failure")),
        }
    }
}

/// The lines that end with `/* WORD: NAME */`, by name.
pub fn lines_marked(source: &Path, word: &str) -> Result<BTreeMap<String, Vec<u32>>, String> {
    let opening = format!("/* {word}: ");
    let mut lines: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (number, line) in (1..).zip(read(source)?.lines()) {
        if let Some((_, rest)) = line.split_once(&opening) {
            let name = rest.strip_suffix(" */").ok_or_else(|| format!("line {number}: a mark is not closed"))?;
            lines.entry(name.to_owned()).or_default().push(number);
        }
    }
    Ok(lines)
}

pub fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
