//! What is written down: all that a run took from outside itself, in the order in which it took effect.
//!
//! Events borrow: when written, from the caller; when read, from the chunk they came in. Threads are the scheduler's
//! numbers (1 for the first of a process, never reused), unless a field says that it is the kernel's. Paths and other
//! texts of the guest are bytes, as the kernel sees them.
//!
//! The order of fields here is the order on the wire; see [`format`](crate::format) for what may change and how.

use crate::checksum::Digest;
use crate::clocks::Clocks;
use crate::list::List;
use crate::wire::{Buffer, Input, Malformed, Output, Wire, wire_codes, wire_fields};

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event<'a> {
    Start(Start<'a>),
    File(File<'a>),
    Map(Map<'a>),
    Memory(Memory<'a>),
    Call(Call<'a>),
    Switch(Switch),
    Signal(Signal<'a>),
    Instruction(Instruction<'a>),
    Thread(Thread),
    ThreadEnd(ThreadEnd),
    Fork(Fork),
    Exec(Exec),
    Output(Written<'a>),
    Hash(Hash<'a>),
    Note(Note<'a>),
    End(End<'a>),
    Registers(Registers<'a>),
    Stream(Stream),
    Change(Change<'a>),
    Points(Points<'a>),
    Time(Time),
    /// Of a kind that a newer minor version has added.
    Unknown {
        kind: u8,
        bytes: &'a [u8],
    },
}

/// How a process image began. The first event of every log, and of no other place.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Start<'a> {
    pub program: &'a [u8],
    pub arguments: List<'a, &'a [u8]>,
    pub environment: List<'a, &'a [u8]>,
    pub directory: &'a [u8],
    pub auxiliary: List<'a, Auxiliary>,
    /// The bytes that AT_RANDOM points to.
    pub random: &'a [u8],
    /// Where stack, break and mappings were put, in the recorder's own words.
    pub layout: &'a [u8],
    pub identity: Identity,
    pub seed: u64,
    pub policy: &'a str,
    pub quantum: u64,
    pub machine: Machine<'a>,
    /// Where the process image came from: none for the first of a recording.
    pub parent: Option<Parent>,
    /// Nanoseconds since 1970.
    pub wall_time: u64,
    /// Since version 1.2.
    pub shown: Shown,
}

/// The processor that the guest was shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shown {
    pub level: ShownLevel,
    /// The parts of the register state that XCR0 named to it.
    pub components: u64,
}

/// How much of the processor the guest was shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShownLevel {
    /// All that the machine has.
    Native,
    /// No more than this level of x86-64.
    V2,
    V3,
    V4,
    Other(u8),
}

impl Default for ShownLevel {
    /// The recording does not tell.
    fn default() -> ShownLevel {
        ShownLevel::Other(0)
    }
}

/// An entry of the auxiliary vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Auxiliary {
    pub key: u64,
    pub value: u64,
}

/// Who the kernel took the process for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    pub pid: u32,
    pub tid: u32,
    pub parent_pid: u32,
    pub uid: u32,
    pub effective_uid: u32,
    pub gid: u32,
    pub effective_gid: u32,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Machine<'a> {
    pub kernel: &'a str,
    pub processor: &'a str,
    pub features: List<'a, &'a str>,
}

/// The event (a [`Fork`] or an [`Exec`]) that a process image came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parent {
    pub log: u32,
    pub event: u64,
}

/// A file with its identity, written before its first use.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct File<'a> {
    /// What other events of the log call it.
    pub id: u32,
    pub path: &'a [u8],
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub modified: i64,
    /// Empty if there is none.
    pub build_id: &'a [u8],
    /// Of its whole content, if it was read.
    pub checksum: Option<Digest>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Map<'a> {
    pub thread: u32,
    pub address: u64,
    pub length: u64,
    /// `PROT_` bits.
    pub protection: u32,
    /// `MAP_` bits.
    pub flags: u32,
    pub file: Option<FilePart>,
    /// What the memory held, from its start, unless file or zeros say it all.
    pub content: Option<&'a [u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilePart {
    pub id: u32,
    pub offset: u64,
}

/// Memory written from outside that belongs to the next event of the same thread: effects too large for one event.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Memory<'a> {
    pub thread: u32,
    pub address: u64,
    pub bytes: &'a [u8],
}

/// A system call with its outcome.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Call<'a> {
    pub thread: u32,
    /// The thread's clock at the call.
    pub clock: u64,
    pub number: u32,
    /// As in the result register: negative error numbers.
    pub result: i64,
    /// To tell a divergence.
    pub arguments: Option<[u64; 6]>,
    pub effects: List<'a, Effect<'a>>,
}

/// Memory that a system call wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effect<'a> {
    pub address: u64,
    pub bytes: &'a [u8],
}

/// The turn goes from a thread to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch {
    pub from: u32,
    pub to: u32,
    /// Of `from`.
    pub clock: u64,
    pub reason: SwitchReason,
    /// Of `from`.
    pub registers: Digest,
    /// None after a call of which nobody knows what it wrote, and before version 1.2.
    pub memory: Option<Glimpse>,
}

/// A small part of memory, to be compared at replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Glimpse {
    /// Of the first [`GLIMPSE_OF_STACK`] bytes from the stack pointer on, no further than its page goes.
    pub stack: Option<Digest>,
    pub page: Option<Page>,
}

/// So much of a stack goes into a [`Glimpse`].
pub const GLIMPSE_OF_STACK: u64 = 512;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    pub address: u64,
    /// See [`Digest::of_page`].
    pub digest: Digest,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchReason {
    QuantumOver,
    Yielded,
    /// `from` waits.
    Waiting,
    /// `from` has ended.
    Ended,
    /// For a signal.
    Signal,
    /// Asked for by a plan or a debugger.
    Asked,
    Other(u8),
}

/// A signal is delivered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Signal<'a> {
    pub thread: u32,
    pub clock: u64,
    pub place: SignalPlace,
    /// The program counter that the handler, or nobody, will return to.
    pub pc: u64,
    /// `siginfo_t` as the kernel lays it out.
    pub info: &'a [u8; 128],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalPlace {
    /// Between instructions, at the clock and program counter told.
    AtClock,
    /// Raised by the instruction at the program counter.
    AtInstruction,
    /// Inside a system call, which it interrupts.
    InsideCall,
    /// At the end of a system call, before the next instruction.
    AfterCall,
    Other(u8),
}

