//! Whose accesses to some memory came before and after whose, and which other orders would have been possible.
//!
//! After execution suppression for programs with threads (Jeffrey, Wang, Tian and Gupta, 2011), Figures 2 and 3: around a
//! suspect definition, the accesses of other threads to the same bytes are a race (write after read, write after write,
//! read after write), or come between two accesses of one thread that belong together (R1W2R1, W1W2R1, R1W2W1,
//! W1R2W1). It differs from the paper in this:
//!
//! - What comes between may be several accesses of the other thread, which are moved as one, together with the read that
//!   they began with: an update that was lost is repaired only if all of the other update moves.
//! - Two pieces of memory that two threads came to in different orders are one candidate ([`joined`]).
//! - A read may have come too soon: the write that it depends on came later, and the reader waits for ever.
//! - Threads that wait for each other's locks are a ring ([`ring`]); one that waits with a lock blocks others ([`blockade`]).
//! - A read may have come before anybody has ever written ([`unwritten`]): who writes then, only another run can tell.
//! - Blocks that are given back count as written.
//! - What orders accesses is known from the whole run (`predict::Order`), not from lock calls between two accesses.
//!
//! May miss: accesses that are older than the latest ones of each piece of memory. May wrongly suspect: orders that
//! values forbid. So all candidates are to be tried out.

mod candidates;
mod history;
mod stuck;

pub use candidates::{Candidate, candidates, is_careless, joined, patterns, times, unwritten};
pub use history::{Entry, Historian, History, Watched};
pub use stuck::{Stuck, Waiting, blockade, ring};
