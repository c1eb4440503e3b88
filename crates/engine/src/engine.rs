//! The one engine of the process, and what its embedder is told.

use crate::code::cache::{CacheStats, Exit};
use crate::code::observe::sparing::{Sparing, Strips};
use crate::code::observe::{Chosen, Marks, RecordFacts};
use crate::code::stubs::Stubs;
use crate::context::{Context, Fault, RSP};
use crate::debug::Debugging;
use crate::departure::{Departure, Departures};
use crate::faults::{Faultable, MappedCode};
use crate::journal::Writing;
use crate::observation::{
    self, Around, Batch, Consumer, Counter, Counts, Observation, Observer, Outcome, Room, Step, StepCounter,
};
use crate::private::PrivateDescriptors;
use crate::processor::Shown;
use crate::replay::{Continuation, Figures, Replay, Rerun, Stopped};
use crate::signals::frame::XState;
use crate::syscalls::Filters;
use crate::turn::{Turn, TurnStats, Watcher};
use crate::world::World;
use sched::{Faults, ThreadId};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use trace::event::{EndKind, Event};

/// How a guest is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Programs that the guest executes run under the engine too; these are the words put before their path.
    pub follow: Option<Vec<Vec<u8>>>,
    /// End the run when no thread can ever go on.
    pub report_deadlock: bool,
    pub observation: Observation,
    /// Where an observed run tells registers too.
    pub marks: Marks,
    /// The instructions that it tells of, if not all.
    pub chosen: Option<Chosen>,
    /// Which records are told, if not all.
    pub sparing: Option<Sparing>,
    /// Bytes for translated code; when they are used up, all code is forgotten and made anew as it is needed.
    pub cache_size: u64,
    /// Fills what the kernel would fill with random bytes at program start.
    pub seed: u64,
    /// Where threads may change places besides the ends of their quanta.
    pub switching: Switching,
    /// Filters of system calls that an earlier program of the process has set, as the engine has put them before the
    /// path of this one.
    pub filters: Vec<Vec<u8>>,
    /// What the guest is shown of the processor; none where it asks the processor itself. For replays the recording says it.
    pub shown: Option<Shown>,
    /// What is to go wrong now and then, if anything.
    pub faults: Option<Faults>,
}

impl Options {
    /// Whether some instructions are told for a while only.
    pub fn has_patience(&self) -> bool {
        self.chosen.as_ref().is_some_and(|chosen| chosen.patience.is_some())
    }

    /// How much a thread writes down before that is read.
    pub fn room(&self) -> Room {
        if self.has_patience() { Room::Scant } else { Room::Ample }
    }
}

/// Where the policy is asked besides where it must be.
#[derive(Clone, Debug, Default)]
pub struct Switching {
    /// Instructions that count as events of the clock, so that a thread can be stopped right before one.
    pub points: BTreeSet<u64>,
    /// Before every system call.
    pub calls: bool,
    /// The run is ended by SIGXCPU when all threads together pass more events than these, and none of them starts, ends
    /// or writes anything meanwhile. Each time that the policy is asked counts as a hundred events.
    pub patience: Option<u64>,
    /// The run stops before the guest's second thread for [`Host::depart`], and ends if it cannot be copied there.
    pub departs: bool,
}

/// A guest thread in a report.
#[derive(Clone, Debug)]
pub struct ThreadFacts {
    pub id: ThreadId,
    pub tid: i32,
    /// General-purpose registers in encoding order.
    pub registers: [u64; 16],
    pub pc: u64,
    pub rflags: u64,
    /// What the thread is doing, in words.
    pub state: String,
}

/// The guest is about to die of a signal.
#[derive(Clone, Debug)]
pub struct Crash {
    pub signal: i32,
    pub fault: Option<Fault>,
    pub thread: ThreadId,
    pub threads: Vec<ThreadFacts>,
}

/// Figures of a run.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    pub cache: CacheStats,
    pub code_bytes: u64,
    pub turn: TurnStats,
    pub system_calls: u64,
    pub exits: u64,
    pub signals: u64,
    /// Clock events of the thread that ended the run.
    pub clock: u64,
}

/// An event of the recording that an observed replay has just carried out; memory is as it left it.
#[derive(Clone, Copy, Debug)]
pub struct Passed<'a> {
    pub number: u64,
    pub event: &'a Event<'a>,
    /// It is in the log of a parent, from which the process was forked later.
    pub inherited: bool,
    /// Where the thread that has the turn goes on.
    pub pc: u64,
    /// How many batches the observer gets of what came before: it may not have seen them yet.
    pub batches: u64,
}

