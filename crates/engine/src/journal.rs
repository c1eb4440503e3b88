//! Writing down all that a run takes from outside itself, so that it can be run again.
//!
//! The thread with the turn writes, in the order in which things take effect. What goes where is the journal's business;
//! the engine only says what happened.

use crate::commons::Commons;
use crate::context::Context;
use crate::engine::Engine;
use crate::file_changes;
use crate::kernel::{self, Arguments, SharedBytes};
use crate::shared_memory::Sharing;
use crate::space::PAGE;
use crate::stock::{MemoryCopy, Stock};
use crate::streams::{self, Streams};
use crate::syscalls;
use guest::effects::{self, Prepared, Span};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use trace::Digest;
use trace::event::{
    Call, Effect, End, EndKind, Event, Instruction, InstructionKind, Memory, Note, Points, Registers, Signal,
    SignalPlace, Stream, Time, Written,
};
use trace::{Hasher, List};

/// Who keeps what is written down.
pub trait Journal: Send {
    /// The run begins; the program is linked at this range if it cannot be moved.
    fn begin(&mut self, fixed_span: Option<(u64, u64)>);
    /// Writes an event. What cannot be written is the journal's trouble, not the guest's.
    fn note(&mut self, event: &Event<'_>);
    /// A mapping was made: writes it down with what it shows.
    fn map(&mut self, mapped: &Mapped);
    /// Memory of System V was mapped, which holds these bytes.
    fn attach(&mut self, mapped: &Mapped, segment: u64, bytes: &[u8]);
    /// Whether it matters what is written to files: some are mapped shared.
    fn watches_files(&self) -> bool;
    /// A part of an open file has changed, or its size.
    fn file_changed(&mut self, thread: u32, descriptor: i32, part: Range<u64>);
    /// Gets ready for a new process; tells the number of its log.
    fn before_fork(&mut self) -> u32;
    /// The new process goes on with its own log, the old one with its.
    fn after_fork(&mut self, is_child: bool);
    /// What is to be put before a followed program's words, so that its run is written down too.
    fn words_for_exec(&mut self, handover: &Handover) -> Vec<Vec<u8>>;
    /// The descriptors that lead to standard output (1) and error (2) from the start.
    fn first_streams(&self) -> Vec<(i32, u8)>;
    /// The run comes from another one, which may have started others.
    fn has_parent(&self) -> bool;
    /// A page of [`COMMONS_SIZE`](crate::COMMONS_SIZE) bytes that all processes of the recording share.
    fn commons(&self) -> Option<SharedBytes> {
        None
    }
    /// Whether copies of the process can go on with recordings of their own.
    fn can_depart(&self) -> bool {
        false
    }
    /// The process is a copy of the one that has written so far, and goes on with a recording of its own, which begins with
    /// what the other one holds.
    fn depart(&mut self) {}
    /// Nothing follows.
    fn close(&mut self);
}

/// How a followed program comes to its run.
#[derive(Clone, Debug)]
pub struct Handover {
    /// It takes this one's place, and is not executed by a child in `vfork`.
    pub replaces: bool,
    /// The descriptors that lead to standard output (1) and error (2).
    pub streams: Vec<(i32, u8)>,
}

/// A mapping of the guest's.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    pub thread: u32,
    pub address: u64,
    pub length: u64,
    pub protection: u32,
    pub flags: u32,
    /// The open file that it shows, and from where on.
    pub file: Option<(i32, u64)>,
}

/// How large a buffer is kept for the next call.
const KEPT: usize = 1 << 20;

/// The journal of a run, with what is needed to feed it.
pub struct Writing {
    journal: Mutex<Box<dyn Journal>>,
    buffer: Mutex<Vec<u8>>,
    streams: Mutex<Streams>,
    /// There is, or was, another process that has the same outputs.
    has_relatives: AtomicBool,
    /// Nothing as long as no memory is shared.
    sharing: Mutex<Option<Sharing>>,
    /// As long as other processes cannot write to the guest's memory, none.
    commons: OnceLock<Option<Commons>>,
    pub stock: Stock,
}