/// An instruction whose outcome the machine decides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Instruction<'a> {
    pub thread: u32,
    pub what: InstructionKind,
    /// What it read, where that matters (`cpuid`: leaf and subleaf), then what it gave.
    pub values: List<'a, u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstructionKind {
    Rdtsc,
    Rdtscp,
    Cpuid,
    Rdrand,
    Rdseed,
    Xgetbv,
    Other(u8),
}

/// A thread begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thread {
    pub parent: u32,
    /// Of `parent`.
    pub clock: u64,
    pub child: u32,
    /// The kernel's number of `child`.
    pub tid: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadEnd {
    pub thread: u32,
    pub clock: u64,
    pub status: i32,
}

/// A process begins, recorded in a log of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fork {
    pub thread: u32,
    pub clock: u64,
    pub child_pid: u32,
    pub child_log: u32,
}

/// The process image is replaced; what follows is in another log. Written before the attempt: events that follow in this log
/// tell that it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exec {
    pub thread: u32,
    pub clock: u64,
    pub next_log: u32,
}

/// Bytes that the guest has written to a descriptor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Written<'a> {
    pub thread: u32,
    pub descriptor: i32,
    pub bytes: &'a [u8],
}

/// The state at a point, to be compared at replay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hash<'a> {
    pub thread: u32,
    pub clock: u64,
    pub registers: Digest,
    /// The sum of the parts' digests.
    pub memory: Digest,
    /// Where the thread stands, as for a signal. None before version 1.2, like the parts.
    pub place: Option<SignalPlace>,
    /// What was looked at, in ascending order: private memory that could be written to.
    pub parts: List<'a, MemoryPart>,
}

/// A range of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryPart {
    pub address: u64,
    pub length: u64,
    /// The sum of the digests of its pages that are the process's own; see [`Digest::of_page`].
    pub digest: Digest,
}

/// Something for people, such as that replay may diverge here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note<'a> {
    pub thread: Option<u32>,
    pub text: &'a str,
}

/// A thread's registers from now on: where a run begins, and after changes that no other event tells.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Registers<'a> {
    pub thread: u32,
    /// The sixteen general registers in encoding order, program counter, flags, FS base, GS base.
    pub values: List<'a, u64>,
}

/// Where what is written to a descriptor goes from now on. Descriptors 1 and 2 lead to the streams of the same number as
/// long as no event says otherwise, and all others elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    pub thread: u32,
    pub descriptor: i32,
    /// 1 for the standard output that the recorder was given, 2 for its standard error, 0 for anything else.
    pub stream: u8,
}

