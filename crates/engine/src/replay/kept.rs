//! What following a recording shows that a free run needs: who wants what done at its end, signals, clocks, output.

use super::answers::Answers;
use super::channels::tail::waits_for_events;
use super::descriptors::Descriptors;
use super::machine::Pending;
use super::outcome::Written;
use super::waits::shown;
use crate::context::Context;
use crate::engine::Engine;
use crate::journal::GuestMemory;
use crate::kernel;
use crate::signals::{Action, UNBLOCKABLE};
use guest::effects;
use std::collections::{BTreeMap, BTreeSet};
use trace::event::{Call, Event, Identity};

/// What belongs to a thread besides its registers.
#[derive(Clone, Copy, Debug)]
pub struct Belongings {
    /// Where to store zero and wake a futex when it ends.
    pub clear_tid: u64,
    pub robust_list: u64,
    pub signal_mask: u64,
    pub alternate_stack: [u64; 3],
}

impl Default for Belongings {
    fn default() -> Belongings {
        Belongings { clear_tid: 0, robust_list: 0, signal_mask: 0, alternate_stack: [0, libc::SS_DISABLE as u64, 0] }
    }
}

impl Belongings {
    pub fn give(&self, context: &mut Context) {
        context.clear_tid = self.clear_tid;
        context.robust_list = self.robust_list;
        context.signal_mask = self.signal_mask;
        context.alternate_stack = self.alternate_stack;
    }

    pub fn of(context: &Context) -> Belongings {
        Belongings {
            clear_tid: context.clear_tid,
            robust_list: context.robust_list,
            signal_mask: context.signal_mask,
            alternate_stack: context.alternate_stack,
        }
    }
}

#[derive(Default)]
pub struct Kept {
    pub threads: BTreeMap<u32, Belongings>,
    /// What each clock showed last, in nanoseconds.
    pub clocks: BTreeMap<u64, u64>,
    pub output: Vec<Written>,
    pub answers: Answers,
    /// What threads are called, where that was changed.
    pub names: BTreeMap<u32, [u8; 16]>,
    pub descriptors: Descriptors,
    /// Who the program is, and for whom it runs.
    pub identity: Identity,
    /// What the system calls itself.
    pub kernel: String,
    /// When the recording was begun, in nanoseconds since 1970.
    pub began: u64,
    /// Threads that have been waiting for events.
    pub waiters: BTreeSet<u32>,
}

impl Kept {
    /// An event of the recording was carried out; `pending` is the call that it belongs to, if that goes on.
    pub fn passed(&mut self, engine: &Engine, context: &Context, event: &Event<'_>, pending: Option<Pending>) {
        match event {
            Event::Start(start) => {
                self.descriptors.directory = start.directory.to_vec();
                self.identity = start.identity;
                self.kernel = start.machine.kernel.to_owned();
                self.began = start.wall_time;
                self.clocks.insert(libc::CLOCK_REALTIME as u64, start.wall_time);
                self.answers.note_thread(1, start.identity.pid);
                let file = start.program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                self.names.insert(1, as_name(file));
            }
            Event::Thread(thread) => {
                self.answers.note_thread(thread.child, thread.tid);
                let arguments = pending.map_or([0; 6], |pending| pending.arguments);
                self.new_thread(thread.parent, thread.child, arguments);
            }
            Event::Call(call) => {
                self.answers.note(call);
                self.call(engine, context, call);
            }
            Event::Fork(_) => self.descriptors.share(),
            _ => {}
        }
    }

    /// The child of a `clone`.
    pub fn new_thread(&mut self, parent: u32, child: u32, arguments: [u64; 6]) {
        let [flags, _, _, child_tid, ..] = arguments;
        let clears = flags & libc::CLONE_CHILD_CLEARTID as u64 != 0;
        let signal_mask = self.thread(parent).signal_mask;
        let clear_tid = if clears { child_tid } else { 0 };
        if let Some(&name) = self.names.get(&parent) {
            self.names.insert(child, name);
        }
        self.threads.insert(child, Belongings { clear_tid, signal_mask, ..Belongings::default() });
    }

    /// A thread takes the name at an address.
    pub fn name(&mut self, thread: u32, address: u64) {
        let text = kernel::read_string(address, 15).unwrap_or_default();
        self.names.insert(thread, as_name(&text));
    }

    pub fn thread(&mut self, thread: u32) -> &mut Belongings {
        self.threads.entry(thread).or_default()
    }