impl Writing {
    pub fn new(journal: Box<dyn Journal>) -> Writing {
        Writing {
            journal: Mutex::new(journal),
            buffer: Mutex::new(Vec::new()),
            streams: Mutex::default(),
            has_relatives: AtomicBool::new(false),
            sharing: Mutex::new(None),
            commons: OnceLock::new(),
            stock: Stock::new(),
        }
    }

    pub fn journal(&self) -> MutexGuard<'_, Box<dyn Journal>> {
        self.journal.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn note(&self, event: &Event<'_>) {
        self.journal().note(event);
    }

    /// A system call has been carried out. False if nobody knows what memory it wrote.
    pub fn call(&self, context: &Context, number: u64, arguments: Arguments, result: i64, before: Before) -> bool {
        let mut spans: Vec<Span> = Vec::new();
        let call = effects::Call { number, arguments, result };
        let mut is_known = effects::of(&call, &before.noted, &GuestMemory, &mut |span| spans.push(span)).is_ok();
        if !is_known {
            let changes = before.changes();
            is_known = changes.is_some();
            let text = if is_known {
                format!("what memory system call {number} wrote was found by comparing")
            } else {
                self.stock.blur();
                format!("nobody knows what memory system call {number} wrote; replay may diverge here")
            };
            self.note(&Event::Note(Note { thread: Some(context.thread), text: &text }));
            spans.extend(changes.unwrap_or_default());
        }
        let mut buffer = self.buffer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        buffer.clear();
        let pieces = read_spans(spans, &mut buffer);
        self.tell_time(context, &call);
        let effects: Vec<Effect<'_>> =
            pieces.iter().map(|(address, range)| Effect { address: *address, bytes: &buffer[range.clone()] }).collect();
        self.note(&Event::Call(Call {
            thread: context.thread,
            clock: context.clock(),
            number: number as u32,
            result,
            arguments: Some(arguments),
            effects: List::of(&effects),
        }));
        drop(effects);
        buffer.shrink_to(KEPT);
        drop(buffer);
        self.follow_streams(context, &call);
        if self.journal().watches_files() {
            file_changes::by(&call, |descriptor, part| self.journal().file_changed(context.thread, descriptor, part));
        }
        is_known
    }

    fn sharing(&self) -> MutexGuard<'_, Option<Sharing>> {
        self.sharing.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Memory is mapped that other processes may come to share; if `only_by_fork`, nobody else writes to it before one.
    pub fn begin_sharing(&self, only_by_fork: bool) {
        self.sharing().get_or_insert_default();
        if !only_by_fork {
            self.begin_commons();
        }
    }

    /// From the end of the present call on, processes that share memory run one at a time.
    fn begin_commons(&self) {
        self.commons.get_or_init(|| {
            let commons = self.journal().commons().map(Commons::new);
            if commons.is_none() {
                let text = "processes that share memory are not kept apart, and replay may diverge";
                self.note(&Event::Note(Note { thread: None, text }));
            }
            commons
        });
    }

    fn commons(&self) -> Option<&Commons> {
        self.commons.get().and_then(Option::as_ref)
    }

    /// The guest is about to run: no other process that shares its memory must.
    pub fn enter_commons(&self) {
        if let Some(commons) = self.commons() {
            commons.enter();
        }
    }

    /// The guest does not run on for now: other processes may.
    pub fn leave_commons(&self, engine: &Engine) {
        if let Some(commons) = self.commons().filter(|commons| commons.runs()) {
            self.keep_shared(engine);
            commons.leave();
        }
    }

    /// Lets other processes run that want to.
    pub fn pass_commons(&self, engine: &Engine) {
        if let Some(commons) = self.commons().filter(|commons| commons.is_wanted()) {
            self.keep_shared(engine);
            commons.pass();
        }
    }

