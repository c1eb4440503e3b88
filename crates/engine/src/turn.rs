//! The turn: one guest thread runs, all others wait for it here.
//!
//! A thread gives the turn up when its quantum is over, when it waits for a futex, a descriptor or a time, when it goes
//! outside (a system call that may wait for anything else), and when it ends. Waits are kept as data and looked at
//! only at switch points, by the thread that gives the turn up; so what a program does to itself (futexes, pipes
//! between its threads) happens at the same switch points in every run. Only when no thread can run does one of them,
//! the idle one, wait in the kernel on behalf of all.

mod state;
mod tracing;

use crate::context::{Context, ContextRef};
use crate::kernel;
use crate::stock::Reach;
use sched::{Access, Policy, Reason, ThreadId};
use state::{enter_commons, is_written_down, leave_commons, write_end};
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use tracing::Stop;

/// What a thread waits for.
#[derive(Clone, Debug)]
pub enum Wait {
    Futex {
        address: u64,
        bitset: u32,
    },
    /// A futex that other processes may share: also over when its word is no longer what it was.
    SharedFutex {
        address: u64,
        bitset: u32,
        word: u32,
    },
    Descriptors(Vec<libc::pollfd>),
    Time,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Satisfied,
    TimedOut,
    Interrupted,
}

#[derive(Clone, Debug)]
enum Status {
    Runnable,
    Waiting {
        wait: Wait,
        deadline: Option<Instant>,
    },
    /// In a system call that the engine does not look into.
    Outside,
}

struct Thread {
    context: ContextRef,
    status: Status,
    outcome: Outcome,
    /// A process that shares the memory has stopped it, as a tracer does.
    stopped: Option<Stop>,
    /// What a call that it makes without the turn may write to, as long as what it wrote is not written down.
    reach: Reach,
}

impl Thread {
    fn new(context: ContextRef) -> Thread {
        Thread {
            context,
            status: Status::Runnable,
            outcome: Outcome::Satisfied,
            stopped: None,
            reach: Reach::default(),
        }
    }

    fn can_run(&self) -> bool {
        matches!(self.status, Status::Runnable) && self.stopped.is_none()
    }
}

/// Counters for `--stats`.
#[derive(Clone, Copy, Default, Debug)]
pub struct TurnStats {
    pub switches: u64,
    pub threads: u64,
    /// Events of all threads, and points and calls at which the policy was or could have been asked.
    pub events: u64,
    pub steps: u64,
    /// A digest of every switch: who, at which clock, to whom.
    pub schedule_hash: u64,
}

struct State {
    current: Option<ThreadId>,
    last: ThreadId,
    threads: BTreeMap<ThreadId, Thread>,
    futexes: BTreeMap<u64, VecDeque<(ThreadId, u32)>>,
    /// The thread that waits in the kernel for everybody, while it does.
    idle: Option<ThreadId>,
    policy: Box<dyn Policy>,
    quantum: u64,
    /// Points that the current thread was allowed to pass, and its clock, when it was picked.
    points: u64,
    picked_at: u64,
    /// What the thread that asks the policy is about to access.
    access: Option<Access>,
    /// Events that have passed since something came of them, and how many may.
    fruitless: u64,
    patience: u64,
    /// Where threads sleep that are to look at the world again.
    called: Vec<u64>,
    /// A thread can run that could not when the policy was last asked.
    has_news: bool,
    stats: TurnStats,
}

/// What the engine wants to be told.
pub trait Watcher: Send + Sync {
    /// No thread can ever run again unless a signal comes. Called without locks held.
    fn deadlock(&self);
}

pub struct Turn {
    state: Mutex<State>,
    /// Threads that exist; one means that no switch is ever needed.
    count: AtomicU32,
    /// Wakes the idle thread.
    kick: AtomicU32,
    watcher: OnceLock<&'static dyn Watcher>,
}

/// How long a signal that was sent may take to arrive before a standstill counts as a deadlock.
const GRACE: Duration = Duration::from_millis(200);

/// How often an idle program looks at words that another process may change.
const SHARED_INTERVAL: Duration = Duration::from_millis(1);

/// The state, as long as somebody has it. Threads are woken when it is free again, since they need it first of all.
struct Locked<'a>(Option<MutexGuard<'a, State>>);

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_deref().expect("it is there until the end")
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_deref_mut().expect("it is there until the end")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let called = std::mem::take(&mut self.called);
        self.0 = None;
        for address in called {
            kernel::wake_sleeper(address);
        }
    }
}

/// What `pick` found.
enum Choice {
    Picked,
    Nobody,
}

