//! `whodunit replay`: run a recording again, with no effect on anything but the terminal.

mod together;

use crate::host::Terminal;
use crate::inquiry::{self, siblings::Siblings};
use crate::rerun::rivals::Branches;
use crate::settings::{DEFAULT_CACHE, DEFAULT_QUANTUM, OnDeadlock, PolicyName, Settings};
use crate::verify::{ANOTHER_WAY, AS_RECORDED};
use crate::{gdb, pack, rerun, status, voice};
use clap::Args;
use engine::{Marks, Observation, Options, Output, Plans, Program, Stopped, Wishes};
use program::copies::Copies;
use program::space::parse_maps;
use sched::FaultKinds;
use session::rerun::Plan;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use trace::Recording;

const AFTER_REPLAY: &str = "\
EXIT STATUS:
  The program's own, as it was recorded; if a signal ended it, whodunit ends by the same signal. Otherwise:
  0  the recording ends before the program did (its recorder was killed), or --to was reached
  3  the recording cannot be replayed, or the run went another way than was recorded

EXAMPLES:
  whodunit replay latest
  whodunit replay --quiet --to 5000 server-3
  whodunit replay --gdb latest";

#[derive(Args, Debug)]
#[command(after_help = AFTER_REPLAY)]
pub struct Arguments {
    /// Stop before this event (see `whodunit show --events`)
    #[arg(long, value_name = "EVENT")]
    to: Option<u64>,
    /// Do not write what the program wrote
    #[arg(long, short)]
    quiet: bool,
    /// Replay the process image of this log instead of the first
    #[arg(long, value_name = "N")]
    process: Option<u32>,
    /// Say nothing if the program crashes
    #[arg(long)]
    no_report: bool,
    /// Compare registers and memory, and say so at the end
    #[arg(long, hide = true)]
    check: bool,
    /// Find out on the way what standard input asks for, and answer on standard output at the end
    #[arg(long, hide = true)]
    inquire: bool,
    /// Before this event, go on in copies of this process with the recordings that standard input names, and answer for each
    #[arg(long, hide = true, value_name = "EVENT", requires = "inquire")]
    siblings: Option<u64>,
    /// Leave the recording as this plan has it, and tell the outcome on standard output
    #[arg(long, hide = true, value_name = "PLAN")]
    rerun: Option<String>,
    /// Tell no stacks if that ends well
    #[arg(long, hide = true)]
    brief: bool,
    /// Carry out the plans that standard input has, each in a copy of this process
    #[arg(long, hide = true, conflicts_with = "rerun")]
    rivals: bool,
    /// Write that run down in this folder
    #[arg(long, hide = true, value_name = "DIR", requires = "rerun")]
    retold: Option<PathBuf>,
    /// Wait for gdb at ADDR (PORT, HOST:PORT or a socket's path) and let it go forwards and backwards
    #[arg(
        long,
        value_name = "ADDR",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = gdb::ANYWHERE,
        conflicts_with_all = ["to", "check", "inquire"]
    )]
    gdb: Option<String>,
    /// Be replayed under a debugger, whose orders come through standard input
    #[arg(long, hide = true)]
    debuggee: bool,
    /// Tell whoever has started this what the program writes, and when
    #[arg(long, hide = true)]
    told: bool,
    /// The recording: a name that `whodunit ls` shows, a path, or `latest`
    #[arg(value_name = "REC")]
    recording: OsString,
}

impl Arguments {
    /// Whether all processes are to be replayed, and nothing is wanted but to see what was seen.
    fn is_of_all(&self) -> bool {
        let is_of_one = self.process.is_some() || self.to.is_some() || self.quiet || self.gdb.is_some();
        !is_of_one && !self.check && !self.inquire && !self.is_planned() && !self.debuggee
    }

    /// Whether the recording is to be left somewhere.
    fn is_planned(&self) -> bool {
        self.rerun.is_some() || self.rivals
    }

    fn output(&self) -> Output {
        match self.told {
            true => Output::Told,
            false if self.quiet => Output::Dropped,
            false => Output::Shown,
        }
    }
}

