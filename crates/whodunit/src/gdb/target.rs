//! A recording as gdb sees it: threads, registers, memory, and ways to run to and fro.

use super::ears::Ears;
use super::registers::{AllRegisters, LinuxX86_64};
use super::timeline::Timeline;
use super::wire::{Reason, Thread, Watchpoint};
use crate::voice;
use gdbstub::common::{Pid, Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::auxv::{Auxv, AuxvOps};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReplayLogPosition, ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint,
    SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::exec_file::{ExecFile, ExecFileOps};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps, outputln};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroUsize;

const HELP: &str = "\
monitor when         where the recording is: event, thread, clock of the thread
monitor checkpoints  how many there are, and at which events
monitor help         this";

pub struct Player {
    timeline: Timeline,
    ears: Ears,
    /// Of the present place.
    threads: Vec<Thread>,
    auxiliary: Vec<u8>,
    executable: Vec<u8>,
    software: BTreeSet<u64>,
    hardware: BTreeSet<u64>,
    motion: Motion,
    /// The end was shown as a stop; going on from there ends the program.
    has_shown_end: bool,
    has_refused: bool,
}

/// What gdb wants to happen.
#[derive(Clone, Copy)]
enum Motion {
    Forward,
    Step(u32),
    Backward,
    StepBack,
}

impl Player {
    pub fn new(timeline: Timeline, ears: Ears, executable: Vec<u8>) -> io::Result<Player> {
        let mut player = Player {
            timeline,
            ears,
            threads: Vec::new(),
            auxiliary: Vec::new(),
            executable,
            software: BTreeSet::new(),
            hardware: BTreeSet::new(),
            motion: Motion::Forward,
            has_shown_end: false,
            has_refused: false,
        };
        player.threads = player.timeline.threads()?;
        player.auxiliary = player.read_auxiliary()?;
        Ok(player)
    }

    /// At the start the stack pointer shows arguments, environment and then what the kernel tells programs.
    fn read_auxiliary(&self) -> io::Result<Vec<u8>> {
        const RSP: usize = 4;
        const MOST_WORDS: u64 = 1 << 20;
        let word = |address: u64| -> io::Result<u64> {
            let bytes = self.timeline.read(address, 8)?;
            Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
        };
        let Some(stack) = self.threads.first().map(|thread| thread.general[RSP]) else { return Ok(Vec::new()) };
        let arguments = word(stack)?.min(MOST_WORDS);
        let mut at = stack + 8 * (arguments + 2);
        while at < stack + 8 * MOST_WORDS && word(at)? != 0 {
            at += 8;
        }
        let first = at + 8;
        let mut end = first;
        while end < first + 1024 && word(end)? != 0 {
            end += 16;
        }
        self.timeline.read(first, (end + 16 - first) as usize)
    }