    fn call(&mut self, engine: &Engine, context: &Context, call: &Call<'_>) {
        let Some(arguments) = call.arguments else { return };
        self.descriptors.note(u64::from(call.number), &arguments, call.result);
        let [first, second, ..] = arguments;
        match i64::from(call.number) {
            libc::SYS_set_tid_address => self.thread(call.thread).clear_tid = first,
            _ if waits_for_events(u64::from(call.number)) && call.result > 0 => {
                self.waiters.insert(call.thread);
            }
            libc::SYS_timerfd_settime if call.result == 0 => {
                let clocks = &self.clocks;
                self.descriptors.set_timer(&arguments, |clock| shown(clocks, clock));
            }
            libc::SYS_set_robust_list if call.result == 0 => self.thread(call.thread).robust_list = first,
            libc::SYS_rt_sigprocmask if call.result == 0 => {
                let mask = &mut self.thread(call.thread).signal_mask;
                *mask = new_mask(*mask, first, second).unwrap_or(*mask);
            }
            libc::SYS_sigaltstack if call.result == 0 && first != 0 => {
                if let Ok(words) = kernel::read::<[u64; 3]>(first) {
                    self.thread(call.thread).alternate_stack = words;
                }
            }
            libc::SYS_prctl if first as i32 == libc::PR_SET_NAME => self.name(call.thread, second),
            libc::SYS_rt_sigaction if call.result == 0 => set_action(engine, context, first, second),
            libc::SYS_clock_gettime => {
                let time = call.effects.iter().find(|effect| effect.address == second);
                if let Some(time) = time.and_then(|effect| nanoseconds(effect.bytes)) {
                    self.clocks.insert(first, time);
                }
            }
            _ => self.capture(u64::from(call.number), arguments, call.result),
        }
    }

    /// Keeps what a call sends to standard output or error.
    pub fn capture(&mut self, number: u64, arguments: [u64; 6], result: i64) {
        if result > 0 && matches!(arguments[0], 1 | 2) {
            self.keep(arguments[0] as i32, &sent(number, arguments, result));
        }
    }

    pub fn keep(&mut self, descriptor: i32, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match self.output.last_mut() {
            Some(last) if last.descriptor == descriptor => last.bytes.extend_from_slice(bytes),
            _ => self.output.push(Written { descriptor, bytes: bytes.to_vec() }),
        }
    }
}

impl Kept {
    /// How many bytes have been written to a descriptor.
    pub fn written(&self, descriptor: i32) -> u64 {
        let output = self.output.iter().filter(|output| output.descriptor == descriptor);
        output.map(|output| output.bytes.len() as u64).sum()
    }
}

/// A thread's name as the kernel keeps it, with its NUL.
fn as_name(text: &[u8]) -> [u8; 16] {
    let mut name = [0; 16];
    name.iter_mut().zip(text.iter().take(15)).for_each(|(to, from)| *to = *from);
    name
}

/// The kernel moves no more at once.
pub const MOST_MOVED: i64 = 0x7fff_f000;

/// The bytes that a call sends, up to `most`, as far as they can be read.
pub fn sent(number: u64, arguments: [u64; 6], most: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let call = effects::Call { number, arguments, result: most };
    let _ = effects::sent(&call, &GuestMemory, &mut |span| {
        let mut piece = [0; 4096];
        let (mut at, mut left) = (span.address, span.length);
        while left > 0 {
            let room = (4096 - at % 4096).min(left) as usize;
            if kernel::read_bytes(at, &mut piece[..room]).is_err() {
                return;
            }
            bytes.extend_from_slice(&piece[..room]);
            at += room as u64;
            left -= room as u64;
        }
    });
    bytes
}

/// Where the byte at an offset of what a call has sent lies.
pub fn sent_at(call: &Call<'_>, offset: u64) -> Option<u64> {
    let call = effects::Call { number: u64::from(call.number), arguments: call.arguments?, result: call.result };
    let (mut left, mut found) = (offset, None);
    let _ = effects::sent(&call, &GuestMemory, &mut |span| match left.checked_sub(span.length) {
        Some(more) => left = more,
        None => found = found.or(Some(span.address + left)),
    });
    found
}

/// The mask after `rt_sigprocmask`; none if it asks for no change, or senselessly.
pub fn new_mask(current: u64, how: u64, set: u64) -> Option<u64> {
    let set = kernel::read::<u64>(set).ok()?;
    let mask = match how as i32 {
        libc::SIG_BLOCK => current | set,
        libc::SIG_UNBLOCK => current & !set,
        libc::SIG_SETMASK => set,
        _ => return None,
    };
    Some(mask & !UNBLOCKABLE)
}

/// Notes a disposition; the kernel need not know.
pub fn set_action(engine: &Engine, context: &Context, signal: u64, new: u64) {
    if let (1..=64, Ok(words)) = (signal, kernel::read::<[u64; 4]>(new)) {
        engine.world().actions_mut(context).set(signal as i32, Action::from_words(words));
    }
}

/// A `timespec` as nanoseconds.
pub fn nanoseconds(bytes: &[u8]) -> Option<u64> {
    let word = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    word(0)?.checked_mul(1_000_000_000)?.checked_add(word(8)?)
}
