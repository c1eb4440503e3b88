//! The event stream of an observed replay: what guest code did, what the kernel did for it, and what calls of known
//! functions mean, in one order.
//!
//! Guest code's records reach the observer on a thread of its own; what the recording tells (system calls, threads) comes
//! from the replay, on the guest's. Each of the latter says how many batches of the former it follows, so both fall into
//! one order. What happens inside a function that hands out memory is its own affair and is not told; of functions that
//! synchronise, only atomic accesses are.
//!
//! May miss: what system calls read; accesses of signal frames; functions that are inlined or have no symbol.

mod calls;
mod detailed;
mod open_calls;
mod outside;
mod roles;

pub use roles::{BlockSize, Role, role_of};

use crate::interleaved::Interleaved;
use calls::{Call, Calls, Inside};
use engine::{Batch, Flat, Flattener, Mark, Observation, Observer, Passed, Wanted};
use open_calls::OpenCalls;
use outside::Outside;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use trace::stream::records::Records;
use trace::stream::{Access, AccessKind, Event, Listener, Moment, Site, Thread};

/// What marked instructions mean: the first instruction of a function that plays a role, or a return from one.
pub type Roles = BTreeMap<u64, Role>;

/// A stream on its way to a listener.
pub struct Streaming<L> {
    shared: Arc<Shared<L>>,
    detail: Detail,
}

/// How much is told. The accesses are the same ones in each case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Detail {
    /// Accesses, and what calls of known functions mean.
    Accesses,
    /// Every call and return as well.
    Calls,
    /// Those, and what memory holds before and after each access.
    Values,
}

struct Shared<L> {
    teller: Mutex<Teller<L>>,
    /// What came from outside.
    told: Interleaved<Told>,
    outside: Mutex<Outside>,
}

/// Something that the recording tells.
enum Told {
    Event(Thread, Event),
    /// A thread has made another, with this thread pointer.
    Created {
        thread: Thread,
        child: Thread,
        pointer: u64,
    },
    /// The kernel has written memory on behalf of an instruction.
    Wrote {
        thread: Thread,
        pc: u64,
        address: u64,
        size: u64,
    },
    /// An event of the recording has been carried out, and this is the next.
    Coming(Moment),
}

impl<L: Listener + 'static> Streaming<L> {
    pub fn new(listener: L, roles: Roles, detail: Detail) -> Streaming<L> {
        let (calls, sites) = (Calls::new(roles), FxHashMap::default());
        let (open_calls, whole_since) = (OpenCalls::default(), BTreeMap::new());
        let teller =
            Teller { listener, calls, thread: 0, sites, atomic: Vec::new(), pushed: (0, 0), open_calls, whole_since };
        let (told, outside) = (Interleaved::default(), Mutex::default());
        Streaming { shared: Arc::new(Shared { teller: Mutex::new(teller), told, outside }), detail }
    }

    /// Who reads the records of guest code.
    pub fn observer(&self) -> Box<dyn Observer> {
        let flattener = match self.detail {
            Detail::Accesses => Some(Flattener::new(false)),
            Detail::Calls => None,
            Detail::Values => {
                let listener = &lock(&self.shared.teller).listener;
                listener.reads_records().then(|| Flattener::in_detail(listener.hears_calls()))
            }
        };
        Box::new(Ear { shared: Arc::clone(&self.shared), flattener, batches: 0 })
    }

    /// What the replay has to observe.
    pub fn observation(&self) -> Observation {
        Observation::Tell(match self.detail {
            Detail::Accesses => Wanted::ADDRESSES,
            Detail::Calls => Wanted { targets: true, ..Wanted::ADDRESSES },
            Detail::Values => Wanted::EVERYTHING,
        })
    }

    /// The replay has carried out an event.
    pub fn passed(&self, passed: &Passed<'_>) {
        let batches = passed.batches;
        for told in lock(&self.shared.outside).tell(passed) {
            self.shared.told.push(batches, told);
        }
        let coming = Moment { event: passed.number.saturating_add(1), inherited: passed.inherited };
        // Of events that nothing happens between, the last tells all.
        self.shared.told.push_instead(batches, Told::Coming(coming), |last| matches!(last, Told::Coming(_)));
    }

    /// The replay is over: tells the rest, and lets the listener be asked.
    pub fn finish<T>(&self, ask: impl FnOnce(&mut L) -> T) -> T {
        let mut teller = self.shared.catch_up(u64::MAX);
        teller.listener.finished();
        ask(&mut teller.listener)
    }
}

