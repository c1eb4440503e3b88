//! What is said of suspects: who does what to which variable, and where.

use analysis::pairs::{Deed, End, Moment};
use std::collections::BTreeSet;
use trace::finding::{Place, Variable};

/// An end of a suspect's pairs.
#[derive(Clone, Copy)]
pub struct Part {
    pub end: End,
    /// When it came in the failing run, if it did.
    pub moment: Option<Moment>,
    /// Who makes it, here or in a passing run.
    pub thread: Option<u32>,
    pub address: u64,
}

impl Part {
    pub fn at(end: End, moment: Moment, address: u64) -> Part {
        Part { end, moment: Some(moment), thread: Some(moment.thread), address }
    }
}

/// How the parts of a charge belong together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The first comes right before the second.
    Follows,
    /// The second lies between two of a thread's.
    Between,
    /// The first should have come behind the second.
    Missing,
    /// Two or three pairs.
    Couple,
}

/// A part as people see it.
pub struct Shown {
    pub part: Part,
    pub stack: Vec<Place>,
    pub variable: Variable,
    /// `reads count`.
    pub text: String,
}

impl Shown {
    /// Where people look: the innermost function that is not the C library's.
    pub fn place(&self) -> Place {
        let is_own = |place: &&Place| {
            place.line.is_some() && place.module.as_deref().is_some_and(|module| !module.starts_with("libc.so"))
        };
        self.stack.iter().find(is_own).or(self.stack.first()).cloned().unwrap_or_default()
    }

    pub fn function(&self) -> String {
        let name = self.place().function.or_else(|| self.stack.iter().find_map(|place| place.function.clone()));
        match (self.part.moment, name) {
            (Some(moment), Some(name)) => format!("thread {} in {name}", moment.thread),
            (Some(moment), None) => format!("thread {}", moment.thread),
            (None, Some(name)) => name,
            (None, None) => format!("{:#x}", self.part.end.pc),
        }
    }

    pub fn name(&self) -> String {
        self.variable.name.clone().or_else(|| self.variable.text.clone()).unwrap_or_else(|| "memory".to_owned())
    }
}

pub fn verb(deed: Deed) -> &'static str {
    match deed {
        Deed::Read => "reads",
        Deed::Write => "writes",
    }
}

/// `queue.c:41`, as short as it goes.
pub fn at(place: &Place) -> String {
    let file = place.file.as_deref().and_then(std::path::Path::file_name);
    match (file, place.line) {
        (Some(file), Some(line)) => format!("{}:{line}", file.to_string_lossy()),
        _ => place.function.clone().unwrap_or_default(),
    }
}

pub fn title(form: Form, shown: &[Shown]) -> String {
    let (who, what): (Vec<String>, Vec<String>) = shown.iter().map(|part| (part.function(), part.name())).unzip();
    let deed = |number: usize| verb(shown[number].part.end.deed);
    match form {
        Form::Follows => format!("{} {} {}, then {} {} it", who[0], deed(0), what[0], who[1], deed(1)),
        Form::Between => {
            format!("{} {} {} between two accesses of {}", who[1], deed(1), what[1], who[0])
        }
        Form::Missing => {
            format!("{} {} {} before {} {} it", who[0], deed(0), what[0], who[1], deed(1))
        }
        Form::Couple => {
            let variables: BTreeSet<&String> = what.iter().collect();
            let threads: BTreeSet<&String> = who.iter().collect();
            format!("accesses to {} of {} lie between each other", listed(&variables), listed(&threads))
        }
    }
}

/// `a, b and c`
fn listed(words: &BTreeSet<&String>) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.as_str()).collect();
    match &words[..] {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => words.join(""),
    }
}
