//! Running again what was written down: the guest's code runs, and everything from outside comes from the recording.
//!
//! All guest threads share one host thread: a recorded switch puts one context aside and takes up another. System calls
//! are not made; their results and the memory they wrote are in the recording. Only mappings are made for real. The
//! thread that runs stops by its clock where the next event says so, and whatever else it does must be what the next
//! event tells: if not, the run has diverged.

mod answers;
mod awaited;
mod calls;
mod channels;
mod closely;
mod compare;
mod course;
mod debugged;
mod descriptors;
mod drained;
mod facts;
mod free;
mod futexes;
mod kept;
mod layout;
mod machine;
mod mapping;
mod names;
mod outcome;
mod overlay;
mod parting;
mod plan;
mod progress;
mod retelling;
mod rivals;
mod scrutiny;
mod signals;
mod threads;
mod turns;
mod waits;
mod whatif;
mod words;

use crate::context::{Context, Fault, R11, RAX, RCX, SLICE};
use crate::debug::{Debugger, Debugging, Ended, Why};
use crate::engine::{Engine, ThreadFacts};
use crate::kernel;
use crate::signals::deliver;
use crate::syscalls;
use machine::{Handled, Machine, Pending};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};
pub use threads::facts_of;
use trace::event::{self, End, EndKind, Event, Instruction, Signal, SignalPlace};
use trace::{Cursor, Record};
use whatif::WhatIf;
use words::describe;

pub use closely::Closely;
pub use layout::{Allocating, Broken, Guarded, Layout, MovedGlobal, MovedLocal, Relaid};
pub use machine::BETWEEN;
pub use outcome::{Changed, Ending, Leaving, Rerun, Turn, Written};
pub use parting::Continuation;
pub use plan::{Passage, Plan, Plans, Point, Spot, Step};
use progress::Progress;
pub use retelling::{Retold, Teller};
pub use scrutiny::{Definition, Origins, Position, Region, Structures};
pub use turns::TOO_LONG;

/// Where mapped files come from.
pub trait Files: Send {
    /// A file that the recording names.
    fn learn(&mut self, file: &event::File<'_>);
    /// Opens it as it was; `Err` says what is wrong with it.
    fn open(&mut self, id: u32) -> Result<OwnedFd, String>;
}

/// What becomes of what the guest writes to its standard output and error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Output {
    #[default]
    Dropped,
    /// It is written there.
    Shown,
    /// The host is told, and only of what the process itself has written, not of what its parents did before.
    Told,
}

/// What to do besides replaying.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    pub output: Output,
    /// Compare registers and memory wherever the recording tells of them, and stop where they differ.
    pub verify: bool,
    /// Compare memory there, and only say that it differs.
    pub watch_memory: bool,
    /// Stop before this event.
    pub to: Option<u64>,
    /// Before this event, copies of the process go on with recordings of their own.
    pub parts_at: Option<u64>,
}

/// How a replay ended, other than by the guest's own end.
#[derive(Clone, Debug)]
pub enum Stopped {
    /// The run did something else than what was recorded.
    Diverged(Divergence),
    /// The recording ends here: its recorder was killed, or its rest is damaged.
    Cut { event: u64, figures: Figures },
    /// Where the user wanted it to.
    Asked { event: u64 },
    /// The guest went on as another program, in another log.
    Executed { event: u64, figures: Figures },
    /// A mapped file is missing or has changed.
    NoFile(String),
}

#[derive(Clone, Debug)]
pub struct Divergence {
    pub event: u64,
    pub thread: u32,
    pub clock: u64,
    pub pc: u64,
    pub expected: String,
    pub got: String,
    /// The memory that differs, if that is what does.
    pub memory: Option<Range<u64>>,
}

/// Counts for who verifies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub events: u64,
    pub switches: u64,
    pub calls: u64,
    /// How often memory was compared.
    pub looks: u64,
}

pub struct Replay {
    state: Mutex<State>,
    /// Whether the plan may want data to be followed.
    follows_data: bool,
    debugging: Option<Debugging>,
}

/// A part of a recording: a process that was forked begins with its parents' parts.
pub struct Leg {
    pub cursor: Cursor,
    /// The event after which the next leg goes on.
    pub until: Option<u64>,
}

