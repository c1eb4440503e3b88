//! `whodunit __exec SETTINGS -- PATH ARGV0 ARGV1…`: a program that a guest has executed, run like the guest itself.
//!
//! Not for people. Guests execute programs all the time, so the words are taken apart by hand, which is much faster
//! than the general parser.

use crate::settings::Settings;
use crate::start::Start;
use crate::{environment, usage_error};
use engine::{Observation, Program};
use std::ffi::OsString;
use std::process::ExitCode;

/// `words` are those after the verb.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    match parse(words) {
        Some((settings, path, arguments)) => {
            let program = Program { path, arguments, environment: environment::entries() };
            let observation = Observation::Nothing;
            Start { program, settings, follow: true, stats: None, count: None, events: None, observation }.go()
        }
        None => usage_error("__exec is for whodunit's own use; try: whodunit run --help"),
    }
}

/// A program may well be executed without any argument, not even its name.
fn parse(mut words: impl Iterator<Item = OsString>) -> Option<(Settings, OsString, Vec<OsString>)> {
    let settings = Settings::decode(words.next()?.to_str()?)?;
    (words.next()? == "--").then_some(())?;
    Some((settings, words.next()?, words.collect()))
}
