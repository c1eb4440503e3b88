//! Running again what was written down: the guest's code runs, and everything from outside comes from the recording.
//!
//! All guest threads share one host thread: a recorded switch puts one context aside and takes up another. System calls
//! are not made; their results and the memory they wrote are in the recording. Only mappings are made for real. The
//! thread that runs stops by its clock where the next event says so, and whatever else it does must be what the next
//! event tells: if not, the run has diverged.

use crate::context::{Context, Fault, R11, RAX, RCX, RSP};
use crate::engine::{Engine, ThreadFacts};
use crate::journal::{GuestMemory, register_digest};
use crate::kernel::{self, Arguments};
use crate::signals::{deliver, frame};
use crate::space::{PAGE, Protection, Shared};
use crate::syscalls;
use guest::effects;
use sched::ThreadId;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard};
use trace::Cursor;
use trace::event::{
    self, Call, End, EndKind, Event, Instruction, Map, Registers, Signal, SignalPlace, Switch, SwitchReason,
};

/// Where mapped files come from.
pub trait Files: Send {
    /// A file that the recording names.
    fn learn(&mut self, file: &event::File<'_>);
    /// Opens it as it was; `Err` says what is wrong with it.
    fn open(&mut self, id: u32) -> Result<OwnedFd, String>;
}

/// What to do besides replaying.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    /// Write what the guest writes to its standard output and error.
    pub output: bool,
    /// Compare registers at every switch.
    pub verify: bool,
    /// Stop before this event.
    pub to: Option<u64>,
}

/// How a replay ended, other than by the guest's own end.
#[derive(Clone, Debug)]
pub enum Stopped {
    /// The run did something else than what was recorded.
    Diverged(Divergence),
    /// The recording ends here: its recorder was killed, or its rest is damaged.
    Cut { event: u64 },
    /// Where the user wanted it to.
    Asked { event: u64 },
    /// The guest went on as another program, in another log.
    Executed { event: u64 },
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
}

/// Counts for who verifies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub events: u64,
    pub switches: u64,
    pub calls: u64,
}

/// Quanta are cut into slices, whose ends show where the program is hot.
const SLICE: u64 = 50_000;

pub struct Replay {
    state: Mutex<State>,
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
}

/// The guest as far as its translated code does not know it.
struct Machine {
    files: Box<dyn Files>,
    wishes: Wishes,
    /// Threads that do not have the turn.
    threads: BTreeMap<u32, Aside>,
    current: u32,
    /// The system call that the current thread waits in.
    pending: Option<Pending>,
    /// The current thread has ended.
    ended: bool,
    /// It stands where its budget ended.
    at_stop: bool,
    /// It stands at an instruction that faulted.
    faulted: Option<Fault>,
    /// The guest is what it was at the start.
    begun: bool,
    /// A signal was delivered, whose registers come next.
    delivering: bool,
    /// The guest is about to become another program, as of this event.
    executing: Option<u64>,
    /// What a parent in `vfork` gets back.
    parents: BTreeMap<u32, (Vec<u8>, u64)>,
    tids: BTreeMap<u32, i32>,
    /// What stands for files that are mapped shared.
    shared: BTreeMap<u32, File>,
    figures: Figures,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    number: u64,
    arguments: Arguments,
}

/// A thread's state while another one runs.
struct Aside {
    gpr: [u64; 16],
    rflags: u64,
    pc: u64,
    fs: u64,
    gs: u64,
    state: Vec<u8>,
    clock: u64,
    pending: Option<Pending>,
}

/// What handling an event leads to.
enum Handled {
    /// The next one is to be looked at too.
    Go,
    /// The thread runs on; the event is still to come.
    NotYet,
    Finish,
    Stop(Stopped),
}

