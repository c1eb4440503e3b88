//! `whodunit show`: what a recording holds.

mod calls;
mod checksums;
mod events;
mod failure;
mod files;
mod image;
mod mappings;
mod overview;
mod processes;
mod recorded;
mod schedule;
mod tally;

use std::ffi::OsString;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use trace::{Ending, Log, Recording, State, Store};

use crate::pack;
use crate::recordings::{Trouble, conclude, name_of};
use files::Files;
use image::Image;
pub use mappings::Mappings;
pub use recorded::{Recorded, recorded};

const AFTER_HELP: &str = "\
REC is a recording's name, a program's name (its newest recording), `latest`, or a path.

EXIT STATUS:
  2  the command line is wrong
  3  the recording cannot be read, or only a part of it

EXAMPLES:
  whodunit show latest
  whodunit show server-3 --process 2 --events 100..200
  whodunit show latest --schedule
  whodunit show latest --files";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The recording
    #[arg(value_name = "REC")]
    recording: OsString,

    /// Only this process, or program that a process executed, by the number that `show` gives it
    #[arg(long, value_name = "N")]
    process: Option<u32>,

    /// Every event on a line, or those with the numbers FROM to TO; of process 1 unless --process tells another
    #[arg(long, value_name = "FROM..TO", num_args = 0..=1, default_missing_value = "..", conflicts_with = "schedule")]
    events: Option<Range>,

    /// Every turn of a thread, with the clock from which to which it ran and why it stopped
    #[arg(long)]
    schedule: bool,

    /// Every file that was mapped, with its checksum and build id
    #[arg(long, conflicts_with_all = ["events", "schedule"])]
    files: bool,

    /// Write JSON: one object, or with --events, --schedule and --files one a line
    #[arg(long)]
    json: bool,
}

/// Numbers of events, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u64,
    last: u64,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Range, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let number = |text: &str, missing: u64| match text {
            "" => Ok(missing),
            digits => digits.parse().map_err(|_| {
                "two numbers, such as 100..200, either of which may be left out; for all events put REC first"
                    .to_owned()
            }),
        };
        let range = Range { first: number(first, 0)?, last: number(last, u64::MAX)? };
        match range.first <= range.last && !text.is_empty() {
            true => Ok(range),
            false => Err("the first number must not be above the last".to_owned()),
        }
    }
}

pub fn run(arguments: Arguments) -> ExitCode {
    conclude(show(&arguments))
}

fn show(arguments: &Arguments) -> Result<(), Trouble> {
    let recording = pack::open(&arguments.recording).map_err(Trouble::Refused)?;
    let folder = recording.folder();
    let name = Store::from_environment().map_or_else(|_| folder.display().to_string(), |store| name_of(&store, folder));
    let number = arguments.process;
    if let Some(unknown) = number.filter(|number| !recording.logs().contains(number)) {
        return Err(Trouble::Refused(format!(
            "{name} has no process {unknown}; `whodunit show {name}` lists those it has"
        )));
    }
    if let Some(range) = arguments.events {
        let log = recording.log(number.unwrap_or(1))?;
        let ending = events::write(&log, range, arguments.json)?;
        return check_ending(&name, ending);
    }
    if arguments.schedule {
        let log = recording.log(number.unwrap_or(1))?;
        let ending = schedule::write(&log, is_live(&recording, &log), arguments.json)?;
        return check_ending(&name, ending);
    }
    if arguments.files {
        return show_files(&name, &recording, number, arguments.json);
    }
    let images: Vec<Image> = image::read_all(&recording);
    overview::write(&overview::Scope { name: &name, recording: &recording, images: &images, number }, arguments.json)?;
    check_images(&name, &images)
}

/// Of all process images, or of one. What can be read is shown before the rest is complained about.
fn show_files(name: &str, recording: &Recording, number: Option<u32>, as_json: bool) -> Result<(), Trouble> {
    let mut files = Files::default();
    let mut result = Ok(());
    for &log in recording.logs().iter().filter(|log| number.is_none_or(|number| number == **log)) {
        let ending = recording.log(log).map(|log| files.add(&log));
        result = result.and(ending.map_err(Trouble::from).and_then(|ending| check_ending(name, ending)));
    }
    files.write(as_json)?;
    result
}

fn is_live(recording: &Recording, log: &Log) -> bool {
    recording.is_log_live(log.header().id.log)
}

/// All that can be read was shown; that it is not all must not go unnoticed.
fn check_images(name: &str, images: &[Image]) -> Result<(), Trouble> {
    for image in images {
        match &image.state {
            State::Damaged(damage) => return check_ending(name, Ending::Damaged(*damage)),
            State::Unreadable(error) => return Err(Trouble::Refused(error.to_string())),
            _ => {}
        }
    }
    Ok(())
}

fn check_ending(name: &str, ending: Ending) -> Result<(), Trouble> {
    match ending {
        Ending::Damaged(_) => Err(Trouble::Refused(format!(
            "{name} is {ending}; take a copy of the recording if there is one, or record again for the rest"
        ))),
        Ending::Whole | Ending::Cut => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let range = |text: &str| text.parse::<Range>().ok().map(|range| (range.first, range.last));
        assert_eq!(range("3..7"), Some((3, 7)));
        assert_eq!(["..", "3..", "..7", "5"].map(range), [(0, u64::MAX), (3, u64::MAX), (0, 7), (5, 5)].map(Some));
        assert_eq!(["", "7..3", "a..b", "1..2..3", "-1.."].map(range), [None; 5]);
    }
}