/// Who embeds the engine: presentation is its business.
pub trait Host: Send + Sync {
    /// An unhandled fatal signal; the guest's output is complete and its memory still there.
    fn crashed(&self, crash: &Crash);
    /// No thread can ever run again.
    fn deadlocked(&self, threads: &[ThreadFacts]);
    /// The process is about to end.
    fn finished(&self, stats: &Stats);
    /// What the run executed, where that was asked for; before `finished`.
    fn counted(&self, counts: &Counts);
    /// Who is told what happens, where [`Observation::Tell`] asks for that; called once.
    fn observer(&self) -> Option<Box<dyn Observer>> {
        None
    }
    /// Where a stopped thread is, by program counters, the innermost first.
    fn backtrace(&self, thread: &ThreadFacts) -> Vec<u64> {
        vec![thread.pc]
    }
    /// The same while the guest goes on, which must not notice.
    fn callers(&self, thread: &ThreadFacts) -> Vec<u64> {
        vec![thread.pc]
    }
    /// Where functions begin in the code that is mapped there to which faults can happen.
    fn faultable(&self, _code: &MappedCode) -> Vec<(u64, Faultable)> {
        Vec::new()
    }
    /// A replay ended before the guest did; tells the exit status.
    fn replay_stopped(&self, _stopped: &Stopped) -> u8 {
        0
    }
    /// An observed replay has carried out an event. Where the event stands among what the observer sees, `batches` tells.
    fn passed(&self, _passed: &Passed<'_>) {}
    /// A replayed guest has written to its standard output (1) or error (2), at this time as far as that is recorded;
    /// where [`crate::Output::Told`] asks for that.
    fn wrote(&self, _nanoseconds: u64, _stream: u8, _bytes: &[u8]) {}
    /// A replay has come to the guest's own end.
    fn replayed(&self, _figures: Figures) {}
    /// A run that was to leave its recording has ended.
    fn reran(&self, _rerun: &Rerun) {}
    /// One of several plans ([`crate::Plans::rivals`]) is about to act for the first time, and a copy of the process can go on
    /// by it. Tells whether this is the copy; the only thread of the process calls.
    fn branch(&self, _rival: usize) -> bool {
        false
    }
    /// A replay has come to where other recordings that begin like its own go on ([`crate::Wishes::parts_at`]). Tells what a copy
    /// of the process goes on with, in that copy; does not return in the process itself, whose only thread calls.
    fn part(&self) -> Continuation {
        crate::kernel::leave(0)
    }
    /// The guest is about to have its second thread, and [`Switching::departs`] asked for a stop here, where copies of the
    /// process can go on. Tells how in each copy; does not return in the process that is copied, whose only thread calls.
    fn depart(&self) -> Departure {
        crate::kernel::leave(0)
    }
    /// One line for the user, at most once for each cause.
    fn notice(&self, line: &str);
}

pub struct Engine {
    world: Mutex<World>,
    pub turn: Turn,
    pub options: Options,
    pub private: PrivateDescriptors,
    pub filters: Filters,
    pub departures: Departures,
    host: Box<dyn Host>,
    stubs: Stubs,
    code_range: Range<u64>,
    xstate: XState,
    system_calls: AtomicU64,
    exits: AtomicU64,
    signals: AtomicU64,
    finished: AtomicBool,
    /// The guest has executable views of shared objects, which calls like `write` can change.
    shared_code: AtomicBool,
    /// Other processes may have descriptors of the same open files.
    shared_descriptors: AtomicBool,
    observer: Mutex<Recorder>,
    /// Which memory is looked at, if not everything is told.
    strips: Option<Strips>,
    tape: Tape,
}

/// Where what comes from outside goes, or comes from.
pub enum Tape {
    None,
    Writing(Box<Writing>),
    Replay(Box<Replay>),
}

/// Who sees what translated code wrote down.
enum Recorder {
    Discard,
    Count(Counter),
    Steps(StepCounter),
    /// With the number of batches so far.
    Tell(Consumer, u64),
}

static ENGINE: OnceLock<Engine> = OnceLock::new();

impl Engine {
    /// Starts the engine of this process; there can be only one.
    pub fn start(
        world: World,
        turn: Turn,
        options: Options,
        private: PrivateDescriptors,
        host: Box<dyn Host>,
        tape: Tape,
    ) -> &'static Engine {
        let recorder = match (options.observation, options.observation.told()) {
            (Observation::Count, _) => Recorder::Count(Counter::default()),
            (Observation::CountBySteps, _) => Recorder::Steps(StepCounter::default()),
            (_, Some(wanted)) => match host.observer() {
                Some(observer) => Recorder::Tell(Consumer::start(observer, wanted), 0),
                None => Recorder::Discard,
            },
            _ => Recorder::Discard,
        };
        let engine = Engine {
            stubs: world.cache.stubs(),
            code_range: world.cache.ranges()[0].clone(),
            strips: world.cache.spared().map(|spared| spared.strips),
            world: Mutex::new(world),
            turn,
            filters: Filters::inherited(&options.filters),
            departures: Departures::default(),
            xstate: shown_state(options.shown),
            options,
            private,
            host,
            system_calls: AtomicU64::new(0),
            exits: AtomicU64::new(0),
            signals: AtomicU64::new(0),
            finished: AtomicBool::new(false),
            shared_code: AtomicBool::new(false),
            shared_descriptors: AtomicBool::new(false),
            observer: Mutex::new(recorder),
            tape,
        };
        ENGINE.get_or_init(|| engine)
    }

