//! Crashes that have not happened yet: from a run that went well, the orders of accesses that would have ended it.
//!
//! After ConMem (Zhang, Sun and Lu, ASPLOS 2010), all kinds at once. Each kind of memory error has its ingredients, which a good
//! run shows too, and an order in which they are fatal:
//!
//! - *null*: a thread reads a pointer and dereferences it, another writes NULL to it; fatal if the write comes first and
//!   nobody renews the pointer in between.
//! - *uninitialised*: a thread reads what only another has initialised; fatal if the read comes first.
//! - *dangling*: a thread accesses a block that another gives back; fatal if the access comes after. The same with an object on a
//!   stack whose frame is left, and with a descriptor that is closed.
//! - *overflow*: a thread reads an index, and another changes it; fatal if a check was made of the old value.
//! - *double free*: a thread gives a block back and clears the pointer to it, another reads the pointer and finds nothing;
//!   fatal if the read comes before the pointer is cleared, and the reader gives the block back as well.
//! - *inconsistent*: a thread reads what another changes; fatal if it does not go with what was read before, and a lookup by
//!   both finds nothing. The paper leaves these out: most such orders do no harm, so only trying them out can tell.
//!
//! The stream is told three times at most: a sieve ([`FirstPass`]) finds the memory that threads contend for, an [`Exploration`] the instructions
//! that have to do with it, and the [`Detector`] looks at these, while it is found out what becomes of what was read ([`Watching`]).
//!
//! A fatal order is predicted unless synchronisation forbids it: by order ([`order`]) or by mutual exclusion
//! ([`deeds::Deed::is_shielded_from`]). It differs from the paper in this:
//!
//! - Order comes from flags, atomics, semaphores and barriers alike, and from queues: who reads a pointer in a critical
//!   section that another wrote in one of the same lock depends on it, and so does who reads a flag that it would have [waited](waits)
//!   for. Locks alone order nothing.
//! - That a pointer is dereferenced and that a number is an index is seen in the addresses of later accesses ([`uses`]).
//! - An earlier read in the same critical section shields as an earlier write does: it would have seen the other value.
//!
//! May miss: what depends on instructions that this run did not execute; orders that need three or more accesses moved;
//! memory that is accessed by differently aligned instructions. May wrongly predict: orders that values forbid in ways
//! that the stream does not show. So predictions are to be tried out.

mod comparators;
pub(crate) mod deeds;
mod descriptors;
pub(crate) mod detector;
mod exploration;
mod first_pass;
mod found;
mod frames;
mod hand_over_check;
mod kept;
mod locations;
pub(crate) mod order;
mod pages;
mod parts;
pub(crate) mod runners;
mod scene;
pub(crate) mod uses;
mod valued_records;
mod waits;
mod watching;

pub use comparators::Method;
pub use deeds::{Deed, Held, Place};
pub use detector::{Detector, Libraries};
pub use exploration::{Contended, Exploration, Explored, MOST_MEMORY, sieve};
pub use first_pass::{FirstFound, FirstPass};
pub use found::{Block, Kind, Predicted, Prediction};
pub use hand_over_check::HandOverCheck;
pub use locations::MOST_WATCHED;
pub use order::Order;
pub use uses::Lookup;
pub use watching::Watching;
