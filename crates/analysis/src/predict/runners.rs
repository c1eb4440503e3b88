//! Threads as they run: how often they have executed what, who called them, and the locks they hold.

use super::deeds::{Circumstances, Happening, Held, Place};
use crate::races::cell::Slot;
use rustc_hash::FxHashMap;
use std::iter;
use std::ops::Range;
use std::sync::Arc;
use trace::stream::{AccessKind, Event, LockMode, Site, Thread};

/// A call that has not returned. Stacks share what they have in common.
#[derive(Debug)]
pub struct Frame {
    call: Place,
    /// Whether the program itself called, not a library.
    is_own: bool,
    return_address: u64,
    /// Where the return address was put.
    slot: u64,
    parent: Option<Arc<Frame>>,
}

impl Frame {
    /// Return addresses, the innermost first.
    pub fn callers(frame: Option<&Arc<Frame>>) -> impl Iterator<Item = u64> {
        Frame::outwards(frame).map(|frame| frame.return_address)
    }

    /// Where the return address was put.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    pub fn parent(&self) -> Option<&Arc<Frame>> {
        self.parent.as_ref()
    }

    /// The call that it belongs to.
    pub fn call(&self) -> Place {
        self.call
    }

    fn outwards(frame: Option<&Arc<Frame>>) -> impl Iterator<Item = &Frame> {
        iter::successors(frame.map(Arc::as_ref), |frame| frame.parent.as_deref())
    }
}

impl Drop for Frame {
    /// One after the other: a deep stack of the guest's must not become one of ours.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut frame) = next.and_then(Arc::into_inner) {
            next = frame.parent.take();
        }
    }
}

#[derive(Default)]
pub struct Runner {
    /// Executions by site, since the thread's clock showed something; and those of calls.
    times: Vec<u64>,
    calls: FxHashMap<u64, u64>,
    since: u64,
    /// Some executions were left out.
    has_gap: bool,
    pub frame: Option<Arc<Frame>>,
    pub locks: Vec<Held>,
    /// Both, if nothing has changed since somebody asked for them.
    circumstances: Option<Arc<Circumstances>>,
    /// The site and kind of the last access: an instruction that reads and writes elsewhere is executed once.
    last: Option<(Site, AccessKind)>,
    /// The last thing that the program's own code did, and what it did before.
    latest: [Place; 2],
}

impl Runner {
    /// Counts from when the thread's clock shows this; not at all if that cannot be said.
    pub fn count_since(&mut self, clock: Option<u64>) {
        self.times.clear();
        self.calls.clear();
        self.has_gap = clock.is_none();
        self.since = clock.unwrap_or(0);
    }

    /// The execution of an instruction that an access belongs to, by its site.
    #[inline]
    pub fn count(&mut self, site: Site, pc: u64, kind: AccessKind) -> Place {
        let time = self.count_site(site, kind);
        self.place(pc, time)
    }

    #[inline]
    fn place(&self, pc: u64, time: u64) -> Place {
        Place { pc, time: if self.has_gap { 0 } else { time }, since: self.since }
    }

    #[inline]
    fn count_site(&mut self, site: Site, kind: AccessKind) -> u64 {
        let index = site.0 as usize;
        if self.times.len() <= index {
            self.times.resize(index + 1, 0);
        }
        let is_same = self.last == Some((site, AccessKind::Read)) && kind == AccessKind::Write;
        self.last = Some((site, kind));
        self.times[index] += u64::from(!is_same);
        self.times[index]
    }

    pub fn circumstances(&mut self) -> &Arc<Circumstances> {
        self.circumstances
            .get_or_insert_with(|| Arc::new(Circumstances { locks: self.locks.clone(), frame: self.frame.clone() }))
    }

    /// What a thread does here, at this place, by an instruction or a call.
    pub fn happening(&mut self, thread: Thread, (slot, tick): (Slot, u64), (pc, place): (u64, Place)) -> Happening {
        let (before, circumstances) = (self.before(place), self.circumstances().clone());
        Happening { thread, slot, tick, pc, place, before, circumstances, earlier: None, value: None }
    }

    /// Counts calls by an instruction; gives how many there were so far.
    pub fn count_calls(&mut self, site: u64, calls: u64) -> u64 {
        let time = self.calls.entry(site).or_default();
        *time += calls;
        *time
    }

