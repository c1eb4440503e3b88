//! What each event of the recording does to the guest.

use super::threads::Aside;
use super::words::{describe, describe_call};
use super::{Divergence, Figures, Files, Output, Stopped, Wishes};
use crate::code::points::Points;
use crate::context::{Context, Fault, RAX, RSP};
use crate::engine::Engine;
use crate::journal::{GuestMemory, register_digest};
use crate::kernel::{self, Arguments};
use crate::signals::frame;
use crate::streams::Streams;
use crate::syscalls;
use guest::effects;
use std::collections::BTreeMap;
use std::fs::File;
use trace::event::{Call, End, EndKind, Event, Registers, Signal, SignalPlace, Start, Switch, SwitchReason};

/// The guest as far as its translated code does not know it.
pub struct Machine {
    pub(super) files: Box<dyn Files>,
    pub(super) wishes: Wishes,
    /// Threads that do not have the turn.
    pub(super) threads: BTreeMap<u32, Aside>,
    pub(super) current: u32,
    /// The system call that the current thread waits in.
    pub(super) pending: Option<Pending>,
    /// The current thread has ended.
    pub(super) ended: bool,
    /// It stands where its budget ended.
    pub(super) at_stop: bool,
    /// It stands at an instruction that faulted.
    pub(super) faulted: Option<Fault>,
    /// The guest is what it was at the start.
    pub(super) begun: bool,
    /// A signal was delivered, whose registers come next.
    pub(super) delivering: bool,
    /// Parts of the pending system call have been carried out.
    pub(super) half_called: bool,
    /// The guest is about to become another program, as of this event.
    pub(super) executing: Option<u64>,
    /// What a parent in `vfork` gets back.
    pub(super) parents: BTreeMap<u32, (Vec<u8>, u64)>,
    pub(super) tids: BTreeMap<u32, i32>,
    /// What stands for files that are mapped shared.
    pub(super) shared: BTreeMap<u32, File>,
    /// Where what the guest writes goes.
    streams: Streams,
    /// When the next call was done, as far as that is told.
    time: u64,
    /// What runs now is not yet the process that is replayed, but one that it comes from.
    pub(super) is_parent: bool,
    pub(super) figures: Figures,
    /// Output is not written out before so many events have passed.
    pub(super) silent_until: u64,
    /// It has been said that memory differs.
    pub(super) has_told_of_memory: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub number: u64,
    pub arguments: Arguments,
}

/// What handling an event leads to.
pub enum Handled {
    /// The next one is to be looked at too.
    Go,
    /// The thread runs on; the event is still to come.
    NotYet,
    Finish,
    Stop(Stopped),
}

/// The first byte of an end's details if a signal ended the process between instructions.
pub const BETWEEN: u8 = 1;

impl Machine {
    pub fn new(files: Box<dyn Files>, wishes: Wishes, is_parent: bool) -> Machine {
        Machine {
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
            half_called: false,
            executing: None,
            parents: BTreeMap::new(),
            tids: BTreeMap::new(),
            shared: BTreeMap::new(),
            streams: Streams::default(),
            time: 0,
            is_parent,
            figures: Figures::default(),
            silent_until: 0,
            has_told_of_memory: false,
        }
    }