    /// Whether others have run since the last look.
    pub fn is_stale(&self) -> bool {
        self.commons().is_some_and(Commons::is_stale)
    }

    /// Unless the guest has not run since others did: what they wrote is still to be looked at.
    fn keep_shared(&self, engine: &Engine) {
        if self.is_stale() {
            return;
        }
        if let Some(sharing) = self.sharing().as_mut() {
            sharing.keep(&engine.world().space.shared_ranges(sharing.has_forked));
        }
    }

    /// There are two processes now, which share what is shared.
    pub fn forked(&self) {
        self.has_relatives.store(true, Ordering::Relaxed);
        if let Some(sharing) = self.sharing().as_mut() {
            sharing.has_forked = true;
            self.begin_commons();
        }
    }

    /// The same for memory of System V.
    pub fn attached(&self, mapped: &Mapped, segment: u64) {
        let mut bytes = vec![0; mapped.length as usize];
        if kernel::read_bytes(mapped.address, &mut bytes).is_ok() {
            self.journal().attach(mapped, segment, &bytes);
        }
        self.begin_sharing(false);
    }

    /// Writes down what other processes may have written to memory that they share with the guest.
    pub fn look_at_shared(&self, engine: &Engine, context: &Context) {
        if let Some(commons) = self.commons() {
            commons.looked();
        }
        let mut sharing = self.sharing();
        let Some(sharing) = sharing.as_mut() else { return };
        let ranges = engine.world().space.shared_ranges(sharing.has_forked);
        let look = sharing.look(&ranges);
        let thread = context.thread;
        for (address, bytes) in &look.changes {
            self.note(&Event::Memory(Memory { thread, address: *address, bytes }));
        }
        if look.is_too_much {
            let text =
                "much memory is shared with other processes; what they write is not recorded, and replay may diverge";
            self.note(&Event::Note(Note { thread: Some(thread), text }));
        }
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The guest's first thread is about to run.
    pub fn begin(&self, fixed_span: Option<(u64, u64)>) {
        self.journal().begin(fixed_span);
        let begun = self.journal().first_streams();
        self.has_relatives.store(self.journal().has_parent(), Ordering::Relaxed);
        let changes = self.streams().changes_to(1, &begun);
        self.change_streams(changes);
        self.streams().remember_files();
    }

    /// These instructions are events of the clock.
    pub fn points(&self, points: &BTreeSet<u64>) {
        if !points.is_empty() {
            let addresses: Vec<u64> = points.iter().copied().collect();
            self.note(&Event::Points(Points { addresses: List::of(&addresses) }));
        }
    }

    fn change_streams(&self, changes: Vec<Stream>) {
        for change in changes {
            self.streams().set(change);
            self.note(&Event::Stream(change));
        }
    }

    /// Writes down when a call has written to an output that other processes have too.
    fn tell_time(&self, context: &Context, call: &effects::Call) {
        let is_output = |descriptor: i32| self.streams().of(context.thread, descriptor).is_some();
        let is_shown = || streams::written_to(call).is_some_and(is_output);
        if self.has_relatives.load(Ordering::Relaxed) && is_shown() {
            let [seconds, rest] = kernel::fast_clock(libc::CLOCK_REALTIME).unwrap_or_default();
            let nanoseconds = seconds.saturating_mul(1_000_000_000).saturating_add(rest);
            self.note(&Event::Time(Time { thread: context.thread, nanoseconds }));
        }
    }

    fn follow_streams(&self, context: &Context, call: &effects::Call) {
        if call.result == 0 && syscalls::is_vfork(call.number, call.arguments) {
            self.has_relatives.store(true, Ordering::Relaxed);
            self.streams().begin_vfork(context.thread);
            return;
        }
        let changes = self.streams().changes_by(context.thread, call);
        self.change_streams(changes);
        if let Some((to, from, offset)) = streams::passed_on(call)
            && self.streams().of(context.thread, to).is_some()
        {
            self.passed_on(context, to, from, offset..offset + call.result as u64);
        }
    }

    /// The kernel itself took a part of a file to an output.
    fn passed_on(&self, context: &Context, descriptor: i32, from: i32, part: Range<u64>) {
        let mut buffer = self.buffer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut offset = part.start;
        while offset < part.end {
            buffer.clear();
            buffer.resize(KEPT.min((part.end - offset) as usize), 0);
            let arguments = [from as u64, buffer.as_mut_ptr() as u64, buffer.len() as u64, offset, 0, 0];
            let read = kernel::call(libc::SYS_pread64 as u64, arguments);
            if read <= 0 {
                return;
            }
            let bytes = &buffer[..read as usize];
            self.note(&Event::Output(Written { thread: context.thread, descriptor, bytes }));
            offset += read as u64;
        }
    }

    /// A child in `vfork` is gone, and its parent goes on.
    pub fn vfork_ended(&self, context: &Context) {
        self.registers(context);
        self.streams().end_vfork(context.thread);
    }

    /// What is to be put before the words of a program that the thread executes.
    pub fn words_for_exec(&self, context: &Context) -> Vec<Vec<u8>> {
        let streams = self.streams().kept_over_exec(context.thread);
        self.journal().words_for_exec(&Handover { replaces: !context.is_other_process(), streams })
    }

    /// The guest's registers are now these.
    pub fn registers(&self, context: &Context) {
        let values = register_words(context);
        self.note(&Event::Registers(Registers { thread: context.thread, values: List::of(&values) }));
    }

    /// A signal was delivered to a thread that stood at `pc`; its frame, if it has a handler, lies from `frame` up.
    pub fn signal(&self, context: &Context, place: SignalPlace, pc: u64, info: &[u64; 16], frame: Option<(u64, u64)>) {
        let mut bytes = [0u8; 128];
        for (to, from) in bytes.chunks_exact_mut(8).zip(info) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        let (thread, clock) = (context.thread, context.clock());
        self.note(&Event::Signal(Signal { thread, clock, place, pc, info: &bytes }));
        if let Some((start, end)) = frame {
            self.memory(context, start, end - start);
        }
        self.registers(context);
    }

    /// The engine itself wrote to the guest's memory.
    pub fn memory(&self, context: &Context, address: u64, length: u64) {
        let mut bytes = vec![0; length as usize];
        if kernel::read_bytes(address, &mut bytes).is_ok() {
            self.note(&Event::Memory(Memory { thread: context.thread, address, bytes: &bytes }));
        }
    }

    /// Digests of all memory, where a replay can stop too. Once in a while, unless they are wanted anyway.
    pub fn take_stock(&self, engine: &Engine, context: &Context, place: SignalPlace, is_wanted: bool) {
        // A child that runs in this memory ends with what is in it, which is its parent's affair.
        if context.is_other_process() {
            return;
        }
        let reach = engine.turn.reach_of_others(context);
        let world = engine.world();
        self.stock.take(&world.space, &reach, is_wanted, |full| self.note(&Event::Hash(full.event(context, place))));
    }

    /// The process ends.
    pub fn end(&self, context: &Context, kind: EndKind, backtrace: &[u64], details: &[u8]) {
        let (thread, clock) = (context.thread, context.clock());
        let registers: Vec<u8> = register_words(context).iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut journal = self.journal();
        let (registers, backtrace) = (registers.as_slice(), List::of(backtrace));
        journal.note(&Event::End(End { kind, thread, clock, registers, backtrace, details }));
        journal.close();
        drop(journal);
        if let Some(commons) = self.commons() {
            commons.leave();
        }
    }

    /// An instruction gave what only the machine knows.
    pub fn instruction(&self, context: &Context, what: InstructionKind, values: &[u64]) {
        self.note(&Event::Instruction(Instruction { thread: context.thread, what, values: List::of(values) }));
    }
}

/// What is kept from before a call, to know afterwards what it wrote.
#[derive(Default)]
pub struct Before {
    noted: Prepared,
    /// If nothing else could tell.
    copy: Option<MemoryCopy>,
}

impl Before {
    pub fn new(engine: &Engine, number: u64, arguments: &Arguments) -> Before {
        let noted = effects::prepare(number, arguments, &GuestMemory);
        let is_unknown = effects::is_unknown(number, arguments, &noted, &GuestMemory);
        let copy = if is_unknown { MemoryCopy::take(&engine.world().space) } else { None };
        Before { noted, copy }
    }