    /// Does what gdb asked for; tells why it stopped.
    pub fn go(&mut self) -> io::Result<MultiThreadStopReason<u64>> {
        self.timeline.stops.breakpoints = self.software.union(&self.hardware).copied().collect();
        if self.has_shown_end && matches!(self.motion, Motion::Forward | Motion::Step(_)) {
            return Ok(self.leave());
        }
        self.has_shown_end = false;
        let moved = match self.motion {
            Motion::Forward => self.timeline.forward(&mut self.ears).map(|()| true),
            Motion::Step(thread) => self.timeline.step(&mut self.ears, thread).map(|()| true),
            Motion::Backward => self.timeline.backward(&mut self.ears),
            Motion::StepBack => self.timeline.step_back(&mut self.ears),
        };
        let moved = match moved {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.timeline.stop.why = Reason::Interrupted;
                true
            }
            other => other?,
        };
        self.threads = self.timeline.threads()?;
        let backwards = matches!(self.motion, Motion::Backward | Motion::StepBack);
        if !moved || matches!(self.motion, Motion::Backward) && self.timeline.is_at_beginning() {
            let tid = Some(self.current());
            return Ok(MultiThreadStopReason::ReplayLog { tid, pos: ReplayLogPosition::Begin });
        }
        Ok(self.reason(backwards))
    }

    fn reason(&mut self, backwards: bool) -> MultiThreadStopReason<u64> {
        let tid = self.current();
        let signal = |signal| MultiThreadStopReason::SignalWithThread { tid, signal };
        match &self.timeline.stop.why {
            Reason::Breakpoint => MultiThreadStopReason::SwBreak(tid),
            Reason::Watch(index) => {
                let Some(point) = self.timeline.stops.watched.get(*index) else { return signal(Signal::SIGTRAP) };
                MultiThreadStopReason::Watch { tid, kind: point.kind.into(), addr: point.range.start }
            }
            Reason::Interrupted => signal(Signal::SIGINT),
            Reason::Killed(number) if !backwards => {
                self.has_shown_end = true;
                signal(signal_named(*number))
            }
            Reason::Exited(_) | Reason::Ends(_) if !backwards => {
                self.has_shown_end = true;
                if let Reason::Ends(why) = &self.timeline.stop.why {
                    voice::say(&format!("whodunit: {why}\n"));
                }
                MultiThreadStopReason::ReplayLog { tid: Some(tid), pos: ReplayLogPosition::End }
            }
            Reason::Stepped => match self.motion {
                Motion::Step(thread) => {
                    MultiThreadStopReason::SignalWithThread { tid: tid_of(thread), signal: Signal::SIGTRAP }
                }
                _ => signal(Signal::SIGTRAP),
            },
            _ => signal(Signal::SIGTRAP),
        }
    }

    /// The program ends as it did.
    fn leave(&self) -> MultiThreadStopReason<u64> {
        match self.timeline.stop.why {
            Reason::Killed(signal) => MultiThreadStopReason::Terminated(signal_named(signal)),
            Reason::Exited(status) => MultiThreadStopReason::Exited(status as u8),
            _ => MultiThreadStopReason::Exited(0),
        }
    }

    fn current(&self) -> Tid {
        tid_of(self.timeline.stop.thread)
    }

    fn thread(&self, tid: Tid) -> Option<&Thread> {
        self.threads.iter().find(|thread| tid_of(thread.thread) == tid)
    }

    /// A replay is what it is.
    fn refuse(&mut self) -> TargetError<io::Error> {
        if !std::mem::replace(&mut self.has_refused, true) {
            voice::say("whodunit: a recording cannot be changed: registers and memory can be read, not written\n");
        }
        TargetError::NonFatal
    }
}

/// What gdb wants to watch, unless that is nothing, or too much.
fn watchpoint(address: u64, length: u64, kind: WatchKind) -> Option<Watchpoint> {
    const LONGEST: u64 = 1 << 20;
    let range = address..address.checked_add(length)?;
    (1..=LONGEST).contains(&length).then_some(Watchpoint { range, kind: kind.into() })
}

fn tid_of(thread: u32) -> Tid {
    NonZeroUsize::new(thread as usize).unwrap_or(NonZeroUsize::MIN)
}

/// gdb numbers signals its own way.
fn signal_named(number: i32) -> Signal {
    match number {
        1 => Signal::SIGHUP,
        2 => Signal::SIGINT,
        3 => Signal::SIGQUIT,
        4 => Signal::SIGILL,
        5 => Signal::SIGTRAP,
        6 => Signal::SIGABRT,
        7 => Signal::SIGBUS,
        8 => Signal::SIGFPE,
        9 => Signal::SIGKILL,
        10 => Signal::SIGUSR1,
        11 => Signal::SIGSEGV,
        12 => Signal::SIGUSR2,
        13 => Signal::SIGPIPE,
        14 => Signal::SIGALRM,
        15 => Signal::SIGTERM,
        24 => Signal::SIGXCPU,
        25 => Signal::SIGXFSZ,
        26 => Signal::SIGVTALRM,
        27 => Signal::SIGPROF,
        31 => Signal::SIGSYS,
        _ => Signal::EXC_SOFTWARE,
    }
}

/// The part of `whole` that gdb asks for.
fn part(whole: &[u8], offset: u64, length: usize, buffer: &mut [u8]) -> usize {
    let rest = whole.get(offset as usize..).unwrap_or(&[]);
    let count = rest.len().min(length).min(buffer.len());
    buffer[..count].copy_from_slice(&rest[..count]);
    count
}

impl Target for Player {
    type Arch = LinuxX86_64;
    type Error = io::Error;

