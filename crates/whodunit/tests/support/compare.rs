//! Tells whether two runs look the same from outside, and if not, in words that show where they part.

use std::fmt::Write;

use super::execute::{Ending, Outcome};

/// A run and what to call it.
pub struct Named<'a>(pub &'a str, pub &'a Outcome);

/// Nothing, or what differs between two runs.
pub fn difference(left: Named, right: Named) -> Option<String> {
    let mut text = String::new();
    if left.1.ending != right.1.ending {
        let _ = writeln!(
            text,
            "  ended differently: {} {}, {} {}",
            left.0,
            describe(left.1.ending),
            right.0,
            describe(right.1.ending)
        );
    }
    for (stream, left_bytes, right_bytes) in
        [("stdout", &left.1.stdout, &right.1.stdout), ("stderr", &left.1.stderr, &right.1.stderr)]
    {
        if left_bytes != right_bytes {
            text.push_str(&first_difference(stream, (left.0, left_bytes), (right.0, right_bytes)));
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Lines in which the program itself says that it did not get what it checks for.
pub fn own_complaints(outcome: &Outcome) -> Vec<String> {
    String::from_utf8_lossy(&outcome.stdout)
        .lines()
        .filter(|line| line.starts_with("FAIL"))
        .map(str::to_owned)
        .collect()
}

fn first_difference(stream: &str, left: (&str, &[u8]), right: (&str, &[u8])) -> String {
    let left_lines: Vec<&[u8]> = left.1.split_inclusive(|byte| *byte == b'\n').collect();
    let right_lines: Vec<&[u8]> = right.1.split_inclusive(|byte| *byte == b'\n').collect();
    let n_same = left_lines.iter().zip(&right_lines).take_while(|(left, right)| left == right).count();
    let line = |lines: &[&[u8]]| lines.get(n_same).map_or("(end of output)".to_owned(), |line| shown(line));
    format!(
        "  {stream} differs from line {} on ({} {} lines, {} {}):\n    {}: {}\n    {}: {}\n",
        n_same + 1,
        left.0,
        left_lines.len(),
        right.0,
        right_lines.len(),
        left.0,
        line(&left_lines),
        right.0,
        line(&right_lines)
    )
}

fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 400;
    let cut = &bytes[..bytes.len().min(LONGEST)];
    let dots = if bytes.len() > LONGEST { "…" } else { "" };
    format!("{}{dots}", cut.escape_ascii())
}

pub fn describe(ending: Ending) -> String {
    match ending {
        Ending::Exited(code) => format!("exit status {code}"),
        Ending::Killed(signal) => format!("killed by signal {signal}"),
        Ending::TimedOut(limit) => format!("still running after {} s", limit.as_secs()),
    }
}
