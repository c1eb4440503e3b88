//! Data races by happens-before: two accesses of the same bytes by different threads, one of them a write, with no
//! synchronisation that orders them.
//!
//! After FastTrack (Flanagan and Freund, PLDI 2009): vector clocks of threads, and for each byte the last write and the
//! reads since. It differs in this:
//!
//! - Clocks count accesses. A tick names the access that the clock stands at, so whoever replays the run can find it.
//! - History is kept by granules of 8 bytes, with masks of bytes, so that neighbours do not race with each other.
//! - Of one thread's accesses between two releases (an epoch), the first to a byte stands for the others, and accesses
//!   of one instruction to neighbouring bytes share an entry. Where several threads' accesses have to be remembered,
//!   only their epochs are, so that granules with the same history can share it.
//! - As a plain `mov` may be an atomic load or store, bytes that locked instructions access are synchronisation:
//!   reading them acquires, writing them releases, and they do not race. So are futex words, bytes that a thread
//!   waited for in a loop, and whatever the caller's [`SiteClass`]es say. Earlier passes over the stream, by a [`Sieve`]
//!   and a [`Survey`], find them, so that accesses before the first locked one count as well.
//! - Only granules that the sieve leaves are looked at: it is FastTrack with nothing but epochs, several times as fast.
//!
//! May miss: races whose accesses happened to be ordered in this run (by a lock that another thread took in between,
//! say); races of bytes that are synchronisation at another time of the same block or stack slot; races with relaxed
//! atomics, which order more here than in the source; after the first race at a byte, others at that byte.
//!
//! May wrongly report: accesses ordered by what the stream does not tell, such as a flag in plain memory on which no
//! thread ever had to wait, or synchronisation through files and pipes.

pub(crate) mod atomics;
mod bits;
pub(crate) mod blocks;
pub(crate) mod cell;
pub(crate) mod clock;
mod detector;
mod found;
mod lists;
mod locks;
pub(crate) mod objects;
mod parts;
pub mod sampling;
mod second_pass;
pub(crate) mod shadow;
pub(crate) mod shapes;
pub(crate) mod sieve;
pub(crate) mod sites;
mod spin_loops;
mod survey;
pub(crate) mod surveying;
pub(crate) mod suspects;
pub(crate) mod threads;

pub use atomics::SyncMemory;
pub use cell::Action;
pub use detector::Detector;
pub use found::{Found, HeldLock, Instance, Race, Side};
pub use second_pass::{SecondFound, SecondPass};
pub use sieve::flags::Flags;
pub use sieve::hand_overs::HandOvers;
pub use sieve::{Sieve, Sieved};
pub use sites::{Classify, SiteClass};
pub use spin_loops::{AdHoc, AdHocSide};
pub use survey::{Survey, Surveyed};
pub use suspects::Suspects;