struct State {
    cursor: Cursor,
    until: Option<u64>,
    /// The legs to come, the next one last.
    legs: Vec<Leg>,
    machine: Machine,
    /// What the run is to do differently, if anything.
    what_if: Option<Box<WhatIf>>,
    /// After so many events, a debugger is to be asked at this clock.
    due: Option<(u64, u64)>,
    progress: Progress,
}

impl Replay {
    /// Replays the legs one after the other.
    pub fn new(first: Leg, mut others: Vec<Leg>, files: Box<dyn Files>, wishes: Wishes, plans: Plans) -> Replay {
        others.reverse();
        let machine = Machine::new(files, wishes, !others.is_empty());
        let Plans { own, rivals } = plans;
        let follows_data = own.as_ref().is_some_and(Plan::follows_data);
        let what_if = own.map(|plan| Box::new(WhatIf::new(plan, rivals)));
        let (cursor, until, progress) = (first.cursor, first.until, Progress::default());
        let state = State { cursor, until, legs: others, machine, what_if, due: None, progress };
        Replay { state: Mutex::new(state), follows_data, debugging: None }
    }

    /// Lets a debugger decide where to stop.
    pub fn under(self, debugger: Option<Box<dyn Debugger>>) -> Replay {
        Replay { debugging: debugger.map(Debugging::new), ..self }
    }

    pub fn debugging(&self) -> Option<&Debugging> {
        self.debugging.as_ref()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Makes the guest what it was at the start.
    pub fn begin(&self, engine: &Engine, context: &mut Context) {
        self.state().follow(engine, context);
    }

    /// The thread makes a system call.
    pub fn system_call(&self, engine: &Engine, context: &mut Context, next: u64) {
        let number = context.gpr[RAX];
        let arguments = syscalls::arguments_of(context);
        let overwritten = (context.gpr[RCX], context.gpr[R11]);
        context.gpr[RCX] = next;
        context.gpr[R11] = context.rflags;
        context.pc = next;
        let mut state = self.state();
        state.machine.pending = Some(Pending { number, arguments });
        state.machine.half_called = false;
        match state.free_run(engine, context) {
            Some(mut run) => run.call(),
            None => state.follow(engine, context),
        }
        if self.debugging.as_ref().is_some_and(Debugging::has_ended) {
            // The guest stays at the instruction that ended it.
            (context.gpr[RCX], context.gpr[R11]) = overwritten;
            context.pc = next - SYSCALL_LENGTH;
        }
    }

    /// The thread's budget is used up, right before an event of its clock.
    pub fn stop(&self, engine: &Engine, context: &mut Context) {
        let mut state = self.state();
        // Its clock is about to go on.
        state.start(engine, context.thread, context.clock() + 1);
        if let Some(mut run) = state.free_run(engine, context) {
            return run.stop();
        }
        state.machine.at_stop = true;
        if state.leaves_at_clock(engine, context) {
            // The plan has seen to what comes next.
        } else if state.target(context).is_some_and(|clock| clock <= context.clock()) {
            state.follow(engine, context);
        } else if state.has_gone_astray(context) {
            let stopped = state.cut().unwrap_or_else(|| state.diverged(context, "no end of what it computes"));
            end(engine, stopped);
        } else {
            state.arm(context);
            if let Some(debugging) = &self.debugging {
                debugging.note(if state.is_due(context) { Why::Due } else { Why::Slice });
            }
        }
        state.machine.at_stop = false;
    }

    /// An instruction faulted. False if the guest's handler is to run, which no recording tells.
    pub fn fault(&self, engine: &Engine, context: &mut Context, fault: Fault) -> bool {
        let mut state = self.state();
        state.machine.faulted = Some(fault);
        if state.free_run(engine, context).is_none() {
            state.follow(engine, context);
            // A fault that nothing came of would come again and again.
            let has_ended = self.debugging.as_ref().is_some_and(Debugging::has_ended);
            let is_left = has_ended || state.free_run(engine, context).is_some();
            if let Some(Fault { signal, address, .. }) = state.machine.faulted.filter(|_| !is_left) {
                let stopped = state.diverged(context, &format!("signal {signal} at {address:#x}"));
                end(engine, stopped);
            }
        }
        state.machine.faulted = None;
        state.free_run(engine, context).is_none_or(|mut run| run.fault(fault))
    }

    /// An instruction asks the machine; the recording has the answer.
    pub fn instruction(&self, engine: &Engine, context: &mut Context) -> Vec<u64> {
        let mut state = self.state();
        if let Some(values) = state.free_instruction(engine, context) {
            return values;
        }
        let current = state.machine.current;
        let inherited = !state.legs.is_empty();
        let State { cursor, what_if, .. } = &mut *state;
        let answer = cursor.peek().and_then(|record| match record.event {
            Event::Instruction(Instruction { thread, values, .. }) if thread == current => {
                engine.replay_passed(context, record.number, &record.event, inherited);
                if let Some(retelling) = what_if.as_mut().and_then(|what_if| what_if.retelling.as_mut()) {
                    retelling.follow(&record.event);
                }
                Some(values.iter().collect())
            }
            _ => None,
        });
        match answer {
            Some(values) => {
                state.take();
                state.pass_notes(engine, context);
                state.arm(context);
                state.tell_debugger(engine, context, context.clock());
                values
            }
            None => {
                let stopped =
                    state.cut().unwrap_or_else(|| state.diverged(context, "an instruction that asks the machine"));
                end(engine, stopped);
                Vec::new()
            }
        }
    }

    /// All threads, for a report.
    pub fn threads(&self, context: &Context) -> Vec<ThreadFacts> {
        // A report made while an event is being handled finds the state taken.
        let Ok(state) = self.state.try_lock() else { return vec![facts_of(context, 0)] };
        state.machine.facts(context)
    }
}

impl State {
    fn take(&mut self) {
        let number = self.cursor.next().map(|record| record.number);
        self.machine.figures.events += 1;
        if number.is_some()
            && number == self.until
            && let Some(leg) = self.legs.pop()
        {
            self.cursor = leg.cursor;
            self.until = leg.until;
            self.machine.threads.clear();
            self.machine.is_parent = !self.legs.is_empty();
        }
    }

