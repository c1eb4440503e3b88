//! What the rest of a recording still answers once it is no longer followed.
//!
//! Each thread has its own answers, in the order in which it got them. A call that comes from the outside world is
//! answered while the thread's calls are those that were recorded; the first that is not ends that. Calls that only ask
//! for facts (times, limits, what a descriptor is), and output, are kept apart: they may come more or less often than they did.
//!
//! What comes through sockets is nobody's own (`channels/inputs`), and what threads send to each other is no answer at all.

use super::channels::inputs::Inputs;
use super::channels::tail::Tail;
use super::channels::{is_about_descriptor, is_poll};
use super::drained::Unread;
use crate::kernel::Arguments;
use std::collections::{BTreeMap, VecDeque};
use trace::Cursor;
use trace::event::{Call, Event, FilePart, InstructionKind, Map, SignalPlace};

/// A recorded system call with all that it did to memory.
#[derive(Clone, Debug)]
pub struct Answer {
    pub number: u64,
    pub arguments: Arguments,
    pub result: i64,
    pub memory: Vec<(u64, Vec<u8>)>,
    pub maps: Vec<Mapped>,
}

/// A [`Map`] of its own.
#[derive(Clone, Debug)]
pub struct Mapped {
    pub address: u64,
    pub length: u64,
    pub protection: u32,
    pub flags: u32,
    pub file: Option<FilePart>,
    pub content: Option<Vec<u8>>,
}

impl Mapped {
    fn new(map: &Map<'_>) -> Mapped {
        let Map { address, length, protection, flags, file, content, .. } = *map;
        Mapped { address, length, protection, flags, file, content: content.map(<[u8]>::to_vec) }
    }

    pub fn at(&self, address: u64, thread: u32) -> Map<'_> {
        let Mapped { length, protection, flags, file, ref content, .. } = *self;
        Map { thread, address, length, protection, flags, file, content: content.as_deref() }
    }
}

/// What a fact is asked for by: the call, and those of its arguments that tell what is asked.
pub type Subject = (u64, u64, u64);

#[derive(Default)]
pub struct Answers {
    threads: BTreeMap<u32, Script>,
    /// The last answer that anybody got to each question.
    facts: BTreeMap<Subject, Answer>,
    /// Above all that the recording knows.
    pub next_descriptor: u64,
    pub next_thread: u32,
    pub next_tid: u32,
    /// Memory is laid out anew: a pointer may be any other.
    pub is_relaid: bool,
    /// What threads that no longer do as recorded would still have read.
    pub unread: Unread,
    /// What comes through sockets, and signals.
    pub inputs: Inputs,
    /// Descriptors that were recorded, of what has other ones in this run.
    renamed: BTreeMap<u64, u64>,
}

#[derive(Default)]
struct Script {
    outside: VecDeque<Answer>,
    facts: BTreeMap<Subject, VecDeque<Answer>>,
    instructions: BTreeMap<u8, VecDeque<Vec<u64>>>,
    threads: VecDeque<(u32, u32)>,
    /// Parts of the call that is being read.
    memory: Vec<(u64, Vec<u8>)>,
    maps: Vec<Mapped>,
}

impl Answers {
    /// Notes an answer of the part that was followed: it may be asked for again.
    pub fn note(&mut self, call: &Call<'_>) {
        if let Some(arguments) = call.arguments {
            self.next_descriptor = self.next_descriptor.max(highest_descriptor(call, arguments) + 1);
            if let Some(subject) = subject(u64::from(call.number), arguments) {
                self.facts.insert(subject, answer(call, arguments));
            }
        }
    }

    pub fn note_thread(&mut self, child: u32, tid: u32) {
        self.next_thread = self.next_thread.max(child.saturating_add(1));
        self.next_tid = self.next_tid.max(tid.saturating_add(1));
    }

