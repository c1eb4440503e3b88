//! `whodunit why`: from a crash back to the first corruption, by execution suppression.
//!
//! The recording is replayed with its data followed (`rounds`); the chain from the crash leads back to the instructions
//! that made the value it crashed on (`chain`). They are suppressed with all that depends on them, and the program runs on:
//! if it crashes again, that goes on; where it no longer does, the last suppressed statement is the answer (`verdict`).
//! If the program has threads, other orders of them are tried first (`threads`).

mod background;
mod blame;
mod chain;
mod check;
mod endings;
mod groups;
mod output;
mod overruns;
mod reach;
mod rounds;
mod silent;
mod sites;
mod slice;
mod suspects;
mod threads;
mod verdict;

use crate::allocators;
use crate::findings_output;
use crate::pack;
use crate::races::{self, Subject};
use crate::recordings::{Trouble, conclude};
use crate::rerun::carry_out;
use crate::show;
use check::Checks;
use clap::Args;
use endings::{ABORT, CRASHES};
use program::source::SourceCache;
use rounds::{Begun, Crash, Rounds};
use session::rerun::{Plan, Step};
use sites::Sites;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use threads::Examiner;
use trace::Recording;
use trace::event::{EndKind, Event};
use trace::finding::Findings;

const AFTER_HELP: &str = "\
A crash is often far from its cause. The value that the program crashed on is followed back to the instruction that
made it; the recording runs again without that instruction and all that depends on it; and so on, until nothing
crashes any more. The last statement that was left out is where memory was first corrupted. A store that the memory
check shows to go astray is the answer at once.

If the program has threads, other orders of their accesses to what the failure depends on are tried first, also for a
bad exit status, a deadlock or a hang. An order that makes the failure go away is the answer: a data race, an atomicity
violation, an order violation, or a ring of threads and locks.

With --silent nothing need crash: the recording runs again with its variables and the blocks of its heap laid out
elsewhere, each between guards, and the first store beyond one of them is the answer.

EXIT STATUS:
  0  with --silent: nothing was found
  1  there is a diagnosis, of at least one recording
  2  the command line is wrong
  3  the recording did not fail, cannot be replayed, or nothing was found

EXAMPLES:
  whodunit why latest
  whodunit why server-3 --format json
  whodunit why server-3 server-7 server-9
  whodunit why latest -o why.html
  whodunit why --silent latest
  whodunit why latest --expect-output good.txt";

const NOTES: [&str; 2] = [
    "What is left out stays out: a program whose checks depend on it may end otherwise than it would if it were repaired.",
    "Corruption that nothing crashes on is not seen; `why --silent` looks for that.",
];

/// How far back data are followed from an end that is no crash, in events of the thread's clock.
const END_WINDOW: u64 = 320_000;
/// `SIGXCPU`, by which `hunt` ends runs that come to nothing.
const TIMEOUT: u32 = 24;

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The recording: a name that `whodunit ls` shows, a path, or `latest`; several are grouped by their causes
    #[arg(value_name = "REC", required = true)]
    recordings: Vec<OsString>,
    /// Of this process or program, by the number that `whodunit show` gives it, instead of the first that crashed
    #[arg(long, value_name = "N")]
    process: Option<u32>,
    /// Look for memory corruption that nothing crashes on, by runs with other layouts of memory
    #[arg(long)]
    silent: bool,
    /// The program should have written just this to standard output: explain why it did not
    #[arg(long, value_name = "FILE", conflicts_with = "silent")]
    expect_output: Option<PathBuf>,
    #[command(flatten)]
    output: findings_output::OutputArguments,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    let found = arguments.output.prepare().and_then(|output| Ok((output, find(arguments)?)));
    match found {
        Ok((output, Diagnosis { findings, recording })) => {
            output.give(&findings, SourceCache::with_copies(pack::copies_of(&recording)))
        }
        Err(trouble) => conclude(Err(trouble)),
    }
}

/// What is to be said of a recording.
pub struct Diagnosis {
    findings: Findings,
    recording: Recording,
}

