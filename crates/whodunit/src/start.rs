//! Starts a program under the engine: the way that `run` and followed programs share.

use crate::host::Terminal;
use crate::pack::level;
use crate::settings::{self, Cpu, OnDeadlock, Settings};
use crate::stats::Destination;
use crate::{machine, status, voice};
use engine::{Host, Journal, Observation, Options, PrivateFile, Program, Shown, Switching};
use sched::Policy;
use session::{Branches, Facts, Limits, Origin, Recorder};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::ExitCode;
use trace::NewLog;

/// The hidden verb under which the programs that a guest executes are run.
pub const FOLLOWED_VERB: &str = "__exec";
/// What begins the word that says where a followed program is recorded.
pub const RECORDED: &str = "record=";

pub struct Start {
    pub program: Program,
    pub settings: Settings,
    /// Whether programs that the guest executes are run under the engine too.
    pub follow: bool,
    pub stats: Option<Destination>,
    pub count: Option<Destination>,
    pub events: Option<PrivateFile>,
    pub observation: Observation,
    /// Where threads may change places.
    pub switching: Switching,
    /// Where the run is written down, if it is.
    pub recording: Option<Recording>,
    /// Filters of system calls that hold already.
    pub filters: Vec<Vec<u8>>,
}

/// A folder that a run is written down in.
pub struct Recording {
    pub folder: PathBuf,
    pub log: NewLog,
    /// The log and event that the process image comes from.
    pub parent: Option<(u32, u64)>,
    /// The descriptors that lead to standard output (1) and error (2).
    pub streams: Vec<(i32, u8)>,
    pub limits: Limits,
    pub cpu: Cpu,
    /// Where copies of the process are recorded, if there are to be any.
    pub branches: Option<Branches>,
}

impl Start {
    /// Runs the program in this process; returns only if it could not be started.
    pub fn go(self) -> ExitCode {
        let (policy, name) = (self.settings.new_policy(), settings::name_of(self.settings.policy));
        self.go_as(policy, name, |terminal| Box::new(terminal))
    }

    /// The same under a policy of this name; `host` makes who is told out of who would be.
    pub fn go_as(
        self,
        policy: Box<dyn Policy>,
        policy_name: String,
        host: impl FnOnce(Terminal) -> Box<dyn Host>,
    ) -> ExitCode {
        let shown = self.recording.as_ref().map(|recording| Shown::here(recording.cpu.level()));
        let options = Options {
            follow: self.follow.then(|| followed_words(&self.settings)),
            report_deadlock: self.settings.on_deadlock == OnDeadlock::Report,
            observation: self.observation,
            marks: engine::Marks::new(),
            chosen: None,
            sparing: None,
            cache_size: self.settings.cache_mebibytes << 20,
            seed: self.settings.seed,
            switching: self.switching,
            filters: self.filters,
            shown,
            faults: self.settings.new_faults(),
        };
        let made = self.recording.map(|recording| journal(recording, &self.program, self.settings, policy_name));
        let journal = match made {
            Some(Err(error)) => {
                voice::say(&format!("whodunit: the recording cannot be written: {error}\n"));
                return ExitCode::from(status::MACHINE);
            }
            Some(Ok(journal)) => Some(journal),
            None => None,
        };
        let terminal = Terminal::new(&self.program, self.settings, self.stats, self.count, self.events);
        match engine::launch(self.program, options, policy, host(terminal), journal) {
            Ok(never) => match never {},
            Err(error) => {
                voice::say(&format!("whodunit: {error}\n"));
                ExitCode::from(error.status())
            }
        }
    }
}

fn journal(
    recording: Recording,
    program: &Program,
    settings: Settings,
    policy: String,
) -> std::io::Result<Box<dyn Journal>> {
    let Recording { folder, log, parent, streams, limits, cpu, branches } = recording;
    let bytes = |words: &[OsString]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let facts = Facts {
        program: std::path::absolute(&program.path)?.into_os_string().into_vec(),
        arguments: bytes(&program.arguments),
        environment: bytes(&program.environment),
        directory: std::env::current_dir().unwrap_or_default().into_os_string().into_vec(),
        seed: settings.seed,
        policy,
        quantum: settings.quantum,
        kernel: release.trim().to_owned(),
        processor: machine::processor(),
        features: level::shown(machine::features(), cpu.level()),
        shown: Shown::here(cpu.level()),
        parent,
        streams,
        wall_time: session::nanoseconds_since_1970(),
    };
    let place = folder.clone().into_os_string().into_vec();
    let words = move |origin: Origin| followed_and_recorded_words(&settings, limits, cpu, &place, origin);
    let recorder = Recorder::new(folder, log, facts, limits, Box::new(words), voice::say)?;
    Ok(Box::new(match branches {
        Some(branches) => recorder.with_branches(branches),
        None => recorder,
    }))
}

/// The same for a recorded one: `record=LOG:EVENT:SEALED:BYTES:SECONDS:FULL:CPU:STREAMS:FOLDER` stands before the dashes.
fn followed_and_recorded_words(
    settings: &Settings,
    limits: Limits,
    cpu: Cpu,
    folder: &[u8],
    origin: Origin,
) -> Vec<Vec<u8>> {
    let Origin { log, event, is_sealed, streams } = origin;
    let sealed = u8::from(is_sealed);
    let (bytes, seconds) = (limits.bytes.unwrap_or(0), limits.time.map_or(0, |time| time.as_secs()));
    let full = limits.status_when_full.unwrap_or(0);
    let streams: Vec<String> = streams.iter().map(|(descriptor, stream)| format!("{descriptor}={stream}")).collect();
    let streams = streams.join(",");
    let cpu = settings::name_of(cpu);
    let mut place = format!("{RECORDED}{log}:{event}:{sealed}:{bytes}:{seconds}:{full}:{cpu}:{streams}:").into_bytes();
    place.extend_from_slice(folder);
    let mut words = followed_words(settings);
    words.insert(words.len() - 1, place);
    words
}

/// What stands before the path of a followed program; see [`crate::followed`].
fn followed_words(settings: &Settings) -> Vec<Vec<u8>> {
    ["whodunit", FOLLOWED_VERB, &settings.encode(), "--"].map(|word| word.as_bytes().to_vec()).into()
}
