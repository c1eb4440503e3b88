//! `whodunit __hunt ORDER PATH ARGV0 ARGV1…`: one schedule of a program, recorded. Not for people.

use super::order::Order;
use super::witness::Witness;
use crate::settings::{DEFAULT_CACHE, DEFAULT_QUANTUM, OnDeadlock, PolicyName, Settings};
use crate::start::{Recording, Start};
use crate::{environment, record, run, status, usage_error, voice};
use engine::{Observation, PrivateFile, Program, Switching, Wanted};
use session::Limits;
use std::ffi::OsString;
use std::process::ExitCode;
use trace::format::TAIL_SIZE;
use trace::{NewRecording, Store};

/// `words` are those after the verb.
pub fn run_one(words: impl Iterator<Item = OsString>) -> ExitCode {
    environment::keep_from_own_loader();
    match parse(words) {
        Some((order, program)) => match prepare(&order, &program) {
            Ok((recording, answer, switching)) => go(&order, program, recording, answer, switching),
            Err(problem) => {
                voice::say(&format!("whodunit: {problem}\n"));
                ExitCode::from(status::MACHINE)
            }
        },
        None => usage_error("__hunt is for whodunit's own use; try: whodunit hunt --help"),
    }
}

fn parse(mut words: impl Iterator<Item = OsString>) -> Option<(Order, Program)> {
    let order = serde_json::from_str(words.next()?.to_str()?).ok()?;
    let path = words.next()?;
    Some((order, Program { path, arguments: words.collect(), environment: environment::entries() }))
}

fn prepare(order: &Order, program: &Program) -> Result<(Recording, PrivateFile, Switching), String> {
    // The alias `latest` is for recordings that stay.
    let made = Store::at("/dev/null").create_at(&order.recording, &record::manifest(program), TAIL_SIZE);
    let NewRecording { folder, first_log, .. } = made.map_err(|error| error.to_string())?;
    let streams = vec![(1, 1), (2, 2)];
    let recording = Recording { folder, log: first_log, parent: None, streams, limits: Limits::default() };
    let answer = std::fs::OpenOptions::new().write(true).open(&order.answer).and_then(PrivateFile::new);
    let answer = answer.map_err(|error| format!("{}: cannot be written: {error}", order.answer.display()))?;
    let points = run::read_points(&order.points)?;
    Ok((recording, answer, Switching { points, calls: true, patience: Some(order.patience) }))
}

fn go(order: &Order, program: Program, recording: Recording, answer: PrivateFile, switching: Switching) -> ExitCode {
    let settings = Settings {
        seed: order.seed,
        quantum: DEFAULT_QUANTUM,
        policy: PolicyName::RoundRobin,
        on_deadlock: OnDeadlock::Report,
        report: false,
        cache_mebibytes: DEFAULT_CACHE,
    };
    let observes = order.observe;
    let observation = if observes { Observation::Tell(Wanted::ADDRESSES) } else { Observation::Nothing };
    let start = Start {
        program,
        settings,
        follow: true,
        stats: None,
        count: None,
        events: None,
        observation,
        switching,
        recording: Some(recording),
        filters: Vec::new(),
    };
    let policy = order.tactic.policy(order.seed, DEFAULT_QUANTUM);
    start.go_as(policy, order.tactic.name().to_owned(), |terminal| Box::new(Witness::new(terminal, observes, answer)))
}
