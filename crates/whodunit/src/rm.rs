//! `whodunit rm`: removes recordings, and nothing but recordings.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use trace::{OpenError, Recording, Store, StoreError, Summary, Unopened};

use crate::recordings::text::{count, escaped, size};
use crate::recordings::{Trouble, conclude, name_of, print, say_refusal};
use crate::status;

const AFTER_HELP: &str = "\
A recording that is still being made is not removed, nor is a folder with anything else in it.

EXAMPLES:
  whodunit rm server-3
  whodunit rm latest ./recordings/crash
  whodunit rm --older-than 7d --dry-run";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Recordings: names, paths, or `latest`
    #[arg(value_name = "REC", required_unless_present_any = ["all", "older_than"],
          conflicts_with_all = ["all", "older_than"])]
    recordings: Vec<OsString>,

    /// Remove all recordings of the store
    #[arg(long)]
    all: bool,

    /// Remove the recordings of the store that were begun longer ago than this: 90s, 30m, 12h, 7d or 2w
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    older_than: Option<Duration>,

    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

pub fn run(arguments: Arguments) -> ExitCode {
    match remove(&arguments) {
        Ok(Tally { refused: 1.., .. }) => ExitCode::from(status::MACHINE),
        other => conclude(other.map(|_| ())),
    }
}

#[derive(Default)]
struct Tally {
    removed: usize,
    bytes: u64,
    refused: usize,
}

/// What cannot be removed does not keep the others from it.
fn remove(arguments: &Arguments) -> Result<Tally, Trouble> {
    let store = Store::from_environment()?;
    let mut tally = Tally::default();
    for target in distinct(targets(&store, arguments)?) {
        match target.and_then(|folder| remove_one(&store, &folder, arguments.dry_run)) {
            Ok((name, bytes)) => {
                tally.removed += 1;
                tally.bytes = tally.bytes.saturating_add(bytes);
                let verb = if arguments.dry_run { "would remove" } else { "removed" };
                print(&format!("{verb} {}: {}\n", escaped(&name), size(bytes)))?;
            }
            Err(sentence) => {
                tally.refused += 1;
                say_refusal(&sentence);
            }
        }
    }
    print(&summary(&tally, arguments.dry_run))?;
    Ok(tally)
}

/// All names are looked up before anything is removed: `latest` means what it meant when it was typed, and what was named
/// twice is removed once.
fn distinct(targets: Vec<Target>) -> Vec<Target> {
    let mut seen = BTreeSet::new();
    let folders = targets.into_iter().map(|target| target.and_then(|folder| canonical(&folder)));
    folders.filter(|target| target.as_ref().map_or(true, |folder| seen.insert(folder.clone()))).collect()
}

/// A folder, or why there is none.
type Target = Result<PathBuf, String>;

fn targets(store: &Store, arguments: &Arguments) -> Result<Vec<Target>, Trouble> {
    if !arguments.all && arguments.older_than.is_none() {
        return Ok(arguments.recordings.iter().map(|argument| find(store, argument)).collect());
    }
    let now = SystemTime::now();
    let age_of = |summary: &Summary| now.duration_since(summary.started).unwrap_or_default();
    let is_old = |summary: &Summary| arguments.older_than.is_none_or(|limit| age_of(summary) > limit);
    Ok(store.list()?.into_iter().filter(is_old).map(|summary| Ok(summary.folder)).collect())
}

/// Other verbs take a program's name for its newest recording. Where something is lost for good, that is too little.
fn find(store: &Store, argument: &OsStr) -> Target {
    let folder = store.resolve(argument).map_err(|error| error.to_string())?;
    let is_path = argument.as_encoded_bytes().contains(&b'/');
    let is_name = store.root().join(argument).is_dir();
    if is_path || is_name || folder.parent() != Some(store.root()) {
        return Ok(folder);
    }
    let newest = folder.file_name().unwrap_or_default().to_string_lossy();
    Err(format!(
        "`{}` is a program and not one recording; name the recording, such as {newest}, its newest",
        argument.to_string_lossy()
    ))
}

fn canonical(folder: &Path) -> Target {
    fs::canonicalize(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => OpenError { path: folder.to_owned(), why: Unopened::Missing }.to_string(),
        _ => OpenError { path: folder.to_owned(), why: Unopened::Unreadable(error) }.to_string(),
    })
}

fn remove_one(store: &Store, folder: &Path, dry_run: bool) -> Result<(String, u64), String> {
    let name = name_of(store, folder);
    let result = if dry_run { look_at(folder) } else { store.remove(folder) };
    result.map(|bytes| (name, bytes)).map_err(|error| error.to_string())
}

/// What [`Store::remove`] would say, but for a folder with other things in it.
fn look_at(folder: &Path) -> Result<u64, StoreError> {
    use Unopened::{DamagedHeader, Empty, Newer};
    match Recording::open(folder) {
        Ok(recording) if recording.is_live() => Err(StoreError::Live { folder: folder.to_owned() }),
        Ok(_) => Ok(Summary::of(folder).size),
        // Recordings all the same, if of no use; the path is that of a log.
        Err(OpenError { why: DamagedHeader | Empty | Newer(_), path }) if path != folder => {
            Ok(Summary::of(folder).size)
        }
        Err(error) => Err(StoreError::Open(error)),
    }
}

fn summary(tally: &Tally, dry_run: bool) -> String {
    let (recordings, bytes) = (count(tally.removed, "recording"), size(tally.bytes));
    match (tally.removed, dry_run) {
        (0, _) if tally.refused > 0 => String::new(),
        (0, _) => "nothing to remove\n".to_owned(),
        (_, true) => format!("{recordings}, {bytes} would be freed\n"),
        (_, false) => format!("{recordings}, {bytes} freed\n"),
    }
}

fn parse_age(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 5] = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 604_800)];
    let parse = |(unit, seconds): &(&str, u64)| {
        let digits = text.strip_suffix(unit)?;
        let number: u64 = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        number.checked_mul(*seconds).map(Duration::from_secs)
    };
    UNITS.iter().find_map(parse).ok_or_else(|| "a number and s, m, h, d or w, such as 7d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        let seconds = |text| parse_age(text).ok().map(|age| age.as_secs());
        assert_eq!(["90s", "30m", "12h", "7d", "2w"].map(seconds), [90, 1800, 43_200, 604_800, 1_209_600].map(Some));
        assert_eq!(["", "7", "d", "-1d", "+1d", "1.5d", "7 d", "99999999999999999w"].map(seconds), [None; 8]);
    }
}