/// A call has changed a file that is mapped shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change<'a> {
    pub thread: u32,
    /// As [`File`] calls it.
    pub file: u32,
    /// What it has from now on.
    pub size: u64,
    pub offset: u64,
    /// What it holds from `offset` on.
    pub bytes: &'a [u8],
}

/// Instructions that are events of the clock besides branches, as long as the process image lasts. Comes right behind
/// [`Start`], and again with all of them where code is mapped that has more; a run without it counts branches alone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Points<'a> {
    /// Ascending.
    pub addresses: List<'a, u64>,
}

/// When the thread's next call was done. Told of calls that write to standard output or error as long as several
/// processes may do so: only this tells in which order the output of different processes came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Time {
    pub thread: u32,
    /// Nanoseconds since 1970, as in [`Start`].
    pub nanoseconds: u64,
}

/// How the process, or the recording of it, ended. The last event of a log.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct End<'a> {
    pub kind: EndKind,
    /// The thread that brought the end about.
    pub thread: u32,
    pub clock: u64,
    /// In the recorder's own words.
    pub registers: &'a [u8],
    /// Program counters, the innermost first.
    pub backtrace: List<'a, u64>,
    /// Whatever else is known, in the recorder's own words.
    pub details: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndKind {
    /// By `exit`, with the status.
    Exited(i32),
    Killed(Death),
    /// The recording stopped before the process did.
    Aborted(Abort),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Death {
    pub signal: u32,
    /// `si_code`.
    pub code: i32,
    /// `si_addr`, for faults.
    pub address: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Abort {
    SizeLimit,
    TimeLimit,
    DiskFull,
    /// Asked for by the user.
    Asked,
    Other(u8),
}

wire_fields!('a, Start<'a> {
    program, arguments, environment, directory, auxiliary, random, layout, identity, seed, policy, quantum, machine,
    parent, wall_time, shown,
});
wire_fields!('a, Auxiliary { key, value });
wire_fields!('a, Identity { pid, tid, parent_pid, uid, effective_uid, gid, effective_gid });
wire_fields!('a, Machine<'a> { kernel, processor, features });
wire_fields!('a, Parent { log, event });
wire_fields!('a, File<'a> { id, path, device, inode, size, modified, build_id, checksum });
wire_fields!('a, Map<'a> { thread, address, length, protection, flags, file, content });
wire_fields!('a, FilePart { id, offset });
wire_fields!('a, Memory<'a> { thread, address, bytes });
wire_fields!('a, Call<'a> { thread, clock since thread, number, result, arguments, effects });
wire_fields!('a, Effect<'a> { address, bytes });
wire_fields!('a, Switch { from, to, clock since from, reason, registers, memory if any });
wire_fields!('a, Glimpse { stack, page });
wire_fields!('a, Page { address, digest });
wire_fields!('a, Signal<'a> { thread, clock since thread, place, pc, info });
wire_fields!('a, Instruction<'a> { thread, what, values });
wire_fields!('a, Thread { parent, clock since parent, child, tid });
wire_fields!('a, ThreadEnd { thread, clock since thread, status });
wire_fields!('a, Fork { thread, clock since thread, child_pid, child_log });
wire_fields!('a, Exec { thread, clock since thread, next_log });
wire_fields!('a, Written<'a> { thread, descriptor, bytes });
wire_fields!('a, Hash<'a> { thread, clock since thread, registers, memory, place if any, parts if any });
wire_fields!('a, MemoryPart { address, length, digest });
wire_fields!('a, Note<'a> { thread, text });
wire_fields!('a, Registers<'a> { thread, values });
wire_fields!('a, Stream { thread, descriptor, stream });
wire_fields!('a, Change<'a> { thread, file, size, offset, bytes });
wire_fields!('a, Points<'a> { addresses });
wire_fields!('a, Time { thread, nanoseconds });
wire_fields!('a, End<'a> { kind, thread, clock since thread, registers, backtrace, details });
wire_fields!('a, Death { signal, code, address });

wire_codes!(SwitchReason { 1 QuantumOver, 2 Yielded, 3 Waiting, 4 Ended, 5 Signal, 6 Asked });
wire_codes!(SignalPlace { 1 AtClock, 2 AtInstruction, 3 InsideCall, 4 AfterCall });
wire_codes!(InstructionKind { 1 Rdtsc, 2 Rdtscp, 3 Cpuid, 4 Rdrand, 5 Rdseed, 6 Xgetbv });
wire_codes!(ShownLevel { 1 Native, 2 V2, 3 V3, 4 V4 });
wire_codes!(Abort { 1 SizeLimit, 2 TimeLimit, 3 DiskFull, 4 Asked });

impl<'a> Wire<'a> for EndKind {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        match self {
            EndKind::Exited(status) => {
                1_u8.put(out);
                status.put(out);
            }
            EndKind::Killed(death) => {
                2_u8.put(out);
                death.put(out);
            }
            EndKind::Aborted(abort) => {
                3_u8.put(out);
                abort.put(out);
            }
        }
    }

    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        match u8::take(input)? {
            1 => Wire::take(input).map(EndKind::Exited),
            2 => Wire::take(input).map(EndKind::Killed),
            3 => Wire::take(input).map(EndKind::Aborted),
            _ => Err(Malformed),
        }
    }
}

impl<'a> Wire<'a> for Shown {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        self.level.put(out);
        self.components.put(out);
    }

    /// Older versions end before it.
    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        if input.rest().is_empty() {
            return Ok(Shown::default());
        }
        Ok(Shown { level: Wire::take(input)?, components: Wire::take(input)? })
    }
}

/// Gives each kind of event its number on the wire.
macro_rules! kinds {
    ($($kind:literal $name:ident),* $(,)?) => {
        impl<'a> Event<'a> {
            #[inline]
            pub(crate) fn encode<B: Buffer>(&self, out: &mut Output<'_, B>) {
                match self {
                    $(Event::$name(body) => {
                        let kind: u8 = $kind;
                        kind.put(out);
                        body.put(out);
                    })*
                    Event::Unknown { kind, bytes } => {
                        kind.put(out);
                        out.buffer.raw(bytes);
                    }
                }
            }

            /// Bytes behind the last known field are those of a newer minor version, and are passed over.
            pub(crate) fn decode(bytes: &'a [u8], clocks: &Clocks) -> Result<Event<'a>, Malformed> {
                let mut input = Input::new(bytes, clocks);
                Ok(match u8::take(&mut input)? {
                    $($kind => Event::$name(Wire::take(&mut input)?),)*
                    kind => Event::Unknown { kind, bytes: input.rest() },
                })
            }
        }
    };
}

kinds! {
    1 Start, 2 File, 3 Map, 4 Memory, 5 Call, 6 Switch, 7 Signal, 8 Instruction, 9 Thread, 10 ThreadEnd, 11 Fork, 12 Exec,
    13 Output, 14 Hash, 15 Note, 16 End, 17 Registers, 18 Stream, 19 Change, 20 Points, 21 Time,
}

impl Event<'_> {
    /// The thread that had the turn when the event took effect.
    pub fn thread(&self) -> Option<u32> {
        match self {
            Event::Start(_) | Event::File(_) | Event::Points(_) | Event::Unknown { .. } => None,
            Event::Map(map) => Some(map.thread),
            Event::Memory(memory) => Some(memory.thread),
            Event::Instruction(instruction) => Some(instruction.thread),
            Event::Output(output) => Some(output.thread),
            Event::Registers(registers) => Some(registers.thread),
            Event::Stream(stream) => Some(stream.thread),
            Event::Change(change) => Some(change.thread),
            Event::Time(time) => Some(time.thread),
            Event::Note(note) => note.thread,
            _ => self.moment().map(|(thread, _)| thread),
        }
    }

    /// The thread and its clock, for events that tell both.
    pub fn moment(&self) -> Option<(u32, u64)> {
        match self {
            Event::Call(call) => Some((call.thread, call.clock)),
            Event::Switch(switch) => Some((switch.from, switch.clock)),
            Event::Signal(signal) => Some((signal.thread, signal.clock)),
            Event::Thread(thread) => Some((thread.parent, thread.clock)),
            Event::ThreadEnd(end) => Some((end.thread, end.clock)),
            Event::Fork(fork) => Some((fork.thread, fork.clock)),
            Event::Exec(exec) => Some((exec.thread, exec.clock)),
            Event::Hash(hash) => Some((hash.thread, hash.clock)),
            Event::End(end) => Some((end.thread, end.clock)),
            _ => None,
        }
    }

    /// Whether nothing need follow: the log is whole if this is its last event.
    pub fn closes(&self) -> bool {
        matches!(self, Event::End(_) | Event::Exec(_))
    }
}
