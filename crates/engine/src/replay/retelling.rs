//! A what-if run written down as a recording of its own, which all that reads recordings can look at.
//!
//! In a recording, threads change places at events of the clock, and a plan makes them do so at any instruction. So the
//! plan's instructions become points of the new recording, events of its clock from the first instruction on. The
//! events that the run follows are written again with clocks that count these.
//!
//! Not told are runs whose threads change places where no event can be, that end in a deadlock, or in which a handler
//! of the guest's runs after the recording was left: what was written then has no end.

use super::free::Run;
use super::machine::{Machine, Pending};
use super::outcome::Ending;
use crate::code::events::is_event;
use crate::code::path::decode_at;
use crate::code::points::Points;
use crate::context::Context;
use crate::engine::Engine;
use crate::guest_code::LiveCode;
use crate::journal::{GuestMemory, read_spans, register_digest, register_words};
use crate::kernel;
use guest::effects::{self, Prepared};
use std::collections::{BTreeMap, BTreeSet};
use trace::List;
use trace::event::{
    self, Call, Death, Effect, End, EndKind, Event, Instruction, InstructionKind, Map, Memory, Start, Switch,
    SwitchReason, Thread, ThreadEnd,
};

/// Who keeps what is told. The last event is the end; without it, the run could not be told.
pub type Teller = Box<dyn FnMut(&Event<'_>) + Send>;

/// That a run is to be told.
pub struct Retold {
    /// Where threads may have to change places: those of these instructions that can be points are.
    pub points: BTreeSet<u64>,
    pub teller: Teller,
}

pub struct Retelling {
    /// Nothing once the run turns out to be one that cannot be told.
    teller: Option<Teller>,
    points: Points,
    /// Points of the recording that is followed, which its clocks count already.
    old_points: BTreeSet<u64>,
    /// How many of the new points each thread has passed.
    passed: BTreeMap<u32, u64>,
    /// Threads that stand at a new point.
    standing: BTreeSet<u32>,
    /// Calls that threads wait in, as far as nobody else knows them.
    waiting: BTreeMap<u32, Pending>,
    /// Of the fault that ends the run.
    pub code: i32,
}

impl Retelling {
    pub fn new(retold: Retold) -> Retelling {
        Retelling {
            teller: Some(retold.teller),
            points: Points::new(retold.points),
            old_points: BTreeSet::new(),
            passed: BTreeMap::new(),
            standing: BTreeSet::new(),
            waiting: BTreeMap::new(),
            code: 0,
        }
    }

    pub fn give_up(&mut self) {
        self.teller = None;
    }

    fn tell(&mut self, event: &Event<'_>) {
        if let Some(teller) = &mut self.teller {
            teller(event);
        }
    }

    /// What a thread's clock shows in the new recording.
    fn clock(&self, thread: u32, clock: u64) -> u64 {
        clock + self.passed.get(&thread).copied().unwrap_or(0)
    }

    /// A thread stands at an instruction that the run leaves translated code for.
    pub fn arrives(&mut self, engine: &Engine, context: &Context) {
        let instruction = decode_at(&LiveCode(&engine.world().space), context.pc);
        let is_new = |at: &iced_x86::Instruction| self.points.contains(at) && !self.old_points.contains(&at.ip());
        if instruction.is_ok_and(|instruction| is_new(&instruction)) {
            self.standing.insert(context.thread);
        } else {
            self.standing.remove(&context.thread);
        }
    }

    /// It has run the instruction.
    pub fn passes(&mut self, thread: u32) {
        if self.standing.remove(&thread) {
            *self.passed.entry(thread).or_default() += 1;
        }
    }

    /// Whether a thread can give up its turn where it stands.
    fn is_stop(&self, engine: &Engine, pc: u64) -> bool {
        let instruction = decode_at(&LiveCode(&engine.world().space), pc);
        instruction.is_ok_and(|instruction| is_event(&instruction) || self.points.contains(&instruction))
    }

    /// An event of the recording was carried out.
    pub fn follow(&mut self, event: &Event<'_>) {
        let shown = |thread: u32, clock: u64| self.clock(thread, clock);
        let event = match *event {
            Event::Start(start) => {
                self.tell(&Event::Start(Start { parent: None, ..start }));
                return self.tell_points();
            }
            Event::Points(points) => {
                self.old_points = points.addresses.iter().collect();
                self.points.add(points.addresses.iter());
                return self.tell_points();
            }
            Event::Call(call) => Event::Call(Call { clock: shown(call.thread, call.clock), ..call }),
            Event::Switch(switch) => Event::Switch(Switch { clock: shown(switch.from, switch.clock), ..switch }),
            Event::Signal(signal) => {
                Event::Signal(event::Signal { clock: shown(signal.thread, signal.clock), ..signal })
            }
            Event::Thread(thread) => Event::Thread(Thread { clock: shown(thread.parent, thread.clock), ..thread }),
            Event::ThreadEnd(end) => Event::ThreadEnd(ThreadEnd { clock: shown(end.thread, end.clock), ..end }),
            Event::Fork(fork) => Event::Fork(event::Fork { clock: shown(fork.thread, fork.clock), ..fork }),
            Event::Exec(exec) => Event::Exec(event::Exec { clock: shown(exec.thread, exec.clock), ..exec }),
            Event::Hash(hash) => Event::Hash(event::Hash { clock: shown(hash.thread, hash.clock), ..hash }),
            event => event,
        };
        self.tell(&event);
    }

    fn tell_points(&mut self) {
        let addresses: Vec<u64> = self.points.addresses().iter().copied().collect();
        self.tell(&Event::Points(event::Points { addresses: List::of(&addresses) }));
    }

    /// A thread waits in a call that it will not make again.
    pub fn waits(&mut self, thread: u32, pending: Pending) {
        self.waiting.insert(thread, pending);
    }

    fn call(&mut self, thread: u32, clock: u64, pending: Pending, result: i64, before: &Prepared) {
        let Pending { number, arguments } = pending;
        let call = effects::Call { number, arguments, result };
        let mut spans = Vec::new();
        if effects::of(&call, before, &GuestMemory, &mut |span| spans.push(span)).is_err() {
            return self.give_up();
        }
        let mut bytes = Vec::new();
        let pieces = read_spans(spans, &mut bytes);
        let effects: Vec<Effect<'_>> =
            pieces.iter().map(|(address, range)| Effect { address: *address, bytes: &bytes[range.clone()] }).collect();
        let (clock, number, arguments) = (self.clock(thread, clock), number as u32, Some(arguments));
        self.tell(&Event::Call(Call { thread, clock, number, result, arguments, effects: List::of(&effects) }));
    }

    /// An instruction asked the machine.
    pub fn instruction(&mut self, thread: u32, what: InstructionKind, values: &[u64]) {
        self.tell(&Event::Instruction(Instruction { thread, what, values: List::of(values) }));
    }

    /// The turn goes to another thread.
    fn switch(&mut self, engine: &Engine, context: &Context, has_ended: bool, to: u32) {
        let from = context.thread;
        let reason = match () {
            () if has_ended => SwitchReason::Ended,
            () if self.waiting.contains_key(&from) => SwitchReason::Waiting,
            () if self.is_stop(engine, context.pc) => SwitchReason::QuantumOver,
            () => return self.give_up(),
        };
        let (clock, registers) = (self.clock(from, context.clock()), register_digest(context));
        self.tell(&Event::Switch(Switch { from, to, clock, reason, registers, memory: None }));
    }

    /// The run ends.
    pub fn end(&mut self, engine: &Engine, context: &Context, machine: &Machine, ending: &Ending) {
        let kind = match *ending {
            Ending::Exited(status) => EndKind::Exited(status),
            Ending::Killed { signal, address } => {
                EndKind::Killed(Death { signal: signal as u32, code: self.code, address: address.unwrap_or(0) })
            }
            _ => return self.give_up(),
        };
        let thread = context.thread;
        let clock = self.clock(thread, context.clock());
        let backtrace = engine.backtrace(thread, &machine.facts(context));
        let registers: Vec<u8> = register_words(context).iter().flat_map(|word| word.to_le_bytes()).collect();
        let (registers, backtrace) = (registers.as_slice(), List::of(&backtrace));
        self.tell(&Event::End(End { kind, thread, clock, registers, backtrace, details: &[] }));
        self.give_up();
    }
}

impl Run<'_> {
    /// Before a call is carried out: what is needed to know afterwards what it wrote.
    pub(super) fn before_telling(&self, pending: &Pending) -> Prepared {
        match &self.retelling {
            Some(_) => effects::prepare(pending.number, &pending.arguments, &GuestMemory),
            None => Prepared::default(),
        }
    }

    pub(super) fn tell_call(&mut self, pending: Pending, result: i64, before: &Prepared) {
        let (thread, clock) = (self.machine.current, self.context.clock());
        if let Some(retelling) = &mut self.retelling {
            retelling.waiting.remove(&thread);
            retelling.call(thread, clock, pending, result, before);
        }
    }

    /// The current thread's call is over for which it has waited.
    pub(super) fn tell_result(&mut self, result: i64) {
        let (thread, clock) = (self.machine.current, self.context.clock());
        let is_over = self.machine.pending.is_none();
        if let Some(retelling) = self.retelling.as_mut().filter(|_| is_over)
            && let Some(pending) = retelling.waiting.remove(&thread)
        {
            retelling.call(thread, clock, pending, result, &Prepared::default());
        }
    }

    pub(super) fn tell_wait(&mut self, thread: u32, pending: Pending) {
        if let Some(retelling) = &mut self.retelling {
            retelling.waits(thread, pending);
        }
    }

    pub(super) fn tell_switch(&mut self, to: u32) {
        let (engine, has_ended) = (self.engine, self.machine.ended);
        if let Some(retelling) = &mut self.retelling {
            retelling.switch(engine, self.context, has_ended, to);
        }
    }

    /// The run itself has written to the guest's memory, as a part of the current thread's call.
    pub(super) fn tell_memory(&mut self, address: u64, length: usize) {
        let thread = self.machine.current;
        let Some(retelling) = &mut self.retelling else { return };
        let mut bytes = vec![0; length];
        if kernel::read_bytes(address, &mut bytes).is_ok() {
            retelling.tell(&Event::Memory(Memory { thread, address, bytes: &bytes }));
        }
    }

    pub(super) fn tell_map(&mut self, map: &Map<'_>) {
        if let Some(retelling) = &mut self.retelling {
            retelling.tell(&Event::Map(*map));
        }
    }

    pub(super) fn tell_thread(&mut self, child: u32, tid: u32) {
        let (parent, clock) = (self.machine.current, self.context.clock());
        if let Some(retelling) = &mut self.retelling {
            let clock = retelling.clock(parent, clock);
            retelling.tell(&Event::Thread(Thread { parent, clock, child, tid }));
        }
    }

    pub(super) fn tell_thread_end(&mut self, status: u64) {
        let (thread, clock) = (self.machine.current, self.context.clock());
        if let Some(retelling) = &mut self.retelling {
            let clock = retelling.clock(thread, clock);
            retelling.tell(&Event::ThreadEnd(ThreadEnd { thread, clock, status: status as i32 }));
        }
    }

    /// Something happens that is not told.
    pub(super) fn stop_telling(&mut self) {
        if let Some(retelling) = &mut self.retelling {
            retelling.give_up();
        }
    }

    /// Whether the current thread may give up its turn where it stands.
    pub(super) fn can_tell_stop(&self) -> bool {
        self.retelling.as_ref().is_none_or(|retelling| retelling.is_stop(self.engine, self.context.pc))
    }
}
