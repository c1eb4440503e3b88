//! `whodunit verify`: replay every process image of a recording and compare.

use crate::replay::refuse;
use crate::{pack, status};
use clap::Args;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use trace::Recording;

/// What the checking process says on its standard output when all was as recorded.
pub const AS_RECORDED: &str = "as recorded:";
/// What it says there when the run went another way; what way that was is on its standard error.
pub const ANOTHER_WAY: &str = "another way";

const AFTER_HELP: &str = "\
EXIT STATUS:
  0  every process ran as recorded
  1  some process went another way
  3  the recording cannot be replayed

EXAMPLES:
  whodunit verify latest";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The recording: a name that `whodunit ls` shows, a path, or `latest`
    #[arg(value_name = "REC")]
    recording: OsString,
}

/// What became of a process image that was replayed to be compared.
enum Verdict {
    AsRecorded {
        events: u64,
        switches: u64,
        calls: u64,
        /// How often memory was compared.
        looks: u64,
    },
    /// It was ended before its first event was written.
    NothingRecorded,
    /// With what was said about it.
    AnotherWay(String),
    NotPlayable(String),
}

/// Replays every process image and compares.
pub fn run(arguments: &Arguments) -> ExitCode {
    let recording = match pack::open(&arguments.recording) {
        Ok(recording) => recording,
        Err(problem) => return refuse(&problem),
    };
    pack::warn_of_processor(&recording);
    let mut exit = 0;
    for &log in recording.logs() {
        let (line, status) = match check(&recording, log) {
            Verdict::AsRecorded { events, switches, calls, looks } => {
                let figures = format!("{events} events, {switches} switches, {calls} system calls");
                (format!("as recorded: {figures}, memory compared {}", times(looks)), 0)
            }
            Verdict::NothingRecorded => ("nothing was recorded: it was ended before its first event".to_owned(), 0),
            Verdict::AnotherWay(problem) => (format!("NOT as recorded\n{problem}"), status::DIFFERENCE),
            Verdict::NotPlayable(problem) => (format!("cannot be replayed\n{problem}"), status::MACHINE),
        };
        exit = exit.max(status);
        // Whoever reads may have seen enough; the status is still told.
        let _ = writeln!(std::io::stdout(), "process {log}: {line}");
    }
    ExitCode::from(exit)
}

fn times(count: u64) -> String {
    match count {
        0 => "nowhere".to_owned(),
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

/// Replays one process image in a process of its own, which ends as the program did.
fn check(recording: &Recording, log: u32) -> Verdict {
    let is_first = recording.logs().first() == Some(&log);
    if !is_first && session::is_without_events(recording, log) {
        return Verdict::NothingRecorded;
    }
    let output = std::env::current_exe().and_then(|own| {
        let mut command = Command::new(own);
        command.args(["replay", "--check", "--quiet", "--process"]).arg(log.to_string()).arg(recording.folder());
        command.stdin(Stdio::null()).output()
    });
    let output = match output {
        Ok(output) => output,
        Err(error) => return Verdict::NotPlayable(error.to_string()),
    };
    let (said, text) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if let Some(figures) = said.strip_prefix(AS_RECORDED) {
        let mut numbers = figures.split_whitespace().map(|word| word.parse().unwrap_or(0));
        let [events, switches, calls, looks] = [(); 4].map(|()| numbers.next().unwrap_or(0));
        return Verdict::AsRecorded { events, switches, calls, looks };
    }
    let text = text.trim_end().to_owned();
    if said.starts_with(ANOTHER_WAY) { Verdict::AnotherWay(text) } else { Verdict::NotPlayable(text) }
}