    /// All memory that has changed since, if a copy tells.
    fn changes(self) -> Option<Vec<Span>> {
        self.copy?.changes(&Engine::if_started()?.world().space)
    }
}

/// Reads what is readable of the spans; tells the pieces, by their addresses, and where they are in the buffer.
pub fn read_spans(spans: Vec<Span>, buffer: &mut Vec<u8>) -> Vec<(u64, Range<usize>)> {
    let mut pieces = Vec::with_capacity(spans.len());
    for span in spans {
        read_span(span, buffer, &mut pieces);
    }
    pieces
}

/// Reads what is readable of the span: a guest may claim more room than it has.
fn read_span(span: Span, buffer: &mut Vec<u8>, pieces: &mut Vec<(u64, Range<usize>)>) {
    let start = buffer.len();
    buffer.resize(start + span.length as usize, 0);
    if kernel::read_bytes(span.address, &mut buffer[start..]).is_ok() {
        pieces.push((span.address, start..buffer.len()));
        return;
    }
    buffer.truncate(start);
    let (mut address, end) = (span.address, span.address.saturating_add(span.length));
    while address < end {
        let next = (address + 1).next_multiple_of(PAGE).min(end);
        let from = buffer.len();
        buffer.resize(from + (next - address) as usize, 0);
        if kernel::read_bytes(address, &mut buffer[from..]).is_ok() {
            pieces.push((address, from..buffer.len()));
        } else {
            buffer.truncate(from);
        }
        address = next;
    }
}

/// The words of a `Registers` event.
pub fn register_words(context: &Context) -> [u64; 20] {
    let mut words = [0; 20];
    words[..16].copy_from_slice(&context.gpr);
    words[16] = context.pc;
    words[17] = context.rflags;
    words[18] = context.guest_fs();
    words[19] = context.guest_gs;
    words
}

/// What a switch shows of the thread that gives up its turn. Arithmetic flags are left out: where a thread stops, those
/// that nobody will look at may be anything.
pub fn register_digest(context: &Context) -> Digest {
    const ARITHMETIC_FLAGS: u64 = 0x8d5;
    let flags = context.rflags & !ARITHMETIC_FLAGS;
    let mut hasher = Hasher::new();
    for word in context.gpr.iter().chain([&context.pc, &flags]) {
        hasher.add(&word.to_le_bytes());
    }
    hasher.digest()
}

/// Guest memory as the table of effects reads it.
pub struct GuestMemory;

impl effects::Memory for GuestMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        kernel::read_bytes(address, buffer).is_ok()
    }
}

/// An anonymous mapping, or one whose file is told.
pub fn mapped(context: &Context, address: u64, length: u64, arguments: Arguments) -> Mapped {
    let [_, _, protection, flags, descriptor, offset] = arguments;
    let file = (flags & libc::MAP_ANONYMOUS as u64 == 0).then_some((descriptor as i32, offset));
    Mapped { thread: context.thread, address, length, protection: protection as u32, flags: flags as u32, file }
}

/// Tells the journal, if there is one.
pub fn write_down(engine: &Engine, what: impl FnOnce(&Writing)) {
    if let Some(writing) = engine.writing() {
        what(writing);
    }
}