    pub fn handle(&mut self, engine: &Engine, context: &mut Context, number: u64, event: &Event<'_>) -> Handled {
        let part_of_call =
            matches!(event, Event::Map(_) | Event::Memory(_) | Event::Thread(_) | Event::ThreadEnd(_) | Event::Fork(_));
        // A fault may end the only thread of a process that shares the memory.
        let dies = self.faulted.is_some() && matches!(event, Event::ThreadEnd(_));
        if part_of_call && self.begun && self.pending.is_none() && !self.delivering && !dies {
            return Handled::NotYet;
        }
        self.half_called |= part_of_call && self.pending.is_some();
        match event {
            Event::Start(start) => self.know_process(start),
            Event::Points(points) => {
                engine.world().cache.points = Points::new(points.addresses.iter().collect());
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
            Event::ThreadEnd(_) => {
                self.half_called = false;
                self.ended = true;
                self.faulted = None;
            }
            Event::Call(call) => return self.call(engine, context, number, call),
            Event::Switch(switch) => return self.switch(engine, context, number, switch),
            Event::Signal(signal) => return self.signal(context, number, signal),
            Event::Hash(hash) => return self.hash(engine, context, number, hash),
            Event::Registers(registers) => return self.registers(engine, context, registers),
            Event::Change(change) => self.change_file(engine, change),
            Event::Stream(change) => self.streams.set(*change),
            Event::Time(time) => self.time = time.nanoseconds,
            Event::Output(output) if self.shows_output() => self.show(engine, output.descriptor, output.bytes),
            Event::Exec(_) if self.pending.is_none() => return Handled::NotYet,
            Event::Exec(_) => self.executing = Some(number),
            Event::End(ending) => return self.ending(context, number, ending),
            Event::Instruction(_) => return Handled::NotYet,
            _ => {}
        }
        Handled::Go
    }

    pub(super) fn know_process(&mut self, start: &Start<'_>) {
        self.tids.insert(1, start.identity.pid as i32);
    }

    fn shows_output(&self) -> bool {
        let is_wanted = match self.wishes.output {
            Output::Dropped => false,
            Output::Shown => true,
            Output::Told => !self.is_parent,
        };
        is_wanted && self.figures.events >= self.silent_until
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
        self.half_called = false;
        if self.shows_output() {
            self.show_output(engine, pending, call.result);
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
                if is_refused_move(pending, result) {
                    return Ok(());
                }
                let got = syscalls::redo_mapping(engine, number, as_granted(pending, result));
                if got != result {
                    return Err(format!("the result {got:#x}"));
                }
            }
            libc::SYS_arch_prctl if result == 0 => syscalls::redo_arch_prctl(context, arguments),
            libc::SYS_rt_sigreturn => {
                frame::pop(context, engine.xstate()).map_err(|_| "a signal frame that cannot be read".to_owned())?;
            }
            libc::SYS_vfork | libc::SYS_clone if result == 0 => {
                if syscalls::is_vfork(number, arguments) {
                    let state = frame::state_area(context, engine.xstate()).to_vec();
                    self.parents.insert(self.current, (state, context.clock()));
                    self.streams.begin_vfork(self.current);
                }
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
        if let Some(stopped) = self.compare_glimpse(engine, context, number, switch) {
            return stopped;
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
        // Where a thread is switched to itself, its registers follow, and before them what others wrote to its memory.
        self.delivering = switch.from == switch.to;
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
        let is_gone = self.pending.is_some() || self.faulted.is_some();
        if self.parents.contains_key(&self.current) && !is_gone && !self.delivering {
            return Handled::NotYet;
        }
        self.delivering = false;
        let mut words = [0; 20];
        for (word, value) in words.iter_mut().zip(registers.values.iter()) {
            *word = value;
        }
        let is_elsewhere = std::mem::replace(&mut self.begun, true) && words[16] != context.pc;
        if let Some(debugging) = engine.debugging().filter(|_| is_elsewhere) {
            debugging.put_at(words[16]);
        }
        context.gpr.copy_from_slice(&words[..16]);
        context.pc = words[16];
        context.rflags = words[17];
        context.set_guest_fs(words[18]);
        context.guest_gs = words[19];
        self.faulted = None;
        self.pending = None;
        if is_gone && let Some((state, clock)) = self.parents.remove(&self.current) {
            frame::state_area(context, engine.xstate()).copy_from_slice(&state);
            context.set_clock(clock);
            self.streams.end_vfork(self.current);
        }
        Handled::Go
    }

    fn ending(&mut self, context: &mut Context, number: u64, ending: &End<'_>) -> Handled {
        let there = match ending.kind {
            EndKind::Exited(_) => self.pending.is_some() || self.ended,
            EndKind::Killed(_) => self.pending.is_some() || self.faulted.is_some() || self.at_stop,
            EndKind::Aborted(_) => return Handled::Stop(Stopped::Cut { event: number, figures: self.figures }),
        };
        // Killed between a call and the next instruction.
        let pc = ending.backtrace.iter().next().unwrap_or(context.pc);
        let here = matches!(ending.kind, EndKind::Killed(_)) && (ending.clock, pc) == (context.clock(), context.pc);
        if there || here && ending.details.first() == Some(&BETWEEN) { Handled::Finish } else { Handled::NotYet }
    }

    /// Shows what the guest writes to its standard output and error.
    fn show_output(&self, engine: &Engine, pending: Pending, result: i64) {
        let Pending { number, arguments } = pending;
        let Some(stream) = self.streams.of(self.current, arguments[0] as i32) else { return };
        let call = effects::Call { number, arguments, result };
        let _ = effects::sent(&call, &GuestMemory, &mut |span| {
            if self.wishes.output == Output::Told {
                let mut bytes = vec![0; span.length as usize];
                if kernel::read_bytes(span.address, &mut bytes).is_ok() {
                    engine.replay_wrote(self.time, stream, &bytes);
                }
                return;
            }
            kernel::call(libc::SYS_write as u64, [u64::from(stream), span.address, span.length, 0, 0, 0]);
        });
    }

    /// The same for what the guest has not seen itself.
    fn show(&self, engine: &Engine, descriptor: i32, bytes: &[u8]) {
        let Some(stream) = self.streams.of(self.current, descriptor) else { return };
        if self.wishes.output == Output::Told {
            return engine.replay_wrote(self.time, stream, bytes);
        }
        let arguments = [u64::from(stream), bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0];
        kernel::call(libc::SYS_write as u64, arguments);
    }

    pub(super) fn diverge(&self, context: &Context, event: u64, expected: &str) -> Handled {
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
            memory: None,
        }))
    }
}

/// Whether there was no memory for moving or growing a mapping, which then is as it was.
fn is_refused_move(pending: Pending, result: i64) -> bool {
    let Pending { number, arguments } = pending;
    let leaves_all = arguments[3] & libc::MREMAP_FIXED as u64 == 0;
    number as i64 == libc::SYS_mremap && leaves_all && result == syscalls::error(libc::ENOMEM)
}

/// The arguments of a change of mappings, as far as it was carried out: a break that was not granted was only asked for.
fn as_granted(pending: Pending, result: i64) -> Arguments {
    let Pending { number, arguments } = pending;
    let is_refused = number as i64 == libc::SYS_brk && result as u64 != arguments[0];
    if is_refused { [0; 6] } else { arguments }
}

/// Writes to the guest's memory what came from outside.
fn write(engine: &Engine, address: u64, bytes: &[u8]) {
    let range = address..address.saturating_add(bytes.len() as u64);
    let mut world = engine.world();
    // A recording that was made up may name the engine's own memory.
    if world.space.find(address).is_none() || world.space.is_reserved(&range) {
        return;
    }
    world.open_guarded_in(range);
    drop(world);
    // What the kernel could not write then is not in the recording.
    let _ = kernel::write_bytes(address, bytes);
}