impl<L: Listener> Shared<L> {
    /// Tells everything from outside that follows at most so many batches.
    fn catch_up(&self, batches: u64) -> MutexGuard<'_, Teller<L>> {
        let mut teller = lock(&self.teller);
        self.told.up_to(batches).for_each(|told| teller.tell(told));
        teller
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Hears what guest code does.
struct Ear<L> {
    shared: Arc<Shared<L>>,
    /// None if more than accesses is wanted, and not as records.
    flattener: Option<Flattener>,
    batches: u64,
}

impl<L: Listener> Observer for Ear<L> {
    fn batch(&mut self, batch: &Batch<'_>) {
        let mut teller = self.shared.catch_up(self.batches);
        self.batches += 1;
        (teller.thread, teller.pushed) = (batch.thread.0, (0, 0));
        teller.tell_whole_since(batch.around.whole_since);
        match &mut self.flattener {
            Some(flattener) => {
                flattener.read(batch, &mut *teller);
                teller.tell_open_calls();
            }
            None => detailed::read(batch, &mut teller),
        }
    }
}

/// Puts everything into words for the listener.
struct Teller<L> {
    listener: L,
    calls: Calls,
    /// Whose batch is being read.
    thread: Thread,
    /// By instruction.
    sites: FxHashMap<u64, Site>,
    /// Those that are about to be told, of a thread that synchronises.
    atomic: Vec<Access>,
    /// Which instruction did the last push, and where it went.
    pushed: (u64, u64),
    /// Calls of that thread that are still to be told.
    open_calls: OpenCalls,
    /// Since when nothing was left out of what threads tell, unless it is since their start.
    whole_since: BTreeMap<Thread, Option<u64>>,
}

impl<L: Listener> Flat for Teller<L> {
    fn accesses(&mut self, accesses: &[Access]) {
        match self.calls.inside(self.thread) {
            Inside::Program => self.listener.accesses(self.thread, accesses),
            Inside::Synchronisation => {
                self.atomic.clear();
                self.atomic.extend(accesses.iter().filter(|access| access.kind == AccessKind::Atomic));
                if !self.atomic.is_empty() {
                    self.listener.accesses(self.thread, &self.atomic);
                }
            }
            Inside::Allocator => {}
        }
    }

    fn records(&mut self, records: &Records<'_>) -> usize {
        self.tell_open_calls();
        match self.calls.inside(self.thread) {
            Inside::Program => self.listener.records(self.thread, records),
            Inside::Synchronisation => {
                records.length_while(|templates| templates.iter().all(|template| template.kind != AccessKind::Atomic))
            }
            Inside::Allocator => records.length_while(|_| true),
        }
    }

    fn reads_records(&self) -> bool {
        self.listener.reads_records()
    }

    fn marked(&mut self, pc: u64, mark: Mark, words: &[u64]) {
        let event = match (mark, words) {
            (Mark::Entry, &[first, second, third, _, stack, caller]) => {
                self.calls.entered(self.thread, pc, Call { arguments: [first, second, third], stack, caller })
            }
            (Mark::Exit, &[result, stack]) => self.calls.left(self.thread, result, stack),
            (Mark::Store { .. }, &[value, base, stack]) => {
                self.calls.stored(self.thread, value, base, stack);
                None
            }
            (Mark::LoopHeader, _) => Some(Event::LoopHeader { pc }),
            (Mark::Tail, &[argument, stack]) => self.calls.jumped(self.thread, argument, stack),
            _ => None,
        };
        if let Some(event) = event {
            self.listener.event(self.thread, &event);
        }
    }

    fn called(&mut self, call: engine::Call) {
        self.open_calls.called(call);
    }

    fn returned(&mut self, target: u64) {
        if !self.open_calls.returned(target) {
            self.tell_open_calls();
            self.listener.event(self.thread, &Event::Returned { target });
        }
    }

    fn detail(&mut self, event: &engine::Event<'_>) {
        self.tell_open_calls();
        self.told(event);
    }

    fn site(&mut self, pc: u64) -> Site {
        let fresh = Site(self.sites.len() as u32);
        let site = *self.sites.entry(pc).or_insert(fresh);
        if site == fresh {
            self.listener.site(site, pc);
        }
        site
    }
}

impl<L: Listener> Teller<L> {
    /// Something else is about to be told.
    #[inline]
    fn tell_open_calls(&mut self) {
        if !self.open_calls.is_empty() {
            self.open_calls.tell(self.thread, &mut self.listener);
        }
    }

    fn tell_whole_since(&mut self, clock: Option<u64>) {
        let known = self.whole_since.get(&self.thread).copied().unwrap_or(Some(0));
        if clock != known {
            self.whole_since.insert(self.thread, clock);
            self.listener.whole_since(self.thread, clock);
        }
    }

    fn tell(&mut self, told: Told) {
        match told {
            Told::Event(thread, event) => self.listener.event(thread, &event),
            Told::Coming(moment) => self.listener.coming(moment),
            Told::Created { thread, child, pointer } => {
                self.calls.created(child, pointer);
                self.listener.event(thread, &Event::Created { child });
            }
            Told::Wrote { thread, pc, address, size } => {
                if self.calls.inside(thread) != Inside::Program {
                    return;
                }
                let site = self.site(pc);
                let size = size.min(u64::from(u32::MAX)) as u32;
                let kind = AccessKind::Write;
                self.listener.accesses(thread, &[Access { address, size, site, kind }]);
            }
        }
    }
}