fn find(arguments: &Arguments) -> Result<Diagnosis, Trouble> {
    let expected = arguments.expect_output.as_deref().map(output::read).transpose()?;
    let diagnosed = |name: &OsString| {
        (name.to_string_lossy().into_owned(), diagnosed_as_asked(name, arguments, expected.as_deref()))
    };
    match arguments.recordings.as_slice() {
        [only] => diagnosed(only).1,
        several => groups::grouped(several.iter().map(diagnosed).collect()),
    }
}

fn diagnosed_as_asked(name: &OsString, arguments: &Arguments, expected: Option<&str>) -> Result<Diagnosis, Trouble> {
    match expected {
        Some(expected) => {
            about(name, arguments.process, |subject, findings| output::follow(expected, subject, findings))
        }
        None if arguments.silent => about(name, arguments.process, silent::look),
        None => diagnose(name, arguments.process),
    }
}

/// A diagnosis of a process image that may have ended well.
fn about(
    name: &OsString,
    process: Option<u32>,
    follow: impl FnOnce(&Subject<'_>, &mut Findings) -> Result<(), Trouble>,
) -> Result<Diagnosis, Trouble> {
    let recording = pack::open(name).map_err(Trouble::Refused)?;
    pack::warn_of_processor(&recording);
    let log = process.or_else(|| recording.logs().first().copied()).unwrap_or(1);
    let no_process = || Trouble::Refused(format!("the recording has no process {log}; `whodunit show` lists them"));
    let recorded = show::recorded(&recording, log).ok_or_else(no_process)?;
    let (name, allocating) = (races::user_name(recording.folder()), &allocators::Arguments::default());
    let subject = Subject { recording: &recording, name, log, recorded, allocating };
    let mut findings = Findings::new("why", &subject.recorded.program());
    findings.recording = Some(subject.name.clone());
    follow(&subject, &mut findings)?;
    Ok(Diagnosis { findings, recording })
}

fn diagnose(name: &OsString, process: Option<u32>) -> Result<Diagnosis, Trouble> {
    let recording = pack::open(name).map_err(Trouble::Refused)?;
    pack::warn_of_processor(&recording);
    let logs = process.map_or_else(|| recording.logs().to_vec(), |log| vec![log]);
    let ends: Vec<(u32, Ended)> = logs.iter().filter_map(|log| Some((*log, ended(&recording, *log)?))).collect();
    let crashed = ends.iter().find_map(|(log, ended)| Some((*log, Failed::Crash(ended.crash()?))));
    let failed = || ends.iter().find_map(|(log, ended)| Some((*log, ended.failed()?)));
    let Some((log, failed)) = crashed.or_else(failed) else { return Err(Trouble::Refused(no_crash(&ends))) };
    let no_process = || Trouble::Refused(format!("the recording has no process {log}; `whodunit show` lists them"));
    let recorded = show::recorded(&recording, log).ok_or_else(no_process)?;
    if recorded.threads.len() < 2 && !matches!(failed, Failed::Crash(_)) {
        return Err(Trouble::Refused(no_crash(&ends)));
    }
    let (name, allocating) = (races::user_name(recording.folder()), &allocators::Arguments::default());
    let subject = Subject { recording: &recording, name, log, recorded, allocating };
    let mut findings = Findings::new("why", &subject.recorded.program());
    findings.recording = Some(subject.name.clone());
    match failed {
        Failed::Crash(crash) => follow_crash(crash, &subject, &mut findings)?,
        Failed::Otherwise { thread, clock } => follow_end(thread, clock, &subject, &mut findings)?,
    }
    Ok(Diagnosis { findings, recording })
}

fn follow_crash(crash: Crash, subject: &Subject<'_>, findings: &mut Findings) -> Result<(), Trouble> {
    let sites = Sites::new(&subject.recorded.space);
    let checks = Checks { sites: &sites, folder: subject.recording.folder(), log: subject.log };
    let begun = Begun::new(crash, &checks)?;
    let mut suspected = None;
    if subject.recorded.threads.len() > 1 {
        let examiner = Examiner::new(subject, &sites, begun.outcome.ending.clone());
        let examined = examiner.crash(&begun.outcome)?;
        if examined.is_proved {
            examined.tell(findings);
            return Ok(());
        }
        suspected = examined.finding;
    }
    let rounds = match Rounds::go(begun, &checks) {
        // A suspicion is better than nothing.
        Err(Trouble::Refused(_)) if suspected.is_some() => {
            suspected.into_iter().for_each(|suspected| findings.push(suspected));
            return Ok(());
        }
        rounds => rounds?,
    };
    findings.notes = NOTES.map(str::to_owned).to_vec();
    findings.summary.text = Some(format!("{} {}", verdict::sequel(&rounds), rounds.summary()));
    findings.push(verdict::finding(&rounds, &checks, &verdict::Subject { name: &subject.name, log: subject.log }));
    suspected.into_iter().for_each(|suspected| findings.push(suspected));
    Ok(())
}

/// A run with threads that ended otherwise than by a crash: only the order of its threads can be looked at.
fn follow_end(thread: u32, clock: u64, subject: &Subject<'_>, findings: &mut Findings) -> Result<(), Trouble> {
    let sites = Sites::new(&subject.recorded.space);
    let origins = Step::Origins { thread, clock: clock.saturating_sub(END_WINDOW), until: None };
    let outcome = carry_out(subject.recording.folder(), subject.log, &Plan::new(vec![origins]))?;
    let examiner = Examiner::new(subject, &sites, outcome.ending.clone());
    let examined = examiner.end(&outcome)?;
    if examined.finding.is_none() {
        let sentence = "no other order of the threads was found in which the program does not fail";
        return Err(Trouble::Refused(sentence.to_owned()));
    }
    examined.tell(findings);
    Ok(())
}

fn is_failing(signal: i32) -> bool {
    CRASHES.contains(&signal) || signal == ABORT
}

/// How a process image failed.
enum Failed {
    Crash(Crash),
    /// By its status, or it came to nothing.
    Otherwise {
        thread: u32,
        clock: u64,
    },
}

/// How a process image ended.
struct Ended {
    kind: EndKind,
    thread: u32,
    clock: u64,
}

impl Ended {
    fn crash(&self) -> Option<Crash> {
        match self.kind {
            EndKind::Killed(death) if is_failing(death.signal as i32) => {
                Some(Crash { signal: death.signal as i32, thread: self.thread, clock: self.clock })
            }
            _ => None,
        }
    }

    fn failed(&self) -> Option<Failed> {
        let Ended { thread, clock, .. } = *self;
        let has_failed = match self.kind {
            EndKind::Exited(status) => status != 0,
            EndKind::Killed(death) => death.signal == TIMEOUT,
            EndKind::Aborted(_) => false,
        };
        has_failed.then_some(Failed::Otherwise { thread, clock })
    }
}

fn ended(recording: &Recording, log: u32) -> Option<Ended> {
    let log = recording.log(log).ok()?;
    let mut cursor = log.cursor();
    cursor.seek(log.event_count().saturating_sub(1));
    let mut ended = None;
    while let Some(record) = cursor.next() {
        if let Event::End(end) = record.event {
            ended = Some(Ended { kind: end.kind, thread: end.thread, clock: end.clock });
        }
    }
    ended
}

fn no_crash(ends: &[(u32, Ended)]) -> String {
    let how = match ends.first() {
        Some((_, ended)) => format!("it ended with {}", crate::recordings::ends::end_words(ended.kind)),
        None => "it has no end".to_owned(),
    };
    format!(
        "the recording did not crash: {how}; `why` follows crashes by SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT back, \
         and of programs with threads also bad statuses, deadlocks and hangs; \
         `why --silent` looks for memory corruption that nothing crashes on, and \
         `why --expect-output FILE` for why the program wrote something else"
    )
}