impl Turn {
    pub fn new(policy: Box<dyn Policy>, first: &mut Context) -> Turn {
        let mut policy = policy;
        let (quantum, points) = (policy.quantum(), policy.points());
        let id = ThreadId(1);
        first.thread = id.0;
        first.grant(quantum, points);
        let thread = Thread::new(ContextRef::of(first));
        let stats = TurnStats { threads: 1, schedule_hash: 0xcbf2_9ce4_8422_2325, ..TurnStats::default() };
        let state = State {
            current: Some(id),
            last: id,
            threads: BTreeMap::from([(id, thread)]),
            futexes: BTreeMap::new(),
            idle: None,
            policy,
            quantum,
            points,
            picked_at: 0,
            access: None,
            fruitless: 0,
            patience: u64::MAX,
            called: Vec::new(),
            has_news: false,
            stats,
        };
        Turn {
            state: Mutex::new(state),
            count: AtomicU32::new(1),
            kick: AtomicU32::new(u32::MAX),
            watcher: OnceLock::new(),
        }
    }

    /// How many events may pass while nothing comes of them.
    pub fn set_patience(&self, events: u64) {
        self.lock().patience = events;
    }

    /// From now on, this policy is asked.
    pub fn follow(&self, policy: Box<dyn Policy>) {
        self.lock().policy = policy;
    }

    /// Something has come of what the threads do.
    pub fn note_progress(&self) {
        self.lock().fruitless = 0;
    }

    /// Whether the threads have gone on for too long.
    pub fn is_exhausted(&self) -> bool {
        let state = self.lock();
        state.fruitless > state.patience
    }

    /// The descriptor that wakes the idle thread out of a poll.
    pub fn set_kick(&self, descriptor: i32) {
        self.kick.store(descriptor as u32, Ordering::SeqCst);
    }

    /// Who is told of deadlocks.
    pub fn set_watcher(&self, watcher: &'static dyn Watcher) {
        let _ = self.watcher.set(watcher);
    }