    /// Passes what is there for people, so that the next event is one that the thread comes to.
    fn pass_notes(&mut self, engine: &Engine, context: &Context) {
        while let Some(Record { number, event: event @ Event::Note(_), .. }) = self.cursor.peek() {
            if self.legs.is_empty() && self.machine.wishes.to == Some(number) {
                return end(engine, Stopped::Asked { event: number });
            }
            engine.replay_passed(context, number, &event, !self.legs.is_empty());
            self.take();
        }
    }

    /// Handles events until the thread is to run on.
    fn follow(&mut self, engine: &Engine, context: &mut Context) {
        let (events, clock) = (self.machine.figures.events, context.clock());
        loop {
            if let Some(next) = self.cursor.peek().map(|record| record.number) {
                self.part_at(engine, next);
                if self.leaves_at_event(engine, context, next) {
                    return;
                }
            }
            let State { cursor, machine, legs, what_if, .. } = self;
            let Some(record) = cursor.peek() else {
                let figures = machine.figures;
                let cut = Stopped::Cut { event: figures.events, figures };
                end(engine, machine.executing.map_or(cut, |event| Stopped::Executed { event, figures }));
                break;
            };
            if legs.is_empty() && machine.wishes.to == Some(record.number) {
                end(engine, Stopped::Asked { event: record.number });
                break;
            }
            let handled = match machine.handle(engine, context, record.number, &record.event) {
                // A thread does not go on before its call is answered.
                Handled::NotYet if machine.pending.is_some() => {
                    machine.diverge(context, record.number, &describe(&record.event))
                }
                handled => handled,
            };
            match handled {
                Handled::Go => {
                    State::note_passed(what_if, engine, context, &record.event, machine);
                    engine.replay_passed(context, record.number, &record.event, !legs.is_empty());
                    self.take();
                }
                Handled::NotYet => break,
                Handled::Finish => {
                    let Some(Event::End(ending)) = cursor.peek().map(|record| record.event) else { break };
                    if let Some(what_if) = what_if {
                        whatif::finish(engine, machine, what_if, context, ending.kind, machine.faulted);
                    }
                    finish(engine, machine, context, &ending);
                    break;
                }
                Handled::Stop(stopped) => {
                    end(engine, stopped);
                    break;
                }
            }
        }
        self.arm(context);
        if self.machine.figures.events != events {
            self.tell_debugger(engine, context, clock);
        }
    }

