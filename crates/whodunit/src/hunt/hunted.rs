//! `whodunit __hunt PATH ARGV0 ARGV1…`: runs schedules of a program as it is told on standard input, a line each. Not for
//! people.
//!
//! Each schedule is a copy of this process, which has got ready before: that saves most of what a start costs. The copy's
//! id is told on standard output, and then how it ended.

use super::order::{Ended, Errand, Order, read_points};
use super::stem::{Chosen, Stem};
use super::witness::Witness;
use crate::host::Terminal;
use crate::settings::{Cpu, DEFAULT_CACHE, DEFAULT_QUANTUM, OnDeadlock, PolicyName, Settings};
use crate::start::{Recording, Start};
use crate::{environment, faults, machine, record, status, usage_error, voice};
use engine::{Host, Observation, PrivateFile, Program, Switching, Wanted};
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, setpgid, waitpid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use sched::{Policy, Steps};
use session::{Branch, Limits};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use trace::format::TAIL_SIZE;
use trace::{NewRecording, Store};

/// Copies of a stem mostly write little.
const SMALL_TAIL: usize = 128 << 10;

/// `words` are those after the verb.
pub fn serve(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    environment::keep_from_own_loader();
    let Some(path) = words.next() else {
        return usage_error("__hunt is for whodunit's own use; try: whodunit hunt --help");
    };
    let program = Program { path, arguments: words.collect(), environment: environment::entries() };
    get_ready();
    let mut line = String::new();
    while io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) {
        let order = match serde_json::from_str(&line) {
            Ok(Errand::Run(order)) => order,
            Ok(Errand::Prepare(order)) => return run_stem(&order, program),
            Err(_) => return usage_error("__hunt was given something else than an order"),
        };
        match engine::copy_process() {
            Ok(None) => return run_one(&order, program),
            Ok(Some(pid)) => {
                let mut out = io::stdout();
                let ended = tell(&mut out, &pid).and_then(|()| watch(pid, Duration::from_millis(order.limit)));
                if ended.and_then(|ended| tell(&mut out, &ended)).is_err() {
                    break;
                }
            }
            Err(error) => {
                voice::say(&format!("whodunit: a schedule cannot be run: {error}\n"));
                return ExitCode::from(status::MACHINE);
            }
        }
        line.clear();
    }
    ExitCode::SUCCESS
}

/// Makes what every copy would make anew.
fn get_ready() {
    machine::processor();
    machine::features();
    const NOTHING: [u8; 1] = [0x90];
    let instruction = Decoder::with_ip(64, &NOTHING, 0, DecoderOptions::NONE).decode();
    let _ = InstructionInfoFactory::new().info(&instruction);
}