    /// Reads all that is left. Files that are named there go to `learn`, and what `tail` takes is no thread's own.
    pub fn read(&mut self, cursor: &mut Cursor, tail: &mut Tail, mut learn: impl FnMut(&trace::event::File<'_>)) {
        while let Some(record) = cursor.next() {
            match &record.event {
                Event::File(file) => learn(file),
                Event::Memory(memory) => {
                    self.script(memory.thread).memory.push((memory.address, memory.bytes.to_vec()))
                }
                Event::Map(map) => self.script(map.thread).maps.push(Mapped::new(map)),
                Event::Thread(thread) => {
                    self.note_thread(thread.child, thread.tid);
                    self.script(thread.parent).threads.push_back((thread.child, thread.tid));
                }
                Event::Instruction(instruction) => {
                    let kind = kind_number(instruction.what);
                    let values = instruction.values.iter().collect();
                    self.script(instruction.thread).instructions.entry(kind).or_default().push_back(values);
                }
                // Memory before these is no call's.
                Event::Signal(signal) => {
                    if signal.place != SignalPlace::AtInstruction {
                        tail.hear_signal(&mut self.inputs, signal.thread, signal.info);
                    }
                    self.script(signal.thread).memory.clear();
                }
                Event::ThreadEnd(end) => self.script(end.thread).memory.clear(),
                Event::Registers(registers) => self.script(registers.thread).memory.clear(),
                Event::Call(call) => self.take(call, record.number, tail),
                _ => {}
            }
        }
    }

    fn take(&mut self, call: &Call<'_>, position: u64, tail: &mut Tail) {
        let script = self.threads.entry(call.thread).or_default();
        let (memory, maps) = (std::mem::take(&mut script.memory), std::mem::take(&mut script.maps));
        let Some(arguments) = call.arguments else { return };
        let mut answer = answer(call, arguments);
        answer.memory.splice(..0, memory);
        answer.maps = maps;
        self.next_descriptor = self.next_descriptor.max(highest_descriptor(call, arguments) + 1);
        if tail.hear(&mut self.inputs, position, call.thread, &answer) {
            return;
        }
        match subject(answer.number, arguments) {
            Some(subject) => {
                self.facts.entry(subject).or_insert_with(|| answer.clone());
                script.facts.entry(subject).or_default().push_back(answer);
            }
            None if is_from_outside(answer.number, arguments) => script.outside.push_back(answer),
            None => {}
        }
    }

    fn script(&mut self, thread: u32) -> &mut Script {
        self.threads.entry(thread).or_default()
    }

    /// The recorded answer to a call that asks the outside world, if the thread still does as recorded.
    pub fn outside(&mut self, thread: u32, number: u64, arguments: &Arguments) -> Option<Answer> {
        let next = self.next(thread, number, arguments);
        let script = self.threads.get_mut(&thread)?;
        match next {
            Some(next) => {
                script.outside.drain(..next);
                script.outside.pop_front()
            }
            None => {
                self.unread.keep(std::mem::take(&mut script.outside));
                None
            }
        }
    }

    /// Which of a thread's answers is the one to a call. Waits for descriptors in between may have been answered by the run.
    fn next(&self, thread: u32, number: u64, arguments: &Arguments) -> Option<usize> {
        let outside = &self.threads.get(&thread)?.outside;
        let is_it = |answer: &Answer| is_same(answer, number, &self.as_recorded(number, arguments), self.is_relaid);
        let next = outside.iter().position(|answer| is_it(answer) || !is_poll(answer.number))?;
        is_it(&outside[next]).then_some(next)
    }

    /// A call with the descriptor that it would have had when it was recorded.
    fn as_recorded(&self, number: u64, arguments: &Arguments) -> Arguments {
        let mut arguments = *arguments;
        if is_about_descriptor(number)
            && let Some((recorded, _)) = self.renamed.iter().find(|(_, now)| **now == arguments[0])
        {
            arguments[0] = *recorded;
        }
        arguments
    }

    /// What was recorded under a descriptor has another one now.
    pub fn rename(&mut self, recorded: u64, now: u64) {
        self.renamed.remove(&recorded);
        if recorded != now {
            self.renamed.insert(recorded, now);
        }
    }

    /// Whether the recording answers a call of a thread.
    pub fn has_next(&self, thread: u32, number: u64, arguments: &Arguments) -> bool {
        self.next(thread, number, arguments).is_some()
    }

    /// Whether anybody has more to read from a descriptor.
    pub fn has_input(&self, descriptor: u64) -> bool {
        let reads = |answer: &Answer| {
            let is_read = matches!(answer.number as i64, libc::SYS_read | libc::SYS_recvfrom | libc::SYS_recvmsg);
            is_read && answer.arguments[0] == descriptor && answer.result > 0
        };
        self.unread.has(descriptor) || self.threads.values().any(|script| script.outside.iter().any(reads))
    }

    /// What the thread was answered next, or what anybody was answered last.
    pub fn fact(&mut self, thread: u32, subject: Subject) -> Option<Answer> {
        let own = self.threads.get_mut(&thread).and_then(|script| script.facts.get_mut(&subject)?.pop_front());
        if let Some(answer) = &own {
            self.facts.insert(subject, answer.clone());
        }
        own.or_else(|| self.facts.get(&subject).cloned())
    }

    /// The same, only if the thread itself was answered so.
    pub fn own_fact(&mut self, thread: u32, subject: Subject) -> Option<Answer> {
        self.threads.get_mut(&thread)?.facts.get_mut(&subject)?.pop_front()
    }

    pub fn instruction(&mut self, thread: u32, what: InstructionKind) -> Option<Vec<u64>> {
        self.threads.get_mut(&thread)?.instructions.get_mut(&kind_number(what))?.pop_front()
    }

    /// Number and kernel's number for the next thread that this one makes.
    pub fn new_thread(&mut self, parent: u32) -> (u32, u32) {
        let recorded = self.threads.get_mut(&parent).and_then(|script| script.threads.pop_front());
        recorded.unwrap_or_else(|| {
            let made = (self.next_thread, self.next_tid);
            self.note_thread(made.0, made.1);
            made
        })
    }
}

fn answer(call: &Call<'_>, arguments: Arguments) -> Answer {
    let memory = call.effects.iter().map(|effect| (effect.address, effect.bytes.to_vec())).collect();
    Answer { number: u64::from(call.number), arguments, result: call.result, memory, maps: Vec::new() }
}

fn kind_number(kind: InstructionKind) -> u8 {
    match kind {
        InstructionKind::Rdtsc => 1,
        InstructionKind::Rdtscp => 2,
        InstructionKind::Cpuid => 3,
        InstructionKind::Rdrand => 4,
        InstructionKind::Rdseed => 5,
        InstructionKind::Xgetbv => 6,
        InstructionKind::Other(other) => other,
    }
}

/// Descriptors are small; what is larger is something else.
const MOST_DESCRIPTORS: u64 = 1 << 20;

/// The highest number in the call that could be a descriptor's.
fn highest_descriptor(call: &Call<'_>, arguments: Arguments) -> u64 {
    let result = u64::try_from(call.result).ok().filter(|_| gives_descriptors(call.number));
    let argument = Some(arguments[0]).filter(|_| takes_descriptors(call.number));
    let known = [result, argument].into_iter().flatten();
    known.filter(|number| *number < MOST_DESCRIPTORS).max().unwrap_or(2)
}

fn gives_descriptors(number: u32) -> bool {
    matches!(
        i64::from(number),
        libc::SYS_open
            | libc::SYS_openat
            | libc::SYS_openat2
            | libc::SYS_creat
            | libc::SYS_dup
            | libc::SYS_dup2
            | libc::SYS_dup3
            | libc::SYS_fcntl
            | libc::SYS_socket
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_epoll_create1
            | libc::SYS_eventfd2
            | libc::SYS_memfd_create
            | libc::SYS_timerfd_create
            | libc::SYS_signalfd4
    )
}

fn takes_descriptors(number: u32) -> bool {
    matches!(
        i64::from(number),
        libc::SYS_read | libc::SYS_write | libc::SYS_close | libc::SYS_dup | libc::SYS_dup2 | libc::SYS_fcntl
    )
}

/// Calls that ask for facts, and output: what they are about.
pub fn subject(number: u64, arguments: Arguments) -> Option<Subject> {
    let [first, second, ..] = arguments;
    match number as i64 {
        libc::SYS_clock_gettime | libc::SYS_clock_getres | libc::SYS_fstat | libc::SYS_getrusage => {
            Some((number, first, 0))
        }
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            Some((number, first, 0))
        }
        libc::SYS_newfstatat if arguments[3] & libc::AT_EMPTY_PATH as u64 != 0 => Some((number, first, 0)),
        libc::SYS_ioctl if second == libc::TCGETS => Some((number, first, second)),
        libc::SYS_fcntl if matches!(second as i32, libc::F_GETFL | libc::F_GETFD) => Some((number, first, second)),
        libc::SYS_prlimit64 if arguments[2] == 0 => Some((number, first, second)),
        libc::SYS_getrlimit => Some((number, first, 0)),
        libc::SYS_sched_getaffinity => Some((number, 0, second)),
        libc::SYS_getrandom => Some((number, second, 0)),
        libc::SYS_gettimeofday
        | libc::SYS_time
        | libc::SYS_times
        | libc::SYS_getcpu
        | libc::SYS_getpid
        | libc::SYS_getppid
        | libc::SYS_getpgrp
        | libc::SYS_getuid
        | libc::SYS_geteuid
        | libc::SYS_getgid
        | libc::SYS_getegid
        | libc::SYS_uname
        | libc::SYS_sysinfo => Some((number, 0, 0)),
        _ => None,
    }
}