    fn lock(&self) -> Locked<'_> {
        Locked(Some(self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())))
    }

    pub fn is_alone(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 1
    }

    pub fn stats(&self) -> TurnStats {
        self.lock().stats
    }

    /// Numbers a new thread, which can run from now on; its host thread calls [`Turn::start`] first.
    pub fn add(&self, context: ContextRef) -> ThreadId {
        let mut state = self.lock();
        state.stats.threads += 1;
        let id = ThreadId(state.stats.threads as u32);
        state.threads.insert(id, Thread::new(context));
        state.has_news = true;
        state.fruitless = 0;
        self.count.fetch_add(1, Ordering::SeqCst);
        id
    }

    /// The first wait for the turn of a thread's host thread.
    pub fn start(&self, context: &mut Context) {
        self.await_turn(context);
    }

    /// Lets the policy choose again; the caller goes on when it is its turn.
    pub fn switch(&self, context: &mut Context, reason: Reason, access: Option<Access>) {
        let mut state = self.lock();
        state.access = access;
        state.choose(self, reason, context.clock());
        if state.current == Some(ThreadId(context.thread)) {
            context.grant(state.quantum, state.points);
            return;
        }
        drop(state);
        self.await_turn(context);
    }

    /// Lets the policy choose before a system call.
    pub fn before_call(&self, context: &mut Context) {
        if !self.is_alone() && !context.is_other_process() {
            self.switch(context, Reason::Called, None);
        }
    }

    /// A call may have let other threads run: the policy is asked again at the next point.
    pub fn after_call(&self, context: &mut Context) {
        let mut state = self.lock();
        if std::mem::take(&mut state.has_news) && state.current == Some(ThreadId(context.thread)) {
            state.points -= context.points;
            context.points = 0;
        }
    }

    /// Gives the turn up for a system call that may wait for anything.
    pub fn go_outside(&self, context: &Context) {
        leave_commons();
        if self.is_alone() {
            return;
        }
        let reach = if is_written_down() { Reach::of_call(context) } else { Reach::default() };
        let mut state = self.lock();
        let thread = state.thread(context);
        thread.status = Status::Outside;
        thread.reach = reach;
        state.choose(self, Reason::Stopped, context.clock());
    }

    /// Waits for the turn after [`Turn::go_outside`].
    pub fn come_back(&self, context: &mut Context) {
        self.await_turn_again(context);
        enter_commons();
        self.lock().thread(context).reach = Reach::default();
    }

    /// What other threads' calls may write to at any time.
    pub fn reach_of_others(&self, context: &Context) -> Reach {
        if self.is_alone() { Reach::default() } else { self.lock().reach_of_others(ThreadId(context.thread)) }
    }

    fn await_turn_again(&self, context: &mut Context) {
        let mut state = self.lock();
        let me = ThreadId(context.thread);
        let thread = state.thread(context);
        if matches!(thread.status, Status::Runnable) && state.current == Some(me) {
            return; // it was alone when it left
        }
        state.thread(context).status = Status::Runnable;
        if state.current.is_none() {
            state.choose(self, Reason::Stopped, context.clock());
        }
        drop(state);
        self.await_turn(context);
    }

    /// Ends the calling thread's part; it must not run guest code any more.
    pub fn leave(&self, context: &Context) {
        leave_commons();
        let mut state = self.lock();
        state.remove(ThreadId(context.thread));
        state.fruitless = 0;
        self.count.fetch_sub(1, Ordering::SeqCst);
        if !state.threads.is_empty() {
            state.choose(self, Reason::Stopped, context.clock());
        }
    }

    /// Ends the part of a thread whose process is gone, if it did not do so itself.
    pub fn forget(&self, context: &Context) {
        let mut state = self.lock();
        let gone = ThreadId(context.thread);
        let Some(thread) = state.threads.get(&gone) else { return };
        if state.current.unwrap_or(state.last) == gone {
            // Nobody has had the turn since.
            write_end(context);
        }
        if let Status::Waiting { wait: Wait::Futex { address, .. } | Wait::SharedFutex { address, .. }, .. } =
            thread.status
        {
            state.remove_waiter(address, gone);
        }
        state.remove(gone);
        self.count.fetch_sub(1, Ordering::SeqCst);
        if state.idle == Some(gone) {
            state.idle = None;
        }
        if state.current.is_none_or(|current| current == gone) && !state.threads.is_empty() {
            state.choose(self, Reason::Stopped, context.clock());
        }
    }

    /// After a fork only the calling thread is left in the child.
    pub fn after_fork(&self, context: &mut Context) {
        let mut state = self.lock();
        let me = ThreadId(context.thread);
        state.threads.retain(|&id, _| id == me);
        state.futexes.clear();
        state.current = Some(me);
        state.idle = None;
        self.count.store(1, Ordering::SeqCst);
    }

    /// Keeps everybody out while the process forks.
    pub fn hold(&self) -> impl Drop + '_ {
        struct Held<'a>(#[expect(dead_code, reason = "held, not read")] Locked<'a>);
        impl Drop for Held<'_> {
            fn drop(&mut self) {}
        }
        Held(self.lock())
    }

    /// Waits until `wait` is satisfied, the deadline passes or a signal comes for the thread.
    pub fn wait(&self, context: &mut Context, wait: Wait, deadline: Option<Instant>) -> Outcome {
        let me = ThreadId(context.thread);
        leave_commons();
        {
            let mut state = self.lock();
            if let Wait::Futex { address, bitset } | Wait::SharedFutex { address, bitset, .. } = wait {
                state.futexes.entry(address).or_default().push_back((me, bitset));
            }
            state.thread(context).status = Status::Waiting { wait, deadline };
            state.choose(self, Reason::Stopped, context.clock());
        }
        self.await_turn(context);
        self.lock().thread(context).outcome
    }

    /// Wakes up to `count` waiters of a futex whose bitset meets `bitset`.
    pub fn wake_futex(&self, address: u64, count: u32, bitset: u32) -> u32 {
        let mut state = self.lock();
        let Some(mut waiters) = state.futexes.remove(&address) else { return 0 };
        let mut woken = 0;
        waiters.retain(|&(id, theirs)| {
            let wakes = woken < count && theirs & bitset != 0;
            if wakes {
                woken += 1;
                state.satisfy(id, Outcome::Satisfied);
            }
            !wakes
        });
        if !waiters.is_empty() {
            state.futexes.insert(address, waiters);
        }
        woken
    }

    /// Who waits for a futex, in the order in which they came.
    pub fn waiters(&self, address: u64) -> Vec<ThreadId> {
        self.lock().futexes.get(&address).map_or(Vec::new(), |waiters| waiters.iter().map(|&(id, _)| id).collect())
    }

    /// Lets a waiter be woken before all others.
    pub fn put_first(&self, address: u64, id: ThreadId) {
        if let Some(waiters) = self.lock().futexes.get_mut(&address)
            && let Some(place) = waiters.iter().position(|&(waiter, _)| waiter == id)
            && let Some(waiter) = waiters.remove(place)
        {
            waiters.push_front(waiter);
        }
    }

    /// Has a replay stop where the thread stands, right before an event: there it is switched to itself.
    pub fn mark(&self, context: &Context) {
        let me = ThreadId(context.thread);
        self.lock().write_down(Reason::QuantumOver, me, me);
    }

    /// Moves up to `count` waiters from one futex to another.
    pub fn requeue_futex(&self, from: u64, to: u64, count: u32) -> u32 {
        let mut state = self.lock();
        let Some(mut waiters) = state.futexes.remove(&from) else { return 0 };
        let moved: Vec<(ThreadId, u32)> = waiters.drain(..waiters.len().min(count as usize)).collect();
        for &(id, bitset) in &moved {
            if let Some(thread) = state.threads.get_mut(&id)
                && let Status::Waiting { wait: Wait::Futex { address, .. } | Wait::SharedFutex { address, .. }, .. } =
                    &mut thread.status
            {
                *address = to;
                state.futexes.entry(to).or_default().push_back((id, bitset));
            }
        }
        if !waiters.is_empty() {
            state.futexes.insert(from, waiters);
        }
        moved.len() as u32
    }

    /// Blocks the host thread until it has the turn, serving as the idle thread where needed.
    fn await_turn(&self, context: &mut Context) {
        let me = ThreadId(context.thread);
        let mut standstill: Option<Instant> = None;
        loop {
            let seen = context.wake.load(Ordering::SeqCst);
            let mut state = self.lock();
            if state.idle == Some(me) {
                state.idle = None;
            }
            if state.current == Some(me) {
                context.grant(state.quantum, state.points);
                drop(state);
                return enter_commons();
            }
            if context.has_pending_signal() && state.interrupt(me) && state.current.is_none() {
                state.choose(self, Reason::Stopped, context.clock());
                continue;
            }
            if state.current.is_none() && state.idle.is_none() {
                if let Choice::Picked = state.pick(self, Reason::Stopped, context.clock()) {
                    continue;
                }
                state.idle = Some(me);
                let deadlocked = state.is_deadlocked();
                let (polls, mut timeout) = state.everything_awaited(self.kick.load(Ordering::SeqCst) as i32);
                drop(state);
                if deadlocked {
                    let since = *standstill.get_or_insert_with(Instant::now);
                    timeout = GRACE.checked_sub(since.elapsed());
                    if timeout.is_none()
                        && let Some(watcher) = self.watcher.get()
                    {
                        watcher.deadlock();
                    }
                } else {
                    standstill = None;
                }
                self.idle(context, seen, polls, timeout);
                continue;
            }
            drop(state);
            kernel::wait_on(&context.wake, seen, None);
        }
    }

    /// Waits in the kernel for whatever comes first.
    fn idle(&self, context: &Context, seen: u32, mut polls: Vec<libc::pollfd>, timeout: Option<Duration>) {
        if polls.len() <= 1 {
            return kernel::wait_on(&context.wake, seen, timeout);
        }
        let timeout = timeout.map(|left| [left.as_secs(), u64::from(left.subsec_nanos())]);
        let timeout = timeout.as_ref().map_or(0, |pair| pair.as_ptr() as u64);
        let arguments = [polls.as_mut_ptr() as u64, polls.len() as u64, timeout, 0, 0, 0];
        kernel::call_interruptible(libc::SYS_ppoll as u64, arguments);
        if polls[0].revents != 0 {
            let mut count = 0u64;
            kernel::call(libc::SYS_read as u64, [polls[0].fd as u64, (&raw mut count) as u64, 8, 0, 0, 0]);
        }
    }

    /// Shows every thread to a crash or deadlock report. The caller has the turn, or nobody has.
    pub fn inspect(&self, mut show: impl FnMut(ThreadId, &Context, String)) {
        let state = self.lock();
        for (&id, thread) in &state.threads {
            let description = match &thread.status {
                Status::Runnable if state.current == Some(id) => "running".to_owned(),
                Status::Runnable => "runnable".to_owned(),
                Status::Outside => "in a system call".to_owned(),
                Status::Waiting { wait: Wait::Futex { address, .. } | Wait::SharedFutex { address, .. }, .. } => {
                    format!("waiting for the futex at {address:#x}")
                }
                Status::Waiting { wait: Wait::Descriptors(polls), .. } => {
                    let descriptors: Vec<String> = polls.iter().map(|poll| poll.fd.to_string()).collect();
                    format!("waiting for descriptor {}", descriptors.join(", "))
                }
                Status::Waiting { wait: Wait::Time, .. } => "sleeping".to_owned(),
            };
            thread.context.with(|context| show(id, context, description));
        }
    }
}