    pub fn called(&mut self, site: u64, slot: u64, return_address: u64, is_own: bool) {
        self.circumstances = None;
        let time = self.count_calls(site, 1);
        let call = self.place(site, time);
        // Stacks grow down: what lies at or below the new return address has been left.
        while let Some(frame) = self.frame.take() {
            if frame.slot > slot {
                self.frame = Some(frame);
                break;
            }
            self.frame = frame.parent.clone();
        }
        self.frame = Some(Arc::new(Frame { call, is_own, return_address, slot, parent: self.frame.take() }));
        if is_own {
            self.passed(call);
        }
    }

    pub fn returned(&mut self, target: u64) {
        let frames = Frame::outwards(self.frame.as_ref());
        let position = frames.take(MOST_LEFT).position(|frame| frame.return_address == target);
        if position.is_some() {
            self.circumstances = None;
        }
        for _ in 0..position.map_or(0, |position| position + 1) {
            self.frame = self.frame.take().and_then(|frame| frame.parent.clone());
        }
    }

    /// The program's own code has done something.
    pub fn passed(&mut self, place: Place) {
        if self.latest[1] != place && !place.is_unclear() {
            self.latest = [self.latest[1], place];
        }
    }

    /// What the program's own code did before it came to a place.
    pub fn before(&self, place: Place) -> Place {
        if self.latest[1] == place { self.latest[0] } else { self.latest[1] }
    }

    /// The innermost call that the program itself made.
    pub fn own_call(&self) -> Option<Place> {
        Frame::outwards(self.frame.as_ref()).find(|frame| frame.is_own).map(|frame| frame.call)
    }

    /// A call that ends here, or is about to do its work, by its return address.
    fn call_to(&self, return_address: u64) -> Place {
        let open = Frame::outwards(self.frame.as_ref()).take(MOST_LEFT);
        let found = open.into_iter().find(|frame| frame.return_address == return_address);
        found.filter(|frame| frame.is_own).map(|frame| frame.call).or_else(|| self.own_call()).unwrap_or_default()
    }

    pub fn locked(&mut self, object: u64, mode: LockMode, return_address: u64, section: u64) {
        let taken = self.call_to(return_address);
        let before = self.before(taken);
        self.locks.push(Held { object, mode, section, taken, before });
        self.circumstances = None;
    }

    pub fn unlocked(&mut self, object: u64) {
        let last = self.locks.iter().rposition(|held| held.object == object);
        if let Some(position) = last {
            self.locks.remove(position);
            self.circumstances = None;
        }
    }

    pub fn freeing_call(&self, return_address: u64) -> Place {
        self.call_to(return_address)
    }
}

/// How many open calls are looked through for one that may have been left.
const MOST_LEFT: usize = 64;

#[derive(Default)]
pub struct Runners {
    numbers: FxHashMap<Thread, usize>,
    runners: Vec<Runner>,
    /// The thread that was asked for last, and its number.
    latest: Option<(Thread, usize)>,
    /// How many critical sections have begun.
    sections: u64,
}

impl Runners {
    pub fn of(&mut self, thread: Thread) -> &mut Runner {
        let number = match self.latest {
            Some((latest, number)) if latest == thread => number,
            _ => {
                let number = *self.numbers.entry(thread).or_insert(self.runners.len());
                if number == self.runners.len() {
                    self.runners.push(Runner::default());
                }
                self.latest = Some((thread, number));
                number
            }
        };
        &mut self.runners[number]
    }

    /// Keeps the calls and locks of threads. Calls from within these libraries are theirs.
    pub fn hear(&mut self, thread: Thread, event: &Event, libraries: &[Range<u64>]) {
        match *event {
            Event::Called { site, return_address, stack, .. } => {
                let is_own = !libraries.iter().any(|library| library.contains(&site));
                self.of(thread).called(site, stack, return_address, is_own);
            }
            Event::Returned { target } => self.of(thread).returned(target),
            Event::Locked { object, mode, site } => {
                self.sections += 1;
                let section = self.sections;
                self.of(thread).locked(object, mode, site, section);
            }
            Event::Unlocked { object, .. } => self.of(thread).unlocked(object),
            Event::Ended => *self.of(thread) = Runner::default(),
            _ => {}
        }
    }
}
