//! Reads the exhibits of memory errors: what their descriptions say of each input, where the marked lines are, and how they are
//! built and run.
//!
//! Another test binary can have this module by its path, beside `exhibit.rs`; it needs `mod support` at its root, too.

#![allow(dead_code, reason = "each test binary that reads the exhibits uses its own part of what they say")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::exhibit::{self, Class, Failure, Level};
use crate::support::spec::Spec;

/// Overruns must reach what lies behind a buffer, as they did in the programs of their time.
const FLAGS: [&str; 3] = ["-pthread", "-fno-stack-protector", "-U_FORTIFY_SOURCE"];

/// One that fails, and one that does not; or a layout that shows something, and one that shows who did it.
const FEWEST_RUNS: u32 = 2;

/// A program with an error, and inputs that lead it there.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MemoryExhibit {
    #[serde(skip)]
    pub name: String,
    #[serde(skip)]
    pub folder: PathBuf,
    pub title: String,
    pub class: Class,
    /// What is overrun, freed twice, or points to the wrong place.
    pub variable: String,
    /// The mark of the mistake, where that comes before the first corruption.
    #[serde(default)]
    pub error: Option<String>,
    #[serde(rename = "input")]
    pub inputs: Vec<Input>,
}

/// In arguments, input and files, `{TEXT*N}` stands for N times TEXT.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Input {
    pub name: String,
    /// The id in the catalogue of published bugs.
    pub origin: String,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    stdin: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// How the program fails; nothing for an input whose corruption has no effect.
    #[serde(default)]
    pub failure: Option<Failure>,
    /// What it writes before it ends as if nothing had happened.
    #[serde(default)]
    pub silent: Option<String>,
    /// What the repaired program writes.
    pub output: String,
    /// The exit status of the repaired program.
    #[serde(default)]
    pub status: i32,
    /// The mark of the first corruption: what a diagnosis must name.
    pub guilty: String,
    /// The marks that the corruption passes on its way, from the guilty one on.
    pub chain: Vec<String>,
    /// The mark of the statement that fails.
    #[serde(default)]
    pub crash: Option<String>,
    /// The marks of statements that fail when what failed before is suppressed.
    #[serde(default)]
    pub later_crashes: Vec<String>,
    /// What AddressSanitizer says.
    #[serde(default)]
    pub sanitizer: Option<Sanitizer>,
    /// How many executions the published tool needed, the failing one included.
    #[serde(default)]
    pub paper_executions: Option<u32>,
    /// How many layouts it tried.
    #[serde(default)]
    pub paper_reorderings: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sanitizer {
    pub report: String,
    /// The mark of the innermost line of the program; absent where the overrun destroys the stack before the sanitizer looks.
    #[serde(default)]
    pub at: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    Faulty,
    Repaired,
    /// Faulty, with AddressSanitizer.
    Sanitized,
}

/// Every exhibit of a memory error, by name.
pub fn all() -> Result<Vec<MemoryExhibit>, String> {
    exhibit::names_in(&folder())?.iter().map(|name| MemoryExhibit::read(name)).collect()
}

pub fn folder() -> PathBuf {
    exhibit::folder().join("memory")
}

impl MemoryExhibit {
    pub fn read(name: &str) -> Result<MemoryExhibit, String> {
        let folder = folder().join(name);
        let path = folder.join("exhibit.toml");
        let text = exhibit::read(&path)?;
        let mut exhibit: MemoryExhibit =
            toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        exhibit.name = name.to_owned();
        exhibit.folder = folder;
        Ok(exhibit)
    }

    pub fn source(&self) -> PathBuf {
        self.folder.join("program.c")
    }

    /// The marks of the source and the numbers of their lines, counted from one.
    pub fn marked_lines(&self) -> Result<BTreeMap<String, Vec<u32>>, String> {
        exhibit::lines_marked(&self.source(), "mark")
    }

    pub fn has_mark_at(&self, mark: &str, line: u32) -> bool {
        self.marked_lines().is_ok_and(|lines| lines.get(mark).is_some_and(|numbers| numbers.contains(&line)))
    }

