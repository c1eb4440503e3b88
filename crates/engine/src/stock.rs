//! Taking stock of memory: digests that a recorder writes down and a replay compares.
//!
//! Only private memory that the guest may write to is looked at: what is shared may be written by other processes at any
//! time, and what cannot be written does not change. There are glimpses, at switches, and full stock, at the end and once
//! in a while, paced by the guest's clocks so that it takes about a hundredth of the time.
//!
//! While a thread is outside in the kernel, its call may write to memory at any time, but a replay carries the effects out
//! when the thread has the turn again. So the pages in its reach are not looked at meanwhile (`reach`). After a call of which
//! nobody knows what it wrote, and which comparing (`copy`) does not tell either, nothing is.

mod copy;
mod reach;

pub use copy::MemoryCopy;
pub use reach::Reach;

use crate::context::{Context, RSP};
use crate::journal::register_digest;
use crate::kernel;
use crate::page_map::{Own, PageMap};
use crate::space::{GuestSpace, PAGE};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use trace::event::{GLIMPSE_OF_STACK, Glimpse, Hash, MemoryPart, Page, SignalPlace};
use trace::{Digest, List};

/// Full stock is taken of so many pages at most, a gigabyte.
const MOST_PAGES: u64 = 1 << 18;
/// So many events of the clock pass between full stock of a page and the next: a page takes less than a microsecond, and
/// an event more than a nanosecond.
const EVENTS_PER_PAGE: u64 = 1 << 16;
/// And no fewer than these, since looking for the pages takes time too.
const FEWEST_EVENTS: u64 = 1 << 24;
/// Every so many switches a page is looked at: its digest takes a good part of the time of a switch.
const SWITCHES_PER_PAGE: u64 = 16;
/// Pages that are looked at before the list of them is made anew.
const PAGES_PER_LIST: u64 = 1024;
/// Bytes that are read at a time.
const PIECE: u64 = 64 << 10;

/// When a run looks at its memory. Only the thread with the turn asks.
#[derive(Default)]
pub struct Stock {
    /// The thread and clock at which events were last counted, and how many there were since the last full stock.
    thread: AtomicU64,
    clock: AtomicU64,
    spent: AtomicU64,
    /// When full stock is taken again.
    due: AtomicU64,
    switches: AtomicU64,
    /// Memory is not what a replay makes of it.
    is_blurred: AtomicBool,
    rounds: Mutex<Rounds>,
}

impl Stock {
    pub fn new() -> Stock {
        Stock { due: AtomicU64::new(FEWEST_EVENTS), ..Stock::default() }
    }

    /// From now on nobody knows what a replay's memory is like.
    pub fn blur(&self) {
        self.is_blurred.store(true, Relaxed);
    }

    /// Whether full stock is due, as far as the guest's clocks go.
    pub fn is_due(&self, context: &Context) -> bool {
        self.count(context);
        self.spent.load(Relaxed) >= self.due.load(Relaxed)
    }

    /// Counts what the thread has done since it was last seen here, if no other was seen meanwhile.
    pub fn count(&self, context: &Context) {
        let (thread, clock) = (u64::from(context.thread), context.clock());
        let last = if self.thread.swap(thread, Relaxed) == thread { self.clock.load(Relaxed) } else { clock };
        self.clock.store(clock, Relaxed);
        let spent = self.spent.load(Relaxed) + clock.saturating_sub(last);
        self.spent.store(spent, Relaxed);
    }

    /// What to write down at a switch from a thread, or from one that is gone.
    pub fn glimpse(&self, space: &GuestSpace, reach: &Reach, from: Option<&Context>) -> Option<Glimpse> {
        if self.is_blurred.load(Relaxed) {
            return None;
        }
        let is_steady = |address: &u64| is_private(space, *address) && !reach.contains(*address);
        if let Some(context) = from {
            self.count(context);
        }
        let stack = from.map(|context| context.gpr[RSP]).filter(is_steady);
        let switches = self.switches.load(Relaxed) + 1;
        self.switches.store(switches, Relaxed);
        let page =
            if switches.is_multiple_of(SWITCHES_PER_PAGE) { self.next_page(space).filter(is_steady) } else { None };
        Some(Glimpse {
            stack: stack.and_then(stack_digest),
            page: page.map(|address| Page { address, digest: page_digest(address) }),
        })
    }