/// A line for who gives orders.
pub fn tell(out: &mut impl Write, what: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// Waits for a copy to end, and ends it if it takes too long.
pub fn watch(pid: u32, limit: Duration) -> io::Result<Ended> {
    let pid = Pid::from_raw(pid.cast_signed()).ok_or_else(|| io::Error::other("no process"))?;
    let deadline = Instant::now() + limit;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let timeout = PollTimeout::try_from(deadline.saturating_duration_since(Instant::now())).unwrap_or(PollTimeout::MAX);
    let has_ended = poll(&mut [PollFd::new(handle.as_fd(), PollFlags::POLLIN)], timeout).unwrap_or(0) > 0;
    let computed = if has_ended { Duration::ZERO } else { computing_time(pid) };
    if !has_ended {
        kill_process(pid, Signal::KILL)?;
    }
    let status = waitpid(Some(pid), WaitOptions::empty())?.map(|(_, status)| status);
    Ok(match status {
        _ if !has_ended && computed > limit / 10 => Ended::Slow,
        _ if !has_ended => Ended::Stuck,
        Some(status) => match status.exit_status() {
            Some(code) => Ended::Exited(code),
            None => Ended::Killed(status.terminating_signal().unwrap_or(0)),
        },
        None => Ended::Exited(0),
    })
}

/// How long the process has been computing, all its threads together.
fn computing_time(pid: Pid) -> Duration {
    /// Ticks a second, as the kernel shows times to programs.
    const TICKS: u64 = 100;
    let text = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // The name of the program is in brackets, and may hold anything.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 1000 / TICKS)
}

/// In the copy: runs the schedule.
fn run_one(order: &Order, program: Program) -> ExitCode {
    // What the program does to its process group is none of the hunt's business.
    let _ = setpgid(None, None);
    let prepared = take_streams(order).map_err(|error| error.to_string()).and_then(|()| {
        let answer = write_to(&order.answer).and_then(PrivateFile::new);
        let answer = answer.map_err(|error| format!("{}: cannot be written: {error}", order.answer.display()))?;
        let prepared = prepare(order, &program)?;
        Ok((Witness::maker(order, prepared.steps.clone(), answer), prepared))
    });
    match prepared {
        Ok((host, prepared)) => go(order, program, prepared, host),
        Err(problem) => refuse(&problem),
    }
}

fn refuse(problem: &str) -> ExitCode {
    voice::say(&format!("whodunit: {problem}\n"));
    ExitCode::from(status::MACHINE)
}

/// Runs the program up to its second thread, where a [`Stem`] takes orders.
fn run_stem(order: &Order, program: Program) -> ExitCode {
    let chosen = Chosen::default();
    let stem = match Stem::new(order, chosen.clone()).and_then(|stem| take_streams(order).map(|()| stem)) {
        Ok(stem) => stem,
        Err(error) => return refuse(&error.to_string()),
    };
    let manifest = record::manifest(&program);
    let branches = move |size: u64| {
        let order = chosen.get().ok_or_else(|| io::Error::other("a copy has no order"))?;
        let tail = (2 * size as usize).next_power_of_two().max(SMALL_TAIL);
        let made = Store::at("/dev/null").create_at(&order.recording, &manifest, tail);
        let NewRecording { folder, first_log, .. } = made.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Branch { folder, log: first_log, seed: order.seed, policy: order.policy_name().to_owned() })
    };
    match prepare(order, &program) {
        Ok(mut prepared) => {
            prepared.recording.branches = Some(Box::new(branches));
            prepared.switching.departs = true;
            go(order, program, prepared, Witness::maker_at(stem))
        }
        Err(problem) => refuse(&problem),
    }
}

fn take_streams(order: &Order) -> io::Result<()> {
    dup2_stdin(File::open(&order.input)?)?;
    dup2_stdout(write_to(&order.output)?)?;
    Ok(dup2_stderr(write_to(&order.errors)?)?)
}

pub fn write_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).open(path)
}

/// What a run needs besides its order.
struct Prepared {
    recording: Recording,
    switching: Switching,
    policy: Box<dyn Policy>,
    steps: Option<Steps>,
}

fn prepare(order: &Order, program: &Program) -> Result<Prepared, String> {
    // The alias `latest` is for recordings that stay.
    let made = Store::at("/dev/null").create_at(&order.recording, &record::manifest(program), TAIL_SIZE);
    let NewRecording { folder, first_log, .. } = made.map_err(|error| error.to_string())?;
    let streams = vec![(1, 1), (2, 2)];
    // As `record` has it.
    let (limits, cpu) = (Limits::default(), Cpu::V3);
    let recording = Recording { folder, log: first_log, parent: None, streams, limits, cpu, branches: None };
    let points = read_points(&order.points)?;
    let switching = Switching { points, calls: true, patience: Some(order.patience), departs: false };
    let (policy, steps) = order.policy()?;
    Ok(Prepared { recording, switching, policy, steps })
}

fn go(order: &Order, program: Program, prepared: Prepared, host: impl FnOnce(Terminal) -> Box<dyn Host>) -> ExitCode {
    let Prepared { recording, switching, policy, .. } = prepared;
    let settings = Settings {
        seed: order.seed,
        quantum: DEFAULT_QUANTUM,
        policy: PolicyName::RoundRobin,
        on_deadlock: OnDeadlock::Report,
        report: false,
        cache_mebibytes: DEFAULT_CACHE,
        faults: faults::decode(&order.faults).unwrap_or_default(),
    };
    let observation = if order.observe { Observation::Tell(Wanted::ADDRESSES) } else { Observation::Nothing };
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
    start.go_as(policy, order.policy_name().to_owned(), host)
}