    /// The journal, if the run is written down.
    pub fn writing(&self) -> Option<&Writing> {
        match &self.tape {
            Tape::Writing(writing) => Some(writing),
            _ => None,
        }
    }

    /// The recording, if the run is one that was written down before.
    pub fn replaying(&self) -> Option<&Replay> {
        match &self.tape {
            Tape::Replay(replay) => Some(replay),
            _ => None,
        }
    }

    /// The debugger, if the run is a replay that has one.
    pub fn debugging(&self) -> Option<&Debugging> {
        self.replaying().and_then(Replay::debugging)
    }

    /// Where the thread is, by program counters, the innermost first.
    pub fn backtrace(&self, thread: u32, threads: &[ThreadFacts]) -> Vec<u64> {
        threads.iter().find(|facts| facts.id.0 == thread).map_or(Vec::new(), |facts| self.host.backtrace(facts))
    }

    pub fn host(&self) -> &dyn Host {
        self.host.as_ref()
    }

    pub fn replay_stopped(&self, stopped: &Stopped) -> u8 {
        self.host.replay_stopped(stopped)
    }

    /// The replay has carried out an event.
    pub fn replay_passed(&self, context: &Context, number: u64, event: &Event<'_>, inherited: bool) {
        let batches = match &*self.recorder() {
            Recorder::Tell(_, batches) => *batches,
            _ => return,
        };
        if let Some(strips) = self.strips {
            match event {
                Event::Call(call) => {
                    call.effects.iter().for_each(|effect| strips.add(effect.address, effect.bytes.len() as u64));
                }
                Event::Memory(memory) => strips.add(memory.address, memory.bytes.len() as u64),
                _ => {}
            }
        }
        self.host.passed(&Passed { number, event, inherited, pc: context.pc, batches });
    }

    pub fn replay_wrote(&self, nanoseconds: u64, stream: u8, bytes: &[u8]) {
        self.host.wrote(nanoseconds, stream, bytes);
    }

    pub fn replay_finished(&self, figures: Figures) {
        self.host.replayed(figures);
    }

    pub fn reran(&self, rerun: &Rerun) {
        self.host.reran(rerun);
    }

    /// Comes back in a copy of the process.
    pub fn depart(&self) -> Departure {
        self.host.depart()
    }