    /// The clock at which the thread must stop for the next event, if that is what the event waits for.
    fn target(&mut self, context: &Context) -> Option<u64> {
        let current = context.thread;
        match self.cursor.peek()?.event {
            Event::Switch(switch) if switch.from == current => Some(switch.clock),
            Event::Signal(Signal { thread, clock, place: SignalPlace::AtClock, .. }) if thread == current => {
                Some(clock)
            }
            Event::End(End { kind: EndKind::Killed(_), thread, clock, .. }) if thread == current => Some(clock),
            Event::Hash(hash) if hash.thread == current && hash.place == Some(SignalPlace::AtClock) => Some(hash.clock),
            _ => None,
        }
    }

    /// Lets the thread run to where the next event wants it.
    fn arm(&mut self, context: &mut Context) {
        let planned = self.what_if.as_ref().and_then(|what_if| what_if.clock_for(context.thread));
        let due = self.due.filter(|(events, _)| *events == self.machine.figures.events).map(|(_, clock)| clock);
        let planned = planned.filter(|clock| *clock >= context.clock());
        let stop = self.target(context).into_iter().chain(planned).chain(due).min();
        let left = stop.map_or(SLICE, |clock| clock.saturating_sub(context.clock()) as i64);
        context.set_quantum(left.min(SLICE));
    }

    /// Whether the recording ends here, though the guest does not.
    fn cut(&mut self) -> Option<Stopped> {
        let figures = self.machine.figures;
        match self.cursor.peek() {
            None => Some(Stopped::Cut { event: figures.events, figures }),
            Some(Record { number, event: Event::End(End { kind: EndKind::Aborted(_), .. }), .. }) => {
                Some(Stopped::Cut { event: number, figures })
            }
            _ => None,
        }
    }

    /// Whether a debugger wants to be asked here.
    fn is_due(&self, context: &Context) -> bool {
        self.due.is_some_and(|(events, clock)| events == self.machine.figures.events && clock <= context.clock())
    }

    /// Events have been carried out, to which a thread came whose clock was `last`.
    fn tell_debugger(&self, engine: &Engine, context: &Context, last: u64) {
        if let Some(debugging) = engine.debugging() {
            debugging.passed(last, self.machine.figures.events, context.clock());
        }
    }

    fn diverged(&mut self, context: &Context, got: &str) -> Stopped {
        let event = self.machine.figures.events;
        let expected = self.cursor.peek().map_or("the end".to_owned(), |record| describe(&record.event));
        Stopped::Diverged(Divergence {
            event,
            thread: context.thread,
            clock: context.clock(),
            pc: context.pc,
            expected,
            got: got.to_owned(),
            memory: None,
        })
    }
}

/// The length of the instruction that makes a system call.
const SYSCALL_LENGTH: u64 = 2;

/// The replay leads no further: a debugger may still look around, all others end.
fn end(engine: &Engine, stopped: Stopped) {
    if let Some(debugging) = engine.debugging() {
        return debugging.end(Ended::Stopped(stopped));
    }
    engine.settle_observer();
    kernel::leave(engine.replay_stopped(&stopped))
}

/// Ends as the guest ended.
fn finish(engine: &Engine, machine: &mut Machine, context: &mut Context, ending: &End<'_>) {
    if let Some(debugging) = engine.debugging() {
        return debugging.end(match ending.kind {
            EndKind::Killed(death) => Ended::Killed(death.signal as i32),
            EndKind::Exited(status) => Ended::Exited(status),
            EndKind::Aborted(_) => {
                Ended::Stopped(Stopped::Cut { event: machine.figures.events, figures: machine.figures })
            }
        });
    }
    machine.figures.events += 1;
    engine.replay_finished(machine.figures);
    match ending.kind {
        EndKind::Killed(death) => {
            let fault = machine.faulted.take();
            let threads = machine.facts(context);
            deliver::die_with(engine, context, death.signal as i32, fault, threads)
        }
        EndKind::Exited(status) => {
            engine.finish();
            kernel::call(libc::SYS_exit_group as u64, [status as u64, 0, 0, 0, 0, 0]);
        }
        EndKind::Aborted(_) => {}
    }
    unreachable!("the process has ended")
}