    fn base_ops(&mut self) -> BaseOps<'_, LinuxX86_64, io::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        Some(self)
    }

    fn support_auxv(&mut self) -> Option<AuxvOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Player {
    fn read_registers(&mut self, registers: &mut AllRegisters, tid: Tid) -> TargetResult<(), Self> {
        *registers = self.thread(tid).map(AllRegisters::of).ok_or(TargetError::NonFatal)?;
        Ok(())
    }

    fn write_registers(&mut self, _: &AllRegisters, _: Tid) -> TargetResult<(), Self> {
        Err(self.refuse())
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        let bytes = self.timeline.read(start, data.len()).map_err(TargetError::Fatal)?;
        data[..bytes.len()].copy_from_slice(&bytes);
        if bytes.is_empty() { Err(TargetError::NonFatal) } else { Ok(bytes.len()) }
    }

    fn write_addrs(&mut self, _: u64, _: &[u8], _: Tid) -> TargetResult<(), Self> {
        Err(self.refuse())
    }

    fn list_active_threads(&mut self, is_active: &mut dyn FnMut(Tid)) -> io::Result<()> {
        // The first one named is the one that gdb looks at.
        let current = self.current();
        is_active(current);
        self.threads.iter().map(|thread| tid_of(thread.thread)).filter(|tid| *tid != current).for_each(is_active);
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl ThreadExtraInfo for Player {
    fn thread_extra_info(&self, tid: Tid, buffer: &mut [u8]) -> io::Result<usize> {
        let text = self.thread(tid).map_or(String::new(), |thread| {
            let turn = if tid == self.current() { ", has the turn" } else { "" };
            let call = if thread.in_call { ", in a system call" } else { "" };
            format!("tid {}{turn}{call}", thread.tid)
        });
        Ok(part(text.as_bytes(), 0, text.len(), buffer))
    }
}

impl MultiThreadResume for Player {
    fn resume(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> io::Result<()> {
        self.motion = Motion::Forward;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, _: Tid, _: Option<Signal>) -> io::Result<()> {
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }
}

impl MultiThreadSchedulerLocking for Player {
    fn set_resume_action_scheduler_lock(&mut self) -> io::Result<()> {
        // Who runs is in the recording.
        Ok(())
    }
}

impl MultiThreadSingleStep for Player {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> io::Result<()> {
        self.motion = Motion::Step(tid.get() as u32);
        Ok(())
    }
}

impl ReverseStep<Tid> for Player {
    fn reverse_step(&mut self, _: Tid) -> io::Result<()> {
        self.motion = Motion::StepBack;
        Ok(())
    }
}

impl ReverseCont<Tid> for Player {
    fn reverse_cont(&mut self) -> io::Result<()> {
        self.motion = Motion::Backward;
        Ok(())
    }
}

impl Breakpoints for Player {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Player {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        self.software.insert(address);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.software.remove(&address))
    }
}

impl HwBreakpoint for Player {
    fn add_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        self.hardware.insert(address);
        Ok(true)
    }

    fn remove_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.hardware.remove(&address))
    }
}

impl HwWatchpoint for Player {
    fn add_hw_watchpoint(&mut self, address: u64, length: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        let point = watchpoint(address, length, kind);
        let is_known = point.is_some();
        self.timeline.stops.watched.extend(point);
        Ok(is_known)
    }

    fn remove_hw_watchpoint(&mut self, address: u64, length: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        let Some(point) = watchpoint(address, length, kind) else { return Ok(false) };
        let watched = &mut self.timeline.stops.watched;
        let position = watched.iter().position(|known| *known == point);
        Ok(position.map(|index| watched.remove(index)).is_some())
    }
}

impl ExecFile for Player {
    fn get_exec_file(
        &self,
        _: Option<Pid>,
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> TargetResult<usize, Self> {
        Ok(part(&self.executable, offset, length, buffer))
    }
}

impl Auxv for Player {
    fn get_auxv(&self, offset: u64, length: usize, buffer: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(part(&self.auxiliary, offset, length, buffer))
    }
}

impl MonitorCmd for Player {
    fn handle_monitor_cmd(&mut self, command: &[u8], mut out: ConsoleOutput<'_>) -> io::Result<()> {
        match command.trim_ascii() {
            b"when" => {
                let stop = &self.timeline.stop;
                outputln!(out, "event {}, thread {}, clock {}", stop.mark.event, stop.thread, stop.mark.clock);
            }
            b"checkpoints" => {
                let events = self.timeline.checkpoint_events();
                let words: Vec<String> = events.iter().map(u64::to_string).collect();
                outputln!(out, "{} checkpoints, at events {}", events.len(), words.join(", "));
                let (searched, passed) = self.timeline.searched;
                outputln!(out, "the last way back led through {searched} of {passed} stretches between them");
            }
            b"help" | b"" => outputln!(out, "{HELP}"),
            _ => outputln!(out, "no such command; there are:\n{HELP}"),
        }
        Ok(())
    }
}