    fn next_page(&self, space: &GuestSpace) -> Option<u64> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner).next(space)
    }

    /// Digests of all memory, if it is worth its time or `is_wanted` anyway; given to `write` if there are any.
    pub fn take(&self, space: &GuestSpace, reach: &Reach, is_wanted: bool, write: impl FnOnce(&Full)) {
        if self.is_blurred.load(Relaxed) {
            return;
        }
        let Some(found) = look_for_pages(&reach.leave_out_of(space.private_ranges()), MOST_PAGES) else { return };
        if found.is_empty() {
            return;
        }
        let pages: u64 = found.iter().map(|(_, own)| own.pages).sum();
        let due = FEWEST_EVENTS.max(pages.saturating_mul(EVENTS_PER_PAGE));
        self.due.store(due, Relaxed);
        if is_wanted || self.spent.load(Relaxed) >= due {
            self.spent.store(0, Relaxed);
            let mut buffer = vec![0; PIECE as usize];
            write(&Full { parts: found.iter().map(|(start, own)| part(*start, own, &mut buffer)).collect() });
        }
    }
}

/// Digests of all memory.
pub struct Full {
    parts: Vec<MemoryPart>,
}

impl Full {
    pub fn event(&self, context: &Context, place: SignalPlace) -> Hash<'_> {
        Hash {
            thread: context.thread,
            clock: context.clock(),
            registers: register_digest(context),
            memory: self.parts.iter().fold(Digest(0), |sum, part| sum.plus(part.digest)),
            place: Some(place),
            parts: List::of(&self.parts),
        }
    }
}

/// Goes through the pages of the guest's again and again.
#[derive(Default)]
struct Rounds {
    runs: Vec<Range<u64>>,
    /// The run that is next, and the page in it.
    at: (usize, u64),
    /// How many pages are still to be told from this list.
    left: u64,
}

impl Rounds {
    /// A page that was the guest's own when the list was made.
    fn next(&mut self, space: &GuestSpace) -> Option<u64> {
        if self.left == 0 {
            let found = look_for_pages(&space.private_ranges(), MOST_PAGES)?;
            self.left = PAGES_PER_LIST.max(found.iter().map(|(_, own)| own.pages).sum());
            self.runs = found.into_iter().flat_map(|(_, own)| own.runs).collect();
            self.at = (0, 0);
        }
        self.left -= 1;
        if self.at.0 >= self.runs.len() {
            self.at = (0, 0);
        }
        let run = self.runs.get(self.at.0)?;
        let page = run.start + self.at.1 * PAGE;
        self.at = if page + PAGE < run.end { (self.at.0, self.at.1 + 1) } else { (self.at.0 + 1, 0) };
        Some(page)
    }
}

/// Whether the guest may write to the address and nobody else does.
fn is_private(space: &GuestSpace, address: u64) -> bool {
    space.find(address).is_some_and(|(_, mapping)| mapping.is_private())
}

/// The first `most` pages that are the guest's own in these ranges, with where each range begins. None if nobody can tell;
/// ranges that are too large to be looked through are left out.
fn look_for_pages(ranges: &[Range<u64>], most: u64) -> Option<Vec<(u64, Own)>> {
    let map = PageMap::open()?;
    let mut left = most;
    let mut found = Vec::new();
    for range in ranges {
        if left == 0 {
            break;
        }
        if let Some(own) = map.own(range.clone(), left) {
            left -= own.pages.min(left);
            found.push((range.start, own));
        }
    }
    Some(found)
}

fn part(start: u64, own: &Own, buffer: &mut [u8]) -> MemoryPart {
    let digests = own.runs.iter().map(|run| run_digest(run.clone(), buffer));
    MemoryPart { address: start, length: own.end - start, digest: digests.fold(Digest(0), Digest::plus) }
}

/// The sum of the digests of pages.
fn run_digest(run: Range<u64>, buffer: &mut [u8]) -> Digest {
    let mut sum = Digest(0);
    for start in run.clone().step_by(buffer.len()) {
        let piece = &mut buffer[..PIECE.min(run.end - start) as usize];
        if kernel::read_bytes(start, piece).is_err() {
            let pages = (start..start + piece.len() as u64).step_by(PAGE as usize);
            sum = pages.map(page_digest).fold(sum, Digest::plus);
            continue;
        }
        let pages = (start..).step_by(PAGE as usize).zip(piece.chunks(PAGE as usize));
        sum = pages.map(|(address, bytes)| Digest::of_page(address, bytes)).fold(sum, Digest::plus);
    }
    sum
}

/// The digest of a page, also of one that is not there.
fn page_digest(address: u64) -> Digest {
    let mut bytes = [0; PAGE as usize];
    match kernel::read_bytes(address, &mut bytes) {
        Ok(()) => Digest::of_page(address, &bytes),
        Err(kernel::BadAddress) => Digest(0),
    }
}