/// Calls that the machine cannot carry out by itself.
fn is_from_outside(number: u64, arguments: Arguments) -> bool {
    match number as i64 {
        libc::SYS_mmap => arguments[3] & libc::MAP_ANONYMOUS as u64 == 0,
        libc::SYS_prctl => !is_about_names(arguments[0]),
        libc::SYS_futex
        | libc::SYS_munmap
        | libc::SYS_mprotect
        | libc::SYS_pkey_mprotect
        | libc::SYS_mremap
        | libc::SYS_brk
        | libc::SYS_madvise
        | libc::SYS_sched_yield
        | libc::SYS_gettid
        | libc::SYS_set_tid_address
        | libc::SYS_set_robust_list
        | libc::SYS_rt_sigprocmask
        | libc::SYS_rt_sigaction
        | libc::SYS_rt_sigreturn
        | libc::SYS_sigaltstack
        | libc::SYS_arch_prctl
        | libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep
        | libc::SYS_clone
        | libc::SYS_clone3
        | libc::SYS_rseq
        | libc::SYS_exit
        | libc::SYS_exit_group
        | libc::SYS_tgkill
        | libc::SYS_tkill
        | libc::SYS_kill => false,
        _ => true,
    }
}

/// Requests of `prctl` that name threads or memory.
pub fn is_about_names(request: u64) -> bool {
    const PR_SET_VMA: i32 = 0x5356_4d41;
    matches!(request as i32, libc::PR_SET_NAME | libc::PR_GET_NAME | PR_SET_VMA)
}