impl Replay {
    /// Replays the legs one after the other.
    pub fn new(first: Leg, mut others: Vec<Leg>, files: Box<dyn Files>, wishes: Wishes) -> Replay {
        others.reverse();
        let machine = Machine {
            files,
            wishes,
            threads: BTreeMap::new(),
            current: 1,
            pending: None,
            ended: false,
            at_stop: false,
            faulted: None,
            begun: false,
            delivering: false,
            executing: None,
            parents: BTreeMap::new(),
            tids: BTreeMap::new(),
            shared: BTreeMap::new(),
            figures: Figures::default(),
        };
        let state = State { cursor: first.cursor, until: first.until, legs: others, machine };
        Replay { state: Mutex::new(state) }
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
        context.gpr[RCX] = next;
        context.gpr[R11] = context.rflags;
        context.pc = next;
        let mut state = self.state();
        state.machine.pending = Some(Pending { number, arguments });
        state.follow(engine, context);
    }

    /// The thread's budget is used up, right before an event of its clock.
    pub fn stop(&self, engine: &Engine, context: &mut Context) {
        let mut state = self.state();
        state.machine.at_stop = true;
        if state.target(context).is_some_and(|clock| clock <= context.clock()) {
            state.follow(engine, context);
        } else {
            state.arm(context);
        }
        state.machine.at_stop = false;
    }

    /// An instruction faulted.
    pub fn fault(&self, engine: &Engine, context: &mut Context, fault: Fault) {
        let mut state = self.state();
        state.machine.faulted = Some(fault);
        state.follow(engine, context);
        state.machine.faulted = None;
    }

    /// An instruction asks the machine; the recording has the answer.
    pub fn instruction(&self, engine: &Engine, context: &mut Context) -> Vec<u64> {
        let mut state = self.state();
        let current = state.machine.current;
        let inherited = !state.legs.is_empty();
        let answer = state.cursor.peek().and_then(|record| match record.event {
            Event::Instruction(Instruction { thread, values, .. }) if thread == current => {
                engine.replay_passed(context, record.number, &record.event, inherited);
                Some(values.iter().collect())
            }
            _ => None,
        });
        match answer {
            Some(values) => {
                state.take();
                state.arm(context);
                values
            }
            None => {
                let stopped = state.diverged(context, "an instruction that asks the machine");
                end(engine, &stopped)
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

fn facts_of(context: &Context, tid: i32) -> ThreadFacts {
    ThreadFacts {
        id: ThreadId(context.thread),
        tid,
        registers: context.gpr,
        pc: context.pc,
        rflags: context.rflags,
        state: "running".to_owned(),
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
        }
    }

    /// Handles events until the thread is to run on.
    fn follow(&mut self, engine: &Engine, context: &mut Context) {
        loop {
            let State { cursor, machine, legs, .. } = self;
            let Some(record) = cursor.peek() else {
                let cut = Stopped::Cut { event: machine.figures.events };
                end(engine, &machine.executing.map_or(cut, |event| Stopped::Executed { event }));
            };
            if legs.is_empty() && machine.wishes.to == Some(record.number) {
                end(engine, &Stopped::Asked { event: record.number });
            }
            let handled = machine.handle(engine, context, record.number, &record.event);
            match handled {
                Handled::Go => {
                    engine.replay_passed(context, record.number, &record.event, !legs.is_empty());
                    self.take();
                }
                Handled::NotYet => break,
                Handled::Finish => {
                    let Some(Event::End(ending)) = cursor.peek().map(|record| record.event) else { break };
                    finish(engine, machine, context, &ending);
                }
                Handled::Stop(stopped) => end(engine, &stopped),
            }
        }
        self.arm(context);
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
            _ => None,
        }
    }

    /// Lets the thread run to where the next event wants it.
    fn arm(&mut self, context: &mut Context) {
        let left = self.target(context).map_or(SLICE, |clock| clock.saturating_sub(context.clock()));
        context.set_quantum(left.min(SLICE) as i64);
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
        })
    }
}