    pub fn get() -> &'static Engine {
        ENGINE.get().expect("the engine has been started")
    }

    pub fn if_started() -> Option<&'static Engine> {
        ENGINE.get()
    }

    /// The guest's world. Only the thread with the turn asks for it, so the lock is never contended.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// For signal handlers, which must not wait.
    pub fn try_world(&self) -> Option<MutexGuard<'_, World>> {
        self.world.try_lock().ok()
    }

    pub fn stubs(&self) -> Stubs {
        self.stubs
    }

    pub fn code_range(&self) -> Range<u64> {
        self.code_range.clone()
    }

    pub fn xstate(&self) -> XState {
        self.xstate
    }

    /// Whether units write records.
    pub fn writes_records(&self) -> bool {
        self.options.observation.written().is_some()
    }

    pub fn steps_singly(&self) -> bool {
        self.options.observation.goes_by_steps()
    }

    /// Hands the thread's records to who reads them. The world is locked by the caller.
    pub fn drain(&self, world: &mut World, context: &mut Context) {
        let words = observation::take_words(context);
        self.hand_over(world, context, words);
    }

    fn hand_over(&self, world: &mut World, context: &mut Context, words: &[u64]) {
        let around = self.around(world, context);
        let Some(catalogue) = world.cache.count_tellings(words) else { return };
        let thread = ThreadId(context.thread);
        let current = context.guest_fs();
        let fs_base = std::mem::replace(&mut context.trace_fs, current);
        match &mut *self.recorder() {
            Recorder::Count(counter) => {
                counter.batch(&Batch { thread, words, catalogue, fs_base, around: Around::default() });
            }
            Recorder::Tell(consumer, batches) => {
                *batches += u64::from(!words.is_empty());
                consumer.take(thread, words, Some(catalogue), fs_base, around);
            }
            Recorder::Discard | Recorder::Steps(_) => {}
        }
    }

    /// What is around a thread that has the turn.
    fn around(&self, world: &mut World, context: &Context) -> Around {
        /// A stack that grows in a larger mapping is not all of it.
        const LARGEST_STACK: u64 = 8 << 20;
        let pointer = context.gpr[RSP];
        let stack = world.space.find(pointer).map_or((0, 0), |(start, mapping)| {
            let lowest = pointer.saturating_sub(LARGEST_STACK);
            (start.max(lowest), mapping.end.min(pointer.saturating_add(LARGEST_STACK)))
        });
        let whole_since = world.cache.tellings.whole_since(context.thread);
        Around { is_alone: self.turn.is_alone(), stack, whole_since }
    }

    /// The same after leaving translated code; a unit that ran out of budget leaves its record to be ended here.
    pub fn drain_after(&self, world: &mut World, context: &mut Context, exit: Exit) {
        if let Exit::Budget { record: Some((number, _)), .. } | Exit::Point { record: Some((number, _)), .. } = exit
            && let Some(facts) = world.cache.catalogue().map(|catalogue| catalogue.record(u64::from(number)))
        {
            self.end_record(world, context, number, facts);
        }
        self.drain(world, context);
    }

    /// Ends the record that begins where the next one goes.
    pub fn end_record(&self, world: &mut World, context: &mut Context, number: u32, facts: RecordFacts) {
        if !observation::has_room(context) {
            // What takes an instruction back must be in one batch with it.
            if facts.retracts {
                let words = [observation::take_words(context), &[u64::from(number)]].concat();
                return self.hand_over(world, context, &words);
            }
            self.drain(world, context);
        }
        observation::end_record(context, number, facts.words);
    }

    /// Tells of an instruction that ran by itself.
    pub fn tell_step(&self, context: &Context, step: Step, outcome: Outcome) {
        let thread = ThreadId(context.thread);
        match &mut *self.recorder() {
            Recorder::Steps(counter) if outcome != Outcome::Faulted => {
                counter.executed(thread, step.instruction(), step.elements(context));
            }
            Recorder::Tell(consumer, batches) => {
                if let Some(strips) = self.strips {
                    step.spans(context).for_each(|(_, span)| strips.add(span.start, span.end - span.start));
                }
                let step_pc = step.instruction().ip();
                if let Some(words) = step.end(context, outcome) {
                    *batches += u64::from(!words.is_empty());
                    let mut world = self.world();
                    world.cache.tellings.count_step(step_pc);
                    let around = self.around(&mut world, context);
                    consumer.take(thread, &words, None, context.guest_fs(), around);
                }
            }
            Recorder::Steps(_) | Recorder::Discard | Recorder::Count(_) => {}
        }
    }

    /// Lets the observer see everything so far. Before a fork its thread must hold no lock that the child would wait
    /// for; another program leaves nothing of this one.
    pub fn settle_observer(&self) {
        if let Recorder::Tell(consumer, _) = &mut *self.recorder() {
            consumer.settle();
        }
    }

    /// Lets the observer see everything so far, and ends its thread until it is woken.
    pub fn rest_observer(&self) {
        self.exchange_consumer(Consumer::rest);
    }

    pub fn wake_observer(&self) {
        self.exchange_consumer(|consumer| Some(consumer.wake()));
    }

    /// Has the observer know all translations, before they run.
    pub fn show_catalogue(&self) {
        if let Recorder::Tell(consumer, _) = &mut *self.recorder()
            && let Some(catalogue) = self.world().cache.catalogue()
        {
            consumer.know(catalogue);
        }
    }

    fn exchange_consumer(&self, exchange: impl FnOnce(Consumer) -> Option<Consumer>) {
        let mut recorder = self.recorder();
        *recorder = match std::mem::replace(&mut *recorder, Recorder::Discard) {
            Recorder::Tell(consumer, batches) => {
                exchange(consumer).map_or(Recorder::Discard, |consumer| Recorder::Tell(consumer, batches))
            }
            other => other,
        };
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.observer.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn counts(&self) -> Option<Counts> {
        match &*self.recorder() {
            Recorder::Discard | Recorder::Tell(..) => None,
            Recorder::Count(counter) => self.world().cache.catalogue().map(|catalogue| counter.counts(catalogue)),
            Recorder::Steps(counter) => Some(counter.counts()),
        }
    }

    pub fn note_shared_code(&self) {
        self.shared_code.store(true, Ordering::Relaxed);
    }

    pub fn has_shared_code(&self) -> bool {
        self.shared_code.load(Ordering::Relaxed)
    }

    /// To be called before a process is made that gets this one's descriptors.
    pub fn note_shared_descriptors(&self) {
        self.shared_descriptors.store(true, Ordering::Relaxed);
    }

    pub fn shares_descriptors(&self) -> bool {
        self.shared_descriptors.load(Ordering::Relaxed)
    }

    pub fn count_system_call(&self) {
        bump(&self.system_calls);
    }

    pub fn count_exit(&self) {
        bump(&self.exits);
    }

    pub fn count_signal(&self) {
        bump(&self.signals);
    }

    pub fn notice(&self, line: &str) {
        self.host.notice(line);
    }

    /// Tells the embedder of a signal that ends the guest.
    pub fn report_crash(&self, context: &Context, signal: i32, fault: Option<Fault>, threads: Vec<ThreadFacts>) {
        self.host.crashed(&Crash { signal, fault, thread: ThreadId(context.thread), threads });
    }

    pub fn threads(&self) -> Vec<ThreadFacts> {
        if let Some(replay) = self.replaying() {
            return replay.threads(crate::context::of_this_thread());
        }
        let mut threads = Vec::new();
        self.turn.inspect(|id, context, state| {
            threads.push(ThreadFacts {
                id,
                tid: context.tid,
                registers: context.gpr,
                pc: context.pc,
                rflags: context.rflags,
                state,
            });
        });
        threads
    }

    /// To be called right before the process ends.
    pub fn finish(&self) {
        if self.finished.swap(true, Ordering::SeqCst) {
            return;
        }
        if let Some(counts) = self.counts() {
            self.host.counted(&counts);
        }
        if let Recorder::Tell(consumer, _) = std::mem::replace(&mut *self.recorder(), Recorder::Discard) {
            consumer.finish();
        }
        let (cache, code_bytes) = {
            let world = self.world();
            (world.cache.stats, world.cache.code_bytes())
        };
        let stats = Stats {
            cache,
            code_bytes,
            turn: self.turn.stats(),
            system_calls: self.system_calls.load(Ordering::Relaxed),
            exits: self.exits.load(Ordering::Relaxed),
            signals: self.signals.load(Ordering::Relaxed),
            clock: crate::context::of_this_thread().clock(),
        };
        self.host.finished(&stats);
    }

    /// In a forked child the figures and their report are the parent's.
    pub fn silence_after_fork(&self) {
        self.finished.store(true, Ordering::SeqCst);
        if let Recorder::Tell(consumer, _) = std::mem::replace(&mut *self.recorder(), Recorder::Discard) {
            consumer.abandon();
        }
    }
}

fn shown_state(shown: Option<Shown>) -> XState {
    let xstate = XState::find();
    shown.map_or(xstate, |shown| xstate.showing(shown.components))
}

/// Only the thread with the turn counts, so no locked instruction is needed.
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl Watcher for Engine {
    fn deadlock(&self) {
        if !self.options.report_deadlock || self.world().has_handlers() {
            return;
        }
        self.host.deadlocked(&self.threads());
        if let Some(writing) = self.writing() {
            writing.end(crate::context::of_this_thread(), EndKind::Exited(DEADLOCK_STATUS as i32), &[], &[]);
        }
        self.finish();
        crate::kernel::call(libc::SYS_exit_group as u64, [DEADLOCK_STATUS, 0, 0, 0, 0, 0]);
    }
}

/// The exit status of a run that ended because no thread could go on, as `timeout` uses it.
pub const DEADLOCK_STATUS: u64 = 124;