/// How many arguments of a call tell what is asked, and which of them point to room for its answer; all six and none where it is not listed.
fn shape(number: u64) -> (usize, &'static [usize]) {
    match number as i64 {
        libc::SYS_read | libc::SYS_getdents64 => (3, &[1]),
        libc::SYS_readlink => (3, &[1]),
        libc::SYS_pread64 => (4, &[1]),
        libc::SYS_recvfrom | libc::SYS_sendto => (6, &[1]),
        libc::SYS_socketpair => (4, &[3]),
        libc::SYS_shutdown | libc::SYS_listen | libc::SYS_eventfd2 => (2, &[]),
        libc::SYS_bind | libc::SYS_accept => (3, &[]),
        libc::SYS_setsockopt | libc::SYS_getsockopt => (5, &[]),
        libc::SYS_newfstatat => (4, &[2]),
        libc::SYS_stat | libc::SYS_lstat => (2, &[1]),
        libc::SYS_statx => (5, &[4]),
        libc::SYS_readlinkat => (4, &[2]),
        libc::SYS_getcwd => (2, &[0]),
        libc::SYS_pipe | libc::SYS_pipe2 => (2, &[0]),
        libc::SYS_wait4 => (4, &[1, 3]),
        // How long it may take is no part of what is waited for, and depends on the time.
        libc::SYS_epoll_wait => (3, &[1]),
        libc::SYS_poll => (2, &[]),
        libc::SYS_epoll_ctl | libc::SYS_openat => (4, &[]),
        libc::SYS_close | libc::SYS_dup | libc::SYS_fsync | libc::SYS_unlink | libc::SYS_chdir => (1, &[]),
        libc::SYS_access | libc::SYS_dup2 | libc::SYS_rename | libc::SYS_ftruncate | libc::SYS_fchmod => (2, &[]),
        libc::SYS_open | libc::SYS_lseek | libc::SYS_ioctl | libc::SYS_fcntl => (3, &[]),
        libc::SYS_readv | libc::SYS_socket | libc::SYS_connect | libc::SYS_fchown | libc::SYS_unlinkat => (3, &[]),
        _ => (6, &[]),
    }
}

/// Nothing is mapped below.
const LOWEST_POINTER: u64 = 0x1_0000;

fn is_same(answer: &Answer, number: u64, arguments: &Arguments, is_relaid: bool) -> bool {
    let (count, room) = shape(number);
    // Where a mapping of a file goes is the machine's choice.
    let skipped: &[usize] = if number as i64 == libc::SYS_mmap { &[0] } else { room };
    let same = |index: usize| {
        let (then, now) = (answer.arguments[index], arguments[index]);
        let is_free = is_relaid && then >= LOWEST_POINTER || skipped.contains(&index);
        then == now || is_free && (then >= LOWEST_POINTER) == (now >= LOWEST_POINTER)
    };
    answer.number == number && (0..count).all(same)
}

impl Answer {
    /// Where the call writes now what it wrote to `address` then: rooms for answers may lie elsewhere.
    pub fn moved(&self, address: u64, arguments: &Arguments) -> u64 {
        let pointers = self.arguments.iter().zip(arguments).filter(|(then, _)| **then >= LOWEST_POINTER);
        let nearest = pointers.filter(|(then, _)| **then <= address).max_by_key(|(then, _)| **then);
        nearest.map_or(address, |(then, now)| now.wrapping_add(address - then))
    }
}