pub fn run(arguments: Arguments) -> ExitCode {
    let recording = match pack::open(&arguments.recording) {
        Ok(recording) => recording,
        Err(problem) => return refuse(&problem),
    };
    if arguments.is_of_all() && recording.logs().len() > 1 {
        pack::warn_of_processor(&recording);
        return together::Together::new(&recording, !arguments.no_report).run();
    }
    let log = arguments.process.or_else(|| recording.logs().first().copied()).unwrap_or(1);
    // Who asks, plans or debugs has another use for it than to see what was seen.
    let watch_memory = !arguments.inquire && !arguments.is_planned() && !arguments.debuggee;
    let wishes = Wishes {
        output: arguments.output(),
        verify: arguments.check,
        watch_memory,
        to: arguments.to,
        parts_at: arguments.siblings,
    };
    let mut recorded = match session::recorded(&recording, log, wishes) {
        Ok(recorded) => recorded,
        Err(problem) => return refuse(&problem.to_string()),
    };
    if let Some(address) = &arguments.gdb {
        return gdb::serve(&subject(&arguments, &log.to_string(), recorded.executable), address);
    }
    if arguments.debuggee {
        recorded.debugger = match gdb::debuggee() {
            Ok(debugger) => Some(debugger),
            Err(error) => return refuse(&error.to_string()),
        };
    }
    let branches = match planned(&arguments, &recording, log) {
        Ok((plans, branches)) => {
            recorded.plans = plans;
            branches
        }
        Err(problem) => return refuse(&problem),
    };
    // Whoever asks or compares has said it.
    if !arguments.inquire && !arguments.check && !arguments.debuggee && !arguments.told {
        pack::warn_of_processor(&recording);
    }
    let inquiry = match arguments.inquire.then(inquiry::given).transpose() {
        Ok(task) => task.map(|task| task.begin(&recording, log)),
        Err(problem) => return refuse(&problem),
    };
    let options = Options {
        follow: None,
        report_deadlock: false,
        observation: inquiry.as_ref().map_or(Observation::Nothing, |inquiry| inquiry.observation()),
        marks: inquiry.as_ref().map_or_else(Marks::new, |inquiry| inquiry.marks()),
        chosen: inquiry.as_ref().and_then(|inquiry| inquiry.chosen()),
        sparing: inquiry.as_ref().and_then(|inquiry| inquiry.sparing()),
        cache_size: DEFAULT_CACHE << 20,
        seed: 0,
        filters: Vec::new(),
        shown: None,
        switching: engine::Switching::default(),
        faults: None,
    };
    let settings = settings(!arguments.no_report && !arguments.check);
    let path = OsString::from(String::from_utf8_lossy(&recorded.executable).into_owned());
    let program = Program { path, arguments: Vec::new(), environment: Vec::new() };
    let siblings = Siblings::default();
    let view = View { recording, log, arguments, branches, siblings };
    let terminal = Terminal::new(&program, settings, None, None, None).for_replay(view, inquiry);
    match engine::replay(recorded, options, settings.new_policy(), Box::new(terminal)) {
        Ok(never) => match never {},
        Err(error) => refuse(&error.to_string()),
    }
}

/// The plans, if there are some, as the engine takes them; of several, with who sees to the copies of this process.
fn planned(arguments: &Arguments, recording: &Recording, log: u32) -> Result<(Plans, Option<Branches>), String> {
    if arguments.rivals {
        return rerun::rivals::given(recording, log).map(|(plans, branches)| (plans, Some(branches)));
    }
    let Some(text) = &arguments.rerun else { return Ok((Plans::default(), None)) };
    let plan = Plan::read(text).map_err(|error| error.to_string())?;
    let teller = arguments.retold.as_ref().map(|folder| session::teller(recording.folder(), folder)).transpose();
    let teller = teller.map_err(|error| format!("the run cannot be recorded: {error}"))?;
    let own = rerun::prepare(&plan, recording, log, teller)?;
    Ok((Plans { own: Some(own), rivals: Vec::new() }, None))
}

/// The same replay, as a process of its own.
fn subject<'a>(arguments: &'a Arguments, log: &'a str, executable: Vec<u8>) -> gdb::Subject<'a> {
    let mut words = ["replay", "--debuggee", "--process", log].map(OsStr::new).to_vec();
    if arguments.quiet {
        words.push(OsStr::new("--quiet"));
    }
    words.push(&arguments.recording);
    gdb::Subject { words, executable }
}

fn settings(report: bool) -> Settings {
    Settings {
        seed: 0,
        quantum: DEFAULT_QUANTUM,
        policy: PolicyName::RoundRobin,
        on_deadlock: OnDeadlock::Wait,
        report,
        cache_mebibytes: DEFAULT_CACHE,
        faults: FaultKinds::default(),
    }
}

pub fn refuse(problem: &str) -> ExitCode {
    voice::say(&format!("whodunit: {problem}\n"));
    ExitCode::from(status::MACHINE)
}

/// What is being replayed, for what is said about it.
pub struct View {
    recording: Recording,
    log: u32,
    arguments: Arguments,
    branches: Option<Branches>,
    siblings: Siblings,
}

impl View {
    /// Who sees to copies of this process that go on with other recordings.
    pub fn siblings(&self) -> &Siblings {
        &self.siblings
    }

    /// The recording that is followed now, and its log.
    fn followed(&self) -> (&Recording, u32) {
        self.siblings.followed().map_or((&self.recording, self.log), |(recording, log)| (recording, *log))
    }

    /// The files that came with the recording.
    pub fn copies(&self) -> Arc<Copies> {
        pack::copies_of(&self.recording)
    }