    /// Whether the mark is where a function returns, so that what fails there is the return.
    pub fn is_return(&self, mark: &str) -> Result<bool, String> {
        let text = exhibit::read(&self.source())?;
        let ending = format!("}} /* mark: {mark} */");
        Ok(text.lines().any(|line| line == ending))
    }

    /// How to build it and run it on an input.
    pub fn spec(&self, input: &Input, build: Build, level: Level) -> Result<Spec, String> {
        let mut spec = Spec::read(&self.source())?;
        spec.name = self.name.clone();
        spec.include = exhibit::folder();
        spec.crashes = true;
        spec.args = input.arguments.iter().map(|argument| repeated(argument)).collect::<Result<_, _>>()?;
        spec.stdin = Some(repeated(&input.stdin)?);
        for (name, text) in &input.files {
            spec.files.insert(name.clone(), repeated(text)?);
        }
        spec.compiler_flags.extend(FLAGS.map(str::to_owned));
        spec.compiler_flags.push(format!("-{level:?}"));
        match build {
            Build::Faulty => {}
            Build::Repaired => spec.compiler_flags.push("-DFIXED".to_owned()),
            Build::Sanitized => {
                spec.compiler_flags.push("-fsanitize=address".to_owned());
                spec.env.push(("ASAN_OPTIONS".to_owned(), "detect_leaks=0".to_owned()));
            }
        }
        Ok(spec)
    }

    /// What is wrong with the description itself.
    pub fn inconsistency(&self) -> Result<Option<String>, String> {
        let lines = self.marked_lines()?;
        let named = self.error.iter().chain(self.inputs.iter().flat_map(Input::marks));
        if let Some(unknown) = named.clone().find(|mark| !lines.contains_key(*mark)) {
            return Ok(Some(format!("there is no mark `{unknown}`")));
        }
        if let Some(idle) = lines.keys().find(|mark| !named.clone().any(|named| named == *mark)) {
            return Ok(Some(format!("exhibit.toml does not mention the mark `{idle}`")));
        }
        Ok(self.inputs.iter().find_map(Input::inconsistency))
    }
}

impl Input {
    /// How many executions, the failing one included, or layouts `why` may take.
    pub fn most_runs(&self) -> u32 {
        let published = if self.silent.is_some() { self.paper_reorderings } else { self.paper_executions };
        published.unwrap_or(FEWEST_RUNS)
    }

    fn marks(&self) -> impl Iterator<Item = &String> + Clone {
        let places = self.sanitizer.iter().filter_map(|sanitizer| sanitizer.at.as_ref());
        let named = self.chain.iter().chain([&self.guilty]);
        named.chain(&self.crash).chain(&self.later_crashes).chain(places)
    }

    fn inconsistency(&self) -> Option<String> {
        let fails = self.failure.is_some();
        if fails == self.silent.is_some() || fails != self.crash.is_some() {
            return Some(format!("{}: an input either fails at a mark or is silent", self.name));
        }
        let ends = (self.chain.first(), self.chain.last());
        if ends.0 != Some(&self.guilty) || (fails && ends.1 != self.crash.as_ref()) {
            return Some(format!("{}: the chain goes from the guilty mark to the crash", self.name));
        }
        None
    }
}

/// Replaces each `{TEXT*N}` by N times TEXT.
pub fn repeated(text: &str) -> Result<String, String> {
    let Some((before, rest)) = text.split_once('{') else {
        return Ok(text.to_owned());
    };
    let (group, after) = rest.split_once('}').ok_or_else(|| format!("`{{{rest}` has no end"))?;
    let (repeated_text, count) = group.rsplit_once('*').ok_or_else(|| format!("`{{{group}}}` has no number"))?;
    let count: usize = count.parse().map_err(|_| format!("`{count}` is no number"))?;
    Ok(format!("{before}{}{}", repeated_text.repeat(count), repeated(after)?))
}
