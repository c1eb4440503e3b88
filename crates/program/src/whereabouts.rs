//! How people say where: an address, a variable, or an expression at a line or in a function.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use crate::evaluate::{EvaluationError, Target};
use crate::expression::{Expression, SyntaxError, parse_number};
use crate::nearest::offer;
use crate::space::GuestAddress;

/// Where something is, as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// `0xADDRESS` or `0xADDRESS:LENGTH`.
    Address { address: GuestAddress, length: Option<u64> },
    /// An expression over globals: `counter`, `table[3].next`; also `symbol+OFFSET`.
    Variable { expression: Expression, offset: Option<u64> },
    /// `file.c:LINE:EXPRESSION`. The file may be given with as many of its folders as make it unique.
    Line { file: PathBuf, line: u32, expression: Expression },
    /// `function:EXPRESSION`.
    Function { function: String, expression: Expression },
}

impl Where {
    pub fn parse(text: &str) -> Result<Where, SyntaxError> {
        let expected = |position, expected| SyntaxError { text: text.to_owned(), position, expected };
        let colons = single_colons(text);
        match *colons.as_slice() {
            _ if text.starts_with("0x") => parse_address(text),
            [] => parse_variable(text),
            [colon] if text[colon + 1..].parse::<u32>().is_ok() => Err(expected(text.len(), "`:` and an expression")),
            [colon] => {
                let expression = Expression::parse(&text[colon + 1..])?;
                Ok(Where::Function { function: text[..colon].trim().to_owned(), expression })
            }
            [.., first, second] => {
                let line = text[first + 1..second].trim().parse().ok().filter(|line| *line != 0);
                let line = line.ok_or_else(|| expected(first + 1, "a line number"))?;
                let expression = Expression::parse(&text[second + 1..])?;
                Ok(Where::Line { file: text[..first].into(), line, expression })
            }
        }
    }
}

/// Colons that are not part of `::`.
fn single_colons(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let is_colon = |position: usize| bytes.get(position) == Some(&b':');
    let single = |position: &usize| {
        is_colon(*position) && !is_colon(position + 1) && !position.checked_sub(1).is_some_and(is_colon)
    };
    (0..bytes.len()).filter(single).collect()
}

fn parse_address(text: &str) -> Result<Where, SyntaxError> {
    let (address, length) = text.split_once(':').map_or((text, None), |(address, length)| (address, Some(length)));
    let expected = |position, expected| SyntaxError { text: text.to_owned(), position, expected };
    let length = match length {
        None => None,
        Some(length) => {
            let number = parse_number(length).filter(|length| *length > 0);
            Some(number.ok_or_else(|| expected(address.len() + 1, "a length in bytes"))?)
        }
    };
    let address = parse_number(address).ok_or_else(|| expected(0, "an address"))?;
    Ok(Where::Address { address: GuestAddress(address), length })
}

fn parse_variable(text: &str) -> Result<Where, SyntaxError> {
    let Some((symbol, offset)) = text.split_once('+') else {
        return Ok(Where::Variable { expression: Expression::parse(text)?, offset: None });
    };
    let position = symbol.len() + 1;
    let number = parse_number(offset.trim());
    let offset = number.ok_or(SyntaxError { text: text.to_owned(), position, expected: "a number of bytes" })?;
    Ok(Where::Variable { expression: Expression::parse(symbol)?, offset: Some(offset) })
}

/// Code, and what an expression names there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The code that was asked about; `None` for what does not depend on code. A thread is there if its pc is in here.
    pub code: Option<Range<GuestAddress>>,
    /// The function that the code belongs to.
    pub function: Option<String>,
    /// [`EvaluationError::NeedsFrame`] for a local of which nothing else is wrong: it can be told when a thread is there.
    pub target: Result<Target, EvaluationError>,
}

/// Why nothing is where somebody says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhereError {
    /// No file of that name is part of the program, as far as debug information tells.
    NoFile {
        file: PathBuf,
    },
    /// The nearest lines with code are given.
    NoCode {
        file: PathBuf,
        line: u32,
        nearest: Vec<u32>,
    },
    NoFunction {
        name: String,
        nearest: Vec<String>,
    },
    Evaluation(EvaluationError),
}

impl fmt::Display for WhereError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhereError::NoFile { file } => {
                write!(formatter, "no debug information names the source file `{}`", file.display())
            }
            WhereError::NoCode { file, line, nearest } => {
                let lines: Vec<String> = nearest.iter().map(u32::to_string).collect();
                write!(formatter, "{}:{line} has no code; ", file.display())?;
                write!(formatter, "the nearest lines with code: {}", lines.join(", "))
            }
            WhereError::NoFunction { name, nearest } => {
                write!(formatter, "there is no function `{name}`{}", offer(nearest))
            }
            WhereError::Evaluation(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for WhereError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Expression {
        Expression::Name(text.to_owned())
    }

    #[test]
    fn every_form_is_read() {
        let address = GuestAddress(0x4010);
        let cases = [
            ("0x4010", Where::Address { address, length: None }),
            ("0x4010:8", Where::Address { address, length: Some(8) }),
            ("counter", Where::Variable { expression: name("counter"), offset: None }),
            ("a::b", Where::Variable { expression: name("a::b"), offset: None }),
            ("table+0x10", Where::Variable { expression: name("table"), offset: Some(16) }),
            ("src/list.c:12:head", Where::Line { file: "src/list.c".into(), line: 12, expression: name("head") }),
            ("a::b:c::d", Where::Function { function: "a::b".to_owned(), expression: name("c::d") }),
        ];
        for (text, expected) in cases {
            assert_eq!(Where::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_place_is_told() {
        let complaint = |text: &str| Where::parse(text).unwrap_err().to_string();
        assert_eq!(complaint("list.c:12"), "`list.c:12` ends where `:` and an expression is expected");
        assert_eq!(complaint("list.c:x:a"), "`list.c:x:a` has `x:a` where a line number is expected");
        assert_eq!(complaint("0x10:0"), "`0x10:0` has `0` where a length in bytes is expected");
        assert_eq!(complaint("0xzz"), "`0xzz` has `0xzz` where an address is expected");
        assert_eq!(complaint("a+b"), "`a+b` has `b` where a number of bytes is expected");
    }
}