    /// Who sees to the copies of this process, if it is one of which copies are made.
    pub fn branches(&self) -> Option<&Branches> {
        self.branches.as_ref()
    }

    /// Whether names matter only of a run that fails.
    pub fn is_brief(&self) -> bool {
        self.arguments.brief
    }

    /// The replay has come to the program's own end.
    pub fn finished(&self, figures: engine::Figures) {
        if self.arguments.check {
            let engine::Figures { events, switches, calls, looks } = figures;
            println!("{AS_RECORDED} {events} {switches} {calls} {looks}");
        }
        if self.arguments.told {
            together::tell_done();
        }
    }

    /// The program has written something, at a time that may be known.
    pub fn wrote(&self, nanoseconds: u64, stream: u8, bytes: &[u8]) {
        together::tell(nanoseconds, stream, bytes);
    }

    /// The replay ended otherwise; tells the exit status.
    pub fn stopped(&self, stopped: &Stopped) -> u8 {
        if let Some(branches) = &self.branches {
            branches.hear();
        }
        if let Some(sentence) = self.arguments.rerun.as_ref().and_then(|_| self.too_early(stopped)) {
            voice::say_last(&format!("whodunit: {sentence}\n"));
            return status::MACHINE;
        }
        match stopped {
            Stopped::Diverged(divergence) => {
                if self.arguments.check {
                    println!("{ANOTHER_WAY}");
                }
                voice::say_last(&self.divergence(divergence));
                status::MACHINE
            }
            Stopped::NoFile(problem) => {
                voice::say_last(&format!("whodunit: {problem}\n"));
                status::MACHINE
            }
            Stopped::Cut { event, figures } => {
                self.finished(engine::Figures { events: *event, ..*figures });
                if !self.arguments.check {
                    let whose =
                        if self.arguments.told { format!(" of process image {}", self.log) } else { String::new() };
                    voice::say_last(&format!(
                        "whodunit: the recording{whose} ends here, after event {event}; the program had not ended\n"
                    ));
                }
                0
            }
            Stopped::Asked { event } => {
                voice::say_last(&format!("whodunit: stopped before event {event}\n"));
                0
            }
            Stopped::Executed { event, figures } => {
                self.finished(engine::Figures { events: *event, ..*figures });
                if !self.arguments.check && !self.arguments.told {
                    self.go_on(*event);
                }
                0
            }
        }
    }

    /// Why a plan did not come to act, if the recording is the reason.
    fn too_early(&self, stopped: &Stopped) -> Option<String> {
        match stopped {
            Stopped::Cut { event, .. } => {
                Some(format!("the recording ends at event {event}, before the plan came to act"))
            }
            Stopped::Executed { event, .. } => {
                let next = session::successor(&self.recording, self.log, *event);
                let next = next.map_or(String::new(), |next| format!("; --process {next} is that program"));
                Some(format!("the process became another program at event {event}, before the plan came to act{next}"))
            }
            Stopped::Diverged(_) | Stopped::NoFile(_) | Stopped::Asked { .. } => None,
        }
    }

    fn divergence(&self, divergence: &engine::Divergence) -> String {
        let engine::Divergence { event, thread, clock, pc, expected, got, memory } = divergence;
        let (recording, log) = self.followed();
        let name = recording.folder().display();
        let file = memory.as_ref().and_then(|range| self.file_at(range.start));
        let mapping = file.map_or(String::new(), |file| format!("  there:    {file}\n"));
        format!(
            "whodunit: the run went another way than was recorded, at event {event}\n  \
             recorded: {expected}\n  \
             now:      thread {thread} at {clock}, {pc:#x}: {got}\n{mapping}  \
             what led there: whodunit show --process {} --events {}..{event} {name}\n",
            log,
            event.saturating_sub(20),
        )
    }

    /// The file that is mapped at an address.
    fn file_at(&self, address: u64) -> Option<String> {
        let maps = std::fs::read("/proc/self/maps").ok()?;
        let mappings = parse_maps(&String::from_utf8_lossy(&maps));
        let mapping = mappings.into_iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
        Some(self.copies().original(&mapping.path?).display().to_string())
    }

    /// Goes on with the program that the guest executed, in a process image of its own.
    fn go_on(&self, event: u64) {
        let Some(next) = session::successor(&self.recording, self.log, event) else { return };
        let Ok(own) = std::env::current_exe() else { return };
        let mut command = Command::new(own);
        command.arg("replay").arg("--process").arg(next.to_string());
        if self.arguments.quiet {
            command.arg("--quiet");
        }
        if self.arguments.no_report {
            command.arg("--no-report");
        }
        let error = command.arg(self.recording.folder()).exec();
        voice::say_last(&format!("whodunit: cannot go on with the next program: {error}\n"));
    }
}