impl Machine {
    fn handle(&mut self, engine: &Engine, context: &mut Context, number: u64, event: &Event<'_>) -> Handled {
        let part_of_call =
            matches!(event, Event::Map(_) | Event::Memory(_) | Event::Thread(_) | Event::ThreadEnd(_) | Event::Fork(_));
        if part_of_call && self.begun && self.pending.is_none() && !self.delivering {
            return Handled::NotYet;
        }
        match event {
            Event::Start(start) => {
                self.tids.insert(1, start.identity.pid as i32);
            }
            Event::File(file) => self.files.learn(file),
            Event::Map(map) => {
                if let Err(problem) = self.map(engine, map) {
                    return Handled::Stop(Stopped::NoFile(problem));
                }
            }
            Event::Memory(memory) => write(engine, memory.address, memory.bytes),
            Event::Thread(thread) => {
                self.tids.insert(thread.child, thread.tid as i32);
                self.new_thread(engine, context, thread.child);
            }
            Event::ThreadEnd(_) => self.ended = true,
            Event::Call(call) => return self.call(engine, context, number, call),
            Event::Switch(switch) => return self.switch(engine, context, number, switch),
            Event::Signal(signal) => return self.signal(context, number, signal),
            Event::Registers(registers) => return self.registers(engine, context, registers),
            Event::Exec(_) if self.pending.is_none() => return Handled::NotYet,
            Event::Exec(_) => self.executing = Some(number),
            Event::End(ending) => return self.ending(context, number, ending),
            Event::Instruction(_) => return Handled::NotYet,
            _ => {}
        }
        Handled::Go
    }

    fn call(&mut self, engine: &Engine, context: &mut Context, number: u64, call: &Call<'_>) -> Handled {
        let Some(pending) = self.pending.filter(|_| call.thread == self.current) else {
            return if self.at_stop || self.faulted.is_some() || call.thread != self.current {
                self.diverge(context, number, &describe(&Event::Call(*call)))
            } else {
                Handled::NotYet
            };
        };
        let same = call.number == pending.number as u32
            && call.arguments.is_none_or(|arguments| arguments == pending.arguments);
        if !same {
            return self.diverge(context, number, &describe(&Event::Call(*call)));
        }
        self.figures.calls += 1;
        self.pending = None;
        if self.wishes.output {
            show_output(pending, call.result);
        }
        for effect in call.effects.iter() {
            write(engine, effect.address, effect.bytes);
        }
        context.gpr[RAX] = call.result as u64;
        if let Err(got) = self.redo(engine, context, pending, call.result) {
            return self.diverge_with(context, number, &describe(&Event::Call(*call)), &got);
        }
        // A signal may have come before the thread runs on.
        Handled::Go
    }

