//! Suppression files: what a user does not want to hear of, in the form that ThreadSanitizer reads.
//!
//! ```text
//! # The statistics are only approximate.
//! race:stats::count
//! race_top:^legacy_*
//! race:third_party/fast.c$
//! deadlock:Logger::flush
//! called_from_lib:libnoisy.so
//! ```
//!
//! A line is a kind, a colon and a pattern. A pattern matches anywhere in a name; `^` and `$` at its ends tie it to those
//! of the name, and `*` stands for any text. Names are those of functions, source files and modules.

use std::fmt;

/// What a suppression is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A race, with the pattern anywhere in one of its stacks.
    Race,
    /// A race, with the pattern in the innermost function of one of its stacks.
    RaceTop,
    /// A deadlock, or an order of locks that may become one.
    Deadlock,
    /// Anything done by functions that a module calls.
    CalledFromLib,
}

impl Kind {
    const ALL: [(&str, Kind); 4] = [
        ("race", Kind::Race),
        ("race_top", Kind::RaceTop),
        ("deadlock", Kind::Deadlock),
        ("called_from_lib", Kind::CalledFromLib),
    ];
}

/// Kinds of ThreadSanitizer for findings that are not made here. Their lines are read and have no effect.
const WITHOUT_EFFECT: [&str; 3] = ["mutex", "thread", "signal"];

/// What is known of a function on a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Frame<'a> {
    pub function: &'a str,
    pub file: &'a str,
    pub module: &'a str,
}

/// One line of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suppression {
    pub kind: Kind,
    pub pattern: Pattern,
    /// Where it stands, from 1.
    pub line: usize,
}

impl Suppression {
    /// Whether the stack, innermost function first, is one that the line speaks of.
    fn matches(&self, stack: &[Frame<'_>]) -> bool {
        let any_name = |frame: &Frame<'_>| {
            [frame.function, frame.file, frame.module].iter().any(|name| self.pattern.matches(name))
        };
        match self.kind {
            Kind::Race | Kind::Deadlock => stack.iter().any(any_name),
            Kind::RaceTop => stack.first().is_some_and(any_name),
            Kind::CalledFromLib => stack.iter().skip(1).any(|frame| self.pattern.matches(frame.module)),
        }
    }
}

/// All lines of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Suppressions {
    suppressions: Vec<Suppression>,
}

impl Suppressions {
    pub fn parse(text: &str) -> Result<Suppressions, Malformed> {
        let mut suppressions = Vec::new();
        for (index, line) in text.lines().enumerate() {
            suppressions.extend(parse_line(index + 1, line.trim())?);
        }
        Ok(Suppressions { suppressions })
    }

    /// The first line that speaks of a race with these stacks, innermost functions first.
    pub fn of_race(&self, stacks: &[&[Frame<'_>]]) -> Option<&Suppression> {
        self.find(&[Kind::Race, Kind::RaceTop, Kind::CalledFromLib], stacks)
    }

    /// The first line that speaks of a deadlock with these stacks, innermost functions first.
    pub fn of_deadlock(&self, stacks: &[&[Frame<'_>]]) -> Option<&Suppression> {
        self.find(&[Kind::Deadlock, Kind::CalledFromLib], stacks)
    }

    fn find(&self, kinds: &[Kind], stacks: &[&[Frame<'_>]]) -> Option<&Suppression> {
        let mut of_kind = self.suppressions.iter().filter(|suppression| kinds.contains(&suppression.kind));
        of_kind.find(|suppression| stacks.iter().any(|stack| suppression.matches(stack)))
    }
}

fn parse_line(line: usize, text: &str) -> Result<Option<Suppression>, Malformed> {
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let malformed = |problem| Malformed { line, text: text.to_owned(), problem };
    let (kind, pattern) = text.split_once(':').ok_or_else(|| malformed(Problem::NoColon))?;
    if WITHOUT_EFFECT.contains(&kind) {
        return Ok(None);
    }
    let known = Kind::ALL.iter().find(|(name, _)| *name == kind);
    let (_, kind) = known.ok_or_else(|| malformed(Problem::UnknownKind(kind.to_owned())))?;
    let pattern = Pattern::new(pattern).ok_or_else(|| malformed(Problem::NoPattern))?;
    Ok(Some(Suppression { kind: *kind, pattern, line }))
}

/// A pattern of names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    at_start: bool,
    at_end: bool,
    /// What lies between the asterisks, in order.
    pieces: Vec<String>,
}

impl Pattern {
    /// Nothing if there is nothing to look for.
    pub fn new(text: &str) -> Option<Pattern> {
        let (at_start, rest) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let (at_end, rest) = rest.strip_suffix('$').map_or((false, rest), |rest| (true, rest));
        let pieces = rest.split('*').map(str::to_owned).collect();
        (!rest.is_empty()).then_some(Pattern { at_start, at_end, pieces })
    }

    /// Each piece is taken at its first place after the one before, which leaves the most room for the others. A last
    /// piece that is tied to the end is looked for there instead.
    pub fn matches(&self, name: &str) -> bool {
        let [first, rest @ ..] = self.pieces.as_slice() else { return false };
        let (middle, last) = match rest {
            [middle @ .., last] if self.at_end => (middle, Some(last)),
            _ => (rest, None),
        };
        let Some(after_first) = self.after_first(first, name) else { return false };
        let after_all = middle.iter().try_fold(after_first, |left, piece| after(piece, left));
        after_all.is_some_and(|left| last.is_none_or(|last| left.ends_with(last.as_str())))
    }

    /// What is left of a name behind the first piece.
    fn after_first<'a>(&self, piece: &str, name: &'a str) -> Option<&'a str> {
        let is_only_piece = self.pieces.len() == 1;
        match (self.at_start, self.at_end && is_only_piece) {
            (true, true) => (name == piece).then_some(""),
            (true, false) => name.strip_prefix(piece),
            (false, true) => name.ends_with(piece).then_some(""),
            (false, false) => after(piece, name),
        }
    }
}

fn after<'a>(piece: &str, text: &'a str) -> Option<&'a str> {
    text.find(piece).map(|index| &text[index + piece.len()..])
}

/// A line that is no suppression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// From 1.
    pub line: usize,
    pub text: String,
    pub problem: Problem,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    NoColon,
    UnknownKind(String),
    NoPattern,
}

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Malformed { line, text, problem } = self;
        match problem {
            Problem::NoColon => write!(
                out,
                "line {line}: `{text}` has no colon; write a kind and a pattern, as in `race:function_name`, or `#` before a comment"
            ),
            Problem::UnknownKind(kind) => {
                let known: Vec<&str> = Kind::ALL.iter().map(|(name, _)| *name).collect();
                write!(out, "line {line}: `{kind}` is no kind of suppression; use one of {}", known.join(", "))
            }
            Problem::NoPattern => {
                write!(out, "line {line}: `{text}` has no pattern; name a function, file or module after the colon")
            }
        }
    }
}

impl std::error::Error for Malformed {}