/// The digest of a stack from its pointer on.
fn stack_digest(pointer: u64) -> Option<Digest> {
    let mut bytes = [0; GLIMPSE_OF_STACK as usize];
    let bytes = &mut bytes[..GLIMPSE_OF_STACK.min(PAGE - pointer % PAGE) as usize];
    kernel::read_bytes(pointer, bytes).ok().map(|()| Digest::of(bytes))
}

/// Memory that is not what it was, in a replay.
pub type Difference = Range<u64>;

/// The part of the stack or the page that differs from what was seen at a switch from the thread.
pub fn difference_at_switch(context: &Context, glimpse: &Glimpse) -> Option<Difference> {
    let pointer = context.gpr[RSP];
    if glimpse.stack.is_some() && glimpse.stack != stack_digest(pointer) {
        let end = pointer.saturating_add(GLIMPSE_OF_STACK).min(pointer.saturating_add(PAGE - pointer % PAGE));
        return Some(pointer..end);
    }
    let page = glimpse.page.filter(|page| page.digest != page_digest(page.address))?;
    Some(page.address..page.address.saturating_add(PAGE))
}

/// The first part that differs; none if all is as it was, or if nobody can tell.
pub fn difference_in_full(hash: &Hash<'_>) -> Option<Difference> {
    let map = PageMap::open()?;
    let mut buffer = vec![0; PIECE as usize];
    let differing = hash.parts.iter().find(|recorded| {
        let range = recorded.address..recorded.address.saturating_add(recorded.length);
        let own = map.own(range, u64::MAX);
        own.is_some_and(|own| part(recorded.address, &own, &mut buffer).digest != recorded.digest)
    })?;
    Some(differing.address..differing.address.saturating_add(differing.length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{Protection, Zones};

    const READ_WRITE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;

    /// Fresh memory of so many pages, as a guest's.
    pub fn memory(pages: u64) -> (GuestSpace, Range<u64>) {
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let start = kernel::call(libc::SYS_mmap as u64, [0, pages * PAGE, READ_WRITE, flags, u64::MAX, 0]) as u64;
        let mut space = GuestSpace::new(Zones::RELOCATABLE);
        space.insert(start..start + pages * PAGE, Protection(READ_WRITE as u32), None);
        (space, start..start + pages * PAGE)
    }

    fn parts(space: &GuestSpace) -> Vec<MemoryPart> {
        let mut parts = Vec::new();
        Stock::new().take(space, &Reach::default(), true, |full| parts.clone_from(&full.parts));
        parts
    }

    fn difference(parts: &[MemoryPart]) -> Option<Difference> {
        let (registers, memory) = (Digest(0), Digest(0));
        difference_in_full(&Hash { thread: 1, clock: 0, registers, memory, place: None, parts: List::of(parts) })
    }

    #[test]
    fn a_byte_makes_a_difference_and_pages_of_zeros_make_none() {
        let (space, range) = memory(40);
        kernel::write(range.start + 20 * PAGE, 7u64).unwrap();
        let parts = parts(&space);
        assert_eq!((parts.len(), parts[0].address, parts[0].length), (1, range.start, 40 * PAGE));
        kernel::write(range.start + 30 * PAGE, 0u64).unwrap();
        assert_eq!(difference(&parts), None);
        kernel::write(range.start + 30 * PAGE + 4000, 1u8).unwrap();
        assert_eq!(difference(&parts), Some(range.clone()));
        kernel::write(range.start + 30 * PAGE + 4000, 0u8).unwrap();
        assert_eq!(difference(&parts), None);
    }

    #[test]
    fn parts_that_no_recorder_writes_are_passed_over() {
        let part = MemoryPart { address: u64::MAX - 1, length: 5, digest: Digest(1) };
        assert_eq!(difference(&[part]), None);
    }

    #[test]
    fn rounds_go_through_the_pages_and_begin_again() {
        let (space, range) = memory(8);
        let written = [1, 2, 6].map(|page| range.start + page * PAGE);
        for page in written {
            kernel::write(page, 1u8).unwrap();
        }
        let mut rounds = Rounds::default();
        let pages: Vec<Option<u64>> = (0..6).map(|_| rounds.next(&space)).collect();
        assert_eq!(pages, [written, written].concat().into_iter().map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn blurred_memory_is_not_looked_at() {
        let (space, _) = memory(1);
        let stock = Stock::new();
        stock.blur();
        stock.take(&space, &Reach::default(), true, |_| panic!("it was looked at"));
        assert_eq!(stock.glimpse(&space, &Reach::default(), None), None);
    }
}
