//! Tells whether two runs look the same from outside, and if not, in words that show where they part.

use std::fmt::Write;

use super::execute::{Ending, Outcome};

/// Nothing, or what differs between the native run and the run under the engine.
pub fn difference(native: &Outcome, engine: &Outcome) -> Option<String> {
    let mut text = String::new();
    if native.ending != engine.ending {
        let _ = writeln!(
            text,
            "  ended differently: native {}, engine {}",
            describe(native.ending),
            describe(engine.ending)
        );
    }
    for (name, native_bytes, engine_bytes) in
        [("stdout", &native.stdout, &engine.stdout), ("stderr", &native.stderr, &engine.stderr)]
    {
        if native_bytes != engine_bytes {
            text.push_str(&first_difference(name, native_bytes, engine_bytes));
        }
    }
    // What the engine had to say is the best lead when the output has not changed its course by itself.
    if !text.is_empty() && engine.stderr == native.stderr && !engine.stderr.is_empty() {
        let _ = writeln!(text, "  stderr: {}", shown(&engine.stderr));
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

fn first_difference(name: &str, native: &[u8], engine: &[u8]) -> String {
    let native_lines: Vec<&[u8]> = native.split_inclusive(|byte| *byte == b'\n').collect();
    let engine_lines: Vec<&[u8]> = engine.split_inclusive(|byte| *byte == b'\n').collect();
    let same = native_lines.iter().zip(&engine_lines).take_while(|(left, right)| left == right).count();
    let line = |lines: &[&[u8]]| lines.get(same).map_or("(end of output)".to_owned(), |line| shown(line));
    format!(
        "  {name} differs from line {} on (native {} lines, engine {}):\n    native: {}\n    engine: {}\n",
        same + 1,
        native_lines.len(),
        engine_lines.len(),
        line(&native_lines),
        line(&engine_lines)
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
