//! `whodunit __exec SETTINGS -- PATH ARGV0 ARGV1…`: a program that a guest has executed, run like the guest itself.
//!
//! Not for people. Guests execute programs all the time, so the words are taken apart by hand, which is much faster
//! than the general parser.

use crate::settings::{Cpu, Settings};
use crate::start::{RECORDED, Recording, Start};
use crate::{environment, usage_error, voice};
use clap::ValueEnum;
use engine::{FILTER, Observation, Program, Switching};
use session::Limits;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use trace::NewLog;
use trace::format::{TAIL_SIZE, tail_name};

/// `words` are those after the verb.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    match parse(words) {
        Some(Followed { settings, place, filters, path, arguments }) => {
            let program = Program { path, arguments, environment: environment::entries() };
            let observation = Observation::Nothing;
            let recording = place.and_then(|place| open(&place));
            let (stats, count, events) = (None, None, None);
            // Points are addresses in another program.
            let switching = Switching::default();
            Start { program, settings, follow: true, stats, count, events, observation, switching, recording, filters }
                .go()
        }
        None => usage_error("__exec is for whodunit's own use; try: whodunit run --help"),
    }
}

/// What the words say.
struct Followed {
    settings: Settings,
    place: Option<Place>,
    filters: Vec<Vec<u8>>,
    path: OsString,
    /// A program may well be executed without any argument, not even its name.
    arguments: Vec<OsString>,
}

fn parse(mut words: impl Iterator<Item = OsString>) -> Option<Followed> {
    let settings = Settings::decode(words.next()?.to_str()?)?;
    let mut word = words.next()?;
    let mut place = None;
    if let Some(rest) = word.as_bytes().strip_prefix(RECORDED.as_bytes()) {
        place = Some(Place::decode(rest)?);
        word = words.next()?;
    }
    let mut filters = Vec::new();
    while let Some(filter) = word.as_bytes().strip_prefix(FILTER) {
        filters.push(filter.to_vec());
        word = words.next()?;
    }
    (word == "--").then_some(())?;
    Some(Followed { settings, place, filters, path: words.next()?, arguments: words.collect() })
}

/// Where a followed program is recorded.
struct Place {
    parent: (u32, u64),
    /// The parent's log has ended, and its tail is empty.
    is_sealed: bool,
    streams: Vec<(i32, u8)>,
    limits: Limits,
    cpu: Cpu,
    folder: PathBuf,
}

impl Place {
    fn decode(word: &[u8]) -> Option<Place> {
        let mut fields = word.splitn(9, |byte| *byte == b':');
        let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse::<u64>().ok();
        let (log, event, sealed, bytes, seconds) = (number()?, number()?, number()?, number()?, number()?);
        let full = u8::try_from(number()?).ok()?;
        let limits = Limits {
            bytes: Some(bytes).filter(|bytes| *bytes > 0),
            time: Some(seconds).filter(|seconds| *seconds > 0).map(Duration::from_secs),
            status_when_full: Some(full).filter(|status| *status > 0),
        };
        let cpu = Cpu::from_str(std::str::from_utf8(fields.next()?).ok()?, false).ok()?;
        let streams = streams(std::str::from_utf8(fields.next()?).ok()?)?;
        let folder = PathBuf::from(OsStr::from_bytes(fields.next()?));
        Some(Place { parent: (u32::try_from(log).ok()?, event), is_sealed: sealed == 1, streams, limits, cpu, folder })
    }
}

/// Pairs of a descriptor and the stream that it leads to.
fn streams(text: &str) -> Option<Vec<(i32, u8)>> {
    let pair = |pair: &str| {
        let (descriptor, stream) = pair.split_once('=')?;
        Some((descriptor.parse().ok()?, stream.parse().ok()?))
    };
    text.split(',').filter(|pair| !pair.is_empty()).map(pair).collect()
}

/// Makes the program's log; without one it runs unrecorded.
fn open(place: &Place) -> Option<Recording> {
    let recording = trace::Recording::open(&place.folder).ok()?;
    let id = recording.log(place.parent.0).ok()?.header().id.recording;
    if place.is_sealed {
        let _ = std::fs::remove_file(place.folder.join(tail_name(place.parent.0)));
    }
    match NewLog::create(&place.folder, id, TAIL_SIZE) {
        Ok(log) => {
            let folder = place.folder.clone();
            let streams = place.streams.clone();
            let (limits, cpu) = (place.limits, place.cpu);
            Some(Recording { folder, log, parent: Some(place.parent), streams, limits, cpu, branches: None })
        }
        Err(error) => {
            voice::say(&format!("whodunit: a child process is not recorded: {error}\n"));
            None
        }
    }
}
