//! The event stream: what the threads of a run did, in one total order.
//!
//! An observed replay tells it to a [`Listener`], and analyses are listeners. A stream need not come from a replay: tests of
//! analyses write theirs by hand. Accesses are by far the most frequent, so they come many at a time; everything else
//! comes one by one, between the accesses that stand before and after it.

pub mod records;
pub mod strips;

use records::Records;
use serde::{Deserialize, Serialize};

/// A guest thread's number: 1 for the first, in order of creation, never reused.
pub type Thread = u32;

/// An instruction that accesses memory: a number that stands for its address in the listener's table of sites. Numbers
/// are given in order, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Site(pub u32);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AccessKind {
    Read,
    Write,
    /// An instruction that reads and writes, without a lock.
    Update,
    /// A locked instruction, or an exchange with memory.
    Atomic,
}

impl AccessKind {
    #[inline]
    pub fn writes(self) -> bool {
        self != AccessKind::Read
    }

    #[inline]
    pub fn reads(self) -> bool {
        self != AccessKind::Write
    }
}

/// One access of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    pub address: u64,
    /// In bytes. Long ones are from repeated instructions and system calls.
    pub size: u32,
    pub site: Site,
    pub kind: AccessKind,
}

/// What memory held before an access and holds after it, as far as it is known; reads change nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Values<'a> {
    pub before: Option<&'a [u8]>,
    pub after: Option<&'a [u8]>,
}

/// What a lock lets others do while it is held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LockMode {
    Exclusive,
    Shared,
}

/// What a thread did besides accessing memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// This thread has made another, which has not run yet.
    Created { child: Thread },
    /// This thread's last event.
    Ended,
    /// This thread has seen the end of another.
    Joined { other: Thread },
    /// A lock has been taken, or was already held once more.
    Locked { object: u64, mode: LockMode, site: u64 },
    /// A lock is about to be given up.
    Unlocked { object: u64, site: u64 },
    /// What came before in this thread is to be seen by who acquires the object later: a semaphore's post, arriving at a
    /// barrier, the end of a once-only function.
    Released { object: u64, site: u64 },
    /// The other side of `Released`.
    Acquired { object: u64, site: u64 },
    /// A lock, a semaphore or the like has been made or destroyed at this address: what was known of it is over.
    Forgotten { object: u64 },
    /// A block of memory is this thread's from now on.
    Allocated { address: u64, size: u64, site: u64 },
    /// A block is about to be given back.
    Freed { address: u64, site: u64 },
    /// Memory is mapped anew, or no longer: whatever was known of its bytes is over.
    Mapped { address: u64, size: u64 },
    /// The kernel is asked to wait at this word of four bytes, or to wake who waits there: it is a synchronisation
    /// variable, even if no locked instruction ever accesses it.
    FutexWord { address: u64 },
    /// A function was called, on request. The return address is at `stack`.
    Called { site: u64, target: u64, return_address: u64, stack: u64 },
    /// A function returned, on request.
    Returned { target: u64 },
    /// An iteration of a loop is about to begin at this instruction, on request.
    LoopHeader { pc: u64 },
    /// A system call has been answered.
    SystemCall { number: u64, result: u64 },
    /// A system call has worked on an open descriptor.
    Used { descriptor: u64 },
    /// One has closed it.
    Closed { descriptor: u64 },
}

/// A moment of a run: the recording's event that comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    pub event: u64,
    /// The event is one of a parent's, before the process was forked.
    pub inherited: bool,
}

/// Who is told a stream.
pub trait Listener: Send {
    /// The accesses of one thread, in program order. They stand after all that was told before.
    fn accesses(&mut self, thread: Thread, accesses: &[Access]);
    /// Takes in some of the plain records that stand at the front, as if all their accesses were told, and gives how many
    /// words they have. The first one that is left is told access by access. Asked only if
    /// [`reads_records`](Listener::reads_records).
    fn records(&mut self, _thread: Thread, _records: &Records<'_>) -> usize {
        0
    }
    fn reads_records(&self) -> bool {
        false
    }
    /// Whether calls and returns mean something to it: if not, records with some are plain.
    fn hears_calls(&self) -> bool {
        true
    }
    /// One access with what was in memory before and after it, on request.
    fn valued(&mut self, thread: Thread, access: &Access, _values: Values<'_>) {
        self.accesses(thread, std::slice::from_ref(access));
    }
    fn event(&mut self, thread: Thread, event: &Event);
    /// So many calls by an instruction have returned, and nothing was told in between. They are not told one by one where records are read.
    fn passed_over(&mut self, _thread: Thread, _site: u64, _calls: u64) {}
    /// Since a thread's clock showed this, no execution of what is told of it now has been left out; where it is None, that cannot be said. Told where it is no longer
    /// what it was, which is at first since 0.
    fn whole_since(&mut self, _thread: Thread, _clock: Option<u64>) {}
    /// All that is told from here on happens on the way to an event of the recording, or is what that event does.
    fn coming(&mut self, _moment: Moment) {}
    /// A site is about to be named for the first time: the address of its instruction.
    fn site(&mut self, site: Site, pc: u64);
    /// The stream is over.
    fn finished(&mut self) {}
}