    /// What a call changes besides memory and the result.
    fn redo(&mut self, engine: &Engine, context: &mut Context, pending: Pending, result: i64) -> Result<(), String> {
        let Pending { number, arguments } = pending;
        match number as i64 {
            // Those that fail may have done a part of their work.
            libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_pkey_mprotect
            | libc::SYS_mremap
            | libc::SYS_brk
            | libc::SYS_shmdt
            | libc::SYS_madvise => {
                let got = syscalls::redo_mapping(engine, number, arguments);
                if got != result {
                    return Err(format!("the result {got:#x}"));
                }
            }
            libc::SYS_arch_prctl if result == 0 => syscalls::redo_arch_prctl(context, arguments),
            libc::SYS_rt_sigreturn => {
                frame::pop(context, engine.xstate()).map_err(|_| "a signal frame that cannot be read".to_owned())?;
            }
            libc::SYS_vfork | libc::SYS_clone if result == 0 => {
                let state = frame::state_area(context, engine.xstate()).to_vec();
                self.parents.insert(self.current, (state, context.clock()));
                if number as i64 == libc::SYS_clone && arguments[1] != 0 {
                    context.gpr[RSP] = arguments[1];
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn switch(&mut self, engine: &Engine, context: &mut Context, number: u64, switch: &Switch) -> Handled {
        if switch.from != self.current {
            return self.diverge(context, number, &describe(&Event::Switch(*switch)));
        }
        let by_clock = matches!(switch.reason, SwitchReason::QuantumOver);
        let there = self.ended || if by_clock { self.at_stop } else { self.pending.is_some() };
        if !there {
            if self.at_stop || self.pending.is_some() || self.faulted.is_some() {
                return self.diverge(context, number, &describe(&Event::Switch(*switch)));
            }
            return Handled::NotYet;
        }
        let differs = !self.ended
            && (switch.clock != context.clock() || self.wishes.verify && switch.registers != register_digest(context));
        if differs {
            return self.diverge(context, number, &describe(&Event::Switch(*switch)));
        }
        self.figures.switches += 1;
        if !self.ended {
            let aside = self.put_aside(engine, context);
            self.threads.insert(self.current, aside);
        }
        self.ended = false;
        self.at_stop = false;
        let Some(next) = self.threads.remove(&switch.to) else {
            return self.diverge(context, number, "a thread that exists");
        };
        self.take_up(engine, context, switch.to, next);
        Handled::Go
    }

    fn signal(&mut self, context: &mut Context, number: u64, signal: &Signal<'_>) -> Handled {
        if signal.thread != self.current {
            return self.diverge(context, number, &describe(&Event::Signal(*signal)));
        }
        // A call that was put off until after the signal is made again.
        let made_again = self.pending.is_some() && signal.pc == context.pc.wrapping_sub(2);
        if made_again {
            self.pending = None;
            context.pc = signal.pc;
        }
        let here = signal.clock == context.clock() && signal.pc == context.pc && self.pending.is_none();
        let raised = self.faulted.is_some() && signal.place == SignalPlace::AtInstruction;
        if here && (self.at_stop || raised || signal.place != SignalPlace::AtClock) {
            self.at_stop = false;
            self.faulted = None;
            self.delivering = true;
            return Handled::Go;
        }
        if self.at_stop || self.pending.is_some() || self.faulted.is_some() {
            return self.diverge(context, number, &describe(&Event::Signal(*signal)));
        }
        Handled::NotYet
    }

    fn registers(&mut self, engine: &Engine, context: &mut Context, registers: &Registers<'_>) -> Handled {
        // A child in `vfork` still runs: its parent's registers come back when it is gone.
        if self.parents.contains_key(&self.current) && self.pending.is_none() && !self.delivering {
            return Handled::NotYet;
        }
        self.delivering = false;
        self.begun = true;
        let mut words = [0; 20];
        for (word, value) in words.iter_mut().zip(registers.values.iter()) {
            *word = value;
        }
        context.gpr.copy_from_slice(&words[..16]);
        context.pc = words[16];
        context.rflags = words[17];
        context.set_guest_fs(words[18]);
        context.guest_gs = words[19];
        if self.pending.take().is_some()
            && let Some((state, clock)) = self.parents.remove(&self.current)
        {
            frame::state_area(context, engine.xstate()).copy_from_slice(&state);
            context.set_clock(clock);
        }
        Handled::Go
    }

    fn ending(&mut self, context: &mut Context, number: u64, ending: &End<'_>) -> Handled {
        let there = match ending.kind {
            EndKind::Exited(_) => self.pending.is_some() || self.ended,
            EndKind::Killed(_) => self.pending.is_some() || self.faulted.is_some() || self.at_stop,
            EndKind::Aborted(_) => return Handled::Stop(Stopped::Cut { event: number }),
        };
        // Killed between a call and the next instruction.
        let here = matches!(ending.kind, EndKind::Killed(_)) && ending.clock == context.clock();
        if there || here && ending.details.first() == Some(&BETWEEN) { Handled::Finish } else { Handled::NotYet }
    }

    fn diverge(&self, context: &Context, event: u64, expected: &str) -> Handled {
        let got = match (self.pending, self.faulted, self.at_stop) {
            (Some(pending), ..) => describe_call(pending.number, Some(pending.arguments), None),
            (_, Some(fault), _) => format!("signal {} at {:#x}", fault.signal, fault.address),
            (.., true) => "the end of its time".to_owned(),
            _ => "other registers".to_owned(),
        };
        self.diverge_with(context, event, expected, &got)
    }

    fn diverge_with(&self, context: &Context, event: u64, expected: &str, got: &str) -> Handled {
        Handled::Stop(Stopped::Diverged(Divergence {
            event,
            thread: self.current,
            clock: context.clock(),
            pc: context.pc,
            expected: expected.to_owned(),
            got: got.to_owned(),
        }))
    }

    fn put_aside(&mut self, engine: &Engine, context: &mut Context) -> Aside {
        Aside {
            gpr: context.gpr,
            rflags: context.rflags,
            pc: context.pc,
            fs: context.guest_fs(),
            gs: context.guest_gs,
            state: frame::state_area(context, engine.xstate()).to_vec(),
            clock: context.clock(),
            pending: self.pending.take(),
        }
    }

    fn take_up(&mut self, engine: &Engine, context: &mut Context, thread: u32, aside: Aside) {
        context.gpr = aside.gpr;
        context.rflags = aside.rflags;
        context.pc = aside.pc;
        context.set_guest_fs(aside.fs);
        context.guest_gs = aside.gs;
        frame::state_area(context, engine.xstate()).copy_from_slice(&aside.state);
        context.set_clock(aside.clock);
        context.thread = thread;
        self.pending = aside.pending;
        self.current = thread;
    }

    /// A thread as `clone` makes it from the caller, whose call is pending.
    fn new_thread(&mut self, engine: &Engine, context: &mut Context, child: u32) {
        let arguments = self.pending.map_or([0; 6], |pending| pending.arguments);
        let [flags, stack, _, _, thread_pointer, _] = arguments;
        let mut gpr = context.gpr;
        gpr[RAX] = 0;
        if stack != 0 {
            gpr[RSP] = stack;
        }
        let set_tls = flags & libc::CLONE_SETTLS as u64 != 0;
        let aside = Aside {
            gpr,
            rflags: context.rflags,
            pc: context.pc,
            fs: if set_tls { thread_pointer } else { context.guest_fs() },
            gs: context.guest_gs,
            state: frame::state_area(context, engine.xstate()).to_vec(),
            clock: 0,
            pending: None,
        };
        self.threads.insert(child, aside);
    }

    fn map(&mut self, engine: &Engine, map: &Map<'_>) -> Result<(), String> {
        let end = map.address.saturating_add(map.length).next_multiple_of(PAGE);
        let (protection, address) = (u64::from(map.protection), map.address);
        let file = match (map.content, map.file) {
            (None, Some(part)) => Some((self.files.open(part.id)?, part.offset)),
            // What is written through one mapping of a shared file shows in all others.
            (Some(content), Some(part)) if map.flags & libc::MAP_SHARED as u32 != 0 => {
                Some((self.shared_file(part.id, part.offset, content)?, part.offset))
            }
            // Behind the end of a file there is no memory, which only another file can show.
            (Some(content), _) => Some((memory_file(content)?, 0)),
            _ => None,
        };
        let shares = map.content.is_some() && map.flags & libc::MAP_SHARED as u32 != 0;
        let kind = if shares { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        let fixed = (kind | libc::MAP_FIXED) as u64;
        let anonymous = fixed | (libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64;
        let arguments = match &file {
            Some((file, offset)) => [address, map.length, protection, fixed, file.as_raw_fd() as u64, *offset],
            None => [address, map.length, protection, anonymous, u64::MAX, 0],
        };
        if engine.world().space.is_reserved(&(address..end))
            || kernel::call(libc::SYS_mmap as u64, arguments) as u64 != address
        {
            return Err(format!("memory at {address:#x} cannot be mapped"));
        }
        let shown = map
            .file
            .filter(|_| shares)
            .map(|part| Shared { object: (u64::MAX, u64::from(part.id)), origin: address.wrapping_sub(part.offset) });
        if shown.is_some() && map.protection & libc::PROT_EXEC as u32 != 0 {
            engine.note_shared_code();
        }
        engine.world().add_mapping(address..end, Protection(map.protection & 7), shown);
        Ok(())
    }

    /// Stands for a file that is mapped shared; `content` is what it holds from `offset` on.
    fn shared_file(&mut self, id: u32, offset: u64, content: &[u8]) -> Result<OwnedFd, String> {
        let problem = |error: std::io::Error| format!("no memory for a mapped file: {error}");
        let file = match self.shared.entry(id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(File::from(kernel::new_memory_file().map_err(problem)?)),
        };
        file.write_all_at(content, offset).map_err(problem)?;
        file.try_clone().map(OwnedFd::from).map_err(problem)
    }

    fn facts(&self, context: &Context) -> Vec<ThreadFacts> {
        let mut facts: Vec<ThreadFacts> = self
            .threads
            .iter()
            .map(|(&id, aside)| ThreadFacts {
                id: ThreadId(id),
                tid: self.tids.get(&id).copied().unwrap_or(0),
                registers: aside.gpr,
                pc: aside.pc,
                rflags: aside.rflags,
                state: aside.pending.map_or("runnable".to_owned(), |_| "in a system call".to_owned()),
            })
            .collect();
        facts.push(facts_of(context, self.tids.get(&self.current).copied().unwrap_or(0)));
        facts.sort_by_key(|facts| facts.id);
        facts
    }
}

/// A file in memory.
fn memory_file(content: &[u8]) -> Result<OwnedFd, String> {
    let problem = |error: std::io::Error| format!("no memory for a mapped file: {error}");
    let file = kernel::new_memory_file().map_err(problem)?;
    let mut file = File::from(file);
    file.write_all(content).map_err(problem)?;
    Ok(file.into())
}

/// The first byte of an end's details if a signal ended the process between instructions.
pub const BETWEEN: u8 = 1;

/// Writes to the guest's memory what came from outside.
fn write(engine: &Engine, address: u64, bytes: &[u8]) {
    engine.world().open_guarded_in(address..address.saturating_add(bytes.len() as u64));
    // What the kernel could not write then is not in the recording.
    let _ = kernel::write_bytes(address, bytes);
}

/// Shows what the guest writes to its standard output and error.
fn show_output(pending: Pending, result: i64) {
    let Pending { number, arguments } = pending;
    if result <= 0 || !(1..=2).contains(&arguments[0]) {
        return;
    }
    let call = effects::Call { number, arguments, result };
    let _ = effects::sent(&call, &GuestMemory, &mut |span| {
        kernel::call(libc::SYS_write as u64, [arguments[0], span.address, span.length, 0, 0, 0]);
    });
}

fn end(engine: &Engine, stopped: &Stopped) -> ! {
    engine.settle_observer();
    let status = engine.replay_stopped(stopped);
    kernel::call(libc::SYS_exit_group as u64, [u64::from(status), 0, 0, 0, 0, 0]);
    unreachable!("exit_group does not return")
}

/// Ends as the guest ended.
fn finish(engine: &Engine, machine: &mut Machine, context: &mut Context, ending: &End<'_>) -> ! {
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

fn describe_call(number: u64, arguments: Option<Arguments>, result: Option<i64>) -> String {
    let name =
        guest::syscall::lookup(number).map_or_else(|| format!("system call {number}"), |call| call.name.to_owned());
    let words: Vec<String> = arguments.unwrap_or_default().iter().map(|word| format!("{word:#x}")).collect();
    let result = result.map_or(String::new(), |result| format!(" = {result}"));
    format!("{name}({}){result}", words.join(", "))
}

/// An event in words, for a divergence.
fn describe(event: &Event<'_>) -> String {
    match event {
        Event::Call(call) => {
            let text = describe_call(u64::from(call.number), call.arguments, Some(call.result));
            format!("thread {} makes {text} at {}", call.thread, call.clock)
        }
        Event::Switch(switch) => {
            format!(
                "a switch from thread {} at {} to thread {} ({:?})",
                switch.from, switch.clock, switch.to, switch.reason
            )
        }
        Event::Signal(signal) => format!(
            "signal {} for thread {} at {}, {:#x} ({:?})",
            signal.info[0], signal.thread, signal.clock, signal.pc, signal.place
        ),
        Event::End(end) => format!("the end, {:?}", end.kind),
        Event::Instruction(instruction) => format!("{:?} by thread {}", instruction.what, instruction.thread),
        other => format!("{other:?}").chars().take(80).collect(),
    }
}
